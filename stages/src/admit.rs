//! `admit`: unlinks the chains that `submit` pushed, one entry a submission and worker, into single requests.
//! Deliberately no judgement of memory: `submit` has done that. What is cancelled or too late ends here.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use pipeline_configs::schema::Change;
use pipeline_configs::{Facts, Kind, StageKind, Values};
use pipeline_graph::{Batch, Context, Contract, Flow, Outlet, PortId, Seat, Shape, Stage};

use crate::key::Key;
use crate::ledger::NIL;
use crate::reason::{Code, Reason, StageIx};
use crate::spec::{Making, ports};
use crate::world::World;

/// Its entry in the catalogue.
pub const KIND: StageKind = StageKind {
    name: "admit",
    summary: "Takes submissions apart into requests.",
    keys: &[
        pipeline_configs::Key {
            name: "spread",
            kind: Kind::Count { min: 1, max: 1024 },
            default: Some("1"),
            required: false,
            doc: "Over how many workers the requests to one region of a peer spread with dispatch = \"hash\"; regions of a peer that \
                  were registered one after the other go to workers in a row.",
            change: Change::Restart,
            ..pipeline_configs::Key::PLAIN
        },
        pipeline_configs::Key {
            name: "coalesce",
            kind: Kind::Bytes { min: 0, max: 1 << 30 },
            default: Some("64KiB"),
            required: false,
            doc: "Requests of a submission that follow each other and touch on both sides travel as one up to this many \
                  bytes, and to a quarter of a peer's share of `bytes_in_flight`; 0: each on its own.",
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
        contract: Contract { expands: true, ..Contract::default() },
    }
}

pub(crate) fn build(making: &Making, _: &Seat) -> Result<Box<dyn Stage<Key>>, String> {
    making.world.ledger.merge_up_to(making.values().number("coalesce").unwrap_or(0));
    Ok(Box::new(Admit { world: making.world.clone(), stage: making.ix(), at: None }))
}

/// A panicking `admit` takes the rest of its chain along.
impl Drop for Admit {
    fn drop(&mut self) {
        let ledger = &*self.world.ledger;
        if ledger.is_closing() {
            return;
        }
        while let Some(position) = self.at {
            let next = ledger.at(position).next().load(Relaxed);
            self.at = (next != NIL).then_some(next);
            ledger.abandon(position, Code::new(Reason::StagePanic, self.stage));
        }
    }
}

#[repr(align(128))]
struct Admit {
    world: Arc<World>,
    stage: StageIx,
    /// Where the chain at the front of the input goes on.
    at: Option<u32>,
}

impl Stage<Key> for Admit {
    fn run(&mut self, input: &mut Batch<Key>, out: &mut Outlet<Key>, cx: &mut Context) -> Flow {
        while let Some(head) = input.peek() {
            let ledger = &*self.world.ledger;
            if self.at.is_none() && ledger.live(head).is_some() {
                self.at = Some(ledger.position(head));
            }
            while let Some(position) = self.at {
                let slot = ledger.at(position);
                let next = slot.next().load(Relaxed);
                let port = match ledger.verdict(slot, cx.now, self.stage) {
                    Some(code) => {
                        slot.set_code(code);
                        FAILED
                    }
                    None => OUT,
                };
                // Before it goes: once pushed it may be anywhere.
                slot.next().store(NIL, Relaxed);
                if out.push(port, ledger.key_at(position)).is_err() {
                    slot.next().store(next, Relaxed);
                    return Flow::More;
                }
                self.at = (next != NIL).then_some(next);
            }
            input.pop();
        }
        Flow::Done
    }
}
