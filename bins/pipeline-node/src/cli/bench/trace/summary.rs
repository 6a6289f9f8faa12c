//! From what was measured to what is told. Deliberately only arithmetic: units change here and nowhere else.

use super::args::{Fill, Speed};
use super::measure::Measured;
use super::replay::Setting;
use super::report::{PeerLine, Report, Times};
use crate::cli::bench::args::Args;
use crate::cli::bench::stage_line;
use crate::cli::load::tally::ratio;

/// The report of a replay against those peers.
pub fn report(args: &Args, setting: &Setting<'_>, measured: Measured, names: &[String]) -> Report {
    let Measured { replayed, cpu_ns, target_cpu_ns, check_cpu_ns, wrong, stages } = measured;
    let (options, trace) = (&args.replay, setting.trace);
    let (moved, counts) = (&replayed.moved, replayed.counts);
    let gb = moved.bytes as f64 / 1e9;
    let blocks = counts.local + counts.joined + counts.read + counts.made;
    let shelves = names.iter().zip(&setting.bytes.store.shelves).zip(&replayed.by_peer);
    let (block_bytes, block_pieces) = options.block(args.iov);
    Report {
        requests: replayed.begun as u64,
        errors: moved.errors,
        stopped: replayed.trouble,
        blocks,
        distinct_blocks: u64::from(trace.distinct()),
        block_bytes,
        block_pieces,
        cache_blocks: setting.bytes.local.slots,
        store: options.store.name(),
        speedup: match options.speedup {
            Speed::Max => None,
            Speed::Times(times) => Some(times),
        },
        depth: args.depth,
        batch: setting.batch as u64,
        local_blocks: counts.local,
        joined_blocks: counts.joined,
        read_blocks: counts.read,
        new_blocks: counts.made,
        hit_pct: 100.0 * ratio(counts.local as f64, blocks as f64),
        endless_hit_pct: trace.seen_before_pct(),
        read_bytes: replayed.bytes_read,
        written_bytes: replayed.bytes_written,
        elapsed_s: moved.elapsed_ns as f64 / 1e9,
        gb_per_s_avg: moved.gb_per_s(),
        gb_per_s_peak: replayed.peak.gb_per_s().max(moved.gb_per_s()),
        read: Times::from(moved),
        written: (options.store == Fill::Cold).then(|| Times::from(&replayed.written)),
        behind: (options.speedup != Speed::Max).then(|| Times::from(&replayed.behind)),
        cpu_s_per_gb_initiator: ratio(cpu_ns as f64 / 1e9, gb),
        cpu_s_per_gb_target: target_cpu_ns.map(|ns| ratio(ns as f64 / 1e9, gb)),
        check_cpu_s: args.check.then_some(check_cpu_ns as f64 / 1e9),
        wrong,
        peers: shelves
            .map(|((name, shelf), bytes)| PeerLine {
                peer: name.clone(),
                blocks: shelf.blocks,
                places: shelf.layout.slots,
                moved_bytes: *bytes,
            })
            .collect(),
        stages: stages.stages.iter().map(stage_line).collect(),
    }
}
