//! `bench`: sizes × rounds of the same loop an application would write, against a bare loop in the same run.

mod args;
mod bare;
pub mod ceiling;
mod gone;
mod host;
mod nics;
mod pattern;
pub mod record;
mod report;
pub mod trace;
mod verify;

use std::time::Duration;

use pipeline_configs::Loaded;
use pipeline_graph::{Blueprint, PoolKind, Snapshot, StageStats};
use pipeline_node::admin::LimitLine;
use pipeline_node::{Engine, NicStats, Peer, PeerState, Region, Segment, limit};

pub use args::Args;
use ceiling::{Bare, Ceiling};
use record::Kept;
use report::{HEAD, Line, StageLine, foot, stage_table};

use super::exit::{Failure, Outcome};
use super::failures::engine;
use super::file::{self, source};
use super::load::Waiting;
use super::load::layout::Layout;
use super::load::tally::{Tally, median, ratio};
use super::load::target::Target;
use super::load::timed::{Load, Until};
use super::load::usage::cpu_ns;
use super::logs;

/// How long the target may take to be reached.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// Before the first round of a size: links open, congestion windows with them.
const WARM_UP: Duration = Duration::from_millis(100);
/// How long a round of the bare loop may be for a spinning target to be stopped meanwhile: less than what control
/// waits for a sign of life.
const REST_MAX_S: f64 = 5.0;

/// Runs it.
///
/// # Errors
/// 1 for errors or wrong bytes, 3 for a missed threshold, 65 for a trace that makes no sense, 69 when the target cannot be
/// reached, or has gone.
pub fn run(args: &Args) -> Outcome {
    let mut set = args.set.clone();
    set.extend(args.slice.iter().map(|s| format!("stages.split.slice='{s}'")));
    let loaded = file::load(&source(args.file.as_deref(), &set))?;
    // Before a target of the same file is started, which could only say that it does not become ready.
    loaded.runnable().map_err(|findings| file::refused(&findings))?;
    logs::of_command();
    match (&args.replay.trace, &args.records.replay) {
        (Some(path), _) => trace::run(args, path, loaded),
        (None, Some(path)) => record::run(args, path, loaded),
        (None, None) => sizes(args, loaded),
    }
}

/// The loop, size by size.
fn sizes(args: &Args, loaded: Loaded) -> Outcome {
    let sizes = args.sizes();
    let layouts: Vec<Layout> = sizes.iter().map(|s| layout(args, *s)).collect::<Result<_, _>>()?;
    if args.ceiling_only {
        return bare::run(args, &loaded.config, &layouts);
    }
    let bytes = layouts.iter().map(Layout::bytes).max().unwrap_or(1);
    let (own, address) = match args.target.as_slice() {
        [] => {
            let own = target(args, bytes)?;
            let address = own.address.clone();
            (Some(own), address)
        }
        [address] => (None, address.clone()),
        _ => return Err(Failure::usage("several targets are for --trace; without it name one")),
    };
    // Its other half runs on this machine, so it says nothing about a target elsewhere.
    let ceiling = match (&own, args.no_ceiling) {
        (Some(_), false) => Ceiling::start(args, &loaded.config)?,
        _ => None,
    };
    let reads_back = loaded.config.stages.iter().any(|stage| stage.kind == "read_back");
    let resting = own.as_ref().filter(|_| spins(&loaded.config.blueprint) && args.seconds <= REST_MAX_S);
    let node = Engine::start(file::unpublished(loaded.config)).map_err(|e| engine(&e))?;
    let region = node.allocate(bytes).map_err(|e| engine(&e))?;
    let peer = node.open_within(&address, OPEN_TIMEOUT).map_err(|e| engine(&e))?;
    let segment = args.segment_of(&peer)?;
    header(args, own.as_ref(), &peer, &segment, reads_back)?;
    if segment.len() < bytes {
        return Err(Failure::failed(format!(
            "segment `{}` has {} bytes and this run needs {bytes}; lower --memory or --size, or enlarge it",
            segment.name(),
            segment.len()
        )));
    }
    let kept = Kept::start(&args.records, &node)?;
    let bench =
        Bench { args, node: &node, peer: &peer, region: &region, segment: &segment, ceiling, resting, kept };
    let mut verdicts = Vec::new();
    for (size, layout) in sizes.into_iter().zip(layouts) {
        let line = bench.size(size, layout)?;
        show(args, &line)?;
        verdicts.extend(judge(args, &line));
    }
    bench.kept.finish(&args.records)?;
    match verdicts.into_iter().reduce(Failure::worse) {
        None => Ok(()),
        Some(failure) => Err(failure),
    }
}

/// Another node of the same file.
fn target(args: &Args, bytes: u64) -> Result<Target, Failure> {
    Target::start(args.file.as_deref(), &args.set, args.segment(), bytes)
}

/// Whether threads of this pipeline never sleep. Then those of the target take a CPU that the bare loop would have.
fn spins(blueprint: &Blueprint) -> bool {
    blueprint.pools.iter().any(|p| p.kind == PoolKind::Resident && p.wait.park_ns == 0)
}

