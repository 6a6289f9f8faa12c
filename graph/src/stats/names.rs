//! Every metric of the engine by its public name, unit and help: one table that exporters and docs read.
//! Deliberately just text: nothing here knows a metrics library.

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name without the product's prefix; `_total` on counters only, base units.
    pub name: &'static str,
    /// Labels it carries; never an item's or a request's name, so the number of series is bounded.
    pub labels: &'static [&'static str],
    /// One sentence.
    pub help: &'static str,
}

const fn metric(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, labels, help }
}

/// All of them.
pub const METRICS: &[Metric] = &[
    metric("stage_items_total", &["stage"], "Items that a stage took from its inputs."),
    metric("stage_batches_total", &["stage"], "Batches that a stage was run on."),
    metric("stage_polls_total", &["stage"], "Polls of a stage."),
    metric("stage_busy_seconds_total", &["stage"], "Time inside a stage, over all workers."),
    metric(
        "stage_blocked_seconds_total",
        &["stage"],
        "Time a stage had input but no room or resource to go on.",
    ),
    metric("stage_wait_seconds", &["stage"], "Time items waited in a stage's queues."),
    metric("stage_service_seconds", &["stage"], "Time of one run of a stage."),
    metric("stage_panics_total", &["stage"], "Panics caught in a stage."),
    metric("stage_strays_total", &["stage"], "Items a stage pushed to a port without wire."),
    metric("edge_pushed_items_total", &["edge"], "Items that producers pushed; minus popped: the depth."),
    metric("edge_popped_items_total", &["edge"], "Items that consumers popped."),
    metric("edge_rejected_items_total", &["edge"], "Items that found the edge full and were rejected."),
    metric(
        "edge_overflows_total",
        &["edge"],
        "How often a return edge was found full: 0, or there is a bug.",
    ),
    metric("worker_busy_seconds_total", &["pool", "worker"], "Time in turns that did something."),
    metric("worker_parks_total", &["pool", "worker"], "Sleeps of a worker."),
    metric("worker_wakes_total", &["pool", "worker"], "Sleeps that a ring ended."),
    metric("worker_timed_wakes_total", &["pool", "worker"], "Sleeps that a deadline ended."),
    metric("worker_spins_total", &["pool", "worker"], "Idle looks with a pause between."),
    metric("worker_yields_total", &["pool", "worker"], "Idle looks with a yield between."),
    metric("worker_gap_seconds", &["pool", "worker"], "Middle of the gaps that an adaptive worker sees."),
    metric(
        "worker_spin_budget_seconds",
        &["pool", "worker"],
        "How long a worker spins now before it yields.",
    ),
    metric(
        "worker_yield_budget_seconds",
        &["pool", "worker"],
        "How long a worker yields now before it parks.",
    ),
    metric(
        "worker_wake_seconds",
        &["pool", "worker"],
        "Time from a ring to awake, as an adaptive worker measured it.",
    ),
    metric(
        "worker_wake_cpu_seconds",
        &["pool", "worker"],
        "CPU time of a sleep, as an adaptive worker measured it.",
    ),
    metric(
        "worker_wait_decisions_total",
        &["pool", "worker"],
        "Changes of how long an adaptive worker spins.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Names are unique, lower case, and say `_total` exactly when they are counters.
    #[test]
    fn names_follow_the_rules() {
        for (i, m) in METRICS.iter().enumerate() {
            assert!(METRICS[..i].iter().all(|o| o.name != m.name), "{} twice", m.name);
            assert!(m.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
            assert!(m.name.ends_with("_total") || m.name.ends_with("_seconds"));
            assert!(m.help.ends_with('.'));
        }
    }
}
