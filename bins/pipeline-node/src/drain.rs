//! Stopping in good order: nothing new is taken, peers are told, and what has begun ends, on both sides.
//! Deliberately bounded: whoever drains says how long, and is told what was left.

use std::fmt;
use std::time::{Duration, Instant};

use pipeline_graph::{DrainReport as GraphReport, Laggard};
use pipeline_stages::control::Remaining;

use crate::engine::{Inner, by};

/// One look at the graph; between looks, peers are asked, and a stop is seen.
const LOOK: Duration = Duration::from_millis(2);

/// How a drain ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainReport {
    /// Whether nothing was left, here and at the peers.
    pub empty: bool,
    /// How long it took, nanoseconds.
    pub took_ns: u64,
    /// Requests of this node that have not ended.
    pub requests: u64,
    /// Stages that still hold items, most first. `serve` counts work requests of peers that have begun here.
    pub left: Vec<Laggard>,
    /// Peers whose own requests to this node have not ended.
    pub peers: Vec<Remaining>,
}

impl fmt::Display for DrainReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.took_ns / 1_000_000;
        if self.empty {
            return write!(f, "drained in {ms} ms");
        }
        let s = if self.requests == 1 { "" } else { "s" };
        write!(f, "not drained after {ms} ms: {} request{s} of this node not done", self.requests)?;
        for Laggard { stage, items } in &self.left {
            write!(f, ", `{stage}` holds {items}")?;
        }
        for Remaining { peer, requests } in &self.peers {
            match requests {
                Some(n) => write!(f, ", peer {peer} has {n} under way here")?,
                None => write!(f, ", peer {peer} has not said what it has under way here")?,
            }
        }
        Ok(())
    }
}

/// Drains until nothing is left, `timeout` has passed, or the engine was stopped.
pub(crate) fn drain(inner: &Inner, timeout: Duration) -> DrainReport {
    let begin = Instant::now();
    // First the own entrance, so that nobody is told who could still be asked for something.
    let mut graph = inner.look(Duration::ZERO);
    inner.control.leave();
    loop {
        let left = timeout.saturating_sub(begin.elapsed());
        let peers = inner.control.remaining();
        let empty = graph.empty && peers.is_empty();
        if empty || left.is_zero() || inner.is_stopped() {
            return report(inner, begin, graph, peers);
        }
        if graph.empty {
            std::thread::sleep(LOOK.min(left));
        }
        graph = inner.look(LOOK.min(left));
    }
}

fn report(inner: &Inner, begin: Instant, graph: GraphReport, peers: Vec<Remaining>) -> DrainReport {
    DrainReport {
        empty: graph.empty && peers.is_empty(),
        took_ns: u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX),
        requests: inner.world.ledger.unfinished(None),
        left: graph.left,
        peers,
    }
}

impl Inner {
    /// One look at the graph, which drains from the first one on. The lock is not kept: [`Inner::stop`] needs it.
    fn look(&self, timeout: Duration) -> GraphReport {
        let by = by(timeout);
        let mut report = self.graph().drain(by);
        let notices = self.world.ledger.await_notices(by);
        if notices > 0 {
            report.empty = false;
            report.left.push(Laggard { stage: "notice".to_owned(), items: notices as u64 });
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report says how many requests were not done, and names stages and peers.
    #[test]
    fn names_what_is_left() {
        let left = vec![Laggard { stage: "retry".into(), items: 50 }];
        let peer = |name: &str, requests| Remaining { peer: name.into(), requests };
        let peers = vec![peer("a", Some(3)), peer("b", None)];
        let report = DrainReport { empty: false, took_ns: 3_000_000_000, requests: 50, left, peers };
        assert_eq!(
            report.to_string(),
            "not drained after 3000 ms: 50 requests of this node not done, `retry` holds 50, peer a has 3 under way here, \
             peer b has not said what it has under way here"
        );
    }
}