fn layout(args: &Args, size: u64) -> Result<Layout, Failure> {
    let in_flight = args.threads * args.depth * args.batch();
    Layout::new(size, args.iov, in_flight, args.memory).map_err(Failure::usage)
}

fn header(args: &Args, own: Option<&Target>, peer: &Peer, segment: &Segment, reads_back: bool) -> Outcome {
    let mut lines = host::facts(args);
    lines.push(match own {
        Some(own) => format!("target: a process of our own (pid {}) on loopback, {}", own.pid(), own.address),
        None => format!("target: {}, segment {}", peer.label(), segment.name()),
    });
    if peer.is_foreign() {
        lines.push("the target runs another engine: what CPU it uses is not known".to_owned());
    }
    if reads_back {
        lines.push("figures of NICs include what was read back to be compared".to_owned());
    }
    let text: String = lines.iter().map(|line| format!("# {line}\n")).collect();
    if args.json {
        // In JSON, stdout is objects only.
        eprint!("{text}");
        return Ok(());
    }
    file::print(&format!("{text}{HEAD}\n"))
}

fn show(args: &Args, line: &Line) -> Outcome {
    let text = if args.json {
        serde_json::to_string(line).map_err(Failure::system)?
    } else {
        let (stages, nics) = (stage_table(&line.stages), nics::table(&line.nics));
        format!("{}\n{stages}{nics}{}", line.row(), foot(&line.limit))
    };
    file::print(&(text + "\n"))
}

fn judge(args: &Args, line: &Line) -> Vec<Failure> {
    let mut found = Vec::new();
    let size = line.bytes;
    if line.errors > 0 {
        found.push(Failure::failed(format!("{size} bytes: {} requests failed", line.errors)));
    }
    if let Some(wrong) = line.wrong.filter(|w| *w > 0) {
        found.push(Failure::failed(format!("{size} bytes: {wrong} bytes are wrong at the destination")));
    }
    if let Some(least) = args.min_gb_per_s.filter(|least| line.gb_per_s_avg < *least) {
        let what = format!("{size} bytes: {:.3} GB/s, --min-gb-per-s {least}", line.gb_per_s_avg);
        found.push(Failure::threshold(what));
    }
    if let Some(most) = args.max_p99_us.filter(|most| line.p99_us > *most) {
        found.push(Failure::threshold(format!(
            "{size} bytes: p99 {:.1} us, --max-p99-us {most}",
            line.p99_us
        )));
    }
    found
}

struct Bench<'a> {
    args: &'a Args,
    node: &'a Engine,
    peer: &'a Peer,
    region: &'a Region,
    segment: &'a Segment,
    ceiling: Option<Ceiling>,
    /// The target whose threads never sleep, and so is stopped while the bare loop runs.
    resting: Option<&'a Target>,
    kept: Kept,
}

/// What the rounds of a size add up to.
struct Sum {
    tally: Tally,
    rates: Vec<f64>,
    ceilings: Vec<Bare>,
    submitted: Vec<u64>,
    cpu_ns: u64,
    target_cpu_ns: Option<u64>,
    stages: Snapshot,
    nics: Vec<NicStats>,
    /// Of the last round, as the stages.
    limit: LimitLine,
}

impl Bench<'_> {
    fn size(&self, size: u64, layout: Layout) -> Result<Line, Failure> {
        let args = self.args;
        let until = match args.iterations {
            Some(n) => Until::Batches(n),
            None => Until::Time(Duration::from_secs_f64(args.seconds)),
        };
        let load = Load {
            engine: self.node,
            region: self.region,
            segment: self.segment,
            op: args.op,
            layout,
            size,
            batch: args.batch(),
            depth: args.depth,
            threads: args.threads,
            rate: args.rate,
            until,
            waits: Waiting::Wait,
        };
        let seed = size.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        if args.check {
            verify::prepare(&load, seed).map_err(|what| self.trouble(size, what))?;
        } else {
            load.touch(args.target.is_empty()).map_err(|what| self.trouble(size, what))?;
            if args.iterations.is_none() {
                Load { until: Until::Time(WARM_UP), rate: None, ..load }.run();
            }
        }
        let sum = self.rounds(&load)?;
        let wrong = match args.check {
            true => {
                let wrong = verify::count_wrong(&load, seed, &load.used(&sum.submitted));
                Some(wrong.map_err(|what| self.trouble(size, what))?)
            }
            false => None,
        };
        Ok(line(args, size, sum, wrong))
    }

    fn trouble(&self, size: u64, what: String) -> Failure {
        gone::trouble([self.peer], &format!("{size} bytes: {what}"))
    }

    fn rounds(&self, load: &Load<'_>) -> Result<Sum, Failure> {
        let mut sum = Sum {
            tally: Tally::new(),
            rates: Vec::new(),
            ceilings: Vec::new(),
            submitted: vec![0; load.threads as usize],
            cpu_ns: 0,
            target_cpu_ns: Some(0),
            stages: Snapshot::default(),
            nics: Vec::new(),
            limit: LimitLine::default(),
        };
        for _ in 0..self.args.rounds {
            if let Some(ceiling) = &self.ceiling {
                let _resting = self.resting.map(Target::rest).transpose()?;
                sum.ceilings.push(ceiling.round(load.size, self.args.iov, load.layout)?);
            }
            self.node.reset_peaks();
            let before = self.node.observe();
            let (cpu, target) = (cpu_ns(), self.peer.cpu_ns().ok());
            let round = self.kept.over(|| load.run());
            sum.cpu_ns += cpu_ns() - cpu;
            let spent =
                self.peer.cpu_ns().ok().zip(target).map(|(after, before)| after.saturating_sub(before));
            sum.target_cpu_ns = sum.target_cpu_ns.zip(spent).map(|(a, b)| a + b);
            let after = self.node.observe();
            let seen = after.since(&before);
            sum.limit = LimitLine::of(&limit(&seen, self.node.config()));
            sum.stages = seen.graph;
            nics::add(&mut sum.nics, &before.nics, &after.nics);
            sum.rates.push(round.tally.gb_per_s());
            sum.tally.merge(&round.tally, false);
            for (all, more) in sum.submitted.iter_mut().zip(&round.submitted) {
                // Each round begins at the first place again.
                *all = (*all).max(*more);
            }
            if let Some(trouble) = round.trouble {
                if matches!(self.peer.state(), PeerState::Down | PeerState::Leaving) {
                    return Err(self.trouble(load.size, trouble));
                }
                eprintln!("# {} bytes: {trouble}", load.size);
                if round.tally.requests == 0 {
                    return Err(Failure::failed(format!("{} bytes: no request ended well", load.size)));
                }
            }
        }
        Ok(sum)
    }
}

