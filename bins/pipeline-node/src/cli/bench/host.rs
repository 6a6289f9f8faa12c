//! The machine and the parameters, echoed with every report: a number without them cannot be compared.

use super::args::Args;

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
    vec![
        format!("pipeline-node {} ({})", env!("CARGO_PKG_VERSION"), env!("BUILD_COMMIT")),
        format!("{model}, {allowed} CPUs allowed, governor {governor}, Linux {}", kernel.trim()),
    ]
}

/// What was measured and how, one line each, for the head of a report.
pub fn facts(args: &Args) -> Vec<String> {
    let bound = match args.iterations {
        Some(n) => format!("{n} batches"),
        None => format!("{} s", args.seconds),
    };
    let mut facts = machine();
    facts.extend([
        format!(
            "op {} batch {} depth {} iov {} threads {} rounds {} of {bound}, memory {} a side, slice {}, rate {}, {}",
            args.op.name(),
            args.batch(),
            args.depth,
            args.iov,
            args.threads,
            args.rounds,
            super::super::quantity::human(args.memory),
            args.slice.as_deref().unwrap_or("as the file says"),
            args.rate.map_or("unbounded".into(), |r| format!("{r} requests/s")),
            args.file.as_deref().map_or("preset tcp".into(), |f| f.display().to_string()),
        ),
        "GB = 10^9 bytes; latency is submit to done; done means applied at the target; peak is the best 100 ms".into(),
    ]);
    facts
}
