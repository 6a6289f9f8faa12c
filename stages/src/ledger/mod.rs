//! The ledger: fixed tables of slices, requests and batches, planned at start, and the one way each ends.
//! Deliberately no lock and no growth: what does not fit is answered `Busy`.

mod abandon;
mod batches;
mod bells;
mod birth;
mod counted;
mod crowd;
mod ending;
mod flags;
mod free;
mod line;
mod outbox;
mod parts;
mod requests;
mod runs;
mod scratch;
mod shards;
mod sizes;
mod slot;
mod stamp;
mod table;
mod telling;
mod unended;
mod usage;
mod word;
#[cfg(all(test, pipeline_loom))]
mod word_loom;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, OnceLock};

use pipeline_graph::{Nanos, Seat, Time};
use pipeline_transports::{LinkId, Regions};

pub use batches::Summary;
pub use birth::Birth;
pub use ending::Ending;
pub use shards::Shard;
pub use sizes::Sizes;
pub use slot::{NIL, Phase, Slot};
pub use unended::OpenBatch;
pub use usage::Usage;

pub(crate) use batches::{Batches, Opening, UNTOLD_NS};
pub(crate) use bells::Bells;
pub(crate) use birth::Part;
pub(crate) use flags::{Rows, TRANSPORTS_MAX};
pub(crate) use outbox::{Outbox, Parcel, Told};
pub(crate) use requests::{RequestSlot, SEGMENTS_MAX};
pub(crate) use stamp::{STANDS_FOR_MAX, Stamp};
pub(crate) use table::Far;
pub(crate) use telling::Via;
pub(crate) use word::{BatchWord, Ended, Marks};

use crate::key::Key;
use crate::peer::PeerId;
use crate::reason::{Code, NOTICE_STAGE, Reason, StageIx};
use crate::window::{Class, Grant, Window};
use counted::Counted;
pub(crate) use counted::Ends;
use free::FreeList;
use line::Line;
pub(crate) use line::Place;
use parts::Parts;
use runs::Runs;
use shards::FreeSlots;
use table::Table;
use telling::Ways;

/// See the file's head. Shared by all stages and the client.
pub struct Ledger {
    /// Slices first, then the cover slices of all requests.
    slots: Table,
    slices: u32,
    free: FreeSlots,
    shards: usize,
    requests: Box<[RequestSlot]>,
    free_requests: FreeList,
    pub(crate) batches: Batches,
    /// What of them is left on each worker.
    pub(crate) parts: Parts,
    /// Their notices.
    pub(crate) outbox: Outbox,
    /// Bytes and slices in flight.
    pub window: Window,
    /// Rung when slots and windows come back.
    pub(crate) credits: Bells,
    /// Rung when something is cancelled.
    pub(crate) holders: Bells,
    regions: Arc<Regions>,
    stages: OnceLock<Box<[Arc<str>]>>,
    stale: AtomicU64,
    cancels: AtomicU64,
    /// How the end of a batch is told.
    ways: Ways,
    /// The engine is being stopped: stages that go have not panicked.
    closing: AtomicBool,
    /// Where `submit_wait` waits.
    pub(crate) line: Line,
    /// What was merged.
    pub(crate) runs: Runs,
    /// What they came to.
    pub(crate) counted: Counted,
    /// Whether the time that they take is measured, and by what.
    timed: bool,
    time: Time,
    /// Where slices are read back to.
    scratch: OnceLock<scratch::Scratch>,
}

impl Ledger {
    /// Tables of these sizes. Allocates all there will ever be.
    pub fn new(sizes: Sizes, regions: Arc<Regions>) -> Self {
        let total = sizes.slices as usize + sizes.requests as usize;
        let slots = Table::new(total);
        let requests: Box<[_]> = (0..sizes.requests).map(|_| RequestSlot::vacant()).collect();
        let shards = sizes.shards.max(1) as usize;
        let free = FreeSlots::full(sizes.slices, shards, |i| &slots.near[i as usize].next);
        let free_requests = FreeList::full(sizes.requests, |i| &requests[i as usize].chain);
        let Sizes { bytes_in_flight, slices, peer_share_percent, peers, .. } = sizes;
        Self {
            window: Window::new(bytes_in_flight, slices, peer_share_percent, peers as usize).divided(shards),
            batches: Batches::new(sizes.batches),
            parts: Parts::new(sizes.parts as usize, sizes.batches),
            outbox: Outbox::new(sizes.notices),
            slots,
            slices,
            free,
            shards,
            requests,
            free_requests,
            credits: Bells::default(),
            holders: Bells::default(),
            regions,
            stages: OnceLock::new(),
            stale: AtomicU64::new(0),
            cancels: AtomicU64::new(0),
            ways: Ways::default(),
            closing: AtomicBool::new(false),
            line: Line::default(),
            runs: Runs::default(),
            counted: Counted::default(),
            timed: sizes.timed,
            time: Time::default(),
            scratch: OnceLock::new(),
        }
    }

