//! What lies between two stages: a queue that is full although who reads it has time, or hand-overs that take longer than the
//! work itself. (Behind a full queue whose reader has no time, the reader is what limits: that is [`super::busy`].)

use pipeline_graph::{EdgeDecl, EdgeStats, Mode, StageStats};

use super::super::look::{Look, percent, time};
use super::super::{Because, Limit, Rule, knob};

/// A stage cannot go on for lack of room this part of the time.
const BLOCKED: f64 = 0.15;
/// Items wait in a queue this many times as long as the stage behind it takes for a batch.
const WAITS: f64 = 4.0;
/// And as long as this, at least: a hop costs that by itself.
const HOP_NS: f64 = 1_000.0;
/// And it is this part of the whole time that slices are under way.
const PART: f64 = 0.2;
/// A queue of fewer batches than this.
const TINY: usize = 8;
/// The stage behind it has time: it is busy for less than this.
const HAS_TIME: f64 = 0.6;

/// A queue is full although its reader has time.
pub(crate) const FULL: Rule = Rule {
    because: Because::Queue,
    says: "a stage cannot go on for 15 % of its time because the queue behind it is full, and who reads that queue has time: it is too short for what comes at once",
    apply: full,
};

/// Hand-overs dominate.
pub(crate) const HAND_OVER: Rule = Rule {
    because: Because::Queue,
    says: "slices wait in a queue four times as long as the stage behind it works on them, a fifth of all their time, and that stage has time",
    apply: hand_over,
};

fn full(look: &Look<'_>) -> Option<Limit> {
    let (edge, figures, blocked) = fullest(look)?;
    if blocked < BLOCKED {
        return None;
    }
    let behind = look.stage(edge.to)?;
    let words = format!(
        "queue `{}` ({} batches) is full {} of the time although stage `{}` behind it has time: it is too short for what \
         comes at once",
        figures.name,
        figures.capacity,
        percent(blocked),
        behind.name
    );
    let knob = knob::longer(look, edge);
    Some(Limit { stage: Some(behind.name.clone()), because: Because::Queue, words, knob })
}

/// The queue that holds up most who writes to it, and for what part of the time.
fn fullest<'a>(look: &Look<'a>) -> Option<(&'a EdgeDecl, &'a EdgeStats, f64)> {
    // One worker at both ends has other work while it is full, and empties it in the same turn.
    let queues =
        look.edges().filter(|(edge, _)| matches!(edge.mode, Mode::Queue { .. }) && !is_within(look, edge));
    let blocked = |edge: &EdgeDecl, figures: &EdgeStats| match edge.from.and_then(|from| look.stage(from)) {
        Some(from) => look.share(figures.blocked_ns) / from.threads.max(1) as f64,
        // At the entrance whoever submits is turned away: no time of ours is lost, only theirs.
        None => figures.rejected as f64 / (figures.pushed + figures.rejected).max(1) as f64,
    };
    queues.map(|(edge, figures)| (edge, figures, blocked(edge, figures))).max_by(|a, b| a.2.total_cmp(&b.2))
}

/// Whether one worker writes to a queue and reads it.
fn is_within(look: &Look<'_>, edge: &EdgeDecl) -> bool {
    let pool = |stage: usize| look.declared(stage).and_then(|stage| stage.pool);
    let same = edge.from.and_then(pool).filter(|from| pool(edge.to) == Some(*from));
    same.and_then(|pool| look.blueprint().pools.get(pool)).is_some_and(|pool| pool.workers() == 1)
}

fn hand_over(look: &Look<'_>) -> Option<Limit> {
    let mut waits: Vec<_> =
        look.stages().filter_map(|(at, stage)| Some((at, stage, excess(look, at, stage)?))).collect();
    waits.sort_by(|a, b| b.2.total_cmp(&a.2));
    let (at, stage, _) = *waits.first()?;
    let (wait, service) = middles(stage);
    let (edge, figures) = look.queues_to(at).max_by_key(|(_, figures)| figures.pushed)?;
    let words = format!(
        "slices wait {} in queue `{}` for stage `{}`, which takes {} for a batch and has time: handing over takes longer than \
         the work",
        time(wait),
        figures.name,
        stage.name,
        time(service)
    );
    // One that hardly holds anything makes both sides wait for each other, batch by batch.
    let tiny = figures.capacity < TINY;
    let knob = if tiny { knob::longer(look, edge) } else { None };
    let knob = knob.or_else(|| knob::inline(look, edge)).or_else(|| awake(look, at));
    Some(Limit { stage: Some(stage.name.clone()), because: Because::Queue, words, knob })
}

/// Time that all items together waited beyond the work, if a stage's queue is such a one.
fn excess(look: &Look<'_>, at: usize, stage: &StageStats) -> Option<f64> {
    look.queues_to(at).next()?;
    let (wait, service) = middles(stage);
    let busy = look.share(stage.busy_ns) / stage.threads.max(1) as f64;
    let all = look.within(&stage.wait);
    let is_much = look.part_of_all(all).is_none_or(|part| part > PART);
    let is_one = wait > HOP_NS && wait > WAITS * service && busy < HAS_TIME && is_much;
    is_one.then_some(all)
}

fn middles(stage: &StageStats) -> (f64, f64) {
    (stage.wait.quantile(0.5) as f64, stage.service.quantile(0.5) as f64)
}

/// Workers that stay awake, where there is a CPU for it.
fn awake(look: &Look<'_>, stage: usize) -> Option<super::super::Knob> {
    let pool = look.blueprint().pools.get(look.declared(stage)?.pool?)?;
    let has_cpu = look.wanted_cpus() + pool.workers() as f64 <= look.cpus;
    if has_cpu && pool.wait.park_ns > 0 { knob::wait(pool, "adaptive") } else { None }
}
