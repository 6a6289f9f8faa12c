//! An open link of the simulator: its requests, and what was drawn for each.
//! Deliberately unaware of time: the agenda calls.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::clock::Nanos;
use crate::inproc::{ReapEnd, Share, Ticket, Watch};
use crate::link::LinkId;
use crate::memory::{Guard, LocalSpan, Regions};
use crate::sim::MAX_BYTES;
use crate::sim::random::Random;
use crate::sim::settings::SimSettings;
use crate::sim::staging::Copies;
use crate::wr::{Op, Outcome, Refusal, WorkRequest, WrId};

/// What was drawn for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Done,
    Failed,
    Refused(Refusal),
    /// Its completion never comes; whether it is applied all the same.
    Lost {
        applied: bool,
    },
}

/// A request on its way.
pub(super) struct Item {
    pub(super) work: WorkRequest,
    fate: Fate,
    due: Nanos,
    /// How much later it completes once more.
    pub(super) echo_ns: Option<u64>,
    /// Some while it is under way: the target's region cannot go.
    access: Option<(LocalSpan, Guard)>,
    pub(super) begun: bool,
}

/// See the file's head.
pub(super) struct Open {
    pub(super) id: LinkId,
    pub(super) lane: Share,
    pub(super) watch: Watch,
    random: Random,
    /// By slot; as many as the lane takes.
    items: Vec<Option<Item>>,
    free: Vec<u32>,
    /// Taken back before they began; their completions are due.
    pub(super) dropped: VecDeque<WrId>,
    /// Echoes on the agenda; never more than slots.
    pub(super) echoes: usize,
    wire_free_at: Nanos,
    last_due: Nanos,
    /// Dead, and its events have been struck.
    pub(super) struck: bool,
}

impl Open {
    pub(super) fn new(id: LinkId, end: ReapEnd, seed: u64) -> Self {
        let slots = end.lane.capacity();
        Self {
            id,
            lane: end.lane,
            watch: end.watch,
            random: Random::new(seed, end.ordinal),
            items: (0..slots).map(|_| None).collect(),
            free: (0..slots as u32).rev().collect(),
            dropped: VecDeque::with_capacity(slots),
            echoes: 0,
            wire_free_at: 0,
            last_due: 0,
            struck: false,
        }
    }

    /// Requests this half knows of and has not completed.
    pub(super) fn known(&self) -> usize {
        self.items.len() - self.free.len() + self.dropped.len()
    }

    /// Takes over what was posted, drawing its fate; answers its slot and when it begins.
    pub(super) fn pull(&mut self, settings: &SimSettings) -> Option<(u32, Nanos)> {
        let Ticket { work, at } = self.lane.pop()?;
        let slot = self.free.pop().expect("the lane never holds more than there are slots");
        // Every draw is made for every request: one rate changed leaves the other fates as they were.
        let delay = self.random.between(settings.delay_ns_min, settings.delay_ns_max);
        let late = self.random.chance(settings.reorder_ppm);
        let extra = self.random.between(1, settings.delay_ns_max.max(1));
        let fate = self.fate(settings);
        let echo = self.random.chance(settings.duplicate_ppm);
        let echo_after = self.random.between(0, settings.delay_ns_max);
        let wire_ns = match settings.bytes_per_s {
            0 => 0,
            speed => (u128::from(work.len) * 1_000_000_000 / u128::from(speed)).min(u64::MAX.into()) as u64,
        };
        self.wire_free_at = self.wire_free_at.max(at).saturating_add(wire_ns);
        let mut due = self.wire_free_at.saturating_add(delay);
        if late {
            due = due.saturating_add(extra);
        } else {
            due = due.max(self.last_due);
            self.last_due = due;
        }
        let begins = due.saturating_sub(delay / 2).max(at);
        let echo_ns = echo.then_some(echo_after);
        self.items[slot as usize] = Some(Item { work, fate, due, echo_ns, access: None, begun: false });
        Some((slot, begins))
    }

