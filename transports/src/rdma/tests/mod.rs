//! Tests of the parts of this transport on devices of the machine: soft-RoCE in the test bed. They are ignored elsewhere,
//! and `tests/rdma-vm` runs them with two devices or more, `rxe0` and `rxe1`, whose IPv4 addresses are 10.9.0.10 and
//! 10.9.0.11. One after the other: they pull at the same interfaces, and count what is pinned. Deliberately nothing of connections: those are tested through the transport.

mod changing;
mod gpus;
mod negotiated;
mod no_room;
mod opening;
mod registering;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// Whoever holds the answer has the devices to itself.
fn alone() -> MutexGuard<'static, ()> {
    static DEVICES: Mutex<()> = Mutex::new(());
    DEVICES.lock().unwrap_or_else(PoisonError::into_inner)
}
