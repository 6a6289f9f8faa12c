//! One slot of the slice table: everything a stage may know of a slice. One cache line of it is all that a slice costs
//! which goes straight through; what lists and wheels need lies apart ([`super::table`]), and what all slices of a request
//! have in common lies with the request.
//! Fields are relaxed atomics: whoever holds the key owns them, and a doubled key is a counted bug instead of
//! undefined behaviour. Deliberately no pointer and no `Arc`.

use std::sync::atomic::{AtomicU32, Ordering::*};

use pipeline_graph::Nanos;
use pipeline_transports::{LinkId, RegionId, Span, WorkRequest, WrId};

use super::flags::{ROWS, Rows};
use super::table::{Far, Near};
use super::{Ledger, RequestSlot};
use crate::key::Key;
use crate::peer::PeerId;
use crate::reason::Code;

/// No position: end of a list.
pub const NIL: u32 = u32::MAX;

/// Where a slice stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// On the free list.
    Free,
    /// A stage or an edge has its key.
    Live,
    /// A transport has it: it comes back by its completion, or by a deadline.
    Posted,
}

impl Phase {
    #[inline]
    pub(super) fn word(self, generation: u32) -> u64 {
        u64::from(generation) << 32 | self as u64
    }
}

/// A slot that was found. Copied freely; all of its fields are shared.
#[derive(Clone, Copy)]
pub struct Slot<'a> {
    pub(super) ledger: &'a Ledger,
    pub(super) near: &'a Near,
    pub(super) position: u32,
}

/// A link's word: its name, and in these bits the worker that posts on it.
const WORKER_BITS: u32 = 16;

impl<'a> Slot<'a> {
    #[inline]
    pub(super) fn new(ledger: &'a Ledger, near: &'a Near, position: u32) -> Self {
        Self { ledger, near, position }
    }

