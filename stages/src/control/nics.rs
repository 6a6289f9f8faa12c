//! Which NICs rest, of this node and on the ways to its peers: failures are blamed on what failed, and nothing else rests
//! for them. Links on what rests are marked for the data path, ways on it are not dialled, while there are others.
//!
//! Deliberately told by events (a link that ended, a dial that failed, what a transport hears of its devices); only a NIC that
//! its transport says is down is looked at again now and then.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use pipeline_transports::{Blame, NicId, Waker};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::dialled::Dialled;
use super::rest::Rest;
use super::shared::{Shared, lock};
use crate::mail::{Half, SeatId};
use crate::peer::LinkRef;
use crate::world::World;

/// How often a NIC is looked at whose transport says that it is down.
const LOOK: Duration = Duration::from_millis(50);
/// Most pairs of NICs of one peer whose failures are remembered.
const PATHS_MAX: usize = 1024;

/// What went wrong because of NICs and peers, for whoever asks; keeps nothing running.
#[derive(Clone)]
pub struct Blames(pub(super) Arc<Shared>);

impl Blames {
    /// What went wrong because of each NIC of each transport, in the order of the file, and which rest. Failures of a peer
    /// are not among that.
    pub fn nics(&self) -> Vec<NicFailures> {
        self.0.nics.failures()
    }

    /// What went wrong on the ways to each peer that was opened, by name. Failures of this side's NICs are not among that.
    pub fn peers(&self) -> Vec<PeerFailures> {
        let dialled = lock(&self.0.dialled);
        let mut failures: Vec<_> = dialled.values().map(|d| d.paths.failures(&d.peer.label)).collect();
        failures.sort_by(|a, b| a.peer.cmp(&b.peer));
        failures
    }
}

/// A NIC of this node, as [`Blames::nics`] tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicFailures {
    /// Why no link is opened or chosen on it now, if there is another; `None`: it is well.
    pub resting: Option<String>,
    /// Links that ended, and dials that failed, because of it.
    pub local: u64,
    /// Links on it that ended because of the way to a NIC of a peer.
    pub path: u64,
}

/// What went wrong on the ways to a peer, as [`Blames::peers`] tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerFailures {
    /// Name or address the peer was opened by.
    pub peer: String,
    /// Links that ended because of the way between two NICs.
    pub path: u64,
    /// Links that ended because of the peer as a whole.
    pub peer_failures: u64,
}

/// See the file's head. One for each NIC of each transport, in their order.
pub(super) struct Nics {
    nics: Mutex<Vec<Nic>>,
    max: Duration,
    bell: Arc<Notify>,
}

struct Nic {
    transport: u16,
    nic: u16,
    rest: Rest,
    /// What its transport said last.
    down: Option<String>,
    local_failures: u64,
    path_failures: u64,
}

/// The ways to one peer.
#[derive(Default)]
pub(super) struct Paths {
    /// By transport, our NIC and the peer's.
    rests: Mutex<HashMap<(u16, u16, u16), Rest>>,
    path_failures: AtomicU64,
    peer_failures: AtomicU64,
}

impl Nics {
    pub(super) fn new(world: &World, max: Duration) -> Self {
        let all = world.transports.iter().zip(0..).flat_map(|(entry, transport)| {
            let nics = 0..entry.transport.nics().len() as u16;
            nics.map(move |nic| Nic {
                transport,
                nic,
                rest: Rest::default(),
                down: None,
                local_failures: 0,
                path_failures: 0,
            })
        });
        Self { nics: Mutex::new(all.collect()), max, bell: Arc::default() }
    }

