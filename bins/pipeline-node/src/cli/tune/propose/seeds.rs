//! Whole structures that do well elsewhere: one worker that does all, the same with other waits, the application's threads; and the
//! file's own structure with ordinary sizes. From a file far off one such leap brings more than all neighbours together.

use pipeline_graph::PoolKind;
use pipeline_graph::blueprint::Wait;

use super::super::search::{Point, Proposal};
use super::super::space::{Kind, Space, written};

/// What is expected of a structure, beside what a model says of single knobs.
const HOPE: f64 = 0.15;

/// All of them, with what of `best` they leave as it is.
pub fn seeds(space: &Space, best: &Point) -> Vec<Proposal> {
    let seed = |candidate: Point, why: &str| Proposal { candidate, hope: HOPE, why: why.to_owned() };
    let sane = sane(space, best);
    let one = one_worker(space, &sane);
    let mut seeds = vec![
        seed(one.clone(), "one worker that does all, from the submission to the wire and back: no hand-over"),
        seed(
            sane.clone(),
            "its own structure with ordinary sizes: one thread a pool, queues that take a burst",
        ),
    ];
    for (wait, why) in [
        (looks(0, 0), "one worker that sleeps as soon as it has nothing to do: no CPU is taken from others"),
        (looks(200, 0), "one worker that looks for 200 us before it sleeps: few wake-ups"),
    ] {
        seeds.push(seed(waiting(space, &one, &wait), why));
    }
    for caller in space.of_kind(|kind| *kind == Kind::Caller) {
        let mut candidate = sane.clone();
        candidate[caller] = 1;
        let why = "the application's own threads carry its transfers: no hand-over and no wake-up";
        seeds.push(seed(inlined(space, &candidate), why));
    }
    seeds.retain(|seed| seed.candidate != *best);
    seeds
}

fn looks(spin_us: u64, yield_us: u64) -> Wait {
    let (spin_ns, yield_ns) = (spin_us * 1_000, yield_us * 1_000);
    Wait {
        spin_ns,
        yield_ns,
        park_ns: 1_000_000_000,
        ..Wait { adaptive: false, ..pipeline_configs::wait::ADAPTIVE }
    }
}

/// The level of a knob whose words or size are these.
fn find(space: &Space, knob: usize, is: impl Fn(&super::super::space::Level) -> bool) -> Option<u8> {
    space.knobs[knob].levels.iter().position(is).and_then(|level| u8::try_from(level).ok())
}

/// One thread a pool, adaptive, queues of at least 64 batches, slices as the transport likes them.
fn sane(space: &Space, of: &Point) -> Point {
    let mut sane = of.clone();
    for (knob, it) in space.knobs.iter().enumerate() {
        let now = space.level(knob, of);
        let level = match it.kind {
            Kind::Threads => find(space, knob, |level| level.size == 1),
            Kind::Wait => find(space, knob, |level| level.words == "\"adaptive\""),
            Kind::Slice => find(space, knob, |level| level.words == "\"auto\""),
            Kind::Edge(_) if now.size > 0 && now.size < 64 => find(space, knob, |level| level.size == 64),
            _ => None,
        };
        sane[knob] = level.unwrap_or(sane[knob]);
    }
    sane
}

/// All stages in the pool of `wr_post`, edges inline.
fn one_worker(space: &Space, of: &Point) -> Point {
    let mut one = of.clone();
    space.of_kind(|kind| *kind == Kind::Home).for_each(|knob| one[knob] = 1);
    inlined(space, &one)
}

/// The same with all edges inline whose ends run in one pool.
pub fn inlined(space: &Space, of: &Point) -> Point {
    let mut inlined = of.clone();
    for (knob, it) in space.knobs.iter().enumerate() {
        let Kind::Edge(edges) = &it.kind else { continue };
        let joins = edges.iter().map(|edge| &space.loaded.config.blueprint.edges[*edge]);
        let pool = |stage: usize| home(space, of, stage);
        let is_one = joins.into_iter().all(|edge| {
            edge.from.is_some_and(|from| match (pool(from), pool(edge.to)) {
                // Where a stage without a pool runs, its neighbours say.
                (None, _) | (_, None) => true,
                (from, to) => from == to,
            })
        });
        if let Some(level) = find(space, knob, |level| level.words == "inline").filter(|_| is_one) {
            inlined[knob] = level;
        }
    }
    inlined
}

/// The pool where a stage runs in a candidate.
fn home(space: &Space, of: &Point, stage: usize) -> Option<String> {
    let blueprint = &space.loaded.config.blueprint;
    let name = &blueprint.stages[stage].name;
    let own = blueprint.stages[stage].pool.map(|pool| format!("\"{}\"", blueprint.pools[pool].name));
    let moved = space.changes(of).into_iter().find(|change| {
        change.path.len() == 3
            && change.path[0] == "stages"
            && change.path[1] == *name
            && change.path[2] == "pool"
    });
    moved.map(|change| change.value).or(own)
}

/// The same with this wait in all pools that have threads.
fn waiting(space: &Space, of: &Point, wait: &Wait) -> Point {
    let mut waiting = of.clone();
    let pools = &space.loaded.config.blueprint.pools;
    for (knob, it) in space.knobs.iter().enumerate().filter(|(_, it)| it.kind == Kind::Wait) {
        let is_resident = it.pool.is_some_and(|pool| pools[pool].kind == PoolKind::Resident);
        if let Some(level) = find(space, knob, |level| level.words == written(wait)).filter(|_| is_resident) {
            waiting[knob] = level;
        }
    }
    waiting
}