    #[inline]
    pub(super) fn far(&self) -> &'a Far {
        &self.ledger.slots.far[self.position as usize]
    }

    #[inline]
    fn of_request(&self) -> &'a RequestSlot {
        self.ledger.request(self.request())
    }

    /// Next in whatever list its holder keeps.
    #[inline]
    pub(crate) fn next(&self) -> &'a AtomicU32 {
        &self.near.next
    }

    /// Previous in that list.
    #[inline]
    pub(crate) fn prev(&self) -> &'a AtomicU32 {
        &self.far().prev
    }

    /// What the timer wheel of its holder needs. Means something while it [is watched](Self::is_watched).
    #[inline]
    pub(crate) fn wheel(&self) -> &'a Far {
        self.far()
    }

    /// Brings it into the cache, with what is apart from it.
    #[inline]
    pub(super) fn touch(&self) -> u64 {
        self.near.word.load(Relaxed) ^ u64::from(self.far().wheel_at.load(Relaxed))
    }

    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        (self.near.word.load(Relaxed) >> 32) as u32
    }

    /// Whether `generation` is its present life and it is in `phase`.
    #[inline]
    pub(crate) fn is(&self, generation: u32, phase: Phase) -> bool {
        self.near.word.load(Relaxed) == phase.word(generation)
    }

    /// Moves from one phase to the next; `false` if somebody else did, or if the key is stale. Acquire and
    /// release, because the fields pass from one owner to the next with it.
    #[inline]
    pub(crate) fn step(&self, generation: u32, from: Phase, to: Phase) -> bool {
        self.exchange(from.word(generation), to.word(generation))
    }

    /// As [`Self::step`], into the next generation: every older key is stale from here on.
    #[inline]
    pub(crate) fn step_on(&self, generation: u32, from: Phase, to: Phase) -> bool {
        self.exchange(from.word(generation), to.word(generation.wrapping_add(1)))
    }

    #[inline]
    fn exchange(&self, from: u64, to: u64) -> bool {
        self.near.word.compare_exchange(from, to, AcqRel, Relaxed).is_ok()
    }

    /// As [`Self::step`], for the one owner of a key on its regular way: a look and a store instead of a locked
    /// exchange. Where two may be at it at once (a lost half, a forced end) only [`Self::step`] will do.
    #[inline]
    pub(crate) fn pass(&self, generation: u32, from: Phase, to: Phase) -> bool {
        self.put(from.word(generation), to.word(generation))
    }

    /// As [`Self::pass`], into the next generation.
    #[inline]
    pub(crate) fn pass_on(&self, generation: u32, from: Phase, to: Phase) -> bool {
        self.put(from.word(generation), to.word(generation.wrapping_add(1)))
    }

    #[inline]
    fn put(&self, from: u64, to: u64) -> bool {
        let is_ours = self.near.word.load(Acquire) == from;
        if is_ours {
            self.near.word.store(to, Release);
        }
        is_ours
    }

    /// Position of its request.
    #[inline]
    pub fn request(&self) -> u32 {
        self.near.request.load(Relaxed)
    }

    /// Its batch.
    #[inline]
    pub fn batch(&self) -> u32 {
        self.of_request().batch()
    }

    /// To whom.
    #[inline]
    pub fn peer(&self) -> PeerId {
        self.of_request().peer()
    }

    /// When it is too late.
    #[inline]
    pub fn deadline(&self) -> Nanos {
        self.of_request().deadline.load(Relaxed)
    }

    /// Bytes.
    #[inline]
    pub fn len(&self) -> u64 {
        self.near.len.load(Relaxed)
    }

    /// A run has grown: only before anybody else has its key.
    #[inline]
    pub(crate) fn set_len(&self, len: u64) {
        self.near.len.store(len, Relaxed);
    }

    /// Never: a length of 0 is refused at `submit`.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Local bytes.
    #[inline]
    pub fn local(&self) -> Span {
        Span {
            region: RegionId(self.of_request().local_region.load(Relaxed)),
            offset: self.near.local_offset.load(Relaxed),
        }
    }

    /// Remote bytes.
    #[inline]
    pub fn remote(&self) -> Span {
        Span {
            region: RegionId(self.near.remote_region.load(Relaxed)),
            offset: self.near.remote_offset.load(Relaxed),
        }
    }

    #[inline]
    pub(crate) fn set_remote(&self, remote: &Span) {
        self.near.remote_region.store(remote.region.0, Relaxed);
        self.near.remote_offset.store(remote.offset, Relaxed);
    }

    /// The link chosen for it.
    #[inline]
    pub fn link(&self) -> LinkId {
        LinkId(self.near.link.load(Relaxed) >> WORKER_BITS)
    }

    /// The post worker that owns that link.
    #[inline]
    pub fn post_worker(&self) -> u32 {
        self.near.link.load(Relaxed) as u32 & ((1 << WORKER_BITS) - 1)
    }

    /// Links are numbered by a process from 1, so 48 bits are enough for a name.
    #[inline]
    pub(crate) fn set_link(&self, link: LinkId, post_worker: u32) {
        debug_assert!(link.0 >> (64 - WORKER_BITS) == 0 && post_worker >> WORKER_BITS == 0);
        self.near.link.store(link.0 << WORKER_BITS | u64::from(post_worker), Relaxed);
    }

    /// How it ends, as far as is known.
    #[inline]
    pub fn code(&self) -> Code {
        Code::from_raw(self.near.code.load(Relaxed))
    }

    #[inline]
    pub(crate) fn set_code(&self, code: Code) {
        self.near.code.store(code.raw(), Relaxed);
    }

    /// Says that a cover slice stands for rows. It is never posted itself, so they lie in fields that only a posted slice
    /// needs (remote region, link), and apart.
    pub(crate) fn set_rows(&self, rows: &Rows) {
        self.near.remote_region.store(rows.len, Relaxed);
        self.near.link.store(rows.local_stride, Relaxed);
        self.far().apart.store(rows.remote_stride, Relaxed);
        self.raise(ROWS);
    }

    /// The region it goes to: of a cover slice the one that its first byte is in, as far as `submit` has said so; strided
    /// ones have no room for it.
    #[inline]
    pub(crate) fn target(&self) -> Option<RegionId> {
        (!self.has(ROWS)).then(|| RegionId(self.near.remote_region.load(Relaxed)))
    }

    /// Says where the first byte of a request lies, for those who ask which worker it is for. Not of a strided one.
    #[inline]
    pub(crate) fn set_target(&self, region: RegionId) {
        if !self.has(ROWS) {
            self.near.remote_region.store(region.0, Relaxed);
        }
    }

    /// The rows of a strided request's cover slice.
    #[inline]
    pub(crate) fn rows(&self) -> Option<Rows> {
        self.has(ROWS).then(|| Rows {
            len: self.near.remote_region.load(Relaxed),
            local_stride: self.near.link.load(Relaxed),
            remote_stride: self.far().apart.load(Relaxed),
        })
    }

    /// As the transport wants it, and when it is too late.
    #[inline]
    pub(crate) fn work(&self, key: Key) -> (WorkRequest, Nanos) {
        let request = self.of_request();
        let region = match self.is_back() {
            false => RegionId(request.local_region.load(Relaxed)),
            true => self.back_region(),
        };
        let local = Span { region, offset: self.near.local_offset.load(Relaxed) };
        let (id, op, remote, len) = (WrId(key.raw()), self.op(), self.remote(), self.len());
        (WorkRequest { id, op, local, remote, len }, request.deadline.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ledger;

    /// Of two that end the same life only one succeeds, and an old generation never does, by either way of stepping.
    #[test]
    fn one_end() {
        let ledger = ledger(1, 1);
        let slot = ledger.at(0);
        let first = slot.generation();
        assert!(slot.step(first, Phase::Free, Phase::Live));
        assert!(slot.step_on(first, Phase::Live, Phase::Free));
        assert!(
            !slot.step_on(first, Phase::Live, Phase::Free) && !slot.pass_on(first, Phase::Live, Phase::Free)
        );
        let second = first + 1;
        assert!(slot.pass(second, Phase::Free, Phase::Live));
        assert!(
            !slot.step(first, Phase::Live, Phase::Posted) && !slot.pass(first, Phase::Live, Phase::Posted)
        );
        assert!(
            slot.pass_on(second, Phase::Live, Phase::Posted) && !slot.pass(second, Phase::Live, Phase::Free)
        );
        assert!(slot.is(second + 1, Phase::Posted));
    }
}
