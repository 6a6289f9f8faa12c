//! What the halves of one link, and those of one pair of workers, share without a lock. What must be right in every
//! interleaving of a poster and a reaper is in here, and in [`crate::life`]; `ring_loom` goes through them.
//!
//! A ring holds the work requests of a link in posting order, from their posting to their end. The poster appends, the
//! reaper ends them from the front: a completion speaks for all that was posted before it, because a queue pair completes
//! in order and whatever fails says so, signalled or not. Deliberately no memory and no verbs in here.

use crossbeam_utils::CachePadded;

use super::completion::Cause;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use crate::wr::{Outcome, Refusal, WrId};

/// How a work request stands when it is appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It goes to the device, which will complete it.
    Posted,
    /// It never goes there, and ends so when its turn comes.
    Ended(Outcome),
}

/// One work request.
struct Entry {
    id: AtomicU64,
    /// [`POSTED`], [`FAILED`], or the number of a refusal.
    fate: AtomicU32,
}

const POSTED: u32 = 0;
const FAILED: u32 = u32::MAX;

/// See the file's head. Sequence numbers wrap.
pub(super) struct Ring {
    entries: Box<[Entry]>,
    depth: u32,
    poster: CachePadded<Poster>,
    reaper: CachePadded<Reaper>,
}

/// Written by the poster.
struct Poster {
    /// Appended so far.
    appended: AtomicU32,
    /// Up to here all that go to the device have been handed to it.
    sent: AtomicU32,
    /// It found no room.
    starved: AtomicBool,
    /// It posted since somebody last looked.
    used: AtomicBool,
}

/// Written by the reaper.
struct Reaper {
    /// Ended so far.
    ended: AtomicU32,
}

impl Ring {
    /// For up to `depth` (at least 1, at most 2^24) work requests.
    pub(super) fn new(depth: u32) -> Self {
        let entry = |_| Entry { id: AtomicU64::new(0), fate: AtomicU32::new(POSTED) };
        let flag = || AtomicBool::new(false);
        let (appended, sent) = (AtomicU32::new(0), AtomicU32::new(0));
        Self {
            entries: (0..depth.next_power_of_two()).map(entry).collect(),
            depth,
            poster: CachePadded::new(Poster { appended, sent, starved: flag(), used: flag() }),
            reaper: CachePadded::new(Reaper { ended: AtomicU32::new(0) }),
        }
    }

    // What the poster may call.

    /// How many more may be appended.
    pub(super) fn room(&self) -> usize {
        let appended = self.poster.appended.load(Ordering::Relaxed);
        let taken = appended.wrapping_sub(self.reaper.ended.load(Ordering::Acquire));
        (self.depth - taken) as usize
    }

    /// As [`Self::room`]; if there is none, the reaper is told to say when there is.
    pub(super) fn room_or_starve(&self) -> usize {
        match self.room() {
            0 => {
                self.starve();
                self.room()
            }
            room => room,
        }
    }

    /// The reaper shall say when something has ended.
    pub(super) fn starve(&self) {
        self.poster.starved.store(true, Ordering::Relaxed);
        // Either whoever looks next sees what the reaper ended, or it sees the flag (the fence in `room_wanted`).
        fence(Ordering::SeqCst);
    }

    /// Appends one, for which there is room. Answers its number.
    pub(super) fn append(&self, id: WrId, fate: Fate) -> u32 {
        let number = self.poster.appended.load(Ordering::Relaxed);
        let entry = self.entry(number);
        entry.id.store(id.0, Ordering::Relaxed);
        entry.fate.store(code(fate), Ordering::Relaxed);
        self.poster.appended.store(number.wrapping_add(1), Ordering::Release);
        number
    }

    /// All that was appended before `number` and goes to the device has been handed to it.
    pub(super) fn note_sent(&self, number: u32) {
        self.poster.sent.store(number, Ordering::Release);
        if !self.poster.used.load(Ordering::Relaxed) {
            self.poster.used.store(true, Ordering::Relaxed);
        }
    }

    // What the reaper may call.

    /// Whether the poster waits for room; asked after ends. Answers `true` once for each time it asked.
    pub(super) fn room_wanted(&self) -> bool {
        fence(Ordering::SeqCst);
        self.poster.starved.load(Ordering::Relaxed) && self.poster.starved.swap(false, Ordering::Relaxed)
    }

    /// The oldest that has not ended, if any.
    pub(super) fn oldest(&self) -> Option<(u32, WrId, Fate)> {
        let number = self.ended();
        (number != self.appended()).then(|| {
            let (id, fate) = self.at(number);
            (number, id, fate)
        })
    }

    /// One that was appended and has not ended.
    pub(super) fn at(&self, number: u32) -> (WrId, Fate) {
        let entry = self.entry(number);
        (WrId(entry.id.load(Ordering::Relaxed)), fate(entry.fate.load(Ordering::Relaxed)))
    }

    /// All before `number` have ended: their room is free.
    pub(super) fn end(&self, number: u32) {
        self.reaper.ended.store(number, Ordering::Release);
    }

    /// The number after the last one that was handed to the device. Final once the poster is quiet.
    pub(super) fn sent(&self) -> u32 {
        self.poster.sent.load(Ordering::Acquire)
    }

    /// Whether a work request is here.
    pub(super) fn holds(&self, id: WrId) -> bool {
        let (mut at, end) = (self.ended(), self.appended());
        while at != end {
            if self.at(at).0 == id {
                return true;
            }
            at = at.wrapping_add(1);
        }
        false
    }

    // What both, and others, may call.

