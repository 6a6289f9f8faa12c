//! The suite every transport passes, over real sockets.

use std::sync::Arc;

use pipeline_transports::conformance::{self, Fixture};
use pipeline_transports::tcp::Settings;
use pipeline_transports::{Caps, Halves, LinkId, Nanos, Regions, Serve, Transport};

use crate::rig::{Side, connect};

/// Two sides, and the links made so far.
struct Lanes {
    near: Side,
    far: Side,
    links: u64,
}

impl Lanes {
    fn with(settings: &Settings) -> Self {
        Self { near: Side::new(settings), far: Side::new(settings), links: 0 }
    }

    fn connect(&mut self) -> LinkId {
        self.links += 1;
        connect(&mut self.near, &mut self.far, LinkId(self.links));
        LinkId(self.links)
    }
}

macro_rules! lanes {
    ($name:ident, $settings:expr, $fence:expr) => {
        struct $name(Lanes);

        impl Fixture for $name {
            fn new() -> Self {
                Self(Lanes::with(&$settings))
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
            fn connect(&mut self) -> LinkId {
                self.0.connect()
            }
            fn halves(&mut self) -> &mut Halves {
                &mut self.0.near.halves
            }
            fn now(&mut self) -> Nanos {
                pipeline_transports::clock::now()
            }
            fn step_target(&mut self) {
                self.0.far.halves.serve.as_mut().unwrap().step(0, 64);
            }
            fn fence(&mut self, link: LinkId) {
                let fence: fn(&mut dyn Serve, LinkId) = $fence;
                fence(self.0.far.halves.serve.as_deref_mut().unwrap(), link);
            }
            fn attach_again(&mut self) -> Halves {
                self.0.near.attach_again()
            }
            fn lose_serve(&mut self) -> bool {
                // Lost first: the new one must not inherit anything.
                self.0.far.halves.serve = None;
                self.0.far.halves.serve = self.0.far.attach_again().serve;
                true
            }
            fn sever(&mut self, link: LinkId) -> bool {
                self.0.far.halves.serve.as_mut().unwrap().fence(link);
                true
            }
        }
    };
}

macro_rules! fixture {
    ($module:ident, $settings:expr) => {
        mod $module {
            use super::*;

            lanes!(Tcp, $settings, |serve, link| {
                serve.fence(link);
                assert_eq!((serve.closed(), serve.closed()), (Some(link), None));
            });

            pipeline_transports::conformance!(Tcp);
        }
    };
}

fixture!(defaults, Settings::default());
fixture!(
    shallow_with_frames_of_three,
    Settings {
        depth: 8,
        frame_descriptors: 3,
        frame_bytes: 10_000,
        send_buffer_bytes: Some(256 << 10),
        ..Settings::default()
    }
);

lanes!(Careless, Settings::default(), |_, _| {});

/// A target that does not let go of a link when it is told to does not pass.
#[test]
#[should_panic(expected = "bytes differ")]
fn suite_finds_a_missing_fence() {
    conformance::fenced_link_changes_nothing::<Careless>();
}
