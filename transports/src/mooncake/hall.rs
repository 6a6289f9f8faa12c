//! Where data connections wait for the serve half that will have them, and who of them has been idle for how long.
//!
//! The listener, on the control thread, hands each to the half with fewest; the half stamps it whenever it moved. Above the
//! bound the longest idle one is shut down by the listener, and its half sees the stream end, as if its peer had gone.
//! Deliberately no requests in here.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crossbeam_queue::ArrayQueue;

use crate::clock::Nanos;
use crate::link::Waker;

/// Connections that may wait for one half.
const WAITING_MAX: usize = 256;
/// In [`Guest::idle_since`]: a request is under way.
const BUSY: Nanos = Nanos::MAX;
/// Who has been idle for less is between two requests, or has not said its first one yet.
const IDLE_MIN: Nanos = 1_000_000_000;

/// A data connection. Dropping it ends the connection, also if a forked child has a copy of its descriptor.
pub(crate) struct Guest {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    idle_since: AtomicU64,
}

impl Guest {
    pub(crate) fn new(stream: TcpStream, peer: SocketAddr, now: Nanos) -> Self {
        Self { stream, peer, idle_since: AtomicU64::new(now) }
    }

    /// Its half has worked on it, and nothing of it is left.
    pub(crate) fn idles(&self, now: Nanos) {
        self.idle_since.store(now, Ordering::Relaxed);
    }

    fn is_idle(&self, now: Nanos) -> bool {
        let since = self.idle_since.load(Ordering::Relaxed);
        since != BUSY && now.saturating_sub(since) >= IDLE_MIN
    }

    /// A request of it is under way.
    pub(crate) fn works(&self) {
        self.idle_since.store(BUSY, Ordering::Relaxed);
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Its peer may have closed it first; then there is nothing left to shut.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// The box of one serve half. The half has the only strong reference, besides those that last a moment: when it goes, what
/// waits in it goes too.
pub(crate) struct Hall {
    waiting: ArrayQueue<Arc<Guest>>,
    /// Waiting and taken in.
    guests: AtomicUsize,
    waker: Waker,
}

impl Hall {
    pub(crate) fn new(waker: Waker) -> Arc<Self> {
        Arc::new(Self { waiting: ArrayQueue::new(WAITING_MAX), guests: AtomicUsize::new(0), waker })
    }

    /// For its half: the next one. The half says [`Self::left`] when it is done with it.
    pub(crate) fn take(&self) -> Option<Arc<Guest>> {
        // A look costs less than a try.
        if self.waiting.is_empty() { None } else { self.waiting.pop() }
    }

    fn has_room(&self) -> bool {
        !self.waiting.is_full()
    }

    /// Whether somebody waits.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// A connection has ended.
    pub(crate) fn left(&self) {
        self.guests.fetch_sub(1, Ordering::Relaxed);
    }

    fn give(&self, guest: Arc<Guest>) -> bool {
        self.guests.fetch_add(1, Ordering::Relaxed);
        let given = self.waiting.push(guest).is_ok();
        match given {
            true => self.waker.wake(),
            false => self.left(),
        }
        given
    }
}

/// What became of a newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seated {
    /// A half has it.
    Yes,
    /// A half has it, in the place of one that had been idle for longest.
    InsteadOf(SocketAddr),
    /// As many as may be are there, and none of them is idle.
    Full,
    /// No half is there, or none has room in its box.
    Nowhere,
}

/// All halls of a transport, and all guests.
#[derive(Default)]
pub(crate) struct Halls {
    halls: Mutex<Vec<Weak<Hall>>>,
    guests: Mutex<Vec<Weak<Guest>>>,
}

impl Halls {
    /// Another half takes part.
    pub(crate) fn open(&self, hall: &Arc<Hall>) {
        let mut halls = lock(&self.halls);
        halls.retain(|hall| hall.strong_count() > 0);
        halls.push(Arc::downgrade(hall));
    }

    /// Whether a newcomer would be seated now. One that would not is best left in the system's queue: a client that opens a
    /// connection for each request, as old ones do, comes with thousands at once, and they are gone as soon as they were served.
    /// Where there is no half at all nothing is waited for.
    pub(crate) fn has_room(&self, most: usize, now: Nanos) -> bool {
        let halls: Vec<_> = lock(&self.halls).iter().filter_map(Weak::upgrade).collect();
        if !halls.is_empty() && !halls.iter().any(|hall| hall.has_room()) {
            return false;
        }
        let mut guests = lock(&self.guests);
        if guests.len() >= most {
            guests.retain(|guest| guest.strong_count() > 0);
        }
        guests.len() < most || guests.iter().filter_map(Weak::upgrade).any(|guest| guest.is_idle(now))
    }