    /// The number of the oldest that has not ended.
    pub(super) fn ended(&self) -> u32 {
        self.reaper.ended.load(Ordering::Acquire)
    }

    /// The number that the next one will have.
    pub(super) fn appended(&self) -> u32 {
        self.poster.appended.load(Ordering::Acquire)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        // In this order: what has ended was appended before.
        let ended = self.ended();
        self.appended().wrapping_sub(ended) as usize
    }

    /// Whether something was posted since this was last asked.
    pub(super) fn take_used(&self) -> bool {
        self.poster.used.load(Ordering::Relaxed) && self.poster.used.swap(false, Ordering::Relaxed)
    }

    fn entry(&self, number: u32) -> &Entry {
        &self.entries[number as usize & (self.entries.len() - 1)]
    }
}

fn code(fate: Fate) -> u32 {
    match fate {
        Fate::Posted => POSTED,
        Fate::Ended(Outcome::Refused(refusal)) => refusal as u32,
        Fate::Ended(_) => FAILED,
    }
}

fn fate(code: u32) -> Fate {
    if code == POSTED {
        return Fate::Posted;
    }
    let refusal = u8::try_from(code).ok().and_then(Refusal::from_wire);
    Fate::Ended(refusal.map_or(Outcome::Failed, Outcome::Refused))
}

/// What the halves of one pair of workers tell each other beside their links.
#[derive(Default)]
pub(super) struct Bells {
    /// Grows with every death: a poster looks at one word a turn, not at each link.
    deaths: AtomicU64,
    /// Grows with all that a reaper cannot learn from its completion queue: deaths, and work requests that ended here.
    news: AtomicU64,
    /// The reaper sleeps and watches for no standstill, because nothing was outstanding.
    unwatched: AtomicBool,
}

impl Bells {
    /// Deaths so far.
    pub(super) fn deaths(&self) -> u64 {
        self.deaths.load(Ordering::Acquire)
    }

    /// News for the reaper so far.
    pub(super) fn news(&self) -> u64 {
        self.news.load(Ordering::Acquire)
    }

    /// A link has died.
    pub(super) fn note_death(&self) {
        self.deaths.fetch_add(1, Ordering::Release);
        self.news.fetch_add(1, Ordering::Release);
    }

    /// Something is there for the reaper.
    pub(super) fn note_news(&self) {
        self.news.fetch_add(1, Ordering::Release);
    }

    /// Reaper, before it looks for the last time whether something is outstanding, and sleeps without a time if not.
    pub(super) fn leave_unwatched(&self) {
        self.unwatched.store(true, Ordering::Relaxed);
        // Either the look that follows sees what was appended, or the poster sees this.
        fence(Ordering::SeqCst);
    }

    /// Poster, after it has appended and passed a sequentially consistent fence: whether the reaper must be woken, so that
    /// it watches again.
    pub(super) fn must_watch(&self) -> bool {
        self.unwatched.load(Ordering::Relaxed) && self.unwatched.swap(false, Ordering::Relaxed)
    }
}

/// Why a link dies; the first word counts.
#[derive(Default)]
pub(super) struct CauseCell(AtomicU64);

impl CauseCell {
    /// Names a cause, if none was named yet.
    pub(super) fn name(&self, cause: Cause) {
        let word = cause.to_word();
        // Relaxed: the death that follows publishes it.
        let _ = self.0.compare_exchange(0, word, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The cause, if one was named.
    pub(super) fn get(&self) -> Option<Cause> {
        Cause::from_word(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(all(test, not(pipeline_loom)))]
mod tests {
    use super::*;

    /// Work requests come out as they went in, with what was known of them, past the end of the ring and of its numbers;
    /// room is exact.
    #[test]
    fn in_order_and_bounded() {
        let ring = Ring::new(3);
        let fates =
            [Fate::Posted, Fate::Ended(Outcome::Refused(Refusal::OutOfBounds)), Fate::Ended(Outcome::Failed)];
        let start = u32::MAX - 4;
        ring.poster.appended.store(start, Ordering::Relaxed);
        ring.reaper.ended.store(start, Ordering::Relaxed);
        for round in 0..5 {
            for (i, fate) in fates.into_iter().enumerate() {
                assert_eq!(ring.room_or_starve(), 3 - i);
                ring.append(WrId(round * 10 + i as u64), fate);
            }
            assert_eq!((ring.room_or_starve(), ring.len(), ring.room_wanted()), (0, 3, true));
            for (i, fate) in fates.into_iter().enumerate() {
                let id = WrId(round * 10 + i as u64);
                assert!(ring.holds(id) && !ring.holds(WrId(999)));
                let (number, seen, seen_fate) = ring.oldest().unwrap();
                assert_eq!((seen, seen_fate), (id, fate));
                ring.end(number.wrapping_add(1));
                assert!(!ring.holds(id));
            }
            assert!(ring.oldest().is_none() && !ring.room_wanted());
        }
    }

    /// A link counts as used once for all that was handed over since the last look.
    #[test]
    fn used_since_the_last_look() {
        let ring = Ring::new(4);
        assert!(!ring.take_used());
        ring.note_sent(1);
        ring.note_sent(2);
        assert!(ring.take_used() && !ring.take_used());
    }

    /// The first cause is the cause.
    #[test]
    fn first_cause_counts() {
        let cell = CauseCell::default();
        assert_eq!(cell.get(), None);
        cell.name(Cause::NotTaken(12));
        cell.name(Cause::Asked);
        assert_eq!(cell.get(), Some(Cause::NotTaken(12)));
    }
}
