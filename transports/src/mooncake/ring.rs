//! What the two halves of a lane share of its work requests, from their posting to their end. Nothing on this wire names a
//! request: answers come in the order of the requests, so a ring in posting order is all that there is to know.
//!
//! ```text
//! append ──▶ QUEUED ──begin──▶ BEGUN ──end──▶ (free)            post: append, begin, confirm, publish, revert
//!     │       │  ▲────revert────┘ └─cancel─▶ DISCARDING ─▶      reap: cancel, end, flush
//!     │       └─cancel─▶ CANCELLED ─▶
//!     └──▶ ENDED (never goes out) ─▶
//! ```
//! The poster appends, and begins what it builds the next bytes of; what it has passed so it *publishes*, before the first of
//! those bytes leaves. The reaper ends the published ones, from the front. They race on a queued request alone (`begin`
//! against `cancel`), by a compare-exchange. `ring_loom` goes through the interleavings. Deliberately no sockets in here.

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicBool, AtomicPtr, AtomicU64, Ordering, fence};
use crate::tcp::halves::TakenBack;
use crate::wr::{Op, Outcome, Refusal, WrId};

const QUEUED: u64 = 1;
const BEGUN: u64 = 2;
/// A READ whose payload will be thrown away.
const DISCARDING: u64 = 3;
/// Taken back before it began.
const CANCELLED: u64 = 4;
/// It never goes out; how it ends is in [`FATE`].
const ENDED: u64 = 5;
const STATE: u64 = 0xff;
const WRITE: u64 = 1 << 8;
/// A WRITE with a question behind it, which is answered by one byte.
const CONFIRMED: u64 = 1 << 9;
/// Of an ended one: the number of a refusal, 0 for a failure.
const FATE: u32 = 16;

/// One work request. Numbers count from 0 for each lane and never wrap.
struct Entry {
    word: AtomicU64,
    id: AtomicU64,
    at: AtomicPtr<u8>,
    length: AtomicU64,
    /// Where its bytes end among all that are sent on the lane.
    end: AtomicU64,
}

/// A work request, as the reaper sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entered {
    pub(super) id: WrId,
    pub(super) op: Op,
    pub(super) stand: Stand,
    /// A WRITE whose question will be answered.
    pub(super) confirmed: bool,
    /// Local bytes.
    pub(super) at: *mut u8,
    pub(super) length: u64,
}

/// How far a work request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    /// No byte of it leaves, or has left.
    Queued,
    /// Bytes of it may have left.
    Begun,
    /// As [`Self::Begun`]; its payload belongs nowhere any more, and no completion follows.
    Discarding,
    /// It was taken back before it began.
    Cancelled,
    /// It never goes out, and ends so when its turn comes.
    Ended(Outcome),
}

/// See the file's head.
pub(super) struct Ring {
    entries: Box<[Entry]>,
    depth: u64,
    poster: CachePadded<Poster>,
    reaper: CachePadded<Reaper>,
}

/// Written by the poster.
struct Poster {
    /// Appended so far.
    appended: AtomicU64,
    /// What is before this number the poster has passed: begun, or found not to be sent.
    published: AtomicU64,
    /// Bytes that the kernel has taken since the lane began.
    handed: AtomicU64,
    /// It waits for room.
    starved: AtomicBool,
}

/// Written by the reaper.
struct Reaper {
    /// Ended so far: their room is free.
    ended: AtomicU64,
    /// It waits for `handed` to grow.
    early: AtomicBool,
}