    /// As it was, but it measures by this time: that of a simulation.
    #[must_use]
    pub fn timed_by(self, time: Time) -> Self {
        Self { time, ..self }
    }

    #[inline]
    fn is_timed(&self) -> bool {
        self.timed
    }

    #[inline]
    fn time(&self) -> &Time {
        &self.time
    }

    /// Names of the stages, in the order of the file, for the errors users see. The first call counts.
    pub fn name_stages(&self, names: impl IntoIterator<Item = Arc<str>>) {
        let _ = self.stages.set(names.into_iter().collect());
    }

    pub(crate) fn stage_name(&self, ix: StageIx) -> Arc<str> {
        let name = self.stages.get().and_then(|names| names.get(usize::from(ix)));
        let outside = || Arc::from(if ix == NOTICE_STAGE { "notice" } else { "submit" });
        name.cloned().unwrap_or_else(outside)
    }

    pub(crate) fn stage_named(&self, name: &str) -> Option<StageIx> {
        let at = self.stages.get()?.iter().position(|n| **n == *name)?;
        StageIx::try_from(at).ok()
    }

    /// `limits.requests`.
    pub fn requests_limit(&self) -> u32 {
        self.requests.len() as u32
    }

    /// Requests that are not taken.
    pub(crate) fn free_requests(&self) -> u32 {
        self.free_requests.len()
    }

    /// Slots of slices and of cover slices together: positions are below it.
    pub fn positions(&self) -> u32 {
        self.slots.len() as u32
    }

    // ---- keys ------------------------------------------------------------------------------------------

    /// Position of a key in the slice table.
    #[inline]
    pub fn position(&self, key: Key) -> u32 {
        let index = key.index() as u32;
        if key.is_cover() { self.slices.saturating_add(index) } else { index }
    }

    /// The present key of the slot at a position.
    #[inline]
    pub(crate) fn key_at(&self, position: u32) -> Key {
        let generation = self.at(position).generation();
        match position.checked_sub(self.slices) {
            None => Key::slice(position, generation),
            Some(request) => Key::cover(request, generation),
        }
    }

