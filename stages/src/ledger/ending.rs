//! The end of slices: slot and window go back, then the request is counted down, then the batch, whose waiters
//! wake once. Works on a batch of keys at a time, so that shared counters are touched once a batch.
//! Deliberately the only place that frees a slice.

use pipeline_graph::{BATCH, Nanos};
use pipeline_transports::RegionId;

use crate::delivery::Rings;
use crate::key::Key;
use crate::ledger::batches::CountedDown;
use crate::ledger::parts::Sum;
use crate::ledger::slot::{NIL, Phase};
use crate::ledger::word::{Ended, Marks};
use crate::ledger::{Ends, Ledger, Shard, Slot};
use crate::peer::PeerId;
use crate::window::{Class, Grant};

/// Slices of one request that ended one after the other.
#[derive(Clone, Copy, Default)]
struct Run {
    request: u32,
    slices: u32,
    bytes: u64,
}

/// Ends up to a batch of slices. Nothing is counted down before [`Ending::finish`].
pub struct Ending<'a> {
    ledger: &'a Ledger,
    shard: Shard,
    /// Whose it is that ends them; `None`: they end by force.
    by: Option<&'a Ends>,
    runs: [Run; BATCH],
    used: usize,
    first: u32,
    last: u32,
    chained: u32,
    peer: PeerId,
    /// What goes back for whole requests and for pieces.
    back: [Grant; 2],
}

impl<'a> Ending<'a> {
    /// Nothing ended yet, by nobody's worker.
    pub fn new(ledger: &'a Ledger) -> Self {
        Self::made(ledger, Shard::OUTSIDE, None)
    }

    /// Nothing ended yet. What ends goes back to this part of the ledger, and is counted in these cells.
    pub(crate) fn of(ledger: &'a Ledger, shard: Shard, by: &'a Ends) -> Self {
        Self::made(ledger, shard, Some(by))
    }

    #[inline]
    fn made(ledger: &'a Ledger, shard: Shard, by: Option<&'a Ends>) -> Self {
        let back = [Grant::NONE; 2];
        Self {
            ledger,
            shard,
            by,
            runs: [Run::default(); BATCH],
            used: 0,
            first: NIL,
            last: NIL,
            chained: 0,
            peer: PeerId(0),
            back,
        }
    }

    /// Ends a slice the way its code says. A key that is stale or ended before is counted and dropped. For the one owner of
    /// the key.
    #[inline]
    pub fn end(&mut self, key: Key) {
        self.end_as(key, |slot, generation| slot.pass_on(generation, Phase::Live, Phase::Free));
    }

    /// As [`Self::end`], where somebody else may be about to end it: one of the two does.
    pub(crate) fn end_contested(&mut self, key: Key) {
        self.end_as(key, |slot, generation| slot.step_on(generation, Phase::Live, Phase::Free));
    }

    #[inline]
    fn end_as(&mut self, key: Key, free: impl Fn(&Slot, u32) -> bool) {
        let ledger = self.ledger;
        let Some(slot) = ledger.live(key) else { return };
        if !free(&slot, key.generation()) {
            // Two holders of one key ended it at the same moment: the other one wins.
            ledger.count_stale();
            return;
        }
        // Its fields are as they were until it is given back, or its request counted down: both are still to come.
        let (code, len, is_whole) = (slot.code(), slot.len(), key.is_cover());
        let run = self.run_of(slot.request());
        run.slices += 1;
        if code.is_done() {
            run.bytes += len;
        } else {
            if slot.is_back() {
                slot.end_back();
            }
            ledger.note_failure(slot, is_whole, code);
        }
        if slot.is_charged() {
            let back = &mut self.back[usize::from(!is_whole)];
            back.bytes += len;
            back.slices += 1;
        }
        if !is_whole {
            self.chain(slot, ledger.position(key));
        }
    }

    /// The run that a slice of `request` adds to; the peer of the window that it is charged to is that of the run.
    #[inline]
    fn run_of(&mut self, request: u32) -> &mut Run {
        if self.used == 0 || self.runs[self.used - 1].request != request {
            self.begin(request);
        }
        &mut self.runs[self.used - 1]
    }

    #[inline]
    fn begin(&mut self, request: u32) {
        if self.used == BATCH {
            self.settle();
        }
        let peer = self.ledger.request(request).peer();
        if self.peer != peer {
            self.release();
            self.peer = peer;
        }
        self.runs[self.used] = Run { request, slices: 0, bytes: 0 };
        self.used += 1;
    }

    fn release(&mut self) {
        for (class, back) in [Class::Whole, Class::Piece].into_iter().zip(&mut self.back) {
            self.ledger.release(self.shard, self.peer, class, std::mem::replace(back, Grant::NONE));
        }
    }

    #[inline]
    fn chain(&mut self, slot: Slot, position: u32) {
        if self.chained == 0 {
            self.last = position;
        }
        slot.next().store(self.first, std::sync::atomic::Ordering::Relaxed);
        self.first = position;
        self.chained += 1;
    }

    /// Gives everything back, and counts down.
    pub fn finish(self) {}

