//! Whether somebody else is busy where it would be measured. What a file is measured for disturbs others, and is disturbed by them:
//! so a target with traffic is refused, unless the user says otherwise.
//!
//! Deliberately by what the target tells from over there, while this side asks nothing of it: what it served and moved, which is
//! traffic whatever its threads do meanwhile; and its CPU time where that does not say all (a transport whose target takes no part
//! serves unseen) or is not told. CPU time is traffic or threads that spin; which of the two, its owner knows.

use std::time::{Duration, Instant};

use pipeline_node::{Engine, Peer, Traffic};

use super::args::Args;
use super::space::Space;
use crate::cli::exit::{Failure, Outcome};
use crate::cli::failures::engine;
use crate::cli::file;
use crate::cli::work::{Against, beside};

/// How long the target is left alone, and watched.
const WATCH: Duration = Duration::from_millis(700);
/// CPU of an idle node, at most, as a share of one: its timers and what control does.
const IDLE_MAX: f64 = 0.05;
/// How long it may take to be reached.
const OPEN: Duration = Duration::from_secs(10);

/// Refuses a named target that is busy.
///
/// # Errors
/// 69: it is busy, or cannot be reached, or does not tell.
pub fn refuse(args: &Args, against: &Against, space: &Space) -> Outcome {
    let Some(target) = args.target.as_ref().filter(|_| !args.live) else { return Ok(()) };
    let config = file::unpublished(beside(space.loaded.config.clone(), true));
    let node = Engine::start(config).map_err(|e| engine(&e))?;
    let peer = node.open_within(&against.address, OPEN).map_err(|e| engine(&e))?;
    let watched = watch(&peer);
    drop(peer);
    node.stop();
    match busy(&watched) {
        None => Ok(()),
        Some(why) => Err(Failure::peer(format!(
            "{target} {why}; tuning would disturb that, and be disturbed by it: --live does it all the same"
        ))),
    }
}

/// What was seen of a target that this side asked nothing of.
#[derive(Clone, Copy, Debug, Default)]
struct Watched {
    /// What went through its node, if it tells: bytes, and slices of its own that were under way.
    traffic: Option<Traffic>,
    /// The share of a CPU that its process used, if it tells.
    cpu: Option<f64>,
}

fn watch(peer: &Peer) -> Watched {
    let look = || (Instant::now(), peer.traffic().ok(), peer.cpu_ns().ok());
    let (begin, traffic, cpu_ns) = look();
    std::thread::sleep(WATCH);
    let (end, traffic_after, cpu_ns_after) = look();
    let moved = |(before, after): (Traffic, Traffic)| Traffic {
        served: after.served.saturating_sub(before.served),
        moved: after.moved.saturating_sub(before.moved),
        ..after
    };
    let elapsed_ns = end.duration_since(begin).as_nanos() as f64;
    Watched {
        traffic: traffic.zip(traffic_after).map(moved),
        cpu: cpu_ns.zip(cpu_ns_after).map(|(before, after)| after.saturating_sub(before) as f64 / elapsed_ns),
    }
}

/// Why it is busy, if it is.
fn busy(watched: &Watched) -> Option<String> {
    if let Some(traffic) = watched.traffic {
        let Traffic { served, moved, outstanding, is_whole } = traffic;
        if served + moved + outstanding > 0 {
            return Some(format!(
                "has other traffic: while nothing was asked of it from here it served {served} bytes and moved {moved} of its own \
                 in {} ms, and {outstanding} slices of its own are under way",
                WATCH.as_millis()
            ));
        }
        if is_whole {
            return None;
        }
    }
    match watched.cpu {
        None => Some("does not tell whether it has other traffic".into()),
        Some(share) if share > IDLE_MAX => Some(format!(
            "uses {:.0} % of a CPU while nothing is asked of it from here: it has other traffic, or its threads spin",
            100.0 * share
        )),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes decide where they say all; CPU time only where they do not, or are not told; who tells nothing counts as busy.
    #[test]
    fn what_counts_as_busy() {
        let traffic = |served, moved, outstanding, is_whole| Traffic { served, moved, outstanding, is_whole };
        let why = |traffic: Option<Traffic>, cpu: Option<f64>| busy(&Watched { traffic, cpu });
        assert_eq!(why(Some(traffic(0, 0, 0, true)), Some(2.0)), None, "threads that spin");
        for seen in [traffic(1, 0, 0, true), traffic(0, 1, 0, true), traffic(0, 0, 1, false)] {
            assert!(why(Some(seen), Some(0.0)).is_some_and(|why| why.contains("other traffic")), "{seen:?}");
        }
        assert_eq!(why(Some(traffic(0, 0, 0, false)), Some(0.01)), None);
        assert!(why(Some(traffic(0, 0, 0, false)), Some(0.5)).is_some_and(|why| why.contains("50 %")));
        assert!(
            why(None, Some(0.5)).is_some() && why(None, None).is_some() && why(None, Some(0.01)).is_none()
        );
    }
}