impl Ring {
    /// For up to `depth` work requests, at least 1.
    pub(super) fn new(depth: usize) -> Self {
        let entry = |_| Entry {
            word: AtomicU64::new(0),
            id: AtomicU64::new(0),
            at: AtomicPtr::new(std::ptr::null_mut()),
            length: AtomicU64::new(0),
            end: AtomicU64::new(0),
        };
        let (number, flag) = (|| AtomicU64::new(0), || AtomicBool::new(false));
        let poster = Poster { appended: number(), published: number(), handed: number(), starved: flag() };
        Self {
            entries: (0..depth.next_power_of_two()).map(entry).collect(),
            depth: depth as u64,
            poster: CachePadded::new(poster),
            reaper: CachePadded::new(Reaper { ended: number(), early: flag() }),
        }
    }

    /// Where what belongs to a request is kept beside the ring: less than [`Self::places`].
    pub(super) fn place(&self, number: u64) -> usize {
        number as usize & (self.entries.len() - 1)
    }

    /// See [`Self::place`].
    pub(super) fn places(&self) -> usize {
        self.entries.len()
    }

    // What the poster may call.

    /// How many more may be appended.
    pub(super) fn room(&self) -> usize {
        let appended = self.poster.appended.load(Ordering::Relaxed);
        (self.depth - (appended - self.ended())) as usize
    }

    /// As [`Self::room`]; if there is none, the reaper is told to say when there is.
    pub(super) fn room_or_starve(&self) -> usize {
        match self.room() {
            0 => {
                self.poster.starved.store(true, Ordering::Relaxed);
                // Either we see what the reaper ends below, or it sees our flag (the fence in `room_wanted`).
                fence(Ordering::SeqCst);
                self.room()
            }
            room => room,
        }
    }

    /// Appends one, for which there is room: with its local bytes, or how it ends without being sent.
    pub(super) fn append(&self, id: WrId, op: Op, at: Result<*mut u8, Outcome>, length: u64) -> u64 {
        let number = self.poster.appended.load(Ordering::Relaxed);
        let entry = self.entry(number);
        entry.id.store(id.0, Ordering::Relaxed);
        entry.at.store(at.unwrap_or(std::ptr::null_mut()), Ordering::Relaxed);
        entry.length.store(length, Ordering::Relaxed);
        let direction = if op == Op::Write { WRITE } else { 0 };
        let state = match at {
            Ok(_) => QUEUED,
            Err(Outcome::Refused(why)) => ENDED | (why as u64) << FATE,
            Err(_) => ENDED,
        };
        entry.word.store(direction | state, Ordering::Relaxed);
        self.poster.appended.store(number + 1, Ordering::Release);
        number
    }

    /// From now on a byte of it may leave; `end` is where its bytes end among all of the lane. `false`: it is not sent.
    pub(super) fn begin(&self, number: u64, end: u64) -> bool {
        self.entry(number).end.store(end, Ordering::Relaxed);
        self.step(number, QUEUED, BEGUN)
    }

    /// A WRITE that has begun and is not published yet: it has a question behind it, up to `end`.
    pub(super) fn confirm(&self, number: u64, end: u64) {
        let entry = self.entry(number);
        entry.end.store(end, Ordering::Relaxed);
        // Nobody else changes a WRITE that has begun.
        entry.word.store(WRITE | CONFIRMED | BEGUN, Ordering::Relaxed);
    }

    /// All before `number` have been passed. Before the first byte of them leaves.
    pub(super) fn publish(&self, number: u64) {
        self.poster.published.store(number, Ordering::Release);
    }

    /// Nothing of it has left that could have an effect, and nothing will. Only on a dead lane.
    pub(super) fn revert(&self, number: u64) {
        self.step(number, BEGUN, QUEUED);
    }

    /// The kernel has taken all bytes up to `end`. `true` if the reaper waits to be told.
    pub(super) fn hand_over(&self, end: u64) -> bool {
        self.poster.handed.store(end, Ordering::Release);
        fence(Ordering::SeqCst);
        self.reaper.early.load(Ordering::Relaxed) && self.reaper.early.swap(false, Ordering::Relaxed)
    }

    // What the reaper may call.

    /// The number after the last one that the poster has passed.
    pub(super) fn published(&self) -> u64 {
        self.poster.published.load(Ordering::Acquire)
    }

