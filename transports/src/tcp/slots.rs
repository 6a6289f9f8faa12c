//! The slot table of a lane, shared by its post half and its reap half: which work request a tag means, and how
//! far it has come.
//!
//! ```text
//! FREE ──queue──▶ QUEUED ──begin──▶ BEGUN ──finish──▶ FREE         post: queue, begin, revert
//!                  │  ▲─────revert────┘ └─cancel─▶ DISCARDING ─▶ FREE   reap: cancel, finish, flush
//!                  └─cancel─▶ CANCELLED ──begin──▶ FREE
//! ```
//! Each step is a compare-exchange on one word (sequence, direction, state), so the halves may race on a slot
//! and exactly one of them wins. Deliberately no deadlines and no pointers from the wire: a peer can only
//! quote a slot that is BEGUN, in its current use.

use super::frame::Tag;
use super::halves::TakenBack;
use super::ring::Ring;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU64, Ordering, fence};
use crate::wr::{Op, WrId};

const FREE: u64 = 0;
const QUEUED: u64 = 1;
const BEGUN: u64 = 2;
/// A READ whose payload will be thrown away.
const DISCARDING: u64 = 3;
/// Taken back before it began; the poster frees it when it comes to it.
const CANCELLED: u64 = 4;
/// The poster could not post it; the reaper completes it.
const FAILED: u64 = 5;
const STATE: u64 = 0xff;
const WRITE: u64 = 1 << 8;

/// One slot.
struct Slot {
    word: AtomicU64,
    id: AtomicU64,
    at: AtomicPtr<u8>,
    length: AtomicU64,
    /// A WRITE's end among all payload bytes ever sent on the lane.
    end: AtomicU64,
}

/// What a slot waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Awaited {
    pub(super) id: WrId,
    pub(super) op: Op,
    /// Local bytes.
    pub(super) at: *mut u8,
    pub(super) length: u64,
    /// The payload belongs nowhere any more, and no completion follows.
    pub(super) discarding: bool,
    /// The poster has let go of the local bytes of a WRITE. Until it has, an answer must wait: a peer that
    /// answers before it has the payload must not get a buffer freed that is still being sent.
    pub(super) handed_over: bool,
}

/// What [`Slots::flush`] found in a slot of a dead lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// No byte had left.
    NotBegun(WrId),
    /// A byte may have left.
    Begun(WrId),
    /// It had failed at this side.
    Failed(WrId),
    /// Nobody waits for it.
    Nothing,
}

/// See the file's head.
pub(super) struct Slots {
    slots: Box<[Slot]>,
    freed: Ring,
    failed: Ring,
    posted: AtomicU64,
    /// Payload bytes that the kernel has taken since the lane began.
    handed: AtomicU64,
    /// The poster waits for a free slot.
    starved: AtomicBool,
    /// The reaper waits for `handed` to grow.
    early: AtomicBool,
}

impl Slots {
    /// `depth` free slots. The poster starts out owning all of their indices.
    pub(super) fn new(depth: usize) -> Self {
        let slot = |_| Slot {
            word: AtomicU64::new(FREE),
            id: AtomicU64::new(0),
            at: AtomicPtr::new(std::ptr::null_mut()),
            length: AtomicU64::new(0),
            end: AtomicU64::new(0),
        };
        Self {
            slots: (0..depth).map(slot).collect(),
            freed: Ring::new(depth),
            failed: Ring::new(depth),
            posted: AtomicU64::new(0),
            handed: AtomicU64::new(0),
            starved: AtomicBool::new(false),
            early: AtomicBool::new(false),
        }
    }

    /// How many there are.
    pub(super) fn depth(&self) -> usize {
        self.slots.len()
    }

    // What the poster may call.

    /// A slot that the reaper has freed. If there is none, the reaper is told to say when there is.
    pub(super) fn take_freed_or_starve(&self) -> Option<u32> {
        self.freed.pop().or_else(|| if self.freed_or_starve() > 0 { self.freed.pop() } else { None })
    }