    fn fate(&mut self, settings: &SimSettings) -> Fate {
        const REFUSALS: [Refusal; 5] = [
            Refusal::UnknownRegion,
            Refusal::OutOfBounds,
            Refusal::Denied,
            Refusal::Closing,
            Refusal::Malformed,
        ];
        let (point, which) = (self.random.below(1_000_000), self.random.next());
        let lost = u64::from(settings.loss_ppm);
        let failed = lost + u64::from(settings.error_ppm);
        let refused = failed + u64::from(settings.refuse_ppm);
        match point {
            p if p < lost => Fate::Lost { applied: which % 2 == 0 },
            p if p < failed => Fate::Failed,
            p if p < refused => Fate::Refused(REFUSALS[(which % 5) as usize]),
            _ => Fate::Done,
        }
    }

    /// The request reaches the target: everything is checked as a target would. An outcome if that ends it.
    pub(super) fn begin(&mut self, slot: u32, regions: &Regions, target: &Arc<Regions>) -> Option<Outcome> {
        let item = self.items[slot as usize].as_mut().expect("struck from the agenda when its slot is freed");
        let work = &item.work;
        if work.len == 0 || work.len > MAX_BYTES {
            return Some(Outcome::Refused(Refusal::Malformed));
        }
        if let Fate::Refused(why) = item.fate {
            return Some(Outcome::Refused(why));
        }
        let near = &work.local;
        let Ok(local) = regions.local(near.region, near.offset, work.len) else {
            return Some(Outcome::Failed);
        };
        match target.open(work.remote.region, work.remote.offset, work.len, work.op) {
            Ok(guard) => {
                item.access = Some((local, guard));
                item.begun = true;
                None
            }
            Err(why) => Some(Outcome::Refused(why)),
        }
    }

    /// The request ends: applied or not, its access is over. An outcome unless it is lost.
    pub(super) fn end(&mut self, slot: u32, copies: &mut Copies) -> Option<Outcome> {
        let item = self.items[slot as usize].as_mut().expect("struck from the agenda when its slot is freed");
        let access = item.access.take();
        let (applied, outcome) = match item.fate {
            Fate::Done => (true, Some(Outcome::Done)),
            Fate::Failed => (false, Some(Outcome::Failed)),
            Fate::Refused(why) => (false, Some(Outcome::Refused(why))),
            Fate::Lost { applied } => (applied, None),
        };
        if let Some((local, guard)) = access
            && applied
        {
            copies.make(item.work.op, local, &guard);
        }
        outcome
    }

    /// The link died: one of the requests left, and how far it had come. A begun WRITE may have been applied.
    pub(super) fn fail_one(&mut self, copies: &mut Copies) -> Option<(WrId, Outcome)> {
        let slot = self.items.iter().position(Option::is_some)? as u32;
        let applied = self.random.chance(500_000);
        let item = self.take(slot);
        if let Some((local, guard)) = item.access
            && item.work.op == Op::Write
            && applied
        {
            copies.make(Op::Write, local, &guard);
        }
        Some((item.work.id, if item.begun { Outcome::Begun } else { Outcome::NotBegun }))
    }

    /// Which slot holds a request.
    pub(super) fn find(&self, id: WrId) -> Option<(u32, &Item)> {
        let items = self.items.iter().zip(0..);
        items.filter_map(|(item, slot)| Some((slot, item.as_ref()?))).find(|(_, item)| item.work.id == id)
    }

    /// When the request in a slot ends.
    pub(super) fn due(&self, slot: u32) -> Option<Nanos> {
        self.items[slot as usize].as_ref().map(|item| item.due)
    }

    /// Frees a slot.
    pub(super) fn take(&mut self, slot: u32) -> Item {
        self.free.push(slot);
        self.items[slot as usize].take().expect("a slot is freed once: whoever frees it strikes its events")
    }
}
