//! Rules about who runs a stage: pools, their threads and CPUs, and edges that demand one worker at both ends.

use std::collections::{BTreeSet, HashSet};

use super::hops::Hops;
use super::{Complaint, MAX_STAGES, MAX_WORKERS, Rule, Subject};
use crate::blueprint::{Blueprint, Mode, SUBMIT};

/// What `sched_setaffinity` can name on Linux with the default mask.
const MAX_CPUS: usize = 1024;

/// Pools have threads, stages or other work, and CPUs that exist once.
pub(super) fn pools(blueprint: &Blueprint, found: &mut Vec<Complaint>) {
    for (i, pool) in blueprint.pools.iter().enumerate() {
        let name = &pool.name;
        let mut add = |rule, text: String, help: String| {
            found.push(Complaint::new(rule, Subject::Pool(i), text, help));
        };
        let workers = pool.workers();
        if workers == 0 || workers > MAX_WORKERS {
            let groups = pool.groups.len().max(1);
            let text = format!("pool `{name}` has {} threads in each of {groups} groups", pool.threads);
            add(Rule::Threads, text, format!("give it 1 to {MAX_WORKERS} threads in all"));
        }
        let used = blueprint.stages.iter().any(|s| s.pool == Some(i));
        if !used && !pool.beside {
            let text = format!("no stage runs in pool `{name}`");
            add(Rule::PoolUnused, text, "put a stage into it, or take it out".into());
        }
        let mut seen = HashSet::new();
        if let Some(cpu) = pool
            .cpus
            .iter()
            .chain(pool.group_cpus.iter().flatten())
            .find(|c| **c >= MAX_CPUS || !seen.insert(**c))
        {
            let why = if *cpu >= MAX_CPUS { "is out of range" } else { "is named twice" };
            let text = format!("CPU {cpu} of pool `{name}` {why}");
            add(Rule::Cpus, text, format!("name each CPU once, below {MAX_CPUS}; workers take them in turn"));
        }
    }
}

/// Stages have a pool unless they can run anywhere, and sources are polled.
pub(super) fn stages(blueprint: &Blueprint, found: &mut Vec<Complaint>) {
    for (i, stage) in blueprint.stages.iter().enumerate() {
        let (name, contract) = (&stage.name, &stage.shape.contract);
        if stage.pool.is_none() && (contract.source || !contract.anywhere) {
            let text = match contract.source {
                true => format!("source `{name}` has no pool, and nobody would reach it to run it"),
                false => format!("stage `{name}` has no pool"),
            };
            let pools: Vec<_> = blueprint.pools.iter().map(|p| format!("`{}`", p.name)).collect();
            let help = format!("name its pool; pools: {}", pools.join(", "));
            found.push(Complaint::new(Rule::PoolMissing, Subject::Stage(i), text, help));
        }
        if contract.source && !contract.polls {
            let text =
                format!("`{name}` is a source that does not ask to be polled: it would never make an item");
            let help = "its contract must say `polls`";
            found.push(Complaint::new(Rule::SourceUnpolled, Subject::Stage(i), text, help));
        }
    }
}

/// No worker has more stages, its own and those it reaches, than it can keep track of.
pub(super) fn crowds(hops: &Hops, found: &mut Vec<Complaint>) {
    let runs_in = runs_in(hops);
    for (p, pool) in hops.blueprint.pools.iter().enumerate() {
        let stages = runs_in.iter().filter(|pools| pools.contains(&p)).count();
        if stages > MAX_STAGES {
            let text = format!("each worker of pool `{}` runs {stages} stages", pool.name);
            let help = format!("spread them over several pools: a worker keeps track of {MAX_STAGES} stages");
            found.push(Complaint::new(Rule::PoolCrowded, Subject::Pool(p), text, help));
        }
    }
}

