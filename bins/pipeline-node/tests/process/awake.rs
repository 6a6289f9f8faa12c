//! `[node] cpu_dma_latency`: what the process holds while a node runs.

use std::path::Path;

use pipeline_node::{Engine, Error};

const DEVICE: &str = "/dev/cpu_dma_latency";

fn is_held() -> bool {
    let held = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    held.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|to| to == Path::new(DEVICE))
}

/// The wish holds from the start of a node to its end, and of a machine that does not grant it nothing is started, which is said.
#[test]
fn cpus_stay_awake_while_a_node_runs() {
    let may = std::fs::OpenOptions::new().write(true).open(DEVICE).is_ok();
    let toml = "version = 1\nuse = \"tcp\"\n[node]\ncpu_dma_latency = \"20us\"\n";
    match Engine::from_toml(toml) {
        Ok(engine) => {
            assert!(may && is_held());
            drop(engine);
            assert!(!is_held());
        }
        Err(Error::Start(why)) => assert!(!may && why.contains("cpu_dma_latency"), "{why}"),
        Err(other) => panic!("{other}"),
    }
}