    /// How many freed slots wait. If there are none, the reaper is told to say when there are.
    pub(super) fn freed_or_starve(&self) -> usize {
        let freed = self.freed.len();
        if freed > 0 {
            return freed;
        }
        self.starved.store(true, Ordering::Relaxed);
        // Either we see the reaper's push below, or it sees our flag (the fence in `room_wanted`).
        fence(Ordering::SeqCst);
        self.freed.len()
    }

    /// How many freed slots wait, for a poster that has others.
    pub(super) fn freed(&self) -> usize {
        self.freed.len()
    }

    /// Fills a free slot. `at: None`: the local bytes cannot be used; the reaper will complete it as failed.
    pub(super) fn queue(&self, slot: u32, id: WrId, op: Op, at: Option<*mut u8>, length: u64) -> Tag {
        let s = &self.slots[slot as usize];
        let sequence = ((s.word.load(Ordering::Relaxed) >> 32) as u32).wrapping_add(1);
        s.id.store(id.0, Ordering::Relaxed);
        s.at.store(at.unwrap_or(std::ptr::null_mut()), Ordering::Relaxed);
        s.length.store(length, Ordering::Relaxed);
        let direction = if op == Op::Write { WRITE } else { 0 };
        let state = if at.is_some() { QUEUED } else { FAILED };
        s.word.store(u64::from(sequence) << 32 | direction | state, Ordering::Release);
        self.posted.fetch_add(1, Ordering::Release);
        if at.is_none() {
            self.failed.push(slot);
        }
        Tag { slot, sequence }
    }

    /// Local bytes of a slot the poster has queued.
    pub(super) fn local(&self, slot: u32) -> (Op, *mut u8, u64) {
        let s = &self.slots[slot as usize];
        let word = s.word.load(Ordering::Relaxed);
        (direction(word), s.at.load(Ordering::Relaxed), s.length.load(Ordering::Relaxed))
    }

    /// From now on a byte of it may leave; `end` is where its payload ends among all sent on the lane.
    /// `false`: it was taken back, the slot is the poster's again.
    pub(super) fn begin(&self, tag: Tag, end: u64) -> bool {
        self.slots[tag.slot as usize].end.store(end, Ordering::Relaxed);
        if self.step(tag, QUEUED, BEGUN) {
            return true;
        }
        let taken_back = self.step(tag, CANCELLED, FREE);
        debug_assert!(taken_back, "a queued slot is queued or cancelled");
        false
    }

    /// No byte of it has left after all, and none will. Nothing if it was cancelled meanwhile.
    pub(super) fn revert(&self, tag: Tag) {
        self.step(tag, BEGUN, QUEUED);
    }

    /// The kernel has taken all payload up to `end`. `true` if the reaper waits to be told.
    pub(super) fn hand_over(&self, end: u64) -> bool {
        self.handed.store(end, Ordering::Release);
        fence(Ordering::SeqCst);
        self.early.load(Ordering::Relaxed) && self.early.swap(false, Ordering::Relaxed)
    }

    // What the reaper may call.

    /// Payload bytes that the kernel has taken since the lane began.
    pub(super) fn handed(&self) -> u64 {
        self.handed.load(Ordering::Relaxed)
    }

    /// How many were ever posted.
    pub(super) fn posted(&self) -> u64 {
        self.posted.load(Ordering::Acquire)
    }

    /// What `tag` waits for; `None` if it waits for nothing in that use.
    pub(super) fn awaited(&self, tag: Tag) -> Option<Awaited> {
        let s = self.slots.get(tag.slot as usize)?;
        let word = s.word.load(Ordering::Acquire);
        let state = word & STATE;
        if word >> 32 != u64::from(tag.sequence) || (state != BEGUN && state != DISCARDING) {
            return None;
        }
        Some(Awaited {
            id: WrId(s.id.load(Ordering::Relaxed)),
            op: direction(word),
            at: s.at.load(Ordering::Relaxed),
            length: s.length.load(Ordering::Relaxed),
            discarding: state == DISCARDING,
            handed_over: word & WRITE == 0 || self.is_handed_over(s.end.load(Ordering::Relaxed)),
        })
    }

