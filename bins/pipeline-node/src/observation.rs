//! Everything that a node measures of itself, at one moment: what the admin socket, the metrics, `bench` and `tune` read.
//! Deliberately plain data that sums nothing over time: two of them subtract to the interval between.

use std::sync::{Arc, PoisonError, RwLock};

use pipeline_graph::Snapshot;
use pipeline_stages::control::{Blames, PeerFailures};
use pipeline_stages::ledger::Usage;
use pipeline_stages::traffic::{Counts, NicStats, PeerStats};
use pipeline_stages::{Key, World};

use crate::engine::{Engine, Inner};

/// A node's counters at one moment, or (after [`Observation::since`]) over an interval.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Observation {
    /// Stages, edges and workers, and the time that this covers.
    pub graph: Snapshot,
    /// What is taken of the ledger now: not subtracted.
    pub usage: Usage,
    /// CPU time of the whole process, the application's own threads included.
    pub cpu_ns: u64,
    /// Time that stages which cut requests found no window and no slice for what waits there, summed over their workers. A
    /// worker that sleeps meanwhile tells of it when it is awake again.
    pub window_short_ns: u64,
    /// What requests and slices came to.
    pub counts: Counts,
    /// Requests that have not ended: how it is now, not subtracted. Those whose batch has ended are not among them, which
    /// [`Usage::requests`] counts until the application lets go of the batch.
    pub under_way: u64,
    /// NICs of all transports, in the order of the file.
    pub nics: Vec<NicStats>,
    /// Peers that were opened, in the order in which that was first asked for: a peer keeps its place.
    pub peers: Vec<PeerStats>,
}

impl Observation {
    /// What happened between `earlier` and this one, both of the same engine; how things stand (depths, links, states, the
    /// ledger) is as of now.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let nics = self.nics.iter().enumerate().map(|(i, now)| match earlier.nics.get(i) {
            Some(old) => now.since(old),
            None => now.clone(),
        });
        // Each has its place: a search by label would be quadratic in peers, on the control thread.
        let peers = self.peers.iter().enumerate().map(|(i, now)| match earlier.peers.get(i) {
            Some(old) if old.label == now.label => now.since(old),
            _ => now.clone(),
        });
        Self {
            graph: self.graph.since(&earlier.graph),
            usage: self.usage,
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            window_short_ns: self.window_short_ns.saturating_sub(earlier.window_short_ns),
            counts: self.counts.since(&earlier.counts),
            under_way: self.under_way,
            nics: nics.collect(),
            peers: peers.collect(),
        }
    }
}

/// Whoever observes a node from its control thread holds this and not the engine: with the last handle to an engine the
/// control thread is joined, which it cannot do itself.
#[derive(Clone)]
pub(crate) struct Observer {
    pub(crate) world: Arc<World>,
    pub(crate) graph: Arc<RwLock<pipeline_graph::Engine<Key>>>,
    pub(crate) blames: Blames,
}

impl Observer {
    /// See [`Engine::observe`].
    pub(crate) fn observe(&self) -> Observation {
        let graph = self.graph.read().unwrap_or_else(PoisonError::into_inner).snapshot();
        let counts = self.world.counts();
        Observation {
            graph,
            usage: self.world.usage(),
            cpu_ns: process_cpu_ns(),
            window_short_ns: self.world.ledger.window.short_ns(),
            under_way: counts.under_way(),
            counts,
            nics: self.nics(),
            peers: self.peers(),
        }
    }

    /// Where the graph stands.
    pub(crate) fn state(&self) -> pipeline_graph::State {
        self.graph.read().unwrap_or_else(PoisonError::into_inner).state()
    }

    /// See [`Engine::nics`].
    pub(crate) fn nics(&self) -> Vec<NicStats> {
        self.world
            .nics()
            .into_iter()
            .zip(self.blames.nics())
            .map(|(nic, blamed)| nic.blamed(blamed))
            .collect()
    }

    fn peers(&self) -> Vec<PeerStats> {
        self.world.peer_stats(&self.blames.peers())
    }
}

impl Engine {
    /// What observes this node without keeping it.
    pub(crate) fn observer(&self) -> Observer {
        let Inner { world, graph, control, .. } = &*self.inner;
        Observer { world: world.clone(), graph: graph.clone(), blames: control.blames() }
    }

    /// What the engine measures of itself. Subtract two with [`Snapshot::since`].
    pub fn stats(&self) -> Snapshot {
        if self.here().is_err() {
            return Snapshot::default();
        }
        self.inner.graph().snapshot()
    }

    /// How much of the engine's tables is taken now: [idle](Usage::is_idle) when every batch has ended and was
    /// dropped. What was counted says [`Self::counts`].
    pub fn usage(&self) -> Usage {
        if self.here().is_err() {
            return Usage::default();
        }
        self.inner.world.usage()
    }

    /// What requests and slices came to since the start. Subtract two with [`Counts::since`].
    pub fn counts(&self) -> Counts {
        if self.here().is_err() {
            return Counts::default();
        }
        self.inner.world.counts()
    }

    /// What has moved over each NIC of each transport since the start, how often links ended because of it, and how it stands
    /// now: in the order of the file. Subtract two with [`NicStats::since`].
    pub fn nics(&self) -> Vec<NicStats> {
        if self.here().is_err() {
            return Vec::new();
        }
        self.observer().nics()
    }

    /// How often links to each opened peer ended because of the way there, or of the peer: nothing that a NIC of this node
    /// did is counted here.
    pub fn peer_failures(&self) -> Vec<PeerFailures> {
        if self.here().is_err() {
            return Vec::new();
        }
        self.inner.control.blames().peers()
    }

    /// Forgets the largest depths seen so far, which [`Snapshot::since`] cannot subtract.
    pub fn reset_peaks(&self) {
        if self.here().is_err() {
            return;
        }
        self.inner.graph().reset_peaks();
    }

    /// Everything that the node measures of itself, now. Costs a walk over all cells, some 100 µs for a large file: for
    /// looking each second, not each request.
    pub fn observe(&self) -> Observation {
        if self.here().is_err() {
            return Observation::default();
        }
        self.observer().observe()
    }
}

fn process_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Each of very many peers has what happened to it since, in a moment; one that was not there before has all of it.
    #[test]
    fn many_peers_subtract_in_a_moment() {
        let at = |peers: u64, retries| {
            let peer =
                |i| PeerStats { label: format!("peer-{i:06}"), retries: retries + i, ..PeerStats::default() };
            Observation { peers: (0..peers).map(peer).collect(), ..Observation::default() }
        };
        let (before, after) = (at(65_535, 7), at(65_536, 10));
        let begin = Instant::now();
        let since = after.since(&before);
        assert!(begin.elapsed().as_millis() < 1000, "{:?}", begin.elapsed());
        let (last, known) = since.peers.split_last().unwrap();
        assert!(known.iter().all(|peer| peer.retries == 3) && last.retries == 65_545);
    }
}
