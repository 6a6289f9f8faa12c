//! The simulator itself: it loses nothing, means the same for a seed each time, and finds a wake-up that is lost.

mod rig;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pipeline_graph::sim::{Dice, Simulation, Stepped};
use pipeline_graph::{
    Arming, Batch, BuildError, Context, Contract, Flow, Mode, Outlet, Polled, Port, Seat, Spec, Stage,
};
use rig::{OUT, Rig, Seen, Shared, queue};

fn specs(rig: &Rig) -> Vec<Arc<dyn Spec<u64>>> {
    rig.specs.iter().map(|s| Arc::new(Shared(s.clone())) as Arc<dyn Spec<u64>>).collect()
}

/// Items run through three pools in an order that the seed draws; what was done, by name and in order.
fn story(seed: u64) -> Vec<String> {
    let mut dice = Dice::new(seed);
    let seen = Arc::new(Seen::default());
    let back = move |_: &Seat, i: u64| {
        if i.is_multiple_of(7) && i < 1 << 20 {
            Some((pipeline_graph::PortId(1), i | 1 << 20))
        } else {
            Some((OUT, i))
        }
    };
    let rig = Rig::new()
        .pool("a", dice.between(1, 3) as usize)
        .pool("b", dice.between(1, 3) as usize)
        .stage("first", Some("a"), &["out"], |_, i| Some((OUT, i)))
        .stage("second", Some("b"), &["out", "again"], back)
        .sink("end", None, &seen)
        .edge("submit -> first", queue(*dice.one_of(&[1, 4, 64])))
        .edge("first -> second", queue(*dice.one_of(&[1, 2, 16])))
        .edge("second -> end", Mode::Inline);
    let rig = rig.edge("second.again -> first", Mode::Return { dispatch: pipeline_graph::Dispatch::Any });
    let mut sim = Simulation::new(seed);
    let engine = sim.start(&rig.blueprint, &specs(&rig), rig.marks.clone()).expect("the graph starts");
    let (inlet, mut next, mut told) = (sim.inlet(engine), 0, Vec::new());
    loop {
        if next < 500 && dice.percent(20) && inlet.push_all(&[next + 1]).is_ok() {
            next += 1;
        }
        match sim.step() {
            Stepped::Worker { worker, what } => told.push(format!("{worker} {what}")),
            Stepped::LostWakeUp { worker } => panic!("seed {seed}: `{worker}` slept beside work"),
            Stepped::Quiet(_) if next == 500 => break,
            Stepped::Quiet(_) => {}
        }
        assert!(told.len() < 1_000_000, "seed {seed}: no end");
    }
    assert_eq!(seen.count(), 500, "seed {seed}: all sleep, and not all items have come");
    sim.drain(engine);
    while !matches!(sim.step(), Stepped::Quiet(_)) {}
    assert!(sim.is_empty(engine), "seed {seed}: it does not drain");
    sim.stop(engine);
    told
}

/// In every order of steps all items arrive, no worker sleeps beside work, and the engine drains; and an order can be
/// had again by its seed.
#[test]
fn every_order_brings_everything() {
    for seed in 0..200 {
        let told = story(seed);
        if seed % 50 == 0 {
            assert_eq!(told, story(seed), "seed {seed} was another story the second time");
        }
    }
}

/// A stage that is fed by a flag which nobody rings for.
struct Deaf(Arc<AtomicBool>);

impl Stage<u64> for Deaf {
    fn run(&mut self, _: &mut Batch<u64>, _: &mut Outlet<u64>, _: &mut Context) -> Flow {
        Flow::Done
    }
    fn poll(&mut self, _: &mut Outlet<u64>, _: &mut Context) -> Polled {
        if self.0.swap(false, Ordering::AcqRel) { Polled::Busy } else { Polled::Idle }
    }
    fn arm(&mut self, _: &mut dyn Arming) {}
}

struct DeafSpec(Arc<AtomicBool>);

impl Spec<u64> for DeafSpec {
    fn ports(&self) -> &[Port] {
        &[]
    }
    fn contract(&self) -> Contract {
        Contract { source: true, sink: true, polls: true, ..Contract::default() }
    }
    fn build(&self, _: &Seat) -> Result<Box<dyn Stage<u64>>, BuildError> {
        Ok(Box::new(Deaf(self.0.clone())))
    }
}

/// Work that was published without a ring is found as a lost wake-up, with the name of the worker that sleeps.
#[test]
fn a_lost_wake_up_is_found() {
    let flag = Arc::new(AtomicBool::new(false));
    let mut rig = Rig::new().pool("p", 1).stage("deaf", Some("p"), &[], |_, _| None);
    rig.blueprint.stages[0].shape.contract = DeafSpec(flag.clone()).contract();
    let mut sim = Simulation::new(1);
    let specs: Vec<Arc<dyn Spec<u64>>> = vec![Arc::new(DeafSpec(flag.clone()))];
    sim.start(&rig.blueprint, &specs, rig.marks.clone()).expect("the graph starts");
    while !matches!(sim.step(), Stepped::Quiet(_)) {}
    flag.store(true, Ordering::Release);
    let found = (0..10).map(|_| sim.step()).find(|s| !matches!(s, Stepped::Quiet(_)));
    assert_eq!(found, Some(Stepped::LostWakeUp { worker: "0:p".into() }));
}