    fn of(nics: &mut [Nic], transport: u16, nic: u16) -> Option<&mut Nic> {
        nics.iter_mut().find(|n| (n.transport, n.nic) == (transport, nic))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Nic>> {
        lock(&self.nics)
    }

    /// A link ended, or could not be opened, because of a NIC of ours.
    pub(super) fn local_failure(&self, transport: u16, nic: u16) {
        if let Some(nic) = Self::of(&mut self.lock(), transport, nic) {
            nic.local_failures += 1;
            nic.rest.fail(Instant::now(), self.max);
        }
        self.bell.notify_one();
    }

    /// A link has ended.
    pub(super) fn blame(&self, dialled: &Dialled, seat: SeatId, remote_nic: u16, blame: Blame) {
        let (_, transport, nic, _) = seat;
        match blame {
            Blame::Nobody => {}
            Blame::LocalNic => self.local_failure(transport, nic),
            Blame::Path => {
                if let Some(nic) = Self::of(&mut self.lock(), transport, nic) {
                    nic.path_failures += 1;
                }
                dialled.paths.fail((transport, nic, remote_nic), self.max);
                self.bell.notify_one();
            }
            Blame::Peer => _ = dialled.paths.peer_failures.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Until when a NIC shall not be dialled on: it rests, and another one of its transport does not. One of which
    /// nobody knows when it returns is asked for again soon.
    pub(super) fn barred(&self, transport: u16, nic: u16) -> Option<Instant> {
        let (now, mut nics) = (Instant::now(), self.lock());
        let others = nics.iter().any(|n| n.transport == transport && n.nic != nic && !n.rests(now));
        let nic = Self::of(&mut nics, transport, nic).filter(|n| others && n.rests(now))?;
        let until = nic.rest.until(now).unwrap_or(now);
        Some(if nic.down.is_some() { until.max(now + LOOK) } else { until })
    }

    /// Marks a link for the data path. Whether that was news.
    pub(super) fn mark(&self, dialled: &Dialled, link: &LinkRef) -> bool {
        let now = Instant::now();
        let nic_rests =
            Self::of(&mut self.lock(), link.transport, link.nic.0).is_some_and(|nic| nic.rests(now));
        let rests = nic_rests || dialled.paths.rests((link.transport, link.nic.0, link.remote_nic), now);
        link.life.resting.swap(rests, Ordering::Relaxed) != rests
    }

    /// What transports say of their NICs now. Whether any is down.
    fn look(&self, world: &World) -> bool {
        let mut any = false;
        for nic in self.lock().iter_mut() {
            let down =
                world.transports[usize::from(nic.transport)].transport.nic_facts(NicId(nic.nic)).resting;
            if down.is_some() && nic.down.is_none() {
                nic.rest.fail(Instant::now(), self.max);
            }
            any |= down.is_some();
            nic.down = down;
        }
        any
    }

    /// When the next of them returns.
    fn next(&self, now: Instant) -> Option<Instant> {
        self.lock().iter().filter_map(|nic| nic.rest.until(now)).min()
    }

    /// As users see them.
    pub(super) fn failures(&self) -> Vec<NicFailures> {
        let now = Instant::now();
        let after = |until: Instant| {
            format!("after a failure; it is tried again in {} ms", (until - now).as_millis())
        };
        let failures = |nic: &Nic| NicFailures {
            resting: nic.down.clone().or_else(|| nic.rest.until(now).map(after)),
            local: nic.local_failures,
            path: nic.path_failures,
        };
        self.lock().iter().map(failures).collect()
    }
}

impl Nic {
    fn rests(&self, now: Instant) -> bool {
        self.down.is_some() || self.rest.until(now).is_some()
    }
}

impl Paths {
    fn fail(&self, path: (u16, u16, u16), max: Duration) {
        self.path_failures.fetch_add(1, Ordering::Relaxed);
        let (now, mut rests) = (Instant::now(), lock(&self.rests));
        rests.retain(|_, rest| rest.is_remembered(now));
        if rests.len() < PATHS_MAX || rests.contains_key(&path) {
            rests.entry(path).or_default().fail(now, max);
        }
    }

    fn rests(&self, path: (u16, u16, u16), now: Instant) -> bool {
        lock(&self.rests).get(&path).is_some_and(|rest| rest.until(now).is_some())
    }

    fn next(&self, now: Instant) -> Option<Instant> {
        lock(&self.rests).values().filter_map(|rest| rest.until(now)).min()
    }

    /// The peer's NICs to which the way from one of ours rests.
    pub(super) fn avoid(&self, transport: u16, nic: u16) -> Vec<u16> {
        let now = Instant::now();
        let rests = lock(&self.rests);
        let resting = rests.iter().filter(|(_, rest)| rest.until(now).is_some());
        resting
            .filter(|((t, n, _), _)| (*t, *n) == (transport, nic))
            .map(|((.., remote), _)| *remote)
            .collect()
    }

    /// As users see them.
    pub(super) fn failures(&self, peer: &str) -> PeerFailures {
        let count = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let (path, peer_failures) = (count(&self.path_failures), count(&self.peer_failures));
        PeerFailures { peer: peer.to_owned(), path, peer_failures }
    }
}

/// Keeps the marks of all links true, and lets ways be dialled that have rested.
pub(super) async fn keep(shared: Arc<Shared>) {
    let nics = &shared.nics;
    for entry in &shared.world.transports {
        let bell = nics.bell.clone();
        entry.transport.on_nic_change(Waker::new(move || bell.notify_one()));
    }
    loop {
        let any_down = nics.look(&shared.world);
        let peers: Vec<_> = lock(&shared.dialled).values().cloned().collect();
        peers.iter().for_each(|dialled| mark_all(&shared, dialled));
        let now = Instant::now();
        let paths = peers.iter().filter_map(|dialled| dialled.paths.next(now));
        let next = paths.chain(nics.next(now)).chain(any_down.then(|| now + LOOK)).min();
        tokio::select! {
            () = nics.bell.notified() => {}
            () = sleep_until(next.unwrap_or(now)), if next.is_some() => {}
        }
    }
}

/// Marks the links of a peer, and tells whoever it matters to.
fn mark_all(shared: &Shared, dialled: &Dialled) {
    let mut changed = false;
    for link in dialled.peer.links.load().iter() {
        if shared.nics.mark(dialled, link) {
            changed = true;
            // What waits for it goes elsewhere.
            shared.world.mail.ring((Half::Post, link.transport, link.nic.0, link.pair.0));
        }
    }
    if changed {
        dialled.touch(shared);
        dialled.links_wake.notify_one();
    }
}