    /// Bytes that the kernel has taken since the lane began.
    pub(super) fn handed(&self) -> u64 {
        self.poster.handed.load(Ordering::Relaxed)
    }

    /// Whether the poster has let go of its bytes. Until it has, its answer must wait: a peer that answers before it has
    /// the payload must not get a buffer freed that is still being sent.
    pub(super) fn has_left(&self, number: u64) -> bool {
        let end = self.entry(number).end.load(Ordering::Relaxed);
        if self.poster.handed.load(Ordering::Acquire) >= end {
            return true;
        }
        // Mostly the poster has not come back from its system call yet. It sees the flag, or we its store.
        self.reaper.early.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.poster.handed.load(Ordering::Acquire) >= end
    }

    /// All before `number` have ended.
    pub(super) fn end(&self, number: u64) {
        self.reaper.ended.store(number, Ordering::Release);
    }

    /// Whether the poster waits for room; asked after ends. Answers `true` once for each time it asked.
    pub(super) fn room_wanted(&self) -> bool {
        fence(Ordering::SeqCst);
        self.poster.starved.load(Ordering::Relaxed) && self.poster.starved.swap(false, Ordering::Relaxed)
    }

    /// Takes a work request back. `hint` is where the last one was found: deadlines pass in posting order.
    pub(super) fn cancel(&self, id: WrId, hint: &mut u64) -> TakenBack {
        let (first, end) = (self.ended(), self.appended());
        let from = (*hint).clamp(first, end);
        for number in (from..end).chain(first..from) {
            let entry = self.entry(number);
            if entry.id.load(Ordering::Relaxed) != id.0 {
                continue;
            }
            *hint = number;
            return match self.take_back(number) {
                // Ended already, and its name given to another one.
                TakenBack::NotHere => continue,
                taken => taken,
            };
        }
        TakenBack::NotHere
    }

    fn take_back(&self, number: u64) -> TakenBack {
        if self.step(number, QUEUED, CANCELLED) {
            return TakenBack::Dropped;
        }
        let word = self.entry(number).word.load(Ordering::Acquire);
        match (word & STATE, direction(word)) {
            (BEGUN, Op::Write) => TakenBack::MustAbort,
            (BEGUN, Op::Read) if self.step(number, BEGUN, DISCARDING) => TakenBack::Discarding,
            // A poster that reverted it meanwhile is about to fall quiet: the flush completes it.
            (QUEUED | BEGUN, _) => TakenBack::MustAbort,
            _ => TakenBack::NotHere,
        }
    }

    // What both may call.

    /// One that was appended and has not ended.
    pub(super) fn at(&self, number: u64) -> Entered {
        let entry = self.entry(number);
        let word = entry.word.load(Ordering::Acquire);
        let stand = match word & STATE {
            BEGUN => Stand::Begun,
            DISCARDING => Stand::Discarding,
            CANCELLED => Stand::Cancelled,
            ENDED => Stand::Ended(fate((word >> FATE) as u8)),
            _ => Stand::Queued,
        };
        Entered {
            id: WrId(entry.id.load(Ordering::Relaxed)),
            op: direction(word),
            stand,
            confirmed: word & CONFIRMED != 0,
            at: entry.at.load(Ordering::Relaxed),
            length: entry.length.load(Ordering::Relaxed),
        }
    }

    /// The number that the next one will have.
    pub(super) fn appended(&self) -> u64 {
        self.poster.appended.load(Ordering::Acquire)
    }

    /// The number of the oldest that has not ended.
    pub(super) fn ended(&self) -> u64 {
        self.reaper.ended.load(Ordering::Acquire)
    }

    fn entry(&self, number: u64) -> &Entry {
        &self.entries[self.place(number)]
    }

