//! Whether somebody else is busy where it would be measured. What a file is measured for disturbs others, and is disturbed by them:
//! so a target with traffic is refused, unless the user says otherwise.
//!
//! Deliberately by what can be seen from here without a word more in the protocol: the CPU time of the target's process while
//! this side asks nothing of it. That is traffic, or threads that spin; which of the two, its owner knows.

use std::time::{Duration, Instant};

use pipeline_node::{Engine, Peer};

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
    let verdict = match busy(&peer) {
        None => Err(format!("{target} does not tell whether it has other traffic")),
        Some(share) if share > IDLE_MAX => Err(format!(
            "{target} uses {:.0} % of a CPU while nothing is asked of it from here: it has other traffic, or its threads spin",
            100.0 * share
        )),
        Some(_) => Ok(()),
    };
    drop(peer);
    node.stop();
    verdict.map_err(|why| {
        Failure::peer(format!(
            "{why}; tuning would disturb that, and be disturbed by it: --live does it all the same"
        ))
    })
}

/// The share of a CPU that its process uses, if it tells.
fn busy(peer: &Peer) -> Option<f64> {
    let begin = Instant::now();
    let before = peer.cpu_ns().ok()?;
    std::thread::sleep(WATCH);
    let used = peer.cpu_ns().ok()?.saturating_sub(before);
    Some(used as f64 / begin.elapsed().as_nanos() as f64)
}