/// Inline edges stay on one worker, other edges end at a stage that has workers of its own, and `submit`
/// comes in over a queue.
pub(super) fn edges(hops: &Hops, found: &mut Vec<Complaint>) {
    let blueprint = hops.blueprint;
    let runs_in = runs_in(hops);
    for &i in &hops.edges {
        let edge = &blueprint.edges[i];
        let (name, target) = (hops.edge_name(i), &blueprint.stages[edge.to]);
        let mut add = |rule, text: String, help: &str| {
            found.push(Complaint::new(rule, Subject::Edge(i), text, help));
        };
        let Some(from) = edge.from else {
            if !matches!(edge.mode, Mode::Queue { .. }) {
                let text = format!("`{name}` must be a queue: `{SUBMIT}` is outside every pool");
                add(Rule::SubmitMode, text, "use a queue, such as { queue = 1024 }");
            } else if target.pool.is_none() {
                add(Rule::QueueToNowhere, nowhere(&name, &target.name), "name a pool for the stage");
            }
            continue;
        };
        match (edge.mode, target.pool) {
            (Mode::Inline, _) if blueprint.is_guest(edge.to) => {}
            (Mode::Inline, Some(pool)) => {
                if let Some(&other) = runs_in[from].iter().find(|p| **p != pool) {
                    let [here, there] =
                        [other, pool].map(|p| blueprint.pools.get(p).map_or("?", |p| &p.name));
                    let text = format!(
                        "`{name}` is inline, but `{}` runs in pool `{here}` and `{}` in pool `{there}`",
                        hops.name(from),
                        target.name
                    );
                    let stolen = format!(
                        "use a queue here too, or make the edge into `{}` inline: then it goes on where it came from",
                        hops.name(from)
                    );
                    let help = match blueprint.is_stolen(from) {
                        true => &stolen,
                        false => "use a queue, or put both stages into one pool",
                    };
                    add(Rule::InlineAcrossPools, text, help);
                }
            }
            (_, None) => {
                add(
                    Rule::QueueToNowhere,
                    nowhere(&name, &target.name),
                    "make the edge inline, or name a pool for the stage",
                );
            }
            (_, _) => {}
        }
    }
}

fn nowhere(edge: &str, stage: &str) -> String {
    format!("`{edge}` is a queue, but `{stage}` has no pool: no worker would empty it")
}