    fn step(&self, number: u64, from: u64, to: u64) -> bool {
        let word = &self.entry(number).word;
        let seen = word.load(Ordering::Relaxed);
        if seen & STATE != from {
            return false;
        }
        let next = seen & !STATE | to;
        word.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

fn direction(word: u64) -> Op {
    if word & WRITE == 0 { Op::Read } else { Op::Write }
}

fn fate(code: u8) -> Outcome {
    Refusal::from_wire(code).map_or(Outcome::Failed, Outcome::Refused)
}

#[cfg(all(test, not(pipeline_loom)))]
mod tests {
    use super::*;

    fn somewhere() -> Result<*mut u8, Outcome> {
        Ok(std::ptr::dangling_mut())
    }

    /// Work requests come out as they went in, round and round; room is exact, and asked for once.
    #[test]
    fn in_order_and_bounded() {
        let ring = Ring::new(3);
        let fates = [somewhere(), Err(Outcome::Refused(Refusal::OutOfBounds)), Err(Outcome::Failed)];
        for round in 0..5 {
            for (i, fate) in fates.into_iter().enumerate() {
                assert_eq!(ring.room_or_starve(), 3 - i);
                let number = ring.append(WrId(round * 10 + i as u64), Op::Write, fate, 7);
                assert_eq!(number, round * 3 + i as u64);
                assert_eq!(ring.begin(number, 0), i == 0);
            }
            assert_eq!((ring.room_or_starve(), ring.room_wanted(), ring.room_wanted()), (0, true, false));
            for (i, fate) in fates.into_iter().enumerate() {
                let number = ring.ended();
                let seen = ring.at(number);
                assert_eq!((seen.id, seen.length), (WrId(round * 10 + i as u64), 7));
                assert_eq!(seen.stand, fate.map_or_else(Stand::Ended, |_| Stand::Begun));
                ring.end(number + 1);
            }
            assert_eq!(ring.ended(), ring.appended());
        }
    }

    /// What is taken back depends on how far it had come; a name is found from any hint, and that of one that has ended or
    /// never goes out is nobody's.
    #[test]
    fn taking_back() {
        let ring = Ring::new(8);
        for (i, op) in [Op::Read, Op::Write, Op::Read, Op::Write, Op::Read].into_iter().enumerate() {
            let fate = if i == 4 { Err(Outcome::Failed) } else { somewhere() };
            ring.append(WrId(i as u64), op, fate, 1);
        }
        assert!(ring.begin(0, 1) && ring.begin(1, 2));
        let mut hint = 7;
        let mut cancel = |id| ring.cancel(WrId(id), &mut hint);
        assert_eq!(
            [cancel(3), cancel(3), cancel(2)],
            [TakenBack::Dropped, TakenBack::NotHere, TakenBack::Dropped]
        );
        assert_eq!(
            [cancel(1), cancel(0), cancel(0)],
            [TakenBack::MustAbort, TakenBack::Discarding, TakenBack::NotHere]
        );
        assert_eq!([cancel(4), cancel(9)], [TakenBack::NotHere; 2]);
        assert!(!ring.begin(2, 3) && !ring.begin(3, 4), "what was taken back is not sent");
        ring.end(2);
        assert_eq!(ring.cancel(WrId(1), &mut 0), TakenBack::NotHere);
    }

    /// A question behind a WRITE moves the end of its bytes, which an answer waits for.
    #[test]
    fn a_confirmed_write_ends_behind_its_question() {
        let ring = Ring::new(2);
        let number = ring.append(WrId(1), Op::Write, somewhere(), 10);
        assert!(ring.begin(number, 34));
        ring.confirm(number, 58);
        ring.publish(1);
        assert!(ring.at(number).confirmed && !ring.has_left(number));
        assert!(ring.hand_over(57), "the reaper waits");
        assert!(!ring.has_left(number));
        assert!(ring.hand_over(58) && ring.has_left(number));
        assert!(!ring.hand_over(59), "nobody waits any more");
    }
}
