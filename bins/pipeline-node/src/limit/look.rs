//! An interval as rules look at it: shares of time, who runs what, what lies between. Deliberately no judgement here.

use std::ops::Range;

use pipeline_configs::{Config, StageConfig};
use pipeline_graph::{
    Blueprint, EdgeDecl, EdgeStats, Histogram, Mode, PoolDecl, StageDecl, StageStats, WorkerStats,
};

use crate::observation::Observation;

/// See the head of the file.
pub(crate) struct Look<'a> {
    pub(crate) interval: &'a Observation,
    pub(crate) config: &'a Config,
    /// CPUs' worth of time that the process may use.
    pub(crate) cpus: f64,
}

impl<'a> Look<'a> {
    pub(super) fn blueprint(&self) -> &'a Blueprint {
        &self.config.blueprint
    }

    /// A time as a share of the interval: of one thread's time, so that of several may be more than 1.
    pub(super) fn share(&self, ns: u64) -> f64 {
        ns as f64 / (self.interval.graph.elapsed_ns as f64).max(1.0)
    }

    pub(super) fn seconds(&self) -> f64 {
        self.interval.graph.elapsed_ns as f64 / 1e9
    }

    // ---- workers ---------------------------------------------------------------------------------------

    pub(super) fn workers(&self) -> &'a [WorkerStats] {
        &self.interval.graph.workers
    }

    /// The worker with least time left, and the share of its time that it was busy.
    pub(super) fn busiest(&self) -> Option<(&'a WorkerStats, f64)> {
        let all = self.workers().iter().map(|worker| (worker, self.share(worker.busy_ns)));
        all.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Its workers.
    pub(super) fn of_pool(&self, pool: &str) -> impl Iterator<Item = &'a WorkerStats> {
        let pool = pool.to_owned();
        self.workers().iter().filter(move |worker| worker.pool == pool)
    }

    pub(super) fn pool(&self, name: &str) -> Option<&'a PoolDecl> {
        self.blueprint().pools.iter().find(|pool| pool.name == name)
    }

    /// Share of the time in which a worker could have slept and looked for work instead.
    pub(super) fn looking(&self, worker: &WorkerStats) -> f64 {
        (1.0 - self.share(worker.parked_ns) - self.share(worker.busy_ns)).max(0.0)
    }

    /// CPUs that a worker wants: where the kernel tells, as long as it ran or could have run; else, as long as it did not sleep.
    pub(super) fn wants(&self, worker: &WorkerStats) -> f64 {
        match worker.cpu_ns + worker.cpu_wait_ns {
            0 if worker.turns == 0 => 0.0,
            0 => (1.0 - self.share(worker.parked_ns)).max(0.0),
            ns => self.share(ns),
        }
    }

    /// CPUs that all threads of the process want: of those that are not workers, what they got.
    pub(super) fn wanted_cpus(&self) -> f64 {
        let ours: u64 = self.workers().iter().map(|worker| worker.cpu_ns).sum();
        let others = if ours > 0 { self.share(self.interval.cpu_ns.saturating_sub(ours)) } else { 0.0 };
        self.workers().iter().map(|worker| self.wants(worker)).sum::<f64>() + others
    }

    // ---- stages ----------------------------------------------------------------------------------------

    pub(super) fn stages(&self) -> impl Iterator<Item = (usize, &'a StageStats)> {
        self.interval.graph.stages.iter().enumerate()
    }

    pub(super) fn stage(&self, index: usize) -> Option<&'a StageStats> {
        self.interval.graph.stages.get(index)
    }

    /// Stages of a type, with what the file says of them.
    pub(super) fn of_kind(&self, kind: &str) -> impl Iterator<Item = (&'a StageStats, &'a StageConfig)> {
        let kind = kind.to_owned();
        let both = self.interval.graph.stages.iter().zip(&self.config.stages);
        both.filter(move |(_, said)| said.kind == kind)
    }

    /// What the workers of a pool run: its own stages, and those without a pool that they reach.
    pub(super) fn run_by(&self, pool: &str) -> Vec<(usize, &'a StageStats)> {
        let at = self.blueprint().pool(pool);
        let is_own = |stage: usize| self.blueprint().stages.get(stage).is_some_and(|s| s.pool == at);
        let mut run: Vec<usize> = (0..self.blueprint().stages.len()).filter(|s| is_own(*s)).collect();
        let mut next = 0;
        while next < run.len() {
            let reached = self.blueprint().edges.iter().filter(|edge| {
                edge.from == Some(run[next])
                    && edge.mode == Mode::Inline
                    && self.blueprint().stages.get(edge.to).is_some_and(|s| s.pool.is_none())
            });
            let new: Vec<usize> = reached.map(|edge| edge.to).filter(|to| !run.contains(to)).collect();
            run.extend(new);
            next += 1;
        }
        run.into_iter().filter_map(|s| Some((s, self.stage(s)?))).collect()
    }

    pub(super) fn declared(&self, stage: usize) -> Option<&'a StageDecl> {
        self.blueprint().stages.get(stage)
    }

    // ---- edges -----------------------------------------------------------------------------------------

    pub(super) fn edges(&self) -> impl Iterator<Item = (&'a EdgeDecl, &'a EdgeStats)> {
        self.blueprint().edges.iter().zip(&self.interval.graph.edges)
    }

    /// The queues that lead to a stage.
    pub(super) fn queues_to(&self, stage: usize) -> impl Iterator<Item = (&'a EdgeDecl, &'a EdgeStats)> {
        self.edges().filter(move |(edge, _)| edge.to == stage && matches!(edge.mode, Mode::Queue { .. }))
    }

    // ---- what moved ------------------------------------------------------------------------------------

    /// Bytes and slices that this node's own requests moved.
    pub(super) fn moved(&self) -> (u64, u64) {
        let nics = &self.interval.nics;
        (nics.iter().map(|nic| nic.bytes).sum(), nics.iter().map(|nic| nic.slices).sum())
    }

    /// Of the time of all slices, the part in which they were with peers or waited for room on a lane. By how long each was where,
    /// if that is measured; else by how many are with peers now.
    pub(super) fn with_peers(&self) -> f64 {
        let there = self.held("cq_reap") + self.without_lane();
        if there > 0.0 {
            return there / self.slice_time();
        }
        let usage = &self.interval.usage;
        let now: u64 = self.interval.peers.iter().map(|peer| peer.outstanding).sum();
        now as f64 / u64::from(usage.slices).max(self.interval.under_way).max(1) as f64
    }

    /// Time that slices waited for room on a lane: before `wr_post` could post them, and in `nic_select` while lanes are full (else they
    /// wait there for something else, as for the queue behind it).
    pub(super) fn without_lane(&self) -> f64 {
        self.held("wr_post") + if self.are_lanes_full() { self.held("nic_select") } else { 0.0 }
    }

    /// Whether lanes held as many slices as they may, for a good part of the time.
    fn are_lanes_full(&self) -> bool {
        let busiest = self.interval.nics.iter().max_by_key(|nic| nic.bytes);
        let transport =
            busiest.and_then(|nic| self.config.transports.iter().find(|t| t.name == nic.transport));
        let Some(depth) = transport.and_then(|transport| transport.values.number("depth")) else {
            return false;
        };
        let lanes: usize = self.interval.peers.iter().map(|peer| peer.links).sum();
        self.share(self.held("cq_reap") as u64) > 0.5 * (depth * lanes as u64) as f64
    }

    /// Time that slices were held by stages of a type, all together.
    pub(super) fn held(&self, kind: &str) -> f64 {
        self.of_kind(kind).map(|(stage, _)| self.within(&stage.held)).sum()
    }

    /// Sum of times that were recorded when they ended, of each no more than the interval: what began long before it was not in it
    /// for longer than it lasted.
    pub(super) fn within(&self, times: &Histogram) -> f64 {
        let most = self.interval.graph.elapsed_ns;
        if times.quantile(1.0) <= most {
            return times.total();
        }
        let middle = |values: &Range<u64>| (values.start + (values.end - values.start) / 2).min(most) as f64;
        times.buckets().map(|(values, count)| middle(&values) * count as f64).sum()
    }

    /// Time of all slices, wherever they were: before stages, in their hands, held by them. (Not of their requests: of many slices of
    /// one request the first end long before it does.)
    pub(super) fn slice_time(&self) -> f64 {
        let of = |stage: &StageStats| {
            let in_hands = stage.busy_ns as f64 * stage.items as f64 / stage.batches.max(1) as f64;
            self.within(&stage.wait) + self.within(&stage.held) + in_hands
        };
        self.stages().map(|(_, stage)| of(stage)).sum()
    }

    /// Time that slices spent somewhere, as a part of all the time that they were under way; `None` while none has ended.
    pub(super) fn part_of_all(&self, ns: f64) -> Option<f64> {
        let counts = &self.interval.counts;
        let slices_each = (counts.slices as f64 / counts.entered.max(1) as f64).max(1.0);
        let all = self.within(&counts.took) * slices_each;
        (all > 0.0).then(|| ns / all)
    }

    /// Whether this node has requests of its own.
    pub(super) fn has_requests(&self) -> bool {
        self.open_requests() > 0.0 || self.of_kind("admit").any(|(stage, _)| stage.items > 0)
    }

    /// Requests that were under way at a time, on average: by how long each took (Little's law), where any has ended; else those
    /// that are now. What has ended does not speak for the others where it is the lesser part of what moved.
    pub(super) fn open_requests(&self) -> f64 {
        let (counts, now) = (&self.interval.counts, self.interval.under_way as f64);
        let ended = self.within(&counts.took) / (self.interval.graph.elapsed_ns as f64).max(1.0);
        let are_few = self.moved().0 > 2 * counts.bytes;
        match counts.took.count() {
            0 => now,
            _ if are_few => ended.max(now),
            _ => ended,
        }
    }

    /// Whether times are measured (`stats.enabled`): without them stages cannot be told apart, nor who waits for what.
    pub(super) fn is_timed(&self) -> bool {
        !self.blueprint().untimed
    }
}

/// `83 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share.clamp(0.0, 1.0))
}

/// `12.5 us`, `3.1 ms`, `1.2 s`.
pub(super) fn time(ns: f64) -> String {
    match ns {
        _ if ns < 1e3 => format!("{ns:.0} ns"),
        _ if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        _ if ns < 1e9 => format!("{:.1} ms", ns / 1e6),
        _ => format!("{:.1} s", ns / 1e9),
    }
}

/// `1 thread`, `8 threads`.
pub(super) fn threads(count: usize) -> String {
    if count == 1 { "1 thread".to_owned() } else { format!("{count} threads") }
}
