//! The place that these tests run in: devices of soft-RoCE, and files that make a node use some of them.

use std::path::{Path, PathBuf};

/// A device's name.
pub fn device(index: usize) -> String {
    format!("rxe{index}")
}

/// A shipped file.
pub fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs").join(name)
}

/// What makes a node of the preset `rdma` use these devices, and sleep where it waits: two CPUs serve both nodes, their
/// devices and the wire here. More attempts than the preset, because soft-RoCE that is short of CPU sends again what was only
/// late, and now and then takes what came twice for a broken request (status 9), which costs its link.
pub fn uses(devices: &[usize]) -> Vec<String> {
    let nics: Vec<String> = devices.iter().map(|i| format!("'{}'", device(*i))).collect();
    vec![
        format!("transports.rdma.nics=[{}]", nics.join(", ")),
        "pools.nic.wait='park'".into(),
        "stages.retry.attempts=16".into(),
    ]
}
