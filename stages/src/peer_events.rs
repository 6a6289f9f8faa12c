//! What becomes of peers, for programs that want to act on it: those that were opened here, and those that came.
//! Deliberately told and not asked for: control never waits for a listener, and a listener hears how much it missed.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use pipeline_transports::memory::Origin;

use crate::feed::{Feed, ListenError};

/// Events that one listener may be behind.
pub const BEHIND: usize = 256;

/// Something that happened to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerEvent {
    /// A peer that was opened here is reached: its session stands and its segments are known.
    Up {
        /// Name or address it was opened by.
        peer: Arc<str>,
        /// The name it gave itself.
        name: String,
        /// Changes with every start of that node.
        incarnation: u64,
    },
    /// The session of a peer that was up has ended. It is dialled again when somebody wants it.
    Down {
        /// Name or address it was opened by.
        peer: Arc<str>,
        /// Why, and what to do.
        reason: String,
    },
    /// A peer is another start of its node than it was: what was opened before is gone, and requests to it fail
    /// `StalePeer`. Comes right before its [`PeerEvent::Up`].
    Restarted {
        /// Name or address it was opened by.
        peer: Arc<str>,
        /// The new start.
        incarnation: u64,
    },
    /// A peer that was opened here says that it is about to go: send it nothing new.
    Leaving {
        /// Name or address it was opened by.
        peer: Arc<str>,
    },
    /// A node has opened this one.
    Connected {
        /// The name it gave itself.
        name: String,
        /// Its start.
        incarnation: u64,
        /// Where it comes from.
        from: SocketAddr,
    },
    /// A node that had opened this one is gone: nothing new of it will touch memory here.
    Disconnected {
        /// The name it gave itself.
        name: String,
        /// Its start.
        incarnation: u64,
        /// Where it came from.
        from: SocketAddr,
        /// Why.
        reason: String,
    },
    /// The listener was more than [`BEHIND`] events behind: so many are lost, all older than what follows. Ask for the
    /// state of what matters.
    Missed(u64),
}

/// One listener's feed.
struct Watch {
    feed: Feed<PeerEvent>,
    missed: AtomicU64,
}

/// All who listen.
pub struct Watchers {
    /// In a forked child the lock may be held by a thread that is not there.
    origin: Origin,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    watches: Vec<Weak<Watch>>,
    stopped: bool,
}

impl Default for Watchers {
    fn default() -> Self {
        Self { origin: Origin::here(), state: Mutex::default() }
    }
}

impl Watchers {
    /// Listens to everything that happens from now on. In a forked child that is nothing.
    pub fn listen(&self) -> PeerEvents {
        let watch = Arc::new(Watch { feed: Feed::new(BEHIND), missed: AtomicU64::new(0) });
        if !self.origin.is_here() {
            watch.feed.stop();
            return PeerEvents(watch);
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.stopped {
            watch.feed.stop();
        }
        state.watches.retain(|watch| watch.strong_count() > 0);
        state.watches.push(Arc::downgrade(&watch));
        PeerEvents(watch)
    }

    /// Tells all. `event` is only made if somebody listens.
    pub(crate) fn tell(&self, event: impl FnOnce() -> PeerEvent) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut watches = state.watches.iter().filter_map(Weak::upgrade).peekable();
        if watches.peek().is_none() {
            return;
        }
        let event = event();
        for watch in watches {
            if watch.feed.tell_newest(event.clone()) {
                watch.missed.fetch_add(1, Relaxed);
            }
        }
    }

    /// Nothing will be told any more.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.stopped = true;
        state.watches.iter().filter_map(Weak::upgrade).for_each(|watch| watch.feed.stop());
    }
}

/// Hears what becomes of peers from the moment it was made, in order. Every listener hears all.
pub struct PeerEvents(Arc<Watch>);

impl PeerEvents {
    /// The next event, if there is one.
    pub fn try_next(&self) -> Option<PeerEvent> {
        self.missed().or_else(|| self.0.feed.try_next())
    }

    /// The next event; waits for it up to `timeout`.
    ///
    /// # Errors
    /// See [`ListenError`].
    pub fn next(&self, timeout: Duration) -> Result<PeerEvent, ListenError> {
        self.missed().map_or_else(|| self.0.feed.next(timeout), Ok)
    }

    /// A descriptor that is readable while there is an event, and once the engine was stopped. Only to be polled.
    ///
    /// # Errors
    /// The system's reason: no more descriptors.
    pub fn fd(&self) -> std::io::Result<Arc<OwnedFd>> {
        self.0.feed.fd()
    }

    fn missed(&self) -> Option<PeerEvent> {
        let missed = self.0.missed.swap(0, Relaxed);
        (missed > 0).then_some(PeerEvent::Missed(missed))
    }
}

impl fmt::Debug for PeerEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerEvents")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn down(n: usize) -> PeerEvent {
        PeerEvent::Down { peer: "a".into(), reason: n.to_string() }
    }

    /// Every listener hears all, in order, from its beginning on; one that is far behind hears how many it missed, and
    /// then the newest; nobody is waited for, and one that went costs nothing.
    #[test]
    fn listeners_hear_all_or_how_much_they_missed() {
        let watchers = Watchers::default();
        watchers.tell(|| panic!("made for nobody"));
        let (slow, gone) = (watchers.listen(), watchers.listen());
        watchers.tell(|| down(0));
        let late = watchers.listen();
        drop(gone);
        (1..=BEHIND + 2).for_each(|n| watchers.tell(|| down(n)));
        let heard: Vec<_> = std::iter::from_fn(|| slow.try_next()).collect();
        assert_eq!(heard[0], PeerEvent::Missed(3));
        assert_eq!(heard[1..], (3..=BEHIND + 2).map(down).collect::<Vec<_>>());
        assert_eq!((late.try_next(), late.try_next()), (Some(PeerEvent::Missed(2)), Some(down(3))));
        watchers.stop();
        assert_eq!(slow.next(Duration::MAX), Err(ListenError::Stopped));
        assert_eq!(watchers.listen().next(Duration::MAX), Err(ListenError::Stopped));
    }
}
