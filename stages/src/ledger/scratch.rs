//! Where what lies on the other side is read back to: one region of this node in pieces of equal size, and what a slice
//! was that reads into one. Bounded: a slice that finds no piece waits for one.
//! Deliberately nothing of it on the way of slices that are not read back: those ask one bit.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*, fence};

use crossbeam_queue::ArrayQueue;
use pipeline_graph::Waker;
use pipeline_transports::{RegionId, Span};

use super::flags::{BACK, BACK_OF_WRITE, FIRST_LOOK, WRITE};
use super::{Ledger, Slot};
use crate::reason::Mismatch;

/// Mismatches that are remembered: as many as a code can tell apart.
const FOUND: usize = 256;

/// See the file's head.
pub(crate) struct Scratch {
    region: RegionId,
    piece_bytes: u64,
    free: ArrayQueue<u32>,
    /// By position of a slice: its piece plus one.
    pieces: Box<[AtomicU32]>,
    /// By piece: where the slice's own bytes lie in the local region.
    offsets: Box<[AtomicU64]>,
    /// Somebody waits for a piece.
    awaited: AtomicBool,
    wakers: Box<[OnceLock<Waker>]>,
    /// Mismatches so far, and the last of them.
    count: AtomicUsize,
    found: [Found; FOUND],
}

/// One mismatch, of the request that had it.
#[derive(Default)]
struct Found {
    /// Number of the mismatch plus one; 0 while it is written.
    number: AtomicUsize,
    request: AtomicU32,
    offset: AtomicU64,
    here: AtomicU64,
    there: AtomicU64,
}

/// A slice whose other side has been read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backed {
    /// Its own bytes.
    pub(crate) here: Span,
    /// Those of the other side.
    pub(crate) there: Span,
}

impl Scratch {
    /// Most bytes of a slice that can be read back.
    pub(crate) fn piece_bytes(&self) -> u64 {
        self.piece_bytes
    }

    /// Wakes this worker whenever a piece is given back that [`Self::await_piece`] has asked for.
    pub(crate) fn wake(&self, waker: &Waker) {
        for place in &self.wakers {
            if place.get_or_init(|| waker.clone()).is(waker) {
                return;
            }
        }
    }

    /// A stage is about to sleep until a piece comes back; it must look once more after this.
    pub(crate) fn await_piece(&self) {
        self.awaited.store(true, Relaxed);
        fence(SeqCst);
    }

    /// Whether a piece is free.
    pub(crate) fn has_piece(&self) -> bool {
        !self.free.is_empty()
    }

    fn give(&self, piece: u32) {
        let returned = self.free.push(piece);
        debug_assert!(returned.is_ok(), "a piece was given back twice");
        fence(SeqCst);
        if self.awaited.load(Relaxed) && self.awaited.swap(false, AcqRel) {
            self.wakers.iter().map_while(OnceLock::get).for_each(Waker::wake);
        }
    }

    /// Remembers a mismatch: its number among those that a code can tell apart.
    pub(crate) fn note(&self, request: u32, found: Mismatch) -> u8 {
        let number = self.count.fetch_add(1, Relaxed);
        let place = &self.found[number % FOUND];
        place.number.store(0, Relaxed);
        fence(Release);
        place.request.store(request, Relaxed);
        place.offset.store(found.offset, Relaxed);
        place.here.store(found.here, Relaxed);
        place.there.store(found.there, Relaxed);
        place.number.store(number + 1, Release);
        (number % FOUND) as u8
    }

    /// What [`Self::note`] was told, unless later ones have taken its place.
    fn noted(&self, at: u8, request: u32) -> Option<Mismatch> {
        let place = &self.found[usize::from(at)];
        let number = place.number.load(Acquire);
        let [offset, here, there] = [&place.offset, &place.here, &place.there].map(|n| n.load(Relaxed));
        let is_its = place.request.load(Relaxed) == request;
        fence(Acquire);
        let is_whole = number != 0 && place.number.load(Relaxed) == number;
        (is_its && is_whole).then_some(Mismatch { offset, here, there })
    }
}

