//! Requests: what is left of each, what it came to, and where its peer's memory is.
//! The request's range itself lives in its cover slice, and what all of its slices have in common lives here; one that was
//! merged into its neighbour has neither, and only says where in the run it begins (`runs.rs`). Deliberately kept until the
//! batch is freed, so that results can be asked for request by request.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use crate::ledger::slot::NIL;
use crate::peer::PeerId;
use crate::reason::Code;

/// One request; the slot of its cover slice is its neighbour in the slice table. One cache line: its neighbour may be another
/// worker's, and each slice of it counts here.
#[repr(align(64))]
pub(crate) struct RequestSlot {
    /// First byte that has not been cut, from the request's start. Of a merged one: where it begins in its run.
    pub(crate) cut: AtomicU64,
    /// The peer's start that was opened.
    pub(crate) incarnation: AtomicU64,
    /// Bytes confirmed.
    bytes: AtomicU64,
    /// When it is too late for all of its slices.
    pub(super) deadline: AtomicU64,
    /// Where its local bytes are.
    pub(super) local_region: AtomicU64,
    /// Next request of the batch; on the free list, the next free one.
    pub(crate) chain: AtomicU32,
    /// Its batch, and from bit [`PART`] on the part of it that it counts for, plus one.
    batch: AtomicU32,
    /// To whom (high 16 bits), and index of the segment in the peer's list.
    there: AtomicU32,
    /// Slices not ended; the cover slice counts as one until it is wholly cut.
    left: AtomicU32,
    code: AtomicU32,
    /// [`OPEN`], [`ENDED`] or [`MERGED`]; how many were merged behind this one, and [`SOME_FAILED`].
    state: AtomicU32,
}

/// No more batches than this many bits can name, and no more workers than the others.
pub(super) const PART: u32 = 20;

/// Segments of a peer that a request can name: as many as 16 bits can.
pub(crate) const SEGMENTS_MAX: u32 = 1 << 16;

const OPEN: u32 = 0;
const ENDED: u32 = 1 << 30;
/// It travels with an earlier one, and has ended when that has.
const MERGED: u32 = 2 << 30;
const KIND: u32 = 3 << 30;
const SOME_FAILED: u32 = 1 << 29;
const BEHIND: u32 = SOME_FAILED - 1;

impl RequestSlot {
    pub(crate) fn vacant() -> Self {
        Self {
            cut: AtomicU64::new(0),
            incarnation: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            deadline: AtomicU64::new(0),
            local_region: AtomicU64::new(0),
            chain: AtomicU32::new(NIL),
            batch: AtomicU32::new(0),
            there: AtomicU32::new(0),
            left: AtomicU32::new(0),
            code: AtomicU32::new(0),
            state: AtomicU32::new(ENDED),
        }
    }

    /// Starts it, with its cover slice as the only one. `segment` is below [`SEGMENTS_MAX`], or it is refused.
    pub(crate) fn open(&self, segment: u32, incarnation: u64) {
        self.cut.store(0, Relaxed);
        self.there.store(segment % SEGMENTS_MAX, Relaxed);
        self.incarnation.store(incarnation, Relaxed);
        self.bytes.store(0, Relaxed);
        self.left.store(1, Relaxed);
        self.code.store(Code::DONE.raw(), Relaxed);
        self.state.store(OPEN, Relaxed);
    }

    /// Says to whom it goes. Before anybody else has it.
    #[inline]
    pub(super) fn set_peer(&self, peer: PeerId) {
        debug_assert!(peer.0 < 1 << 16);
        self.there.store((self.there.load(Relaxed) % SEGMENTS_MAX) | (peer.0 << 16), Relaxed);
    }

    /// Index of the segment in the peer's list.
    #[inline]
    pub(crate) fn segment(&self) -> u32 {
        self.there.load(Relaxed) % SEGMENTS_MAX
    }

    /// Which batch it is in; undivided.
    #[inline]
    pub(super) fn set_batch(&self, batch: u32) {
        debug_assert!(batch >> PART == 0);
        self.batch.store(batch, Relaxed);
    }

    /// It counts for the part of a worker. Before anybody else has it.
    #[inline]
    pub(crate) fn set_part(&self, worker: usize) {
        self.batch.store(self.batch() | (worker as u32 + 1) << PART, Relaxed);
    }

    /// Its batch.
    #[inline]
    pub(crate) fn batch(&self) -> u32 {
        self.batch.load(Relaxed) & ((1 << PART) - 1)
    }

    /// The worker whose part it counts for, in a batch that is divided.
    #[inline]
    pub(super) fn part(&self) -> Option<u32> {
        (self.batch.load(Relaxed) >> PART).checked_sub(1)
    }

    /// Merges it behind an earlier one, from byte `start` of that run on.
    #[inline]
    pub(crate) fn follow(&self, start: u64) {
        self.cut.store(start, Relaxed);
        self.code.store(Code::DONE.raw(), Relaxed);
        self.state.store(MERGED, Relaxed);
    }

