//! The suite every transport passes, over real verbs.

use std::sync::{Arc, RwLockReadGuard};

use pipeline_transports::conformance::Fixture;
use pipeline_transports::rdma::RdmaSettings;
use pipeline_transports::{Access, Caps, Error, Halves, LinkId, Memory, Nanos, RegionId, Regions, Transport};

use crate::rig::{INCARNATION, SESSION, Side, dial, now, quiet_network, runtime, settings};

/// Two sides on two devices, and the links made so far.
struct Sides {
    _network: RwLockReadGuard<'static, ()>,
    near: Side,
    far: Side,
    links: u64,
}

impl Sides {
    fn with(change: impl Fn(&mut RdmaSettings)) -> Self {
        let side = |device| {
            let mut settings = settings(&[device]);
            change(&mut settings);
            Side::new(&settings)
        };
        Self { _network: quiet_network(), near: side("rxe0"), far: side("rxe1"), links: 0 }
    }

    fn let_go(&self, link: LinkId) {
        runtime().block_on(self.far.transport.let_go(SESSION, Some(link)));
    }
}

macro_rules! sides {
    ($name:ident, $change:expr, $fence:expr) => {
        struct $name(Sides);

        impl Fixture for $name {
            fn new() -> Self {
                Self(Sides::with($change))
            }
            fn caps(&self) -> Caps {
                self.0.near.transport.caps().clone()
            }
            fn initiator(&self) -> &Arc<Regions> {
                &self.0.near.regions
            }
            fn target(&self) -> &Arc<Regions> {
                &self.0.far.regions
            }
            fn add_local(&mut self, memory: Memory) -> RegionId {
                self.0.near.add(memory, Access::Local).0
            }
            fn add_remote(&mut self, memory: Memory, access: Access) -> RegionId {
                let (region, len, keys) = self.0.far.add(memory, access);
                self.0.near.transport.learn(INCARNATION, region, len, &keys).unwrap();
                region
            }
            fn remove_local(&mut self, region: RegionId) -> Result<Memory, Error> {
                self.0.near.remove(region)
            }
            fn remove_remote(&mut self, region: RegionId) -> Result<Memory, Error> {
                self.0.far.remove(region)
            }
            fn stands_still(&self) -> bool {
                false
            }
            fn asks_the_table(&self) -> bool {
                false
            }
            fn connect(&mut self) -> LinkId {
                self.0.links += 1;
                let link = LinkId(self.0.links);
                let made = dial(&self.0.near, &self.0.far.transport, link, 0).unwrap();
                self.0.near.adopt(made);
                link
            }
            fn halves(&mut self) -> &mut Halves {
                &mut self.0.near.halves
            }
            fn now(&mut self) -> Nanos {
                now()
            }
            fn step_target(&mut self) {}
            fn fence(&mut self, link: LinkId) {
                let fence: fn(&Sides, LinkId) = $fence;
                fence(&self.0, link);
            }
            fn attach_again(&mut self) -> Halves {
                self.0.near.attach_again()
            }
            fn sever(&mut self, link: LinkId) -> bool {
                self.0.let_go(link);
                true
            }
        }
    };
}

macro_rules! fixture {
    ($module:ident, $change:expr) => {
        mod $module {
            use super::*;

            sides!(Verbs, $change, Sides::let_go);

            pipeline_transports::conformance!(
                #[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
                Verbs
            );
        }
    };
}

fixture!(defaults, |_| {});
fixture!(shallow_and_all_signalled, |settings| {
    settings.depth = 8;
    settings.signal_every = 1;
    settings.inline_bytes = 0;
    settings.read_depth = 2;
});
