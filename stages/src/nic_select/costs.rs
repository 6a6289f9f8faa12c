//! What a byte counts for on each NIC of a transport, in 1/1024 of one on the fastest near one: by the speeds that the file or
//! the system tells, and for `least_loaded` by what was measured, looked at now and then.
//! Deliberately bounded: a NIC that was slow once still gets a share, or nobody would see that it has recovered.

use std::sync::atomic::Ordering::Relaxed;

use pipeline_graph::Nanos;

use super::policy::Policy;
use crate::topology::{Ranking, Topology};

/// How long measured speeds are used before they are looked at again.
const FRESH_NS: Nanos = 1_000_000;

/// The slowest counts as at least this part of the fastest.
const SLOWEST: u64 = 16;

/// See the file's head.
pub(super) struct Costs {
    policy: Policy,
    by_transport: Vec<Vec<u64>>,
    stale_at: Nanos,
}

impl Costs {
    pub(super) fn new(policy: Policy, transports: usize) -> Self {
        Self { policy, by_transport: vec![Vec::new(); transports], stale_at: 0 }
    }

    /// Looks at measured speeds, if it is time.
    #[inline]
    pub(super) fn refresh(&mut self, topology: &Topology, now: Nanos) {
        if self.policy == Policy::LeastLoaded && now >= self.stale_at {
            self.stale_at = now + FRESH_NS;
            for (at, costs) in self.by_transport.iter_mut().enumerate() {
                measured(topology, at as u16, costs);
            }
        }
    }

    /// What a byte counts for on a NIC.
    #[inline]
    pub(super) fn of(&self, topology: &Topology, transport: u16, ranking: &Ranking, nic: u16) -> u64 {
        let nic_at = usize::from(nic);
        match self.policy {
            Policy::LeastLoaded => {
                let cost = self.by_transport[usize::from(transport)].get(nic_at).copied().unwrap_or(1024);
                ((cost * ranking.nearness(nic).weight()) >> 10).max(1)
            }
            _ => topology.costs(transport)[nic_at],
        }
    }
}

/// By measured speeds. A NIC that was not measured counts as the fastest: it shall be tried. Before any was, told speeds count.
fn measured(topology: &Topology, transport: u16, costs: &mut Vec<u64>) {
    let speeds = topology.speeds(transport);
    let fastest = speeds.iter().map(|speed| speed.load(Relaxed)).max().unwrap_or(0);
    costs.clear();
    if fastest == 0 {
        costs.extend_from_slice(topology.costs(transport));
        return;
    }
    costs.extend(speeds.iter().map(|speed| match speed.load(Relaxed) {
        0 => 1024,
        speed => (1024 * u128::from(fastest) / u128::from(speed)).min(u128::from(1024 * SLOWEST)) as u64,
    }));
}
