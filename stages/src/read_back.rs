//! `read_back`: sends what has been done on its way again, to read the bytes of the other side into a scratch of this
//! node, for `checksum` to compare. What comes back from there is passed on.
//! Deliberately a READ like any other, over the same stages, transports and links: the peer needs no part in it, and is
//! trusted with nothing that it is not trusted with anyway.

use pipeline_configs::schema::Change;
use pipeline_configs::{Facts, Key as ConfigKey, Kind, StageKind, Values};
use pipeline_graph::{
    Arming, Batch, Context, Contract, Drained, Flow, Nanos, Outlet, Polled, PortId, Seat, Shape, Stage,
};

use crate::holding::Holding;
use crate::key::Key;
use crate::ledger::Slot;
use crate::list::List;
use crate::reason::{Code, Reason, StageIx};
use crate::spec::{Making, ports};
use crate::stays::Stays;
use crate::world::Own;

/// Its entry in the catalogue.
pub const KIND: StageKind = StageKind {
    name: "read_back",
    summary: "Reads the bytes of a slice that is done back from the other side, for a stage `checksum` behind it.",
    keys: &[ConfigKey {
        name: "scratch",
        kind: Kind::Bytes { min: 4096, max: 1 << 40 },
        default: Some("16MiB"),
        required: false,
        doc: "Memory that slices are read back into, in pieces as long as the longest slice; a slice that finds no piece waits for one.",
        change: Change::Restart,
        ..ConfigKey::PLAIN
    }],
    shape,
    later: None,
};

const OUT: PortId = PortId(0);
const AGAIN: PortId = PortId(1);
const FAILED: PortId = PortId(2);

fn shape(_: &Values, _: &Facts) -> Shape {
    Shape {
        ports: ports(&[("out", true), ("again", true), ("failed", false)]),
        contract: Contract { holds: true, polls: true, waits_for: vec!["scratch"], ..Contract::default() },
    }
}

pub(crate) fn build(making: &Making, seat: &Seat) -> Result<Box<dyn Stage<Key>>, String> {
    let world = making.own();
    let Some(scratch) = world.ledger.scratch() else {
        return Err(
            "no scratch was opened for it: call `checksum::open_scratch` before the graph starts".into()
        );
    };
    scratch.wake(&seat.waker);
    world.ledger.holders.add(seat.waker.clone());
    let holding = Holding::new(&world.ledger, world.time.now(), making.ix());
    let stays = Stays::of(seat);
    Ok(Box::new(ReadBack { world, stage: making.ix(), holding, stays, waiting: List::default() }))
}

#[repr(align(128))]
struct ReadBack {
    world: Own,
    stage: StageIx,
    holding: Holding,
    /// How long slices wait for a piece.
    stays: Stays,
    /// Those that wait for a piece, or for room on the port `again`.
    /// All of them are watched, so they end with the wheel if this stage panics.
    waiting: List,
}

impl ReadBack {
    /// Why a slice cannot be read back, if it cannot.
    fn objection(&self, slot: Slot, now: Nanos) -> Option<Code> {
        let (world, code) = (&self.world, |reason| Code::new(reason, self.stage));
        if let Some(spoken) = world.ledger.verdict(slot, now, self.stage) {
            return Some(spoken);
        }
        let piece = world.ledger.scratch().map_or(0, |scratch| scratch.piece_bytes());
        if slot.len() > piece {
            return Some(code(Reason::Unverified));
        }
        // Whether the peer's region may be read its target says, to whom `cq_reap` listens.
        let knows = slot.transport().is_some_and(|t| world.transports[usize::from(t)].transport.caps().read);
        (!knows).then(|| code(Reason::Unverified))
    }

    /// Sends those that wait on, as long as there are pieces and room. Whether any went.
    fn send(&mut self, out: &mut Outlet<Key>, now: Nanos) -> bool {
        let world = self.world.clone();
        let (ledger, mut any) = (&*world.ledger, false);
        let Some(scratch) = ledger.scratch() else { return false };
        while let Some(position) = self.waiting.head() {
            let old = ledger.key_at(position);
            if out.room(AGAIN, old) == 0 || !ledger.at(position).begin_back(scratch) {
                break;
            }
            self.waiting.remove(ledger, position);
            self.holding.let_go(ledger, position);
            self.stays.end(ledger.at(position), now);
            // Nothing of the first way may speak for this one.
            if let Some(key) = ledger.renew(old) {
                self.holding.grasp(key);
                // Room was asked for.
                let _ = out.push(AGAIN, key);
                self.holding.let_loose();
            }
            any = true;
        }
        any
    }
}

impl Stage<Key> for ReadBack {
    fn run(&mut self, input: &mut Batch<Key>, out: &mut Outlet<Key>, cx: &mut Context) -> Flow {
        let world = self.world.clone();
        let ledger = &*world.ledger;
        while let Some(key) = input.peek() {
            if let Some(slot) = ledger.live(key) {
                if slot.is_back() {
                    if out.push(OUT, key).is_err() {
                        return Flow::More;
                    }
                    self.stays.passed(1);
                } else if let Some(code) = self.objection(slot, cx.now) {
                    self.holding.doom(ledger, ledger.position(key), code);
                } else {
                    let position = ledger.position(key);
                    self.holding.hold(ledger, position);
                    self.waiting.push(ledger, position);
                    self.stays.begin(slot, cx.now);
                }
            }
            input.pop();
        }
        self.send(out, cx.now);
        self.holding.bury(ledger, out, FAILED);
        Flow::Done
    }

    fn poll(&mut self, out: &mut Outlet<Key>, cx: &mut Context) -> Polled {
        let world = self.world.clone();
        let Self { holding, waiting, stays, .. } = self;
        holding.doom_overdue(&world.ledger, cx.now, |position| {
            waiting.remove(&world.ledger, position);
            stays.end(world.ledger.at(position), cx.now);
        });
        let sent = self.send(out, cx.now);
        let buried = self.holding.bury(&world.ledger, out, FAILED);
        match sent || buried {
            true => Polled::Busy,
            false if self.holding.is_empty() && self.waiting.is_empty() => Polled::Resting,
            false => Polled::Idle,
        }
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        self.holding.arm(&self.world.ledger, on);
        let Some(scratch) = self.world.ledger.scratch().filter(|_| !self.waiting.is_empty()) else { return };
        scratch.await_piece();
        if scratch.has_piece() {
            on.busy();
        }
    }

    fn drain(&mut self, _: &mut Outlet<Key>, _: &mut Context) -> Drained {
        // Those that wait are all watched.
        match self.holding.len() {
            0 => Drained::Empty,
            n => Drained::Holds(n),
        }
    }
}
