//! Tests of the parts of this transport on devices of the machine: soft-RoCE in the test bed. They are ignored elsewhere,
//! and `tests/rdma-vm` runs them with two devices or more, `rxe0` and `rxe1`, whose IPv4 addresses are 10.9.0.10 and
//! 10.9.0.11. Deliberately nothing of connections: those are tested through the transport.

mod opening;

use std::sync::Arc;

use super::device::Device;
use super::library::Verbs;
use super::settings::RdmaSettings;

/// The library, which is there.
fn verbs() -> Arc<Verbs> {
    Verbs::load().unwrap()
}

/// The `n`-th device.
fn device(n: usize) -> Arc<Device> {
    Device::open(&verbs(), &format!("rxe{n}"), &RdmaSettings::default()).unwrap()
}
