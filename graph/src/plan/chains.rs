//! Which stages a worker runs without a queue between: the parts of a pool that inline edges hold together.

use super::ChainPlan;
use crate::blueprint::{Blueprint, Mode};

/// The chains of all pools, in the order of pools and then of stages.
pub(crate) fn chains(blueprint: &Blueprint) -> Vec<ChainPlan> {
    grouped(blueprint)
        .iter()
        .map(|(pool, members, reached)| describe(blueprint, *pool, members, reached))
        .collect()
}

/// Pool, member stages (upstream first), and those that they reach and that run where they are reached, of each chain.
pub(crate) fn grouped(blueprint: &Blueprint) -> Vec<(usize, Vec<usize>, Vec<usize>)> {
    let wires = inline(blueprint);
    let mut groups = Vec::new();
    for pool in 0..blueprint.pools.len() {
        let here = |s: usize| blueprint.stages[s].pool == Some(pool);
        let mut left: Vec<usize> = (0..blueprint.stages.len()).filter(|s| here(*s)).collect();
        while let Some(&first) = left.first() {
            let joined: Vec<_> = wires.iter().copied().filter(|(a, b)| here(*a) && here(*b)).collect();
            let members =
                closure(&[first], &[joined.clone(), joined.iter().map(|(a, b)| (*b, *a)).collect()].concat());
            left.retain(|s| !members.contains(s));
            let free: Vec<_> = wires.iter().copied().filter(|(_, b)| blueprint.is_guest(*b)).collect();
            let mut reached = closure(&members, &free);
            reached.retain(|s| !members.contains(s));
            groups.push((pool, upstream_first(&members, &joined), upstream_first(&reached, &wires)));
        }
    }
    groups
}

fn describe(blueprint: &Blueprint, pool: usize, members: &[usize], reached: &[usize]) -> ChainPlan {
    let names = |stages: &[usize]| stages.iter().map(|s| blueprint.stages[*s].name.clone()).collect();
    let wires: Vec<_> =
        inline(blueprint).into_iter().filter(|(a, b)| members.contains(a) && members.contains(b)).collect();
    let next = |pair: &(usize, usize)| members.windows(2).any(|w| (w[0], w[1]) == *pair);
    ChainPlan {
        pool: blueprint.pools[pool].name.clone(),
        stages: names(members),
        reaches: names(reached),
        linear: wires.iter().all(next),
    }
}

/// Inline edges between stages that exist.
fn inline(blueprint: &Blueprint) -> Vec<(usize, usize)> {
    let ends =
        blueprint.edges.iter().filter(|e| e.mode == Mode::Inline).filter_map(|e| Some((e.from?, e.to)));
    ends.filter(|(a, b)| (*a).max(*b) < blueprint.stages.len()).collect()
}

/// Everything reached from `seeds`, in file order.
fn closure(seeds: &[usize], wires: &[(usize, usize)]) -> Vec<usize> {
    let mut seen = seeds.to_vec();
    let mut at = 0;
    while let Some(&stage) = seen.get(at) {
        for (_, to) in wires.iter().filter(|(from, _)| *from == stage) {
            if !seen.contains(to) {
                seen.push(*to);
            }
        }
        at += 1;
    }
    seen.sort_unstable();
    seen
}

/// `stages` in an order where every wire leads forward, file order where that leaves a choice. A cycle (which
/// the check refuses) is cut at its first stage.
fn upstream_first(stages: &[usize], wires: &[(usize, usize)]) -> Vec<usize> {
    let mut left = stages.to_vec();
    let mut ordered = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let fed = |s: &usize| wires.iter().any(|(a, b)| b == s && left.contains(a));
        let next = left.iter().position(|s| !fed(s)).unwrap_or(0);
        ordered.push(left.remove(next));
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::fixture::{INLINE, Sketch, preset, queue, sink, through};

    /// The preset falls into the chains its picture shows: the front one a line, the retry one not.
    #[test]
    fn preset_chains() {
        let chains = chains(&preset());
        let show: Vec<_> = chains
            .iter()
            .map(|c| format!("{} {} {} {}", c.pool, c.stages.join(","), c.reaches.join(","), c.linear))
            .collect();
        let want = [
            "front admit,split,route,select notify true",
            "nic post,reap,retry notify false",
            "nic serve  true",
            "files files  true",
        ];
        assert_eq!(show, want);
    }

    /// Stages are ordered by the edges, not by the file; a refused cycle still has an order.
    #[test]
    fn order_follows_edges() {
        let backwards = |close: bool| {
            let sketch = Sketch::new()
                .pool("p", 1)
                .stage("c", Some("p"), if close { through(&["out"]) } else { sink() })
                .stage("b", Some("p"), through(&["out"]))
                .stage("a", Some("p"), through(&["out"]))
                .edge("submit -> a", queue(1))
                .edge("a -> b", INLINE)
                .edge("b -> c", INLINE);
            if close { sketch.edge("c -> a", INLINE).build() } else { sketch.build() }
        };
        assert_eq!(chains(&backwards(false))[0].stages, ["a", "b", "c"]);
        assert_eq!(chains(&backwards(true))[0].stages.len(), 3);
    }
}
