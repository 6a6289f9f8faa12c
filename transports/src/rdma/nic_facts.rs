//! What is known of a NIC, for choosing and explaining: its state from events, speed and NUMA node from the system.
//! Deliberately asked anew each time: a port may come up slower than it was.

use std::path::Path;

use super::device::Device;
use super::library::DEVICES;
use super::port::PortState;
use crate::transport::NicFacts;

/// Of the port that is used of a device.
pub(super) fn of(device: &Device) -> NicFacts {
    let (folder, gid) = (Path::new(DEVICES).join(device.name()), device.gid());
    let read = |path: &str| std::fs::read_to_string(folder.join(path)).unwrap_or_default();
    let resting = match (device.state(), &gid) {
        (PortState::Down { .. }, _) => Some(format!("the port of {} is down", device.name())),
        (PortState::Up, Err(error)) => Some(error.to_string()),
        (PortState::Up, Ok(_)) => None,
    };
    NicFacts {
        resting,
        bits_per_s: bits_per_s(&read(&format!("ports/{}/rate", device.port()))),
        numa: read("device/numa_node").trim().parse().ok(),
        address: gid.map_or_else(|_| String::new(), |gid| gid.to_string()),
    }
}

/// From the kernel's words, such as `100 Gb/sec (4X EDR)`; 0 for what is not understood.
fn bits_per_s(rate: &str) -> u64 {
    let mut words = rate.split_whitespace();
    let (number, unit) = (words.next().and_then(|n| n.parse::<f64>().ok()), words.next());
    match (number, unit) {
        (Some(n), Some("Gb/sec")) if n >= 0.0 => (n * 1e9) as u64,
        _ => 0,
    }
}

#[cfg(all(test, not(pipeline_loom)))]
mod tests {
    use super::*;

    /// Rates as kernels write them are understood, also those that are no whole number; others are unknown.
    #[test]
    fn rates() {
        let rates = ["100 Gb/sec (4X EDR)\n", "2.5 Gb/sec (1X SDR)", "", "fast", "-1 Gb/sec", "10 Mb/sec"];
        assert_eq!(rates.map(bits_per_s), [100_000_000_000, 2_500_000_000, 0, 0, 0, 0]);
    }
}
