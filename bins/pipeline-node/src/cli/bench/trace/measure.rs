//! Runs a replay, and takes what it cost and what was wrong with its bytes. Deliberately without words: see `report`.

use pipeline_node::{Peer, Snapshot};

use super::args::Fill;
use super::check::Checker;
use super::desk::Desk;
use super::replay::{Outcome, Replay, Setting};
use crate::cli::bench::args::Args;
use crate::cli::bench::record::Kept;
use crate::cli::load::usage::cpu_ns;

/// A replay, and what it cost.
pub struct Measured {
    /// What came of it.
    pub replayed: Outcome,
    /// CPU time of this process, without that of `--check`.
    pub cpu_ns: u64,
    /// CPU time of all targets, if all tell.
    pub target_cpu_ns: Option<u64>,
    /// CPU time of the thread of `--check`.
    pub check_cpu_ns: u64,
    /// Wrong bytes; `None` without `--check`.
    pub wrong: Option<u64>,
    /// By stage.
    pub stages: Snapshot,
}

/// Runs it, and then, with `--check`, looks at what it left.
///
/// # Errors
/// Why it could not look.
pub fn measure(args: &Args, setting: &Setting<'_>, peers: &[Peer], kept: &Kept) -> Result<Measured, String> {
    let targets = || peers.iter().map(|peer| peer.cpu_ns().ok()).sum::<Option<u64>>();
    let desk = Desk::new(setting.trace, setting.bytes.local.slots as u32, args.replay.store);
    setting.engine.reset_peaks();
    let (before, cpu, target) = (setting.engine.stats(), cpu_ns(), targets());
    let (replayed, (check_cpu_ns, wrong)) = std::thread::scope(|scope| {
        let mut checker = args.check.then(|| Checker::start(scope, setting.bytes));
        let replayed = Replay::new(setting, desk, checker.as_mut()).map(|replay| kept.over(|| replay.run()));
        (replayed, checker.map_or((0, 0), Checker::finish))
    });
    let replayed = replayed?;
    let mut measured = Measured {
        cpu_ns: (cpu_ns() - cpu).saturating_sub(check_cpu_ns),
        target_cpu_ns: targets().zip(target).map(|(after, before)| after.saturating_sub(before)),
        check_cpu_ns,
        wrong: None,
        stages: setting.engine.stats().since(&before),
        replayed,
    };
    if args.check {
        measured.wrong = Some(wrong + stray(setting)? + lost(args, setting, &measured.replayed)?);
    }
    Ok(measured)
}

/// Bytes that came where none should: every block that came was zeroed once it was compared.
fn stray(setting: &Setting<'_>) -> Result<u64, String> {
    setting.bytes.not_zero()
}

/// Wrong bytes of blocks that went: all of the trace did, into a cold store.
fn lost(args: &Args, setting: &Setting<'_>, replayed: &Outcome) -> Result<u64, String> {
    if args.replay.store == Fill::Warm || replayed.trouble.is_some() {
        return Ok(0);
    }
    setting.bytes.wrong_at_peers(setting.engine, setting.segments, 0..setting.trace.distinct())
}
