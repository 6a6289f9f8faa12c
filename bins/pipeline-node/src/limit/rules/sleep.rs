//! Waking up takes longer than the work: each batch finds its worker asleep.

use pipeline_graph::{PoolDecl, PoolKind, WorkerStats};

use super::super::look::{Look, percent, time};
use super::super::{Because, Limit, Rule, knob};

/// So many sleeps ended for each batch of the busiest stage.
const SLEEPS: f64 = 0.5;
/// The worker sleeps this part of the time, at least.
const ASLEEP: f64 = 0.3;
/// What a sleep costs where nobody has measured it: from a ring to running again, on a CPU that was idle.
const WAKE_NS: f64 = 20_000.0;
/// And all sleeps together took this part of the interval.
const COST: f64 = 0.15;

/// See the head of the file.
pub(crate) const RULE: Rule = Rule {
    because: Because::Sleep,
    says: "requests are under way, a worker is woken for every second batch and more, and waking it takes 15 % of the time",
    apply,
};

fn apply(look: &Look<'_>) -> Option<Limit> {
    if look.open_requests() == 0.0 {
        return None;
    }
    let sleepers = look.workers().iter().filter_map(|worker| Some((worker, cost(look, worker)?)));
    let (worker, cost) = sleepers.max_by(|a, b| a.1.total_cmp(&b.1))?;
    if cost < COST {
        return None;
    }
    let pool = look.pool(&worker.pool)?;
    let stage = look.run_by(&pool.name).into_iter().max_by_key(|(_, stage)| stage.busy_ns).map(|(_, s)| s);
    let sleeps = woken(worker) as f64 / look.seconds().max(1e-9);
    let mut words = format!(
        "worker `{}` is woken {sleeps:.0} times a second, for nearly every batch; at {} each that is {} of the time, more than its \
         work ({})",
        worker.name,
        time(wake_ns(worker)),
        percent(cost),
        percent(look.share(worker.busy_ns))
    );
    let knob = awake(look, pool);
    if knob.is_none() {
        words.push_str(
            "; there is no CPU for a worker that stays awake, so more in flight at a time is what helps",
        );
    }
    Some(Limit { stage: stage.map(|s| s.name.clone()), because: Because::Sleep, words, knob })
}

/// The share of the interval that waking up took, of a worker that is woken for its batches and has time.
fn cost(look: &Look<'_>, worker: &WorkerStats) -> Option<f64> {
    let batches = look.run_by(&worker.pool).iter().map(|(_, stage)| per_worker(stage)).fold(0.0, f64::max);
    let often = batches > 0.0 && woken(worker) as f64 >= SLEEPS * batches;
    (often && look.share(worker.parked_ns) >= ASLEEP)
        .then(|| look.share((woken(worker) as f64 * wake_ns(worker)) as u64))
}

fn per_worker(stage: &pipeline_graph::StageStats) -> f64 {
    (stage.batches + stage.busy_polls) as f64 / stage.threads.max(1) as f64
}

/// Sleeps that something ended.
fn woken(worker: &WorkerStats) -> u64 {
    worker.parks.saturating_sub(worker.timed_wakes)
}

fn wake_ns(worker: &WorkerStats) -> f64 {
    if worker.wake_ns > 0 { worker.wake_ns as f64 } else { WAKE_NS }
}

fn awake(look: &Look<'_>, pool: &PoolDecl) -> Option<super::super::Knob> {
    let has_cpu = look.wanted_cpus() + 1.0 <= look.cpus.max(2.0);
    (has_cpu && pool.kind == PoolKind::Resident).then(|| knob::wait(pool, "adaptive"))?
}
