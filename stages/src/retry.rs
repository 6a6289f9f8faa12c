//! `retry`: lets a slice that came back rest for a while and sends it again under a new key, so that nothing of the
//! last attempt can speak for it. Deliberately counts only attempts that were the slice's own fault: those that a
//! neighbour's abort took along are free.

use std::sync::atomic::Ordering::Relaxed;

use pipeline_configs::schema::Change;
use pipeline_configs::{Facts, Kind, StageKind, Values};
use pipeline_graph::{
    Arming, Batch, Context, Contract, Drained, Flow, Nanos, Outlet, Polled, PortId, Seat, Shape, Stage,
};

use crate::holding::Holding;
use crate::key::Key;
use crate::ledger::Slot;
use crate::list::List;
use crate::reason::{Code, StageIx};
use crate::spec::{Making, ports};
use crate::stays::Stays;
use crate::world::Own;

/// Its entry in the catalogue.
pub const KIND: StageKind = StageKind {
    name: "retry",
    summary: "Sends slices that came back again, after a while.",
    keys: &[
        pipeline_configs::Key {
            name: "attempts",
            kind: Kind::Count { min: 1, max: 255 },
            default: Some("3"),
            required: false,
            doc: "How often a slice is posted at most before it fails.",
            change: Change::Live,
            ..pipeline_configs::Key::PLAIN
        },
        pipeline_configs::Key {
            name: "backoff",
            kind: Kind::Time { min_ns: 0, max_ns: 60_000_000_000 },
            default: Some("1ms"),
            required: false,
            doc: "Rest before the second attempt; doubles with each further one.",
            change: Change::Live,
            ..pipeline_configs::Key::PLAIN
        },
    ],
    shape,
    later: None,
};

const OUT: PortId = PortId(0);
const FAILED: PortId = PortId(1);

fn shape(_: &Values, _: &Facts) -> Shape {
    Shape {
        ports: ports(&[("out", true), ("failed", false)]),
        contract: Contract { holds: true, polls: true, ..Contract::default() },
    }
}

pub(crate) fn build(making: &Making, seat: &Seat) -> Result<Box<dyn Stage<Key>>, String> {
    let (world, values) = (making.own(), making.values());
    world.ledger.holders.add(seat.waker.clone());
    let backoff = values.time("backoff").map_or(1_000_000, |t| t.as_nanos() as Nanos);
    let attempts = values.number("attempts").unwrap_or(3).clamp(1, 255) as u32;
    let holding = Holding::new(&world.ledger, world.time.now(), making.ix());
    let stays = Stays::of(seat);
    Ok(Box::new(Retry {
        world,
        stage: making.ix(),
        attempts,
        backoff,
        holding,
        stays,
        rested: List::default(),
    }))
}

#[repr(align(128))]
struct Retry {
    world: Own,
    stage: StageIx,
    attempts: u32,
    backoff: Nanos,
    holding: Holding,
    /// How long slices rest.
    stays: Stays,
    /// Those that have rested and wait for room.
    rested: List,
}

impl Retry {
    fn take(&mut self, key: Key, slot: Slot, now: Nanos) {
        let world = self.world.clone();
        let position = world.ledger.position(key);
        let strikes = slot.count_strike();
        if let Some(code) = self.last_word(slot, strikes, now) {
            return self.holding.doom(&world.ledger, position, code);
        }
        let rest = self.backoff.saturating_mul(1 << strikes.saturating_sub(1).min(16));
        let until = now.saturating_add(rest).min(slot.deadline());
        self.holding.hold_until(&world.ledger, position, until);
        self.stays.begin(slot, now);
    }

    fn last_word(&self, slot: Slot, strikes: u32, now: Nanos) -> Option<Code> {
        let spoken = self.world.ledger.verdict(slot, now, self.stage);
        // Its code says why it came back.
        spoken.or_else(|| (strikes >= self.attempts).then(|| slot.code()))
    }

    fn wake(&mut self, now: Nanos) {
        let ledger = &*self.world.ledger;
        while let Some(position) = self.holding.fire(ledger, now) {
            match ledger.verdict(ledger.at(position), now, self.stage) {
                Some(code) => self.holding.doom(ledger, position, code),
                None => self.rested.push(ledger, position),
            }
        }
        let mut cancelled = List::default();
        self.holding.cancelled(ledger, |position| cancelled.push(ledger, position));
        while let Some(position) = cancelled.pop(ledger) {
            let code = Code::new(crate::reason::Reason::Cancelled, self.stage);
            self.holding.doom(ledger, position, code);
        }
    }

    fn send(&mut self, out: &mut Outlet<Key>, now: Nanos) -> bool {
        let ledger = &*self.world.ledger;
        let mut any = false;
        while let Some(position) = self.rested.head() {
            let old = ledger.key_at(position);
            if out.room(OUT, old) == 0 {
                break;
            }
            self.rested.remove(ledger, position);
            if let Some(key) = ledger.renew(old) {
                self.holding.grasp(key);
                let slot = ledger.at(position);
                slot.set_code(Code::DONE);
                self.stays.end(slot, now);
                ledger.counted.retried();
                if let Some(peer) = self.world.peers.get(slot.peer()) {
                    peer.retries.fetch_add(1, Relaxed);
                }
                // Room was asked for.
                let _ = out.push(OUT, key);
                self.holding.let_loose();
            }
            any = true;
        }
        any
    }
}

impl Stage<Key> for Retry {
    fn run(&mut self, input: &mut Batch<Key>, out: &mut Outlet<Key>, cx: &mut Context) -> Flow {
        let world = self.world.clone();
        while let Some(key) = input.peek() {
            if let Some(slot) = world.ledger.live(key) {
                self.take(key, slot, cx.now);
            }
            input.pop();
        }
        self.holding.bury(&world.ledger, out, FAILED);
        Flow::Done
    }

    fn poll(&mut self, out: &mut Outlet<Key>, cx: &mut Context) -> Polled {
        self.wake(cx.now);
        let sent = self.send(out, cx.now);
        let buried = self.holding.bury(&self.world.ledger, out, FAILED);
        match sent || buried {
            true => Polled::Busy,
            false if self.holding.is_empty() && self.rested.is_empty() => Polled::Resting,
            false => Polled::Idle,
        }
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        self.holding.arm(&self.world.ledger, on);
    }

    fn drain(&mut self, _: &mut Outlet<Key>, _: &mut Context) -> Drained {
        match self.holding.len() + self.rested.len() {
            0 => Drained::Empty,
            n => Drained::Holds(n),
        }
    }
}

impl Drop for Retry {
    fn drop(&mut self) {
        if let Some(code) = self.holding.epitaph() {
            self.rested.abandon(&self.world.ledger, code);
        }
    }
}