fn line(args: &Args, size: u64, mut sum: Sum, wrong: Option<u64>) -> Line {
    let nics = nics::lines(std::mem::take(&mut sum.nics), sum.tally.elapsed_ns);
    let tally = &sum.tally;
    let gb = tally.bytes as f64 / 1e9;
    let bare = |what: fn(&Bare) -> f64| {
        (!sum.ceilings.is_empty()).then(|| median(&mut sum.ceilings.iter().map(what).collect::<Vec<_>>()))
    };
    let ceiling_cpu = (bare(|b| b.cpu_s_per_gb_initiator), bare(|b| b.cpu_s_per_gb_target));
    let ceiling = bare(|b| b.gb_per_s);
    // Round by round: the machine's speed drifts, and both halves of a round saw the same machine.
    let mut shares: Vec<f64> =
        sum.rates.iter().zip(&sum.ceilings).map(|(r, c)| 100.0 * ratio(*r, c.gb_per_s)).collect();
    let gb_per_s = median(&mut sum.rates);
    Line {
        bytes: size,
        op: args.op.name(),
        batch: args.batch(),
        depth: args.depth,
        gb_per_s_avg: gb_per_s,
        gb_per_s_peak: tally.peak_gb_per_s().max(gb_per_s),
        gbit_per_s_avg: gb_per_s * 8.0,
        mreq_per_s: gb_per_s * 1e3 / size as f64,
        p50_us: tally.latency_us(50.0),
        p90_us: tally.latency_us(90.0),
        p99_us: tally.latency_us(99.0),
        p999_us: tally.latency_us(99.9),
        max_us: tally.latency_max_us(),
        cpu_s_per_gb_initiator: ratio(sum.cpu_ns as f64 / 1e9, gb),
        cpu_s_per_gb_target: sum.target_cpu_ns.map(|ns| ratio(ns as f64 / 1e9, gb)),
        ceiling_gb_per_s: ceiling,
        ceiling_pct: (!shares.is_empty()).then(|| median(&mut shares)),
        ceiling_cpu_s_per_gb_initiator: ceiling_cpu.0,
        ceiling_cpu_s_per_gb_target: ceiling_cpu.1,
        confirmed_bytes: tally.bytes,
        wrong,
        errors: tally.errors,
        stages: sum.stages.stages.iter().map(stage_line).collect(),
        nics,
        limit: sum.limit,
    }
}

fn stage_line(stage: &StageStats) -> StageLine {
    let us = |ns: u64| ns as f64 / 1e3;
    StageLine {
        stage: stage.name.clone(),
        threads: stage.threads,
        cap: stage.cap as u64,
        depth_avg: stage.depth_avg(),
        depth_max: stage.depth_max,
        wait_p50_us: us(stage.wait.quantile(0.5)),
        wait_p99_us: us(stage.wait.quantile(0.99)),
        service_p50_us: us(stage.service.quantile(0.5)),
        service_p99_us: us(stage.service.quantile(0.99)),
        held_p50_us: (stage.held.count() > 0).then(|| us(stage.held.quantile(0.5))),
        held_p99_us: (stage.held.count() > 0).then(|| us(stage.held.quantile(0.99))),
        util_pct: stage.util_pct(),
        blocked_pct: stage.blocked_pct(),
    }
}