    #[inline]
    pub(crate) fn at(&self, position: u32) -> Slot<'_> {
        Slot::new(self, &self.slots.near[position as usize], position)
    }

    /// The slot at a position, if there is one.
    #[inline]
    fn find(&self, position: u32) -> Option<Slot<'_>> {
        self.slots.near.get(position as usize).map(|near| Slot::new(self, near, position))
    }

    #[inline]
    pub(crate) fn cover_of(&self, request: u32) -> Slot<'_> {
        self.at(self.slices + request)
    }

    #[inline]
    pub(crate) fn request(&self, index: u32) -> &RequestSlot {
        &self.requests[index as usize]
    }

    /// The slot of a key that a stage was handed; `None` (and counted) when the key is stale or doubled.
    #[inline]
    pub fn live(&self, key: Key) -> Option<Slot<'_>> {
        let slot = self.find(self.position(key));
        let slot = slot.filter(|s| s.is(key.generation(), Phase::Live));
        if slot.is_none() {
            self.count_stale();
        }
        slot
    }

    /// As [`Self::live`], without counting a key that is not.
    #[inline]
    pub(crate) fn look(&self, key: Key) -> Option<Slot<'_>> {
        self.find(self.position(key)).filter(|s| s.is(key.generation(), Phase::Live))
    }

    /// The slot of a key that a transport has; `None` for all others.
    #[inline]
    pub(crate) fn posted(&self, key: Key) -> Option<Slot<'_>> {
        self.find(self.position(key)).filter(|s| s.is(key.generation(), Phase::Posted))
    }

    /// Looks at the slots of keys that come next: no look waits for another, so their cache misses overlap.
    #[inline]
    pub(crate) fn touch(&self, keys: impl Iterator<Item = Key>) {
        let slots = keys.filter_map(|key| self.find(self.position(key)));
        std::hint::black_box(slots.fold(0, |seen, slot| seen ^ slot.touch()));
    }

    pub(crate) fn count_stale(&self) {
        self.stale.fetch_add(1, Relaxed);
    }

    /// Hands a slice to a transport: its slot, and the key that the work request carries. The old one is stale from here on; `None`
    /// (and counted) if it was before. Only its poster does, which alone has the key.
    #[inline]
    pub(crate) fn post(&self, key: Key) -> Option<(Slot<'_>, Key)> {
        let slot = self.at(self.position(key));
        if slot.pass_on(key.generation(), Phase::Live, Phase::Posted) {
            return Some((slot, key.next()));
        }
        self.count_stale();
        None
    }

    /// Takes a posted slice back from its transport, once: `None` (and counted) for every later or older
    /// completion. Only the reaper of its link does: whoever ends what a lost reaper had does not come this way.
    #[inline]
    pub(crate) fn unpost(&self, key: Key) -> Option<Slot<'_>> {
        let slot = self.find(self.position(key));
        let slot = slot.filter(|s| s.pass(key.generation(), Phase::Posted, Phase::Live));
        if slot.is_none() {
            self.count_stale();
        }
        slot
    }

    /// As [`Self::unpost`], if it was posted on this link; a completion of anything else is not counted.
    #[inline]
    pub(crate) fn unpost_of(&self, key: Key, link: LinkId) -> Option<Slot<'_>> {
        let slot = self.find(self.position(key)).filter(|s| s.link() == link)?;
        slot.pass(key.generation(), Phase::Posted, Phase::Live).then_some(slot)
    }

    /// A new key for a slice that will be posted again, so that nothing of the last attempt can speak for it.
    pub(crate) fn renew(&self, key: Key) -> Option<Key> {
        let position = self.position(key);
        let slot = self.find(position);
        if slot.is_some_and(|s| s.pass_on(key.generation(), Phase::Live, Phase::Live)) {
            return Some(self.key_at(position));
        }
        self.count_stale();
        None
    }

    // ---- slices ----------------------------------------------------------------------------------------

    /// The part of the ledger that belongs to the worker on a seat; `holds`: it may have window that it does not use.
    pub(crate) fn shard(&self, seat: &Seat, holds: bool) -> Shard {
        Shard::of(seat, self.shards, holds)
    }

    /// Takes up to `into.len()` free slots.
    pub(crate) fn take_slices(&self, shard: Shard, into: &mut [u32]) -> usize {
        self.free.take(shard, into, |i| self.at(i).next())
    }

    /// Gives back slots that were never born.
    pub(crate) fn give_slices(&self, shard: Shard, unborn: &[u32]) {
        let (Some(&first), Some(&last)) = (unborn.first(), unborn.last()) else { return };
        for pair in unborn.windows(2) {
            self.at(pair[0]).next().store(pair[1], Relaxed);
        }
        self.give_chain(shard, first, last, unborn.len() as u32);
    }

    fn give_chain(&self, shard: Shard, first: u32, last: u32, n: u32) {
        self.free.give(shard, first, last, n, |i| self.at(i).next());
    }

    /// Why a slice should go no further, if anything speaks against it.
    #[inline]
    pub(crate) fn verdict(&self, slot: Slot, now: Nanos, stage: StageIx) -> Option<Code> {
        if self.batches.is_cancelled(slot.batch()) {
            return Some(Code::new(Reason::Cancelled, stage));
        }
        (slot.deadline() <= now).then(|| Code::new(Reason::Deadline, stage))
    }

    /// Gives window back.
    #[inline]
    pub(crate) fn release(&self, shard: Shard, peer: PeerId, class: Class, back: Grant) {
        self.window.release_by(shard.holder(), peer, class, back);
    }

    /// Gives back what the worker of a shard keeps of the windows, and rings whoever waits for it: before it sleeps, and when
    /// somebody is short.
    pub(crate) fn give_up_window(&self, shard: Shard) {
        if self.window.empty_purse(shard.holder()) {
            self.credits.ring_awaited();
        }
    }

    /// Whether any slice slot is free.
    pub(crate) fn has_slices(&self) -> bool {
        self.free.any()
    }

    /// Says that the engine is about to be stopped: before it is, so that the stages that go then are not taken for
    /// panicked ones. What has not ended is ended by [`Self::end_all`], afterwards.
    pub fn close(&self) {
        self.closing.store(true, Release);
        self.line.tell();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Acquire)
    }

    // ---- requests and batches --------------------------------------------------------------------------

    /// Reserves `n` requests, all or none.
    pub(crate) fn reserve_requests(&self, n: u32) -> bool {
        self.free_requests.reserve(n, n) == n
    }

    /// Takes reserved requests.
    pub(crate) fn take_requests(&self, into: &mut [u32]) {
        self.free_requests.take(into, |i| &self.request(i).chain);
    }

    /// Frees a batch with all of its requests. Only when nobody can name it any more.
    pub(crate) fn free_batch(&self, batch: u32) {
        let (first, last, n) = self.batches.chain(batch);
        if n > 0 {
            self.free_requests.give(first, last, n, |i| &self.request(i).chain);
        }
        self.batches.give(batch);
        self.line.tell();
    }

    /// Asks all slices of a batch to end, and the stages that hold some to look.
    pub(crate) fn cancel(&self, batch: u32) {
        if self.batches.cancel(batch) {
            self.cancels.fetch_add(1, Release);
            self.holders.ring();
            // Its notice may be all that is left of it.
            self.outbox.ring();
        }
    }

    /// Waits until the receivers have taken all notices, at most until `by`: how many are left.
    pub fn await_notices(&self, by: Nanos) -> usize {
        self.outbox.until_empty(by)
    }

    /// Grows with each cancel: a stage that holds slices looks through them when it changed.
    pub(crate) fn cancels(&self) -> u64 {
        self.cancels.load(Acquire)
    }
}
