//! What limits a run of the model: of all that can be full the fullest, in words, and the key that would move it.

use serde::Serialize;

use super::model::{Outcome, Setup};

/// What is used so far counts as full.
const FULL: f64 = 0.85;
/// Slices that found no window, for each that went: so many say that the window holds.
const REFUSED: f64 = 0.2;

/// What limits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// The stage, if it is one.
    pub stage: Option<String>,
    /// `worker`, `cpus`, `nics`, `memory`, `application`, `window` or `round_trip`.
    pub because: &'static str,
    /// How full it is, 0 to 1.
    pub share: f64,
    /// In words.
    pub words: String,
    /// The key to turn, if one would help.
    pub knob: Option<String>,
}

/// Names it.
pub fn limit(setup: &Setup, outcome: &Outcome) -> Limit {
    let mut all = vec![worker(setup, outcome), cpus(setup, outcome)];
    all.push(nics(outcome));
    all.push(memory(outcome));
    all.push(application(outcome));
    let fullest = all.into_iter().max_by(|a, b| a.share.total_cmp(&b.share));
    match fullest {
        Some(fullest) if fullest.share >= FULL => fullest,
        _ if outcome.refusals >= REFUSED => window(setup, outcome),
        _ => round_trip(outcome),
    }
}

/// The pool whose threads are busiest, and the stage that most of it is for.
fn worker(setup: &Setup, outcome: &Outcome) -> Limit {
    let busy = |pool: &str| {
        let threads = setup.workers.iter().filter(|worker| worker.pool == pool && !worker.is_caller);
        let cpu = |name: &str| outcome.threads.iter().find(|t| t.name == name).map_or(0.0, |t| t.cpu_pct);
        let shares: Vec<f64> = threads.map(|worker| cpu(&worker.name) / 100.0).collect();
        (shares.iter().sum::<f64>() / shares.len().max(1) as f64, shares.len())
    };
    let pools = setup.workers.iter().map(|worker| worker.pool.as_str());
    let busiest = pools.map(|pool| (pool, busy(pool))).max_by(|a, b| a.1.0.total_cmp(&b.1.0));
    let Some((pool, (share, threads))) = busiest else { return Limit::none() };
    let in_pool = |stage: &&super::model::setup::Stage| {
        stage.workers.first().is_some_and(|worker| setup.workers[*worker].pool == pool)
    };
    let work =
        |name: &str| outcome.stages.iter().find(|stage| stage.name == name).map_or(0.0, |s| s.util_pct);
    let stage = setup.stages.iter().filter(in_pool).max_by(|a, b| work(&a.name).total_cmp(&work(&b.name)));
    let stage = stage.map(|stage| stage.name.clone());
    let name = stage.clone().unwrap_or_default();
    let plural = if threads == 1 { "its thread has" } else { "its threads have" };
    Limit {
        because: "worker",
        share,
        words: format!(
            "pool `{pool}`: {plural} no time left ({:.0} % busy), most of it in `{name}`",
            100.0 * share
        ),
        knob: Some(format!("pools.{pool}.threads")),
        stage,
    }
}

fn cpus(setup: &Setup, outcome: &Outcome) -> Limit {
    let share = outcome.cpus / setup.cores;
    Limit {
        because: "cpus",
        share,
        words: format!("CPUs: {:.1} of {} are busy with it", outcome.cpus, setup.cores),
        ..Limit::none()
    }
}

fn nics(outcome: &Outcome) -> Limit {
    let share = outcome.nics.iter().copied().fold(0.0, f64::max);
    Limit {
        because: "nics",
        share,
        words: format!("NICs: the fullest sends {:.0} % of the time", 100.0 * share),
        ..Limit::none()
    }
}

fn memory(outcome: &Outcome) -> Limit {
    Limit {
        because: "memory",
        share: outcome.memory,
        words: format!("memory: it moves {:.0} % of the time for copies and NICs", 100.0 * outcome.memory),
        ..Limit::none()
    }
}

fn application(outcome: &Outcome) -> Limit {
    let threads = outcome.threads.iter().filter(|thread| thread.name.starts_with("application"));
    let shares: Vec<f64> = threads.map(|thread| thread.cpu_pct / 100.0).collect();
    let share = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    Limit {
        because: "application",
        share,
        words: format!("the application: its threads are {:.0} % busy", 100.0 * share),
        ..Limit::none()
    }
}

fn window(setup: &Setup, outcome: &Outcome) -> Limit {
    let knob = match setup.peers.count {
        1 if setup.window.share_percent < 100 => "limits.peer_share",
        _ => "limits.bytes_in_flight",
    };
    Limit {
        because: "window",
        share: outcome.window_share,
        words: "the window: what may be in flight is, and nothing else is full".into(),
        knob: Some(knob.into()),
        ..Limit::none()
    }
}

fn round_trip(outcome: &Outcome) -> Limit {
    Limit {
        because: "round_trip",
        words: format!(
            "the way there and back: nothing is full, and a batch takes {:.0} us of waits and wake-ups",
            outcome.p50_ns / 1e3
        ),
        ..Limit::none()
    }
}

impl Limit {
    fn none() -> Self {
        Self { stage: None, because: "", share: 0.0, words: String::new(), knob: None }
    }
}