    /// Gives a newcomer to the half with fewest; at most `most` in all.
    pub(crate) fn seat(&self, guest: Guest, most: usize) -> Seated {
        let mut guests = lock(&self.guests);
        let mut instead = None;
        if guests.len() >= most {
            guests.retain(|guest| guest.strong_count() > 0);
        }
        if guests.len() >= most {
            let idle = |(at, guest): (usize, &Weak<Guest>)| Some((guest.upgrade()?, at));
            let since = |(guest, _): &(Arc<Guest>, usize)| guest.idle_since.load(Ordering::Relaxed);
            let longest = guests.iter().enumerate().filter_map(idle).min_by_key(since);
            let now = guest.idle_since.load(Ordering::Relaxed);
            match longest.filter(|(found, _)| found.is_idle(now)) {
                None => return Seated::Full,
                Some((out, at)) => {
                    // Its half will see the end of the stream; the peer may have come first.
                    let _ = out.stream.shutdown(Shutdown::Both);
                    instead = Some(out.peer);
                    guests.swap_remove(at);
                }
            }
        }
        let guest = Arc::new(guest);
        let weak = Arc::downgrade(&guest);
        if !self.give(guest) {
            return Seated::Nowhere;
        }
        guests.push(weak);
        instead.map_or(Seated::Yes, Seated::InsteadOf)
    }

    fn give(&self, guest: Arc<Guest>) -> bool {
        let mut halls: Vec<_> = lock(&self.halls).iter().filter_map(Weak::upgrade).collect();
        halls.sort_by_key(|hall| hall.guests.load(Ordering::Relaxed));
        halls.iter().any(|hall| hall.give(guest.clone()))
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    // Lists of who is there: right after any panic.
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, not(pipeline_loom)))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn guest(listener: &TcpListener, now: Nanos) -> (Guest, TcpStream) {
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (near, peer) = listener.accept().unwrap();
        (Guest::new(near, peer, now), far)
    }

    /// Newcomers go to the half with fewest, and a half that has gone is given none.
    #[test]
    fn fewest_first() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (halls, one, two) = (Halls::default(), Hall::new(Waker::none()), Hall::new(Waker::none()));
        assert_eq!(halls.seat(guest(&listener, 1).0, 9), Seated::Nowhere);
        halls.open(&one);
        halls.open(&two);
        for _ in 0..4 {
            assert_eq!(halls.seat(guest(&listener, 1).0, 9), Seated::Yes);
        }
        assert_eq!((one.waiting.len(), two.waiting.len()), (2, 2));
        drop(one);
        assert_eq!(halls.seat(guest(&listener, 1).0, 9), Seated::Yes);
        assert_eq!(two.waiting.len(), 3);
    }

    /// At the bound the one that has been idle for longest makes room; those that work never do, nor those that came just now; and
    /// who has left is counted no more. Until somebody can make room there is none.
    #[test]
    fn the_longest_idle_makes_room() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (halls, hall) = (Halls::default(), Hall::new(Waker::none()));
        halls.open(&hall);
        let mut far = Vec::new();
        for now in [30, 10, 20] {
            assert!(halls.has_room(3, now));
            let (near, end) = guest(&listener, now);
            assert_eq!(halls.seat(near, 3), Seated::Yes);
            far.push(end);
        }
        assert!(!halls.has_room(3, 40), "the first bytes of all of them may be on their way");
        assert_eq!(halls.seat(guest(&listener, 40).0, 3), Seated::Full);
        let taken: Vec<_> = std::iter::from_fn(|| hall.take()).collect();
        taken[1].works();
        let later = 20 + IDLE_MIN;
        assert!(halls.has_room(3, later));
        let (near, _end) = guest(&listener, later);
        assert_eq!(halls.seat(near, 3), Seated::InsteadOf(taken[2].peer));
        assert_eq!(std::io::Read::read(&mut far[2], &mut [0]).unwrap(), 0, "hung up on");
        taken[0].works();
        let last = hall.take().unwrap();
        last.works();
        assert!(!halls.has_room(3, 9 * IDLE_MIN));
        assert_eq!(halls.seat(guest(&listener, 9 * IDLE_MIN).0, 3), Seated::Full);
        drop(taken);
        assert!(halls.has_room(3, 9 * IDLE_MIN));
        assert_eq!(halls.seat(guest(&listener, 9 * IDLE_MIN).0, 3), Seated::Yes);
    }

    /// While the boxes of all halves are full a newcomer waits outside; where there is no half it does not.
    #[test]
    fn full_boxes_have_no_room() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let halls = Halls::default();
        assert!(halls.has_room(WAITING_MAX * 2, 1));
        let hall = Hall::new(Waker::none());
        halls.open(&hall);
        for _ in 0..WAITING_MAX {
            assert!(halls.has_room(WAITING_MAX * 2, 1));
            assert_eq!(halls.seat(guest(&listener, 1).0, WAITING_MAX * 2), Seated::Yes);
        }
        assert!(!halls.has_room(WAITING_MAX * 2, 1));
        assert!(hall.take().is_some() && halls.has_room(WAITING_MAX * 2, 1));
    }
}
