//! Jobs that panic, and stages that lie about themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pipeline_graph::{
    Batch, BuildError, Context, Contract, Engine, Fault, Flow, Mode, Outlet, Port, Rule, Seat, Shape, Spec,
    Stage, StartError, State,
};

use crate::rig::{OUT, Rig, Seen, in_seconds, queue, submit, until};

/// Makes two of each item.
pub struct Doubles(pub Shape);

struct Double;

impl Spec<u64> for Doubles {
    fn ports(&self) -> &[Port] {
        &self.0.ports
    }
    fn contract(&self) -> Contract {
        self.0.contract.clone()
    }
    fn build(&self, _: &Seat) -> Result<Box<dyn Stage<u64>>, BuildError> {
        Ok(Box::new(Double))
    }
}

impl Stage<u64> for Double {
    fn run(&mut self, input: &mut Batch<u64>, out: &mut Outlet<u64>, _: &mut Context) -> Flow {
        while let Some(item) = input.peek() {
            if out.room(OUT, item) < 2 {
                return Flow::More;
            }
            out.push(OUT, item).unwrap();
            out.push(OUT, item).unwrap();
            input.pop();
        }
        Flow::Done
    }
}

fn rig(good: &Arc<Seen>, rule: impl Fn(u64) -> u64 + Send + Sync + 'static) -> Rig {
    Rig::new()
        .pool("p", 1)
        .crew("crew", 2)
        .stage("a", Some("p"), &["out"], |_, i| Some((OUT, i)))
        .stage("job", Some("crew"), &["out"], move |_, i| Some((OUT, rule(i))))
        .sink("end", None, good)
        .edge("submit -> a", queue(16))
        .edge("a -> job", Mode::Inline)
        .edge("job -> end", Mode::Inline)
}

/// A panic in a job fails the items it had in hand with the stage's name, and nothing else; the next jobs run.
#[test]
fn a_panic_fails_its_items() {
    let good = Arc::new(Seen::default());
    let rig = rig(&good, |i| {
        assert!(i != 100 && i != 2_000, "a panic that the test wants");
        i
    });
    let engine = rig.start();
    submit(&engine, 0..3_000);
    assert!(engine.drain(in_seconds(30)).empty);
    let marks = rig.marks.0.lock().unwrap();
    assert!(marks.iter().all(|m| m.1 == Fault::Panic { stage: "job".into() } && !m.2));
    assert!([100, 2_000].iter().all(|i| marks.iter().any(|m| m.0 == *i)));
    assert!((2..=64).contains(&marks.len()), "{} failed", marks.len());
    assert_eq!(good.count() + marks.len() as u64, 3_000);
    assert_eq!((engine.snapshot().stage("job").unwrap().panics, engine.state()), (2, State::Draining));
}

/// More panics than a pool may have fail the pool, by its own name and not by that of its host: nothing new is taken, what
/// reaches its stage fails, and everything ends.
#[test]
fn too_many_panics_fail_the_pool() {
    let (good, tries) = (Arc::new(Seen::default()), Arc::new(AtomicU64::new(0)));
    let tried = tries.clone();
    let rig = rig(&good, move |_| {
        tried.fetch_add(1, Ordering::Relaxed);
        panic!("a panic that the test wants")
    });
    let engine = rig.start();
    let (inlet, mut taken) = (engine.inlet(), 0);
    until("the failure", || {
        let items: Vec<u64> = (taken..taken + 16).collect();
        taken += 16 * u64::from(inlet.push_all(&items).is_ok());
        engine.state() == State::Failed { pool: "crew".into() }
    });
    let report = engine.drain(in_seconds(30));
    assert!(report.empty, "{report}");
    let marks = rig.marks.0.lock().unwrap();
    let mut ended: Vec<u64> = marks.iter().map(|m| m.0).collect();
    ended.sort_unstable();
    assert!(ended.into_iter().eq(0..taken) && good.count() == 0);
    assert!(tries.load(Ordering::Relaxed) < 16, "jobs go on in a failed pool");
}

/// A stage that takes nothing although it has all the room there is would be run for ever: it fails like one that panics.
#[test]
fn a_stage_that_takes_nothing_fails() {
    let mut rig = rig(&Arc::new(Seen::default()), |i| i);
    rig.blueprint.stages[1].shape.contract.parallel = true;
    struct Lazy(Shape);
    struct Idle;
    impl Spec<u64> for Lazy {
        fn ports(&self) -> &[Port] {
            &self.0.ports
        }
        fn contract(&self) -> Contract {
            self.0.contract.clone()
        }
        fn build(&self, _: &Seat) -> Result<Box<dyn Stage<u64>>, BuildError> {
            Ok(Box::new(Idle))
        }
    }
    impl Stage<u64> for Idle {
        fn run(&mut self, _: &mut Batch<u64>, _: &mut Outlet<u64>, _: &mut Context) -> Flow {
            Flow::More
        }
    }
    let specs: Vec<Arc<dyn Spec<u64>>> = vec![
        Arc::new(crate::rig::Shared(rig.spec("a"))),
        Arc::new(Lazy(rig.blueprint.stages[1].shape.clone())),
        Arc::new(crate::rig::Shared(rig.spec("end"))),
    ];
    let engine = Engine::start(&rig.blueprint, specs, rig.marks.clone()).unwrap();
    submit(&engine, 0..5);
    assert!(engine.drain(in_seconds(30)).empty);
    assert_eq!(rig.marks.ended(), 5);
}

/// A stage that is not made for it is refused in a pool that steals.
#[test]
fn only_parallel_stages() {
    let mut rig = rig(&Arc::new(Seen::default()), |i| i);
    rig.blueprint.stages[1].shape.contract.parallel = false;
    let Err(StartError::Refused { complaints }) = rig.try_start() else { panic!("it was taken") };
    assert_eq!(complaints[0].rule, Rule::NotParallel);
}