    fn is_handed_over(&self, end: u64) -> bool {
        if self.handed.load(Ordering::Acquire) >= end {
            return true;
        }
        // Mostly the poster has not come back from its system call yet. It sees the flag, or we its store.
        self.early.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.handed.load(Ordering::Acquire) >= end
    }

    /// Frees a slot that [`Self::awaited`] knew.
    pub(super) fn finish(&self, slot: u32) {
        let s = &self.slots[slot as usize];
        let word = s.word.load(Ordering::Relaxed);
        // Nobody but the reaper moves a BEGUN or DISCARDING slot of a live lane.
        s.word.store(word & !(STATE | WRITE) | FREE, Ordering::Relaxed);
        self.freed.push(slot);
    }

    /// Whether the poster waits for room; asked after frees. Answers `true` once for each time it asked.
    pub(super) fn room_wanted(&self) -> bool {
        fence(Ordering::SeqCst);
        self.starved.load(Ordering::Relaxed) && self.starved.swap(false, Ordering::Relaxed)
    }

    /// A work request that failed at this side; its slot is free then.
    pub(super) fn take_failed(&self) -> Option<WrId> {
        let slot = self.failed.pop()?;
        let id = WrId(self.slots[slot as usize].id.load(Ordering::Relaxed));
        self.finish(slot);
        Some(id)
    }

    /// Whether [`Self::take_failed`] has any.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.len() > 0
    }

    /// Takes a work request back. `hint` is where the last one was found: deadlines pass in posting order.
    pub(super) fn cancel(&self, id: WrId, hint: &mut u32) -> TakenBack {
        let depth = self.slots.len();
        for i in 0..depth {
            let slot = (*hint as usize + i) % depth;
            let s = &self.slots[slot];
            let word = s.word.load(Ordering::Acquire);
            let live = matches!(word & STATE, QUEUED | BEGUN | FAILED);
            if !live || s.id.load(Ordering::Relaxed) != id.0 {
                continue;
            }
            *hint = slot as u32;
            return self.take_back(Tag { slot: slot as u32, sequence: (word >> 32) as u32 });
        }
        TakenBack::NotHere
    }

    fn take_back(&self, tag: Tag) -> TakenBack {
        if self.step(tag, QUEUED, CANCELLED) {
            return TakenBack::Dropped;
        }
        let word = self.slots[tag.slot as usize].word.load(Ordering::Acquire);
        match (word & STATE, direction(word)) {
            (BEGUN, Op::Write) => TakenBack::MustAbort,
            (BEGUN, Op::Read) if self.step(tag, BEGUN, DISCARDING) => TakenBack::Discarding,
            // A poster that reverted it meanwhile is about to fall quiet: the flush completes it.
            (QUEUED, _) | (BEGUN, _) => TakenBack::MustAbort,
            _ => TakenBack::NotHere,
        }
    }

    /// After the poster has fallen quiet: ends what is left in a slot.
    pub(super) fn flush(&self, slot: usize) -> Left {
        let s = &self.slots[slot];
        let word = s.word.load(Ordering::Acquire);
        let id = WrId(s.id.load(Ordering::Relaxed));
        s.word.store(word & !(STATE | WRITE) | FREE, Ordering::Relaxed);
        match word & STATE {
            QUEUED => Left::NotBegun(id),
            BEGUN => Left::Begun(id),
            FAILED => Left::Failed(id),
            _ => Left::Nothing,
        }
    }

    fn step(&self, tag: Tag, from: u64, to: u64) -> bool {
        let word = &self.slots[tag.slot as usize].word;
        let seen = word.load(Ordering::Relaxed);
        if seen >> 32 != u64::from(tag.sequence) || seen & STATE != from {
            return false;
        }
        let next = seen & !STATE | to;
        word.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

fn direction(word: u64) -> Op {
    if word & WRITE == 0 { Op::Read } else { Op::Write }
}
