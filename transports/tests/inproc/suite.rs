//! The suite, for each transport of this process; and proof that the suite finds what is wrong.

use std::sync::Arc;

use pipeline_transports::conformance::{self, Fixture};
use pipeline_transports::loopback::{Loopback, LoopbackSettings};
use pipeline_transports::sim::{Sim, SimSettings};
use pipeline_transports::{Caps, Halves, LinkId, Nanos, NicId, PairId, Regions, Transport};

use crate::pair::{Pair, no_wakes};

macro_rules! in_process {
    ($name:ident, $transport:ty, $make:expr) => {
        struct $name(Pair<$transport>);

        impl Fixture for $name {
            fn new() -> Self {
                Self(Pair::with($make))
            }
            fn caps(&self) -> Caps {
                self.0.near.caps().clone()
            }
            fn initiator(&self) -> &Arc<Regions> {
                &self.0.initiator
            }
            fn target(&self) -> &Arc<Regions> {
                &self.0.target
            }
            fn connect(&mut self) -> LinkId {
                self.0.link()
            }
            fn attach_again(&mut self) -> Halves {
                self.0.near.attach(NicId(0), PairId(0), no_wakes()).unwrap()
            }
            fn halves(&mut self) -> &mut Halves {
                &mut self.0.halves
            }
            fn now(&mut self) -> Nanos {
                self.0.now
            }
            fn pass_time(&mut self) {
                self.0.now += 5_000;
            }
            fn step_target(&mut self) {
                self.pass_time();
            }
            fn sever(&mut self, _link: LinkId) -> bool {
                drop(self.0.far.take());
                true
            }
        }
    };
}

mod loopback {
    use super::*;

    in_process!(Plain, Loopback, |incarnation, regions| {
        let settings = LoopbackSettings { queue: 64, ..LoopbackSettings::default() };
        Loopback::new(settings, incarnation, regions).unwrap()
    });

    pipeline_transports::conformance!(Plain);
}

/// Faults that only delay break no word of the contract: whatever is held up still completes once, in time before its
/// link is reported closed, and can be taken back.
mod delayed {
    use std::time::Duration;

    use pipeline_transports::faults::{Effect, Faulty, Plan, Rule, Site, When};

    use super::*;

    in_process!(Delayed, Faulty, |incarnation, regions| {
        let plan = Plan::seeded(5);
        let us = Duration::from_micros;
        plan.add(Rule::new(Site::Slice, When::Chance(300_000), Effect::Delay(us(40))));
        plan.add(Rule::new(Site::Completion, When::Chance(300_000), Effect::Delay(us(30))));
        let settings = LoopbackSettings { queue: 64, ..LoopbackSettings::default() };
        let inner = Loopback::new(settings, incarnation, regions).unwrap();
        Faulty::new("near", Arc::new(inner), plan)
    });

    pipeline_transports::conformance!(Delayed);
}

mod sim {
    use super::*;

    in_process!(Delayed, Sim, |incarnation, regions| {
        let settings = SimSettings { queue: 64, seed: 1, ..SimSettings::default() };
        Sim::new(settings, incarnation, regions).unwrap()
    });

    pipeline_transports::conformance!(Delayed);
}

mod reordering_sim {
    use super::*;

    in_process!(Reordering, Sim, |incarnation, regions| {
        let (reorder_ppm, bytes_per_s) = (300_000, 100_000_000_000);
        let settings =
            SimSettings { queue: 100, seed: 2, reorder_ppm, bytes_per_s, ..SimSettings::default() };
        Sim::new(settings, incarnation, regions).unwrap()
    });

    pipeline_transports::conformance!(Reordering);
}

in_process!(Doubling, Sim, |incarnation, regions| {
    let settings = SimSettings { duplicate_ppm: 1_000_000, ..SimSettings::default() };
    Sim::new(settings, incarnation, regions).unwrap()
});

/// A transport that completes twice does not pass.
#[test]
#[should_panic(expected = "completed twice")]
fn suite_finds_doubles() {
    conformance::batches_complete_once_each::<Doubling>();
}

in_process!(Idle, Sim, |incarnation, regions| {
    let settings = SimSettings { moves_bytes: false, ..SimSettings::default() };
    Sim::new(settings, incarnation, regions).unwrap()
});

/// A transport that says done and moved nothing does not pass.
#[test]
#[should_panic(expected = "bytes differ")]
fn suite_finds_missing_bytes() {
    conformance::write_moves_exact_bytes::<Idle>();
}

in_process!(Failing, Sim, |incarnation, regions| {
    let settings = SimSettings { error_ppm: 100_000, ..SimSettings::default() };
    Sim::new(settings, incarnation, regions).unwrap()
});

/// A transport that fails one in ten does not pass.
#[test]
#[should_panic(expected = "Some(Failed)")]
fn suite_finds_failures() {
    conformance::many_outstanding_complete_once_each::<Failing>();
}

/// A loopback whose link takes far fewer requests than a fixture promises.
mod narrow {
    use super::*;

    in_process!(Narrow, Loopback, |incarnation, regions| {
        let settings = LoopbackSettings { queue: 1, ..LoopbackSettings::default() };
        Loopback::new(settings, incarnation, regions).unwrap()
    });

    /// Room for a single request is told apart from room for many.
    #[test]
    #[should_panic(expected = "has room for 1")]
    fn suite_finds_a_narrow_link() {
        conformance::room_is_honoured::<Narrow>();
    }
}
