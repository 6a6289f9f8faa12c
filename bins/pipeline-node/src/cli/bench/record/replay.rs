//! `bench --replay`: reads a record, reaches the targets, plays it once, and reports as the loop does.

use std::path::Path;

use pipeline_configs::Loaded;
use pipeline_node::admin::LimitLine;
use pipeline_node::{Engine, Peer, Region, Segment, limit};

use super::Kept;
use super::form::{Record, RecordError};
use super::play::{Pace, Play, Played, largest};
use crate::cli::bench::report::Line;
use crate::cli::bench::{Args, OPEN_TIMEOUT, Sum, gone, judge, line, nics, show, target};
use crate::cli::exit::{Failure, Outcome};
use crate::cli::failures::engine;
use crate::cli::file;
use crate::cli::load::Waiting;
use crate::cli::load::machine::machine;
use crate::cli::load::tally::{Tally, ratio};
use crate::cli::load::usage::cpu_ns;
use crate::cli::quantity::at_least;

/// No kernel has smaller pages.
const PAGE: usize = 4096;

/// Plays a record and prints the report.
///
/// # Errors
/// 2 for one that would be written over by its own replay, 65 for one that makes no sense; else as [`crate::cli::bench::run`].
pub fn run(args: &Args, path: &Path, loaded: Loaded) -> Outcome {
    args.records.plays_over_itself()?;
    let record = Record::read(path).map_err(|e| refused(&e))?;
    let (needed, memory) = (largest(&record), args.memory);
    if needed > memory {
        return Err(Failure::failed(format!(
            "a request of the record needs {needed} bytes on each side; raise --memory to {} or more",
            at_least(needed)
        )));
    }
    let own = args.target.is_empty().then(|| target(args, memory)).transpose()?;
    let names = own.as_ref().map_or(args.target.clone(), |own| vec![own.address.clone()]);
    let node = Engine::start(file::unpublished(loaded.config)).map_err(|e| engine(&e))?;
    let region = node.allocate(memory).map_err(|e| engine(&e))?;
    let (peers, segments) = open(args, &node, &names, needed)?;
    header(args, &record, path, &names)?;
    touch(&region).map_err(Failure::failed)?;
    let pace = args.records.pace(args.depth);
    let play = Play {
        engine: &node,
        region: &region,
        segments: &segments,
        record: &record,
        pace,
        time: None,
        waits: Waiting::Wait,
    };
    let kept = Kept::start(&args.records, &node)?;
    let (played, sum) = measure(&play, &peers, &kept);
    kept.finish(&args.records)?;
    said(args, &played);
    let result = report(args, &record, sum, &played);
    show(args, &result)?;
    let trouble = played.trouble.as_ref().map(|why| format!("after {} batches: {why}", played.batches));
    // Requests that fail with the target say nothing of their own.
    if let Some(gone) = trouble.as_ref().and_then(|why| gone::gone(&peers, why)) {
        return Err(gone);
    }
    let mut verdicts = judge(args, &result);
    verdicts.extend(trouble.map(Failure::failed));
    verdicts.into_iter().reduce(Failure::worse).map_or(Ok(()), Err)
}

/// Which exit code a record that is not taken is.
pub fn refused(error: &RecordError) -> Failure {
    match error {
        RecordError::Unreadable { .. } => Failure::system(error),
        RecordError::Nonsense { .. } | RecordError::Empty { .. } => Failure::data(error),
    }
}

fn open(
    args: &Args,
    node: &Engine,
    names: &[String],
    needed: u64,
) -> Result<(Vec<Peer>, Vec<Segment>), Failure> {
    let (mut peers, mut segments) = (Vec::new(), Vec::new());
    for name in names {
        let peer = node.open_within(name, OPEN_TIMEOUT).map_err(|e| engine(&e))?;
        let segment = args.segment_of(&peer)?;
        if segment.len() < needed {
            return Err(Failure::failed(format!(
                "segment `{}` of {name} has {} bytes and a request of the record needs {needed}; enlarge it",
                segment.name(),
                segment.len()
            )));
        }
        peers.push(peer);
        segments.push(segment);
    }
    Ok((peers, segments))
}

