//! The machine, echoed with every report: a number without it cannot be compared.

use std::path::Path;

use crate::cli::idle::Idle;

/// What was measured on, one line each.
pub fn machine() -> Vec<String> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|l| l.strip_prefix("model name")).and_then(|l| l.split_once(':'));
    let model = model.map_or("unknown CPU", |(_, name)| name.trim());
    let allowed = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    let governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    let governor = if governor.is_empty() { "-" } else { governor.trim() };
    let idle = Idle::of(Path::new("/")).words().map_or_else(String::new, |words| format!(", {words}"));
    vec![
        format!("pipeline-node {} ({})", env!("CARGO_PKG_VERSION"), env!("BUILD_COMMIT")),
        format!("{model}, {allowed} CPUs allowed, governor {governor}, Linux {}{idle}", kernel.trim()),
    ]
}