    fn settle(&mut self) {
        if self.chained > 0 {
            self.ledger.give_chain(self.shard, self.first, self.last, self.chained);
            (self.first, self.chained) = (NIL, 0);
        }
        self.release();
        let mut tally = Tally {
            ledger: self.ledger,
            by: self.by,
            now: None,
            batch: NIL,
            part: None,
            ended: 0,
            failed: 0,
            bytes: 0,
            awaited: [(NIL, Ended::default()); BATCH],
            sleepers: 0,
            rings: Rings::default(),
            region: RegionId::default(),
            pins: 0,
        };
        for run in &self.runs[..self.used] {
            if self.ledger.request(run.request).count_down(run.slices, run.bytes) {
                tally.end_request(run.request);
            }
        }
        tally.settle();
        // Last, so that who wakes finds all of them done: else each would cost it a sleep and us a wake-up.
        tally.wake();
        if self.used > 0 {
            self.ledger.credits.ring_awaited();
        }
        self.used = 0;
    }
}

/// Also when its owner panics: what was ended is counted down.
impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.settle();
    }
}

/// Requests of one batch that ended one after the other.
struct Tally<'a> {
    ledger: &'a Ledger,
    by: Option<&'a Ends>,
    /// The time, once somebody has asked for it.
    now: Option<Nanos>,
    batch: u32,
    /// The part of it that they count for.
    part: Option<u32>,
    ended: u32,
    failed: u32,
    bytes: u64,
    /// Batches that ended while somebody slept or listened: one a request at most.
    awaited: [(u32, Ended); BATCH],
    sleepers: usize,
    /// What is due to doorbells.
    rings: Rings,
    /// Requests that ended since the last one of another region: their pins are still held.
    region: RegionId,
    pins: u32,
}

impl Tally<'_> {
    fn end_request(&mut self, request: u32) {
        let cover = self.ledger.cover_of(request);
        // A cover that was cut ends here; one that travelled whole has ended as a slice. Either way its key
        // is stale from now on.
        cover.pass_on(cover.generation(), Phase::Live, Phase::Free);
        let region = cover.local().region;
        if region != self.region {
            self.unpin();
            self.region = region;
        }
        self.pins += 1;
        let slot = self.ledger.request(request);
        let (batch, part) = (slot.batch(), slot.part());
        if (batch, part) != (self.batch, self.part) {
            self.settle();
            (self.batch, self.part) = (batch, part);
        }
        let (ended, failed) = self.ledger.tally_run(request);
        if failed > 0 {
            self.ledger.count_failed(request);
        }
        self.ended += ended;
        self.failed += failed;
        self.bytes += slot.result().2;
    }

    fn unpin(&mut self) {
        if self.pins > 0 {
            self.ledger.regions.unpin_times(self.region, self.pins);
            self.pins = 0;
        }
    }

    fn settle(&mut self) {
        let (mut ended, mut sum) = (self.ended, Sum { failed: self.failed, bytes: self.bytes });
        (self.ended, self.failed, self.bytes) = (0, 0, 0);
        if ended == 0 {
            return;
        }
        // Before its end is seen: who saw it may take the region back.
        self.unpin();
        self.count(ended, sum);
        if let Some(worker) = self.part {
            let part = self.ledger.parts.count_down(worker as usize, self.batch, ended, sum);
            let Some(all) = part else { return };
            (ended, sum) = (1, all);
        }
        let marks = match self.ledger.batches.count_down(self.batch, ended, sum.failed, sum.bytes) {
            CountedDown::Going => return,
            CountedDown::Last(marks) => marks,
        };
        if marks != Marks::default() && self.goes_on(marks) {
            return;
        }
        let end = self.ledger.batches.end(self.batch);
        if end.is_awaited() {
            self.awaited[self.sleepers] = (self.batch, end);
            self.sleepers += 1;
        }
        self.ledger.settle_end(self.batch, end);
    }

    /// Counts what has ended of one batch, before anybody sees its end.
    #[inline]
    fn count(&mut self, requests: u32, sum: Sum) {
        let ledger = self.ledger;
        let took = ledger.is_timed().then(|| {
            // Once for all that end together.
            let now = *self.now.get_or_insert_with(|| ledger.time().now());
            now.saturating_sub(ledger.batches.submitted_at(self.batch))
        });
        match self.by {
            Some(ends) => ends.ended(requests, sum.failed, sum.bytes, took),
            None => ledger.counted.forced().ended(requests, sum.failed, sum.bytes, took),
        }
    }

    /// Sees to what the batch has besides its requests, before its end: afterwards the index may name another batch. Answers
    /// whether it has not ended yet.
    #[cold]
    fn goes_on(&mut self, marks: Marks) -> bool {
        if marks.notice {
            self.ledger.outbox.tell_due(self.batch);
        } else if let Some(doorbell) = self.ledger.take_doorbell(self.batch) {
            self.rings.add(doorbell);
        }
        marks.notice
    }

    fn wake(&mut self) {
        self.awaited[..self.sleepers].iter().for_each(|(batch, end)| self.ledger.awaken(*batch, *end));
        self.ledger.count_told(self.rings.ring());
    }
}
