//! What happens to devices, and what is noticed of it.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::super::events;
use super::super::graveyard::Graveyard;
use super::super::port::PortState;
use super::{Device, alone, device};
use crate::link::Waker;

/// Runs `ip` and answers when it has.
fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split(' ')).status().unwrap();
    assert!(done.success(), "ip {arguments}");
}

/// Tends a device until a condition holds, which it must within ten seconds.
fn until(device: &Arc<Device>, what: &str, holds: impl Fn() -> bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let devices = [device.clone()];
    runtime.block_on(async {
        let began = Instant::now();
        let looking = async {
            while !holds() {
                assert!(began.elapsed() < Duration::from_secs(10), "not within 10 s: {what}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let graveyard = Graveyard::new(1);
        tokio::select! { _ = looking => {}, never = events::tend(&devices, &graveyard) => match never {} }
    });
}

/// A port that goes down is seen as down since then, and up when it is up again; whoever watches is woken each time, and
/// nobody who has stopped watching.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn a_port_goes_down_and_comes_up() {
    let _alone = alone();
    let device = device(0);
    let rung = Arc::new(AtomicU64::new(0));
    let counts = rung.clone();
    let watch = device.on_change(Waker::new(move || {
        counts.fetch_add(1, Ordering::Relaxed);
    }));
    let before = crate::clock::now();
    ip("link set nic0 down");
    until(&device, "down", || matches!(device.state(), PortState::Down { .. }));
    let PortState::Down { since } = device.state() else { panic!("{:?}", device.state()) };
    assert!(since >= before);
    assert!(rung.load(Ordering::Relaxed) >= 1 && device.generation() >= 1);
    let (down, seen) = (device.generation(), rung.load(Ordering::Relaxed));
    ip("link set nic0 up");
    until(&device, "up", || device.state() == PortState::Up && device.generation() > down);
    assert!(rung.load(Ordering::Relaxed) > seen);
    drop(watch);
    let (generation, last) = (device.generation(), rung.load(Ordering::Relaxed));
    ip("link set nic0 down");
    until(&device, "down", || device.generation() > generation);
    ip("link set nic0 up");
    until(&device, "up", || device.state() == PortState::Up);
    assert_eq!(rung.load(Ordering::Relaxed), last);
}

/// An address that is removed is no GID any more, and the change is noticed; another one that is added is found at
/// whatever index it has got.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn an_address_goes_and_another_comes() {
    let _alone = alone();
    let device = device(1);
    let address = || device.gid().ok().map(|gid| gid.address().to_string());
    assert_eq!(address().as_deref(), Some("10.9.0.11"));
    let generation = device.generation();
    ip("address del 10.9.0.11/24 dev nic1");
    until(&device, "another address", || address().as_deref() != Some("10.9.0.11"));
    assert!(address().is_none_or(|other| other.starts_with("fe80::")), "{:?}", address());
    until(&device, "an event", || device.generation() > generation);
    ip("address add 10.9.0.77/24 dev nic1");
    until(&device, "the new address", || address().as_deref() == Some("10.9.0.77"));
    ip("address del 10.9.0.77/24 dev nic1");
    ip("address add 10.9.0.11/24 dev nic1");
    until(&device, "the old address", || address().as_deref() == Some("10.9.0.11"));
}