/// Gives every page memory of its own: what nobody has ever written to is one page of zeros to the kernel.
fn touch(region: &Region) -> Result<(), String> {
    let mut pages = (0..region.len()).step_by(PAGE);
    pages.try_for_each(|page| region.write(page, &[page as u8]).map_err(|e| e.to_string()))
}

fn measure(play: &Play<'_>, peers: &[Peer], kept: &Kept) -> (Played, Sum) {
    let of_targets = || peers.iter().map(|peer| peer.cpu_ns().ok()).sum::<Option<u64>>();
    play.engine.reset_peaks();
    let before = play.engine.observe();
    let (cpu, targets) = (cpu_ns(), of_targets());
    let mut played = kept.over(|| play.run());
    let cpu_ns = cpu_ns() - cpu;
    let targets = of_targets().zip(targets).map(|(after, before)| after.saturating_sub(before));
    let tally = std::mem::replace(&mut played.tally, Tally::new());
    let after = play.engine.observe();
    let seen = after.since(&before);
    let mut sum = Sum {
        rates: vec![tally.gb_per_s()],
        tally,
        ceilings: Vec::new(),
        submitted: Vec::new(),
        cpu_ns,
        target_cpu_ns: targets,
        limit: LimitLine::of(&limit(&seen, play.engine.config())),
        stages: seen.graph,
        nics: Vec::new(),
    };
    nics::add(&mut sum.nics, &before.nics, &after.nics);
    (played, sum)
}

/// The line of a size, whose size is the mean.
fn report(args: &Args, record: &Record, sum: Sum, played: &Played) -> Line {
    let (requests, seconds) = (sum.tally.requests, sum.tally.elapsed_ns as f64 / 1e9);
    let mean = |a: u64, b: u64| (a as f64 / b.max(1) as f64).round() as u64;
    let bytes = mean(record.bytes(), record.requests()).max(1);
    Line {
        op: record.op(),
        batch: mean(record.requests(), record.batches.len() as u64),
        depth: if args.records.asap { args.depth } else { 0 },
        mreq_per_s: ratio(requests as f64 / 1e6, seconds),
        errors: sum.tally.errors.max(u64::from(played.trouble.is_some())),
        ..line(args, bytes, sum, None)
    }
}

fn header(args: &Args, record: &Record, path: &Path, names: &[String]) -> Outcome {
    let mut lines = machine();
    let cut = if record.is_whole { "" } else { "; it has no end: whoever made it was cut off" };
    let lost = match record.dropped {
        0 => String::new(),
        n => format!("; {n} batches were submitted and are not in it"),
    };
    lines.push(format!(
        "record {}: {} batches with {} requests of {} bytes in {:.3} s to {} peers{lost}{cut}",
        path.display(),
        record.batches.len(),
        record.requests(),
        record.bytes(),
        record.span_ns() as f64 / 1e9,
        record.peers.len(),
    ));
    lines.push(match args.records.pace(args.depth) {
        Pace::Asap(depth) => {
            format!("as fast as possible, {depth} batches in flight; latency from the submit of a batch")
        }
        Pace::Times(times) => {
            format!("{times} times as fast as in the file; latency from the intended time of a batch")
        }
    });
    for (i, label) in record.peers.iter().enumerate().take(16) {
        lines.push(format!("peer {label} is {}", names[i % names.len()]));
    }
    let text: String = lines.iter().map(|line| format!("# {line}\n")).collect();
    if args.json {
        // In JSON, stdout is objects only.
        eprint!("{text}");
        return Ok(());
    }
    file::print(&format!("{text}{}\n", crate::cli::bench::report::HEAD))
}

/// Whether it could be played as it was.
fn said(args: &Args, played: &Played) {
    if !args.records.asap && played.late > 0 {
        eprintln!(
            "# {} of {} batches began more than 1 ms after their time, the latest by {:.1} ms: that is in their latency",
            played.late,
            played.batches,
            played.late_max_ns as f64 / 1e6
        );
    }
}
