//! Which worker hosts which stages, and in which order it looks at them.
//! Deliberately from the blueprint alone.

use crate::blueprint::{Blueprint, Mode, PoolDecl, PoolKind};

/// One worker's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Name of its thread.
    pub name: String,
    /// Index of its pool.
    pub pool: usize,
    /// Index among all workers of the pool.
    pub worker: usize,
    /// Number of those.
    pub workers: usize,
    /// Index and name of its group, and index within it.
    pub group: usize,
    pub group_name: String,
    pub pair: usize,
    pub cpu: Option<usize>,
    /// Its stages, upstream first.
    pub stages: Vec<usize>,
}

/// All workers, pool by pool.
pub(crate) struct Placement {
    pub places: Vec<Place>,
}

impl Placement {
    pub(crate) fn new(blueprint: &Blueprint) -> Self {
        let order = upstream_first(blueprint);
        let mut places = Vec::new();
        for (p, pool) in blueprint.pools.iter().enumerate() {
            let stages = hosted(blueprint, p, &order);
            if pool.kind == PoolKind::Stealing {
                // Its threads carry out jobs. Only whoever reads the rings that lead to it has a place.
                places.extend(blueprint.has_desk(p).then(|| desk(pool, p, stages)));
                continue;
            }
            for worker in 0..pool.workers() {
                places.push(Place {
                    name: pool.thread_name(worker),
                    pool: p,
                    worker,
                    workers: pool.workers(),
                    group: worker / pool.threads.max(1),
                    group_name: pool.group_name(worker).into(),
                    pair: worker % pool.threads.max(1),
                    cpu: pool.cpu(worker),
                    stages: stages.clone(),
                });
            }
        }
        Self { places }
    }

    /// The workers that host a stage, in the order of the pool.
    pub(crate) fn hosts(&self, stage: usize) -> impl Iterator<Item = usize> + '_ {
        self.places.iter().enumerate().filter(move |(_, p)| p.stages.contains(&stage)).map(|(i, _)| i)
    }
}

/// The place of the worker that reads the rings of a `stealing` pool.
fn desk(decl: &PoolDecl, pool: usize, stages: Vec<usize>) -> Place {
    Place {
        name: decl.desk_name(),
        pool,
        worker: 0,
        workers: 1,
        group: 0,
        group_name: decl.name.clone(),
        pair: 0,
        cpu: None,
        stages,
    }
}

/// The stages of a pool, and the guests that they reach inline; in `order`. Of a pool that steals: those that rings lead
/// to.
fn hosted(blueprint: &Blueprint, pool: usize, order: &[usize]) -> Vec<usize> {
    let led_to = |s: usize| blueprint.edges.iter().any(|e| e.to == s && e.mode != Mode::Inline);
    let own = |s: usize| blueprint.stages[s].pool == Some(pool) && (!blueprint.is_stolen(s) || led_to(s));
    let mut here: Vec<bool> = (0..blueprint.stages.len()).map(own).collect();
    // Upstream first, so one pass reaches everything.
    for &stage in order {
        let inline = blueprint.edges.iter().filter(|e| e.from == Some(stage) && e.mode == Mode::Inline);
        if here[stage] {
            inline.filter(|e| blueprint.is_guest(e.to)).for_each(|e| here[e.to] = true);
        }
    }
    order.iter().copied().filter(|s| here[*s]).collect()
}

/// All stages so that every forward edge leads onward: the check has refused forward cycles.
fn upstream_first(blueprint: &Blueprint) -> Vec<usize> {
    let forward = |m: Mode| !matches!(m, Mode::Return { .. });
    let mut left: Vec<usize> = (0..blueprint.stages.len()).collect();
    let mut order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let fed = |s: &usize| {
            let mut into = blueprint.edges.iter().filter(|e| e.to == *s && forward(e.mode));
            into.any(|e| e.from.is_some_and(|f| left.contains(&f)))
        };
        let next = left.iter().position(|s| !fed(s)).unwrap_or(0);
        order.push(left.remove(next));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::fixture::preset;

    /// In the preset every worker has the shared `notify`, NIC workers know their NIC and pair, and stages
    /// come upstream first.
    #[test]
    fn preset_placement() {
        let graph = preset();
        let placement = Placement::new(&graph);
        let names =
            |p: &Place| -> Vec<_> { p.stages.iter().map(|s| graph.stages[*s].name.as_str()).collect() };
        let places = &placement.places;
        assert_eq!(places.len(), 4);
        assert_eq!(names(&places[0]), ["admit", "split", "route", "select", "notify"]);
        assert_eq!((places[2].group_name.as_str(), places[2].worker, places[2].pair), ("eth1", 1, 0));
        let nic = names(&places[1]);
        let at = |name: &str| nic.iter().position(|n| *n == name).unwrap();
        assert!(at("reap") < at("retry") && at("retry") < at("notify") && at("post") < at("retry"));
        let notify = graph.stage("notify").unwrap();
        assert_eq!(placement.hosts(notify).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
