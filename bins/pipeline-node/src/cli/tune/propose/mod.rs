//! What is worth a try instead of the best so far, and what may be expected of it: seeds (whole structures that do well
//! elsewhere), what the node itself says limits it, and the neighbours of the best so far, each with what a model of queues says
//! of it.
//!
//! Deliberately rough: hopes order what runs first where there is no time for all, and decide nothing.

mod model;
mod seeds;

use pipeline_node::limit::Limit;

use super::args::Goal;
use super::search::{Point, Proposal};
use super::space::{Kind, Space};
pub use model::Seen;

/// What the node's own advice is worth before it has run.
const ADVICE: f64 = 0.2;

/// Everything to try instead of `best`, of which `seen` was measured; nothing is left out because it has run before.
pub fn proposals(space: &Space, best: &Point, seen: Option<&Seen>, goal: Goal) -> Vec<Proposal> {
    let mut all = seeds::seeds(space, best);
    if let Some(seen) = seen {
        all.extend(advice(space, best, &seen.limit));
    }
    all.extend(neighbours(space, best, seen, goal));
    all
}

/// All that differ in one knob, with the edges that go with it.
fn neighbours(space: &Space, best: &Point, seen: Option<&Seen>, goal: Goal) -> Vec<Proposal> {
    let mut all = Vec::new();
    // How an edge is made that nothing passes makes no difference that could be measured.
    let is_idle = |knob: usize| match (&space.knobs[knob].kind, seen) {
        (Kind::Edge(edges), Some(seen)) => !seen.passes(space, edges),
        _ => false,
    };
    for knob in (0..space.knobs.len()).filter(|knob| !space.is_moot(*knob, best) && !is_idle(*knob)) {
        for level in 0..space.knobs[knob].levels.len() {
            if level == usize::from(best[knob]) {
                continue;
            }
            let mut candidate = best.clone();
            candidate[knob] = level as u8;
            let (hope, why) = match seen {
                Some(seen) => model::expect(space, best, knob, level, seen, goal),
                None => (0.0, String::new()),
            };
            let why = if why.is_empty() { "a neighbour of the best so far".into() } else { why };
            if space.knobs[knob].kind == Kind::Home && level == 1 {
                // Edges within one pool may do without a queue: that is what stages are moved for.
                let inlined = seeds::inlined(space, &candidate);
                if inlined != candidate {
                    all.push(Proposal { candidate: inlined, hope: hope + 0.05, why: why.clone() });
                }
            }
            all.push(Proposal { candidate, hope, why });
        }
    }
    all
}

/// What the node says would move what limits it.
fn advice(space: &Space, best: &Point, limit: &Limit) -> Option<Proposal> {
    let told = limit.knob.as_ref()?;
    let changes = |knob: usize, level: usize| -> bool {
        let level = &space.knobs[knob].levels[level];
        level.changes.iter().any(|change| change.key() == told.path && change.value == told.better)
    };
    let (knob, level) = (0..space.knobs.len())
        .flat_map(|knob| (0..space.knobs[knob].levels.len()).map(move |level| (knob, level)))
        .find(|(knob, level)| changes(*knob, *level))?;
    let mut candidate = best.clone();
    candidate[knob] = level as u8;
    Some(Proposal { candidate, hope: ADVICE, why: limit.words.clone() })
}