impl Ledger {
    /// Opens the scratch: a registered and pinned region of so many pieces, and stages of so many workers that wait for
    /// them. Once, before the graph starts.
    pub fn open_scratch(&self, region: RegionId, piece_bytes: u64, pieces: u32, workers: usize) {
        let free = ArrayQueue::new(pieces.max(1) as usize);
        for piece in 0..pieces {
            let _ = free.push(piece); // There is room for all.
        }
        let _ = self.scratch.set(Scratch {
            region,
            piece_bytes,
            free,
            pieces: (0..self.positions()).map(|_| AtomicU32::new(0)).collect(),
            offsets: (0..pieces).map(|_| AtomicU64::new(0)).collect(),
            awaited: AtomicBool::new(false),
            wakers: (0..workers).map(|_| OnceLock::new()).collect(),
            count: AtomicUsize::new(0),
            found: std::array::from_fn(|_| Found::default()),
        });
    }

    /// The scratch, if slices are read back at all.
    pub(crate) fn scratch(&self) -> Option<&Scratch> {
        self.scratch.get()
    }

    /// What was found by the check that failed a request.
    pub(crate) fn mismatch(&self, at: u8, request: u32) -> Option<Mismatch> {
        self.scratch()?.noted(at, request)
    }
}

impl Slot<'_> {
    /// Whether its other side is being read back, or has been.
    #[inline]
    pub(crate) fn is_back(&self) -> bool {
        self.has(BACK)
    }

    /// From now on it is a READ of its other side into a piece; `false` without a free one.
    pub(crate) fn begin_back(&self, scratch: &Scratch) -> bool {
        let Some(piece) = scratch.free.pop() else { return false };
        scratch.pieces[self.position as usize].store(piece + 1, Relaxed);
        scratch.offsets[piece as usize].store(self.near.local_offset.load(Relaxed), Relaxed);
        self.near.local_offset.store(u64::from(piece) * scratch.piece_bytes, Relaxed);
        let flags = self.near.flags.load(Relaxed);
        let was_write = if flags & WRITE != 0 { BACK_OF_WRITE } else { 0 };
        self.near.flags.store(flags & !(WRITE | FIRST_LOOK) | BACK | was_write, Relaxed);
        true
    }

    /// What it reads into; only while it [is read back](Self::is_back).
    #[cold]
    pub(super) fn back_region(&self) -> RegionId {
        self.ledger.scratch().map_or(RegionId::default(), |scratch| scratch.region)
    }

    /// Where both sides lie.
    pub(crate) fn backed(&self) -> Option<Backed> {
        let scratch = self.ledger.scratch().filter(|_| self.is_back())?;
        let piece = scratch.pieces[self.position as usize].load(Relaxed).checked_sub(1)?;
        let offset = scratch.offsets[piece as usize].load(Relaxed);
        let there = Span { region: scratch.region, offset: self.near.local_offset.load(Relaxed) };
        Some(Backed { here: Span { region: self.local().region, offset }, there })
    }

    /// It is what it was before, and its piece is free; nothing of it may be with a transport any more.
    #[cold]
    pub(crate) fn end_back(&self) {
        let Some(scratch) = self.ledger.scratch() else { return };
        let piece = scratch.pieces[self.position as usize].swap(0, Relaxed);
        let Some(piece) = piece.checked_sub(1) else { return };
        self.near.local_offset.store(scratch.offsets[piece as usize].load(Relaxed), Relaxed);
        let flags = self.near.flags.load(Relaxed);
        let write = if flags & BACK_OF_WRITE != 0 { WRITE } else { 0 };
        self.near.flags.store(flags & !(BACK | BACK_OF_WRITE) | write, Relaxed);
        scratch.give(piece);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pipeline_transports::{Access, Memory, Op};

    use super::*;
    use crate::key::Key;
    use crate::ledger::{Birth, Ending};
    use crate::peer::PeerId;
    use crate::reason::{Code, Reason};

    fn born(ledger: &Ledger, request: u32, op: Op) -> Slot<'_> {
        born_in(ledger, request, op, RegionId(5))
    }

    fn born_in(ledger: &Ledger, request: u32, op: Op, region: RegionId) -> Slot<'_> {
        let (local, remote) = (Span { region, offset: 700 }, Span { region: RegionId(9), offset: 30 });
        ledger.request(request).open(0, 0);
        let slot = ledger.cover_of(request);
        slot.bear(&Birth {
            request,
            batch: 0,
            peer: PeerId(0),
            op,
            local,
            remote,
            len: 64,
            deadline: 1,
            transport: None,
        });
        slot
    }

    /// A slice that is read back is a READ of its remote bytes into a piece of its own; afterwards it is what it was, and
    /// the piece is free: told to who waits, once.
    #[test]
    fn there_and_back() {
        let ledger = crate::testing::ledger(4, 4);
        ledger.open_scratch(RegionId(77), 4096, 2, 1);
        let scratch = ledger.scratch().unwrap();
        let rung = Arc::new(AtomicU32::new(0));
        let count = rung.clone();
        let waker = Waker::new(move || {
            count.fetch_add(1, Relaxed);
        });
        scratch.wake(&waker);
        scratch.wake(&waker);
        let slots = [(0, Op::Write), (1, Op::Read), (2, Op::Write)].map(|(r, op)| born(&ledger, r, op));
        assert!(
            slots[0].begin_back(scratch) && slots[1].begin_back(scratch) && !slots[2].begin_back(scratch)
        );
        for (slot, piece) in [(slots[0], 0), (slots[1], 4096)] {
            let (work, _) = slot.work(Key::cover(0, 0));
            let there = Span { region: RegionId(77), offset: piece };
            assert_eq!((work.op, work.local, work.remote.offset), (Op::Read, there, 30));
            assert_eq!(
                slot.backed(),
                Some(Backed { here: Span { region: RegionId(5), offset: 700 }, there })
            );
        }
        assert_eq!((slots[2].backed(), scratch.has_piece()), (None, false));
        scratch.await_piece();
        slots[0].end_back();
        slots[0].end_back();
        slots[1].end_back();
        assert_eq!(rung.load(Relaxed), 1);
        assert_eq!((slots[0].op(), slots[0].local().offset, slots[0].is_back()), (Op::Write, 700, false));
        assert_eq!((slots[1].op(), slots[1].local().offset), (Op::Read, 700));
        assert!(slots[2].begin_back(scratch) && scratch.has_piece());
    }

    /// However a slice ends while it is read back, its piece is free again.
    #[test]
    fn an_end_gives_the_piece_back() {
        let ledger = crate::testing::ledger(4, 4);
        ledger.open_scratch(RegionId(77), 4096, 1, 0);
        let scratch = ledger.scratch().unwrap();
        let region = ledger.regions.add(Memory::allocate(4096).unwrap(), Access::Local).unwrap();
        for request in 0..3 {
            ledger.regions.pin(region).unwrap();
            let slot = born_in(&ledger, request, Op::Write, region);
            assert!(slot.begin_back(scratch) && !scratch.has_piece());
            slot.set_code(Code::new(Reason::Deadline, 1));
            let mut ending = Ending::new(&ledger);
            ending.end(ledger.key_at(ledger.position(Key::cover(request, 0))));
            drop(ending);
            assert!(scratch.has_piece() && !slot.is_back());
        }
    }

    /// What was found is told to the request that had it, and to no other; and never what a later one found.
    #[test]
    fn mismatches_are_told_apart() {
        let ledger = crate::testing::ledger(4, 4);
        ledger.open_scratch(RegionId(77), 4096, 1, 0);
        let scratch = ledger.scratch().unwrap();
        let found = |n: u64| Mismatch { offset: n, here: n + 1, there: n + 2 };
        let first = scratch.note(3, found(10));
        assert_eq!((ledger.mismatch(first, 3), ledger.mismatch(first, 2)), (Some(found(10)), None));
        let numbers: Vec<_> = (0..FOUND as u64).map(|n| scratch.note(1, found(n))).collect();
        assert_eq!(ledger.mismatch(first, 3), None);
        assert!(numbers.iter().zip(0..).all(|(at, n)| ledger.mismatch(*at, 1) == Some(found(n))));
    }
}
