//! Work requests on their way into a transport: gathered by link, and handed over in one call.
//! Deliberately the only place that posts: from a slice's posting to its transport's answer nothing else is run.

use pipeline_graph::{BATCH, Nanos, Seat};
use pipeline_transports::{LinkId, Op, Post, RegionId, Span, WorkRequest, WrId};

use super::Lane;
use crate::key::Key;
use crate::ledger::{Ledger, Phase, Stamp};
use crate::mail::Half;
use crate::seats::Joined;
use crate::stays::Stays;

/// Work requests handed over in one call.
pub(super) const RUN: usize = 64;
/// What no slice names.
pub(super) const NO_LINK: LinkId = LinkId(u64::MAX);
const NOWHERE: Span = Span { region: RegionId(0), offset: 0 };
const BLANK: WorkRequest = WorkRequest { id: WrId(0), op: Op::Read, local: NOWHERE, remote: NOWHERE, len: 0 };

/// Slices of one link that came one after the other.
pub(super) struct Run {
    pub(super) link: LinkId,
    /// Of the link.
    pub(super) index: u32,
    /// How many it takes. 0: all have to wait.
    pub(super) room: usize,
    keys: [Key; BATCH],
    n: usize,
}

impl Default for Run {
    fn default() -> Self {
        Self { link: NO_LINK, index: 0, room: 0, keys: [Key::default(); BATCH], n: 0 }
    }
}

impl Run {
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.room > 0 && self.n == self.room
    }

    #[inline]
    pub(super) fn add(&mut self, key: Key) {
        self.keys[self.n] = key;
        self.n += 1;
    }

    /// Empties it.
    #[inline]
    pub(super) fn take(&mut self) -> &[Key] {
        &self.keys[..std::mem::take(&mut self.n)]
    }
}

/// What is handed over in one call.
pub(super) struct Work {
    requests: Box<[WorkRequest; RUN]>,
    /// How many are in here.
    n: usize,
    /// How many the transport has been given and not answered for: more than 0 only if it panicked.
    handed: usize,
    /// The earliest of their deadlines.
    earliest: Nanos,
    /// How long slices wait for room on their links; and of which it is noted since when their transport has them.
    pub(super) stays: Stays,
}

impl Work {
    pub(super) fn of(seat: &Seat) -> Self {
        let requests = Box::new([BLANK; RUN]);
        Self { requests, n: 0, handed: 0, earliest: Nanos::MAX, stays: Stays::of(seat) }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.n
    }

    /// What the transport has been given and not answered for.
    pub(super) fn handed(&self) -> impl Iterator<Item = Key> + '_ {
        self.requests[..self.handed].iter().map(|w| Key::from_raw(w.id.0))
    }

    /// Posts a slice, under a new key: whoever still has the one that brought it, as a batch does after a panic, must not
    /// take it for its own when it comes back from the transport, on another worker.
    #[inline]
    pub(super) fn add(&mut self, ledger: &Ledger, key: Key) {
        let Some((slot, posted)) = ledger.post(key) else { return };
        let (work, deadline) = slot.work(posted);
        self.requests[self.n] = work;
        self.earliest = self.earliest.min(deadline);
        self.n += 1;
    }

    /// Hands over what was added. Answers how many were taken; the others are back in front of the link's list.
    pub(super) fn hand(
        &mut self,
        ledger: &Ledger,
        lane: &mut Lane,
        half: &mut dyn Post,
        seat: &Joined,
        now: Nanos,
    ) -> usize {
        let n = std::mem::take(&mut self.n);
        let earliest = std::mem::replace(&mut self.earliest, Nanos::MAX);
        if n == 0 {
            return 0;
        }
        // Before it is theirs: the reaper may be faster than we.
        if let Some((which, stands_for)) = self.stays.one_of(n) {
            let key = Key::from_raw(self.requests[which].id.0);
            ledger.at(ledger.position(key)).stamp(Stamp::new(now, stands_for));
        }
        self.handed = n;
        let taken = half.post(now, lane.id, &self.requests[..n]).taken.min(n);
        self.handed = 0;
        for refused in self.requests[taken..n].iter().rev() {
            let key = Key::from_raw(refused.id.0);
            let position = ledger.position(key);
            // A reaper that was lost meanwhile has ended all that was posted on its links.
            let slot = ledger.at(position);
            if slot.step(key.generation(), Phase::Posted, Phase::Live) {
                slot.take_stamp();
                self.stays.begin(slot, now);
                lane.waiting.push_front(ledger, position);
            }
        }
        let keys = self.requests[..taken].iter().map(|w| Key::from_raw(w.id.0));
        if seat.shared.posted.publish(keys, earliest) {
            seat.shared.ring(Half::Reap);
        }
        seat.shared.end_unreaped(ledger);
        taken
    }
}
