//! `completion_notify`: ends slices, and with the last one of a batch says so. Runs wherever it is reached.
//! Deliberately the only sink that frees: a slice that is not brought here has not ended.

use std::sync::Arc;

use pipeline_configs::schema::Change;
use pipeline_configs::{Facts, Kind, StageKind, Values};
use pipeline_graph::{Batch, Context, Contract, Flow, Outlet, Seat, Shape, Stage};

use crate::key::Key;
use crate::ledger::{Ending, Ends, Shard, Via};
use crate::spec::Making;
use crate::world::World;

/// Its entry in the catalogue.
pub const KIND: StageKind = StageKind {
    name: "completion_notify",
    summary: "Ends slices, and tells who waits for their batch.",
    keys: &[pipeline_configs::Key {
        name: "via",
        kind: Kind::Words(&["status", "event", "eventfd", "waker", "callback"]),
        default: Some("[\"status\", \"event\"]"),
        required: false,
        doc: "What it tells; status: the batch's state can be polled (always so); event: its end also wakes threads that wait; eventfd: it also makes the batch's descriptor readable and rings its doorbell; waker: it also wakes tasks that await it; callback: functions left by `on_done` are run, by the stage `callbacks`.",
        change: Change::Live,
        ..pipeline_configs::Key::PLAIN
    }],
    shape,
    later: None,
};

fn shape(values: &Values, _: &Facts) -> Shape {
    let active = |way: &String| ["eventfd", "waker", "callback"].contains(&way.as_str());
    let resident = values.texts("via").iter().any(active).then_some(
        "its `via` tells more than who waits or polls, which would then depend on somebody who steps",
    );
    let gives = vec!["slices"];
    let contract = Contract { sink: true, anywhere: true, gives, resident, ..Contract::default() };
    Shape { ports: Vec::new(), contract }
}

pub(crate) fn build(making: &Making, seat: &Seat) -> Result<Box<dyn Stage<Key>>, String> {
    let via = making.values().texts("via");
    let has = |way: &str| via.iter().any(|v| v == way);
    making.world.ledger.tell(Via {
        event: via.is_empty() || has("event"),
        callback: has("callback"),
        eventfd: has("eventfd"),
        waker: has("waker"),
    });
    let (world, shard) = (making.world.clone(), making.shard(seat));
    let ends = world.ledger.counted.of(seat);
    Ok(Box::new(Notify { world, shard, ends }))
}

#[repr(align(128))]
struct Notify {
    world: Arc<World>,
    shard: Shard,
    ends: Arc<Ends>,
}

impl Stage<Key> for Notify {
    fn run(&mut self, input: &mut Batch<Key>, _: &mut Outlet<Key>, _: &mut Context) -> Flow {
        let mut ending = Ending::of(&self.world.ledger, self.shard, &self.ends);
        while let Some(key) = input.pop() {
            ending.end(key);
        }
        ending.finish();
        Flow::Done
    }
}
