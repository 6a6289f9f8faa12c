//! Observations made by hand, of a node of a file: a second in which nothing happened, until a test says what did.

use pipeline_configs::Config;
use pipeline_graph::{EdgeStats, Mode, StageStats, WorkerStats};
use pipeline_stages::peer::PeerState;
use pipeline_stages::traffic::{NicStats, PeerStats};

use super::{Limit, limit_on};
use crate::observation::Observation;
use crate::source::Source;

pub(super) const SECOND: u64 = 1_000_000_000;

/// A node of a file, and what it measured in a second.
pub(super) struct Seen {
    pub(super) toml: String,
    pub(super) config: Config,
    pub(super) interval: Observation,
    /// CPUs that it may use.
    pub(super) cpus: f64,
}

impl Seen {
    /// The preset `tcp` with these lines, on four CPUs.
    pub(super) fn of(lines: &str) -> Self {
        let toml = format!("version = 1\nuse = \"tcp\"\n{lines}\n");
        let loaded = Source::text("node.toml", &toml).load();
        let config = loaded.unwrap_or_else(|e| panic!("{}", e.text())).config;
        let mut interval = Observation::default();
        let graph = &config.blueprint;
        interval.graph.elapsed_ns = SECOND;
        let pool = |at: Option<usize>| at.map(|p| &graph.pools[p]);
        for stage in &graph.stages {
            let mut line = StageStats::default();
            (line.name, line.kind) = (stage.name.clone(), stage.kind.clone());
            line.pool = pool(stage.pool).map(|p| p.name.clone());
            line.threads = pool(stage.pool).map_or(1, |p| p.workers());
            interval.graph.stages.push(line);
        }
        for edge in &graph.edges {
            let mut line = EdgeStats { name: graph.edge_name(edge), ..EdgeStats::default() };
            if let Mode::Queue { capacity, .. } = edge.mode {
                (line.mode, line.capacity, line.rings) = ("queue", capacity, 1);
            }
            interval.graph.edges.push(line);
        }
        for pool in &graph.pools {
            for at in 0..pool.workers() {
                let line = WorkerStats {
                    name: pool.thread_name(at),
                    pool: pool.name.clone(),
                    ..WorkerStats::default()
                };
                interval.graph.workers.push(WorkerStats { turns: 1, parked_ns: SECOND, ..line });
            }
        }
        interval.nics.push(NicStats { transport: "tcp".into(), name: "tcp".into(), ..NicStats::default() });
        Self { toml, config, interval, cpus: 4.0 }
    }

    pub(super) fn stage(&mut self, name: &str) -> &mut StageStats {
        self.interval.graph.stages.iter_mut().find(|s| s.name == name).expect("the file has it")
    }

    pub(super) fn edge(&mut self, name: &str) -> &mut EdgeStats {
        self.interval.graph.edges.iter_mut().find(|e| e.name == name).expect("the file has it")
    }

    pub(super) fn worker(&mut self, name: &str) -> &mut WorkerStats {
        let first = format!("{name}/0");
        let mut all = self.interval.graph.workers.iter_mut();
        all.find(|w| w.name == name || w.name == first).expect("the file has it")
    }

    /// A worker that was busy for so many thousandths of the second, looked for so many, and slept the rest.
    pub(super) fn ran(&mut self, worker: &str, busy: u64, looked: u64) {
        let line = self.worker(worker);
        line.busy_ns = busy * SECOND / 1000;
        line.parked_ns = SECOND - (busy + looked) * SECOND / 1000;
        line.cpu_ns = (busy + looked) * SECOND / 1000;
        line.cpu_wait_ns = 0;
        self.interval.cpu_ns += (busy + looked) * SECOND / 1000;
    }

    /// A stage that took so many thousandths of the second for so many items.
    pub(super) fn worked(&mut self, stage: &str, busy: u64, items: u64) {
        let line = self.stage(stage);
        line.busy_ns = busy * SECOND / 1000;
        line.items = items;
        line.batches = items.div_ceil(8);
        line.service.record(line.busy_ns / line.batches.max(1), line.batches);
    }

    /// Requests that are under way, and slices of them that are with the peer `b`; and what it answered meanwhile.
    pub(super) fn under_way(&mut self, requests: u32, with_peer: u64, answered: u64, bytes_each: u64) {
        (self.interval.under_way, self.interval.usage.slices) = (u64::from(requests), requests);
        let peer = PeerStats { label: "b".into(), state: PeerState::Up, links: 2, ..PeerStats::default() };
        self.interval.peers.push(PeerStats { outstanding: with_peer, ..peer });
        let nic = &mut self.interval.nics[0];
        (nic.slices, nic.bytes, nic.outstanding) = (answered, answered * bytes_each, with_peer);
    }

    pub(super) fn limit(&self) -> Limit {
        limit_on(&self.interval, &self.config, self.cpus)
    }
}