/// In which pools each stage runs: its own, or those of the stages that reach it inline. One in a pool that steals runs with
/// whoever gives it away: who reaches it inline, and the pool's own desk where a ring leads to it.
pub(super) fn runs_in(hops: &Hops) -> Vec<BTreeSet<usize>> {
    let stages = &hops.blueprint.stages;
    let blueprint = hops.blueprint;
    let led_to = |s: usize| blueprint.edges.iter().any(|e| e.to == s && e.mode != Mode::Inline);
    let own = |s: usize| stages[s].pool.filter(|_| !blueprint.is_stolen(s) || led_to(s));
    let mut pools: Vec<BTreeSet<usize>> = (0..stages.len()).map(|s| own(s).into_iter().collect()).collect();
    let mut moved = true;
    while std::mem::take(&mut moved) {
        for &i in &hops.edges {
            let edge = &blueprint.edges[i];
            let Some(from) = edge.from.filter(|_| edge.mode == Mode::Inline && blueprint.is_guest(edge.to))
            else {
                continue;
            };
            let more: BTreeSet<usize> = pools[from].difference(&pools[edge.to]).copied().collect();
            moved |= !more.is_empty();
            pools[edge.to].extend(more);
        }
    }
    pools
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::super::fixture::{INLINE, Sketch, anywhere, back, only, queue, sink, source, through};
    use super::*;

    fn two() -> Sketch {
        Sketch::new()
            .pool("p", 1)
            .pool("q", 1)
            .stage("a", Some("p"), through(&["out"]))
            .stage("b", Some("q"), sink())
            .edge("submit -> a", queue(1))
    }

    /// Threads are counted over groups, at least one and not absurdly many, without overflow.
    #[test]
    fn threads_in_range() {
        for (threads, groups, bad) in
            [(0, 0, true), (1, 0, false), (1024, 0, false), (513, 2, true), (usize::MAX, 2, true)]
        {
            let mut graph = two().edge("a -> b", queue(1)).build();
            graph.pools[1].threads = threads;
            graph.pools[1].groups = (0..groups).map(|g| format!("g{g}")).collect();
            assert_eq!(check(&graph).iter().any(|c| c.rule == Rule::Threads), bad, "{threads} x {groups}");
        }
    }

    /// A pool nobody uses would be a thread for nothing.
    #[test]
    fn unused_pool() {
        let graph = two().edge("a -> b", queue(1)).pool("spare", 2).build();
        assert_eq!(only(&graph, Rule::PoolUnused).subject, Subject::Pool(2));
    }

    /// A worker's stages fit into its bits, those that it only reaches counted.
    #[test]
    fn crowded_pool() {
        for (count, bad) in [(MAX_STAGES, false), (MAX_STAGES + 1, true)] {
            let mut sketch = Sketch::new().pool("p", 1);
            for i in 0..count - 1 {
                sketch = sketch.stage(&format!("s{i}"), Some("p"), through(&["out"]));
            }
            sketch = sketch.stage("end", None, anywhere(&[])).edge("submit -> s0", queue(1));
            for i in 1..count - 1 {
                sketch = sketch.edge(&format!("s{} -> s{i}", i - 1), INLINE);
            }
            let graph = sketch.edge(&format!("s{} -> end", count - 2), INLINE).build();
            assert_eq!(check(&graph).iter().any(|c| c.rule == Rule::PoolCrowded), bad, "{count}");
        }
    }

    /// A CPU is named once and exists in the mask.
    #[test]
    fn cpu_lists() {
        for (cpus, bad) in [(vec![], false), (vec![3, 1], false), (vec![1, 1], true), (vec![1024], true)] {
            let mut graph = two().edge("a -> b", queue(1)).build();
            graph.pools[0].cpus = cpus.clone();
            assert_eq!(check(&graph).iter().any(|c| c.rule == Rule::Cpus), bad, "{cpus:?}");
        }
    }

    /// Only a stage that can run anywhere may go without a pool, and a source never.
    #[test]
    fn pool_missing() {
        let graph = two().edge("a -> b", queue(1)).stage("c", None, sink()).edge("submit -> c", queue(1));
        assert!(check(&graph.build()).iter().any(|c| c.rule == Rule::PoolMissing));
        let mut lone = source(&[]);
        lone.contract.anywhere = true;
        let graph = two().edge("a -> b", queue(1)).stage("s", None, lone).build();
        assert!(only(&graph, Rule::PoolMissing).text.starts_with("source `s`"));
    }

    /// A source that is not polled would sit there for ever.
    #[test]
    fn source_unpolled() {
        let mut mute = source(&[]);
        mute.contract.polls = false;
        let graph = two().edge("a -> b", queue(1)).stage("s", Some("p"), mute).build();
        assert_eq!(only(&graph, Rule::SourceUnpolled).subject, Subject::Stage(2));
    }

    /// Inline within a pool and into a stage without pool is fine; across pools it is not, and neither is the
    /// way round through a stage that runs in several pools.
    #[test]
    fn inline_stays_on_one_worker() {
        let graph = two().edge("a -> b", INLINE).build();
        let complaint = only(&graph, Rule::InlineAcrossPools);
        assert_eq!(complaint.text, "`a -> b` is inline, but `a` runs in pool `p` and `b` in pool `q`");
        let mut either = anywhere(&["out"]);
        either.contract.sink = false;
        let round = Sketch::new()
            .pool("p", 1)
            .pool("q", 1)
            .stage("a", Some("p"), through(&["out", "log"]))
            .stage("b", Some("q"), through(&["log"]))
            .stage("log", None, either)
            .stage("end", Some("p"), sink())
            .edge("submit -> a", queue(1))
            .edge("a -> b", queue(1))
            .edge("a.log -> log", INLINE)
            .edge("b.log -> log", INLINE)
            .edge("log -> end", INLINE)
            .build();
        let complaint = only(&round, Rule::InlineAcrossPools);
        assert_eq!(complaint.subject, Subject::Edge(4));
        assert!(complaint.text.contains("`log` runs in pool `q` and `end` in pool `p`"));
    }

    /// A queue or return edge needs a worker at its end.
    #[test]
    fn queue_needs_a_worker() {
        let graph = Sketch::new()
            .pool("p", 1)
            .stage("a", Some("p"), through(&["out"]))
            .stage("b", None, anywhere(&[]))
            .edge("submit -> a", queue(1))
            .edge("a -> b", queue(1))
            .build();
        assert_eq!(only(&graph, Rule::QueueToNowhere).subject, Subject::Edge(1));
    }

    /// `submit` has no worker to run anything inline, and no token to return.
    #[test]
    fn submit_is_a_queue() {
        for mode in [INLINE, back()] {
            let mut graph = two().edge("a -> b", queue(1)).build();
            graph.edges[0].mode = mode;
            assert_eq!(only(&graph, Rule::SubmitMode).subject, Subject::Edge(0));
        }
    }
}
