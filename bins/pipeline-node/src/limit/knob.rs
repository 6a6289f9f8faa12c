//! Keys that move a limit: their paths, what they are, and what to try. Deliberately one careful step each: what it brings,
//! `tune` and `bench` tell.

use pipeline_configs::units::show_bytes;
use pipeline_configs::wait::written;
use pipeline_graph::{EdgeDecl, Mode, PoolDecl};

use super::Knob;
use super::look::Look;

/// Most batches that a queue may hold.
const QUEUE_MAX: usize = 65_536;
/// Beyond so many lanes to a peer, more have never helped.
const LANES_MAX: u64 = 16;
/// Most that a lane may hold.
const DEPTH_MAX: u64 = 65_536;

/// `pools.NAME.threads`.
pub(super) fn threads(pool: &PoolDecl, better: usize) -> Option<Knob> {
    let path = format!("pools.{}.threads", pool.name);
    changed(path, pool.threads.to_string(), better.max(1).to_string())
}

/// `pools.NAME.wait`, one of its words.
pub(super) fn wait(pool: &PoolDecl, better: &str) -> Option<Knob> {
    changed(format!("pools.{}.wait", pool.name), written(&pool.wait), format!("\"{better}\""))
}

/// The queue of an edge, twice as long.
pub(super) fn longer(look: &Look<'_>, edge: &EdgeDecl) -> Option<Knob> {
    let Mode::Queue { capacity, .. } = edge.mode else { return None };
    // A queue of one or two batches makes both sides wait for each other: the first step is to where it can take a burst.
    let better = (capacity * 2).clamp(64, QUEUE_MAX).max(capacity);
    let path = format!("edges.\"{}\".queue", look.blueprint().edge_name(edge));
    changed(path, capacity.to_string(), better.to_string())
}

/// An edge without a queue. Only where both ends may sit on one worker, in the same pool.
pub(super) fn inline(look: &Look<'_>, edge: &EdgeDecl) -> Option<Knob> {
    let Mode::Queue { capacity, .. } = edge.mode else { return None };
    let pool = |stage: usize| look.declared(stage).and_then(|s| s.pool);
    let same = edge.from.is_some_and(|from| pool(from).is_some() && pool(from) == pool(edge.to));
    if !same {
        return None;
    }
    let path = format!("edges.\"{}\"", look.blueprint().edge_name(edge));
    changed(path, format!("{{ queue = {capacity} }}"), "\"inline\"".to_owned())
}

/// `limits.bytes_in_flight`, at least so many.
pub(super) fn bytes_in_flight(look: &Look<'_>, at_least: u64) -> Option<Knob> {
    let now = look.config.limits.bytes_in_flight;
    let better = at_least.max(now.saturating_mul(2)).checked_next_power_of_two()?.min(1 << 50);
    changed("limits.bytes_in_flight".into(), quoted(now), quoted(better))
}

/// `limits.slices`, twice as many.
pub(super) fn slices(look: &Look<'_>) -> Option<Knob> {
    let now = look.config.limits.slices;
    changed("limits.slices".into(), now.to_string(), (now * 2).min(1 << 24).to_string())
}

/// `transports.NAME.lanes`, twice as many: of the transport that moves most.
pub(super) fn lanes(look: &Look<'_>) -> Option<Knob> {
    of_busiest(look, "lanes", LANES_MAX)
}

/// `transports.NAME.depth`, likewise.
pub(super) fn depth(look: &Look<'_>) -> Option<Knob> {
    of_busiest(look, "depth", DEPTH_MAX)
}

/// A number of the transport that moves most, twice as much and at most so much.
fn of_busiest(look: &Look<'_>, key: &str, most: u64) -> Option<Knob> {
    let busiest = look.interval.nics.iter().max_by_key(|nic| nic.bytes)?;
    let transport = look.config.transports.iter().find(|t| t.name == busiest.transport)?;
    let now = transport.values.number(key)?;
    changed(
        format!("transports.{}.{key}", transport.name),
        now.to_string(),
        (now * 2).min(most.max(now)).to_string(),
    )
}

/// `stages.NAME.slice`, if slices are smaller than the transport likes and the requests are not: what it costs to carry one is
/// then shared by more bytes.
pub(super) fn slice(look: &Look<'_>) -> Option<Knob> {
    let (_, split) = look.of_kind("request_split").next()?;
    let now = split.values.number("slice")?;
    let prefers = look.config.transports.iter().filter_map(|t| t.values.number("prefers")).min()?;
    if !is_cut(look) || now >= prefers {
        return None;
    }
    changed(format!("stages.{}.slice", split.name), quoted(now), "\"auto\"".to_owned())
}

/// `stages.NAME.spread` of an `admit` that deals work out over several workers.
pub(super) fn spread(look: &Look<'_>, workers: usize) -> Option<Knob> {
    let (_, admit) = look.of_kind("admit").next()?;
    let now = admit.values.number("spread")?;
    let better = (now * 2).min(workers as u64);
    changed(format!("stages.{}.spread", admit.name), now.to_string(), better.to_string())
}

/// Whether requests become several slices each, as a rule.
fn is_cut(look: &Look<'_>) -> bool {
    let slices = look.moved().1;
    let requests: u64 = look.of_kind("request_split").map(|(stage, _)| stage.items).sum();
    requests > 0 && slices > requests + requests / 2
}

fn quoted(size: u64) -> String {
    format!("\"{}\"", show_bytes(size))
}

fn changed(path: String, now: String, better: String) -> Option<Knob> {
    (now != better).then_some(Knob { path, now, better })
}
