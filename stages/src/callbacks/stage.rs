//! The stage `callbacks`: a source that runs the functions of done batches in a pool of its own. They are the
//! application's and may take their time, which is what that pool is for; nothing else should share it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pipeline_configs::{Facts, StageKind, Values};
use pipeline_graph::{Arming, Batch, Context, Contract, Drained, Flow, Outlet, Polled, Seat, Shape, Stage};

use super::desk::Desk;
use crate::key::Key;
use crate::spec::Making;
use crate::world::World;

/// Functions that are run before other stages of the worker have their turn.
const BUDGET: usize = 32;

/// Its entry in the catalogue.
pub(crate) const KIND: StageKind = StageKind {
    name: "callbacks",
    summary: "Runs the functions that the application has left with its batches.",
    keys: &[],
    shape,
    later: None,
};

/// No ports and no input: it only polls.
fn shape(_: &Values, _: &Facts) -> Shape {
    let resident = Some("it runs functions that must not wait for somebody who steps");
    let contract = Contract { source: true, sink: true, polls: true, resident, ..Contract::default() };
    Shape { ports: Vec::new(), contract }
}

pub(crate) fn build(making: &Making, seat: &Seat) -> Result<Box<dyn Stage<Key>>, String> {
    let world = making.world.clone();
    let desk = world.ledger.run_callbacks();
    desk.attend(seat.waker.clone());
    Ok(Box::new(Callbacks { world, desk, first: seat.worker == 0 }))
}

/// One worker.
struct Callbacks {
    world: Arc<World>,
    desk: Arc<Desk>,
    /// It speaks for all workers when asked what is left.
    first: bool,
}

impl Callbacks {
    /// Runs one. Answers whether there was one.
    fn run_one(&self) -> bool {
        let Some((callback, summary)) = self.world.ledger.next_callback() else { return false };
        let Some(callback) = callback else { return true };
        if catch_unwind(AssertUnwindSafe(|| callback(summary))).is_err() {
            self.desk.count_panic();
            tracing::error!("a callback of the application panicked; its batch is done, and others go on");
        }
        true
    }
}

impl Stage<Key> for Callbacks {
    fn run(&mut self, input: &mut Batch<Key>, _: &mut Outlet<Key>, _: &mut Context) -> Flow {
        debug_assert!(input.is_empty(), "no edge leads here");
        Flow::Done
    }

    fn poll(&mut self, _: &mut Outlet<Key>, _: &mut Context) -> Polled {
        let ran = (0..BUDGET).take_while(|_| self.run_one()).count();
        if ran > 0 { Polled::Busy } else { Polled::Idle }
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        if self.desk.len() > 0 {
            on.busy();
        }
    }

    fn drain(&mut self, _: &mut Outlet<Key>, _: &mut Context) -> Drained {
        match self.desk.len() {
            n if n > 0 && self.first => Drained::Holds(n),
            _ => Drained::Empty,
        }
    }
}
