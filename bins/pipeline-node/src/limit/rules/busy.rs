//! A worker has no time left. The worker is what is used up, whatever sits on it; the stage that takes most of it is named.

use pipeline_graph::{PoolDecl, PoolKind, StageStats, WorkerStats};

use super::super::look::{Look, percent, threads};
use super::super::{Because, Knob, Limit, Rule, knob};

/// A worker that is busy for so much of its time has none left: the rest is looking for work between two pieces of it.
const FULL: f64 = 0.85;
/// While the workers of its pool are busy for less than that on average, it is not the pool that is too small.
const UNEVEN: f64 = 0.6;
/// A second stage with this part of the first one's time is named too.
const SECOND: f64 = 0.5;
/// It waited for a CPU this part of the interval: worth saying.
const WAITED: f64 = 0.15;

/// See the head of the file.
pub(crate) const RULE: Rule = Rule {
    because: Because::Busy,
    says: "a worker is busy for 85 % of its time and more: the stage that takes most of it is what limits",
    apply,
};

fn apply(look: &Look<'_>) -> Option<Limit> {
    let (worker, busy) = look.busiest().filter(|(_, busy)| *busy >= FULL)?;
    let pool = look.pool(&worker.pool)?;
    let mut run = look.run_by(&pool.name);
    run.sort_by_key(|(_, stage)| std::cmp::Reverse(stage.busy_ns));
    let (_, stage) = run.first()?;
    let workers: Vec<&WorkerStats> = look.of_pool(&pool.name).collect();
    let mean = workers.iter().map(|w| look.share(w.busy_ns)).sum::<f64>() / workers.len().max(1) as f64;
    let uneven = workers.len() > 1 && mean < UNEVEN;
    let takes = match look.is_timed() {
        true => {
            let part = percent(look.share(stage.busy_ns) / workers.len().max(1) as f64);
            format!("stage `{}` takes {part} of", stage.name)
        }
        false => "there is no time left in".to_owned(),
    };
    let mut words = format!(
        "{takes} pool `{}` ({}), {} busy {} of the time{}",
        pool.name,
        threads(workers.len()),
        if workers.len() == 1 { "which is" } else { "whose busiest worker is" },
        percent(busy),
        beside(look, &run, workers.len()),
    );
    if look.share(worker.cpu_wait_ns) > WAITED {
        let waited = percent(look.share(worker.cpu_wait_ns));
        words.push_str(&format!(" ({waited} of it without a CPU, which other threads had)"));
    }
    let (why, knob) = if uneven { one_of_many(look, &workers, mean) } else { more(look, pool) };
    words.push_str(&why);
    let stage = look.is_timed().then(|| stage.name.clone());
    Some(Limit { stage, because: Because::Busy, words, knob })
}

/// The stage that comes next, if it takes much too.
fn beside(look: &Look<'_>, run: &[(usize, &StageStats)], workers: usize) -> String {
    let [(_, first), (_, second), ..] = run else { return String::new() };
    if (second.busy_ns as f64) < SECOND * first.busy_ns as f64 || second.busy_ns == 0 {
        return String::new();
    }
    format!(", `{}` {}", second.name, percent(look.share(second.busy_ns) / workers.max(1) as f64))
}

/// Its work does not spread over the workers that there are.
fn one_of_many(look: &Look<'_>, workers: &[&WorkerStats], mean: f64) -> (String, Option<Knob>) {
    let why = format!(
        "; all {} of them are busy {} on average: work is dealt out by peer and region, and one has most of it",
        workers.len(),
        percent(mean)
    );
    (why, knob::spread(look, workers.len()))
}

/// What makes its work take less of a worker: another worker, while there is a CPU for it, else larger slices.
fn more(look: &Look<'_>, pool: &PoolDecl) -> (String, Option<Knob>) {
    if pool.kind == PoolKind::Caller {
        let why =
            "; its stages run on the application's threads: more of them, or a pool of the engine's own";
        return (why.to_owned(), None);
    }
    if let Some(slice) = knob::slice(look) {
        return ("; its slices are smaller than the transport likes".to_owned(), Some(slice));
    }
    if look.wanted_cpus() + 0.5 > look.cpus {
        return (format!("; there is no CPU for another thread ({:.1} in all)", look.cpus), None);
    }
    (String::new(), knob::threads(pool, pool.threads + 1))
}
