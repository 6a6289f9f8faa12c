//! `file_serve` in the catalogue: what a file may say of it.
//! Deliberately without its work, which is in [`crate::files`].

use pipeline_configs::{Facts, StageKind, Values};
use pipeline_graph::{Arming, Batch, Context, Contract, Flow, Outlet, Polled, Seat, Shape, Stage};

use crate::files::Desk;
use crate::key::Key;
use crate::spec::Making;

pub(super) const KIND: StageKind = StageKind {
    name: "file_serve",
    summary: "Carries out the file jobs of `dir` segments.",
    keys: &[],
    shape,
};

fn shape(_: &Values, _: &Facts) -> Shape {
    Shape {
        ports: Vec::new(),
        contract: Contract { source: true, sink: true, polls: true, ..Contract::default() },
    }
}

pub(super) fn build(making: &Making, seat: &Seat) -> Result<Box<dyn Stage<Key>>, String> {
    let _: &Desk = &making.world.files;
    let _ = seat;
    Ok(Box::new(Idle))
}

struct Idle;

impl Stage<Key> for Idle {
    fn run(&mut self, _: &mut Batch<Key>, _: &mut Outlet<Key>, _: &mut Context) -> Flow {
        Flow::Done
    }

    fn poll(&mut self, _: &mut Outlet<Key>, _: &mut Context) -> Polled {
        Polled::Idle
    }

    fn arm(&mut self, _: &mut dyn Arming) {}
}
