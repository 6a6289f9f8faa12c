//! `[node] cpu_dma_latency`: while a node runs, CPUs of its machine do not sleep so deeply that waking them takes longer (the kernel's
//! quality of service for power: Documentation/power/pm_qos_interface.rst). What a wake-up costs without it was measured in
//! docs/tuning.md.
//!
//! Deliberately the kernel's own device and nothing that would stay: a file that is open. The kernel forgets the wish when its last
//! descriptor is closed, however the process ends, and keeps to the least of all wishes. A child that was forked has a descriptor too, so
//! whoever stops takes the wish back before it closes its own.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use crate::error::Error;

const DEVICE: &str = "/dev/cpu_dma_latency";

/// What the kernel takes for no wish (`PM_QOS_CPU_LATENCY_DEFAULT_VALUE`).
const NO_WISH_US: i32 = 2_000_000_000;

/// A wish that holds for as long as this lives. Not to be dropped in a forked child, whose parent it belongs to.
pub(crate) struct Awake {
    held: File,
}

impl Awake {
    /// CPUs take no longer than this to wake; whole microseconds, rounded down, at most `i32::MAX` of them.
    ///
    /// # Errors
    /// [`Error::Start`] where there is no such device, or it may not be written.
    pub(crate) fn hold(latency: Duration) -> Result<Self, Error> {
        Self::hold_at(Path::new(DEVICE), latency)
    }

    fn hold_at(device: &Path, latency: Duration) -> Result<Self, Error> {
        let latency_us = i32::try_from(latency.as_micros()).unwrap_or(i32::MAX);
        let held = OpenOptions::new().write(true).open(device).and_then(|mut held| {
            // The kernel takes its own kind of int, or text of hexadecimal digits.
            held.write_all(&latency_us.to_ne_bytes())?;
            Ok(held)
        });
        let refused = |why| {
            let device = device.display();
            let says = format!(
                "[node] cpu_dma_latency = \"{latency_us}us\" cannot be had, as {device} cannot be written: {why}"
            );
            Error::Start(format!(
                "{says}; run it as root, or as a user who may write that file, or leave the key out"
            ))
        };
        held.map(|held| Self { held }).map_err(refused)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        // Where it cannot be taken back it goes with the descriptor, as in every case but that of a forked child.
        let _ = self.held.write_all(&NO_WISH_US.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel is told are four bytes in its own order, of whole microseconds, and more than it can be told is its most; in the end
    /// it is told that there is no wish any more, for a forked child may have the file open still.
    #[test]
    fn the_kernel_is_told_microseconds() {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("device");
        let most = Duration::from_secs(1 << 40);
        for (latency, told) in [(Duration::ZERO, 0), (Duration::from_nanos(20_999), 20), (most, i32::MAX)] {
            std::fs::write(&device, "").unwrap();
            let held = Awake::hold_at(&device, latency).unwrap();
            assert_eq!(std::fs::read(&device).unwrap(), i32::to_ne_bytes(told));
            drop(held);
            assert_eq!(std::fs::read(&device).unwrap()[4..], i32::to_ne_bytes(NO_WISH_US), "taken back");
        }
    }

    /// A machine without the device is told what to do: the node does not start as if nothing had been asked for.
    #[test]
    fn without_the_device_nothing_starts() {
        let missing = tempfile::tempdir().unwrap().path().join("none");
        let refused = Awake::hold_at(&missing, Duration::ZERO).err().map(|error| error.to_string()).unwrap();
        assert!(refused.contains("cpu_dma_latency") && refused.contains("leave the key out"), "{refused}");
    }
}
