//! The NICs of a transport while it runs: whether each is well, and its lanes, which are killed when it stays ill.
//! A lane whose own address or interface is gone says nothing by itself: its bytes are sent again and again until
//! `stall`, so the kernel is heard instead. A short failure is none: bytes that were lost are sent again.

use std::convert::Infallible;
use std::future::pending;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until};

use super::lane::Lane;
use super::settings::Nic;
use super::source::{illness, interface, shown};
use crate::interfaces::{Interfaces, Monitor, Watch};
use crate::sync::{AtomicBool, Ordering};
use crate::transport::NicFacts;
use crate::wr::Blame;

/// How long a NIC may be ill before its lanes are killed.
const GRACE: Duration = Duration::from_millis(300);

/// One NIC.
#[derive(Default)]
pub(super) struct State {
    is_ill: AtomicBool,
    /// Those that were dialled from it and may live still.
    lanes: Mutex<Vec<(IpAddr, Weak<Lane>)>>,
}

impl State {
    /// Whether it cannot be used now.
    pub(super) fn is_ill(&self) -> bool {
        self.is_ill.load(Ordering::Relaxed)
    }

    /// A lane has been dialled from it, from this address.
    pub(super) fn add(&self, from: IpAddr, lane: &Arc<Lane>) {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.retain(|(_, lane)| lane.strong_count() > 0);
        lanes.push((from, Arc::downgrade(lane)));
    }

    /// Whether a lane stands on an address that nobody has any more.
    fn is_cut_off(&self, on: &Interfaces) -> bool {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.iter().any(|(from, lane)| is_live(lane) && on.holding(*from).is_none())
    }

    /// Kills what has no way out.
    fn kill(&self, on: &Interfaces) {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        for (from, lane) in &*lanes {
            if let Some(lane) = lane.upgrade()
                && (self.is_ill() || on.holding(*from).is_none())
            {
                lane.connection.kill_for(Blame::LocalNic);
            }
        }
    }
}

fn is_live(lane: &Weak<Lane>) -> bool {
    lane.upgrade().is_some_and(|lane| !lane.connection.life.is_dead())
}

fn registered(monitor: Monitor) -> std::io::Result<AsyncFd<Monitor>> {
    // SAFETY: a monitor owns its socket and never gives another number for it, so that number means this socket for as
    // long as it is registered.
    Ok(unsafe { AsyncFd::register_with_interest(monitor, Interest::READABLE) }?)
}

/// All NICs of a transport, in the order of the file.
pub(super) struct Nics {
    declared: Vec<Nic>,
    states: Vec<Arc<State>>,
    watch: Watch,
}

/// Keeps the interfaces fresh while it lives.
struct Watching<'a>(&'a Watch);

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.0.watched(false);
    }
}

impl Nics {
    /// Those of a file; without any there is one, and the system chooses the way.
    pub(super) fn new(declared: &[Nic]) -> Self {
        let states = (0..declared.len().max(1)).map(|_| Arc::default()).collect();
        Self { declared: declared.to_vec(), states, watch: Watch::default() }
    }

    /// What the file says of one; `None` where it names none.
    pub(super) fn declared(&self, nic: u16) -> Option<&Nic> {
        self.declared.get(usize::from(nic))
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.states.len()
    }

    /// What is known of it while it runs.
    pub(super) fn state(&self, nic: u16) -> Option<&Arc<State>> {
        self.states.get(usize::from(nic))
    }

    /// The interfaces of this moment, for a connection that is about to be made.
    pub(super) fn look(&self) -> Option<Arc<Interfaces>> {
        self.watch.refresh()
    }

    /// See [`crate::Transport::nic_facts`].
    pub(super) fn facts(&self, nic: u16) -> NicFacts {
        // The kernel is asked only where the file names a NIC: else there is nothing to tell, and this is asked often.
        let Some(declared) = self.declared(nic) else { return NicFacts::default() };
        let Some(on) = self.watch.interfaces() else { return NicFacts::default() };
        let through = interface(declared, &on);
        NicFacts {
            resting: illness(declared, &on),
            bits_per_s: through.map_or(0, |through| through.bits_per_s()),
            numa: through.and_then(|through| through.numa()),
            address: shown(declared, &on),
        }
    }

    /// Hears of changes and kills the lanes of NICs that stay ill; see [`crate::Transport::tend`].
    pub(super) async fn tend(&self, transport: &str) -> Infallible {
        if self.declared.is_empty() {
            return pending().await;
        }
        let monitor = Monitor::new().and_then(registered);
        let monitor = match monitor {
            Ok(monitor) => monitor,
            Err(error) => {
                tracing::warn!(transport, %error, "no news of network interfaces: lanes of a NIC that fails end by `stall`");
                return pending().await;
            }
        };
        let _watching = Watching(&self.watch);
        let mut since = vec![None; self.declared.len()];
        loop {
            let next = self.examine(transport, &mut since);
            self.watch.watched(true);
            tokio::select! {
                ready = monitor.readable() => match ready {
                    Ok(mut ready) => {
                        // An error of the socket that is not told in time is told by the next list.
                        let _ = monitor.get_ref().drain();
                        ready.clear_ready();
                    }
                    Err(_) => return pending().await,
                },
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            }
        }
    }

    /// One look at all of them; when the next one is due without news.
    fn examine(&self, transport: &str, since: &mut [Option<Instant>]) -> Option<Instant> {
        let on = self.watch.refresh()?;
        let (now, mut next) = (Instant::now(), None);
        for ((nic, state), since) in self.declared.iter().zip(&self.states).zip(since) {
            let illness = illness(nic, &on);
            state.is_ill.store(illness.is_some(), Ordering::Relaxed);
            if illness.is_none() && !state.is_cut_off(&on) {
                if since.take().is_some() {
                    tracing::info!(transport, nic = nic.name, "NIC is well again");
                }
                continue;
            }
            let began = *since.get_or_insert_with(|| {
                let why = illness.as_deref().unwrap_or("an address that its lanes use is gone");
                tracing::warn!(transport, nic = nic.name, "NIC cannot be used: {why}");
                now
            });
            let at = began + GRACE;
            if at <= now {
                state.kill(&on);
            } else {
                next = Some(next.map_or(at, |next: Instant| next.min(at)));
            }
        }
        next
    }
}

#[cfg(all(test, not(pipeline_loom)))]
mod tests {
    use super::*;

    /// A transport without NICs in the file asks the kernel for none when it is asked for their facts; one with NICs does.
    #[test]
    fn asks_the_kernel_only_about_declared_nics() {
        let none = Nics::new(&[]);
        assert_eq!(none.facts(0), NicFacts::default());
        assert!(!none.watch.has_asked());
        let lo = Nic { name: "lo".into(), address: None, device: Some("lo".into()) };
        let one = Nics::new(&[lo]);
        assert_eq!(one.facts(1), NicFacts::default());
        assert!(!one.watch.has_asked(), "there is no second one");
        one.facts(0);
        assert!(one.watch.has_asked());
    }
}