    /// Whether it was merged behind an earlier one.
    #[inline]
    pub(crate) fn is_merged(&self) -> bool {
        self.state.load(Relaxed) & KIND == MERGED
    }

    /// `n` others were merged behind it: those that follow it in its batch. Before anybody else has it.
    pub(crate) fn lead(&self, n: u32) {
        debug_assert!(n <= BEHIND);
        self.state.store(OPEN | n, Relaxed);
    }

    /// How many others were merged behind it.
    #[inline]
    pub(crate) fn merged(&self) -> u32 {
        self.state.load(Relaxed) & BEHIND
    }

    /// Notes that somebody in its run failed.
    pub(crate) fn note_run(&self) {
        self.state.fetch_or(SOME_FAILED, Relaxed);
    }

    /// Whether somebody in its run failed.
    pub(crate) fn has_failed_run(&self) -> bool {
        self.state.load(Relaxed) & SOME_FAILED != 0
    }

    /// Whether it, with all that were merged behind it, has not ended.
    pub(crate) fn is_open(&self) -> bool {
        self.state.load(Acquire) & KIND == OPEN
    }

    /// Ends one that never entered the graph.
    pub(crate) fn refuse(&self, code: Code) {
        self.code.store(code.raw(), Relaxed);
        self.left.store(0, Relaxed);
        self.state.store(ENDED, Release);
    }

    /// More slices were cut from it. Only by the holder of the cover slice, which counts as one.
    #[inline]
    pub(crate) fn add_slices(&self, n: u32) {
        self.left.fetch_add(n, Relaxed);
    }

    /// Notes that a slice failed; the first one speaks for the request.
    #[inline]
    pub(crate) fn note(&self, code: Code) {
        let _ = self.code.compare_exchange(Code::DONE.raw(), code.raw(), Relaxed, Relaxed);
    }

    /// To whom.
    #[inline]
    pub(crate) fn peer(&self) -> PeerId {
        PeerId(self.there.load(Relaxed) >> 16)
    }

    /// The first failure so far.
    #[inline]
    pub(crate) fn code(&self) -> Code {
        Code::from_raw(self.code.load(Relaxed))
    }

    /// `n` slices with `bytes` confirmed bytes have ended; `true` for the last.
    #[inline]
    pub(crate) fn count_down(&self, n: u32, bytes: u64) -> bool {
        let last = if self.left.load(Acquire) == n {
            // All that were left are ours, and nobody else can touch either number any more.
            self.bytes.store(self.bytes.load(Relaxed) + bytes, Relaxed);
            self.left.store(0, Relaxed);
            true
        } else {
            self.bytes.fetch_add(bytes, Relaxed);
            self.left.fetch_sub(n, AcqRel) == n
        };
        if last {
            // Whoever noted a failure has counted its slice down before.
            self.state.store(self.state.load(Relaxed) | ENDED, Release);
        }
        last
    }

    /// Whether it ended, and then how, and bytes confirmed so far.
    pub(crate) fn result(&self) -> (bool, Code, u64) {
        let ended = self.state.load(Acquire) & KIND == ENDED;
        (ended, self.code(), self.bytes.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason::Reason;

    /// A request is one cache line, and what shares its words keeps apart: peer and segment, state, run and batch.
    #[test]
    fn words_keep_apart() {
        assert_eq!((size_of::<RequestSlot>(), align_of::<RequestSlot>()), (64, 64));
        let slot = RequestSlot::vacant();
        assert!(slot.result().0 && !slot.is_open() && !slot.is_merged());
        slot.open(SEGMENTS_MAX - 1, 7);
        slot.set_peer(PeerId(0xffff));
        slot.set_batch((1 << PART) - 1);
        assert_eq!((slot.part(), slot.batch()), (None, (1 << PART) - 1));
        slot.set_part(1023);
        slot.lead(1 << 24);
        assert_eq!((slot.segment(), slot.peer(), slot.merged()), (SEGMENTS_MAX - 1, PeerId(0xffff), 1 << 24));
        assert_eq!((slot.part(), slot.batch()), (Some(1023), (1 << PART) - 1));
        slot.note_run();
        slot.note(Code::new(Reason::Deadline, 1));
        slot.add_slices(1);
        assert!(!slot.count_down(1, 5) && slot.is_open() && slot.count_down(1, 6));
        assert!(!slot.is_open() && slot.has_failed_run() && slot.merged() == 1 << 24);
        assert_eq!(slot.result(), (true, Code::new(Reason::Deadline, 1), 11));
        slot.follow(9);
        assert!(slot.is_merged() && !slot.is_open() && slot.merged() == 0 && !slot.has_failed_run());
        slot.open(1, 7);
        assert!(slot.is_open() && slot.segment() == 1 && slot.peer() == PeerId(0));
    }
}
