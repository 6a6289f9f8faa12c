//! `bench --trace`: what an inference engine would ask of its KV store, replayed against real nodes.
//! Semantics, form and figures: `docs/traces.md`.

mod args;
mod bytes;
mod cache;
mod check;
mod desk;
pub mod form;
mod header;
mod kv;
mod measure;
mod peak;
mod progress;
mod replay;
mod report;
mod store;
mod summary;

use std::path::Path;

use pipeline_configs::Loaded;
use pipeline_node::{Engine, Peer, Segment};

pub use self::args::{Fill, Speed, TraceArgs};
pub use self::bytes::Bytes;
pub use self::desk::Desk;
use self::form::{Trace, TraceError};
use self::header::header;
use self::measure::measure;
pub use self::replay::{Replay, Setting};
use self::report::Report;
pub use self::store::{Shares, Store};
use super::OPEN_TIMEOUT;
use super::args::Args;
use super::record::Kept;
use crate::cli::bench::gone;
use crate::cli::exit::{Failure, Outcome};
use crate::cli::failures::engine;
use crate::cli::file;
use crate::cli::load::Waiting;
use crate::cli::load::layout::Layout;
use crate::cli::quantity::{at_least, human};

/// Replays a trace and prints the report.
///
/// # Errors
/// 65 for a trace that makes no sense; else as [`super::run`].
pub fn run(args: &Args, path: &Path, loaded: Loaded) -> Outcome {
    let options = &args.replay;
    let trace = Trace::read(path, options.limit, options.block_tokens).map_err(|e| refused(&e))?;
    let (block_bytes, pieces) = options.block(args.iov);
    let local = local(args, &trace, path)?;
    let shares = Shares::new(&trace.ids, args.target.len().max(1));
    let own = match args.target.is_empty() {
        true => {
            let layout = Layout::new(block_bytes, pieces, shares.blocks[0], args.memory);
            Some(super::target(args, layout.map_err(Failure::usage)?.bytes())?)
        }
        false => None,
    };
    let names = own.as_ref().map_or(args.target.clone(), |own| vec![own.address.clone()]);
    let node = Engine::start(file::unpublished(loaded.config)).map_err(|e| engine(&e))?;
    let region = node.allocate(local.bytes()).map_err(|e| engine(&e))?;
    let (peers, segments) = open(args, &node, &names)?;
    let memory: Vec<u64> = segments.iter().map(Segment::len).collect();
    let store = Store::new(shares, block_bytes, pieces, &memory)?;
    let seed = getrandom::u64().map_err(Failure::system)?;
    let bytes = Bytes { region: &region, local, store: &store, seed };
    header(args, &trace, path, &bytes, &names, own.as_ref())?;
    bytes.clear().map_err(Failure::failed)?;
    // Memory of ours that was never touched is one page of zeros: it would be sent from a CPU's cache.
    if options.store == Fill::Warm && (args.check || own.is_some()) {
        bytes.fill_peers(&node, &segments).map_err(|why| gone::trouble(&peers, &why))?;
    }
    let setting = Setting {
        engine: &node,
        segments: &segments,
        bytes,
        trace: &trace,
        speed: options.speedup,
        depth: args.depth as usize,
        batch: TraceArgs::batch(args.batch) as usize,
        waits: Waiting::Wait,
        is_shown: true,
    };
    let kept = Kept::start(&args.records, &node)?;
    let measured = measure(args, &setting, &peers, &kept).map_err(|why| gone::trouble(&peers, &why))?;
    kept.finish(&args.records)?;
    let report = summary::report(args, &setting, measured, &names);
    let text = if args.json {
        serde_json::to_string(&report).map_err(Failure::system)? + "\n"
    } else {
        report.text()
    };
    file::print(&text)?;
    judge(args, &report, &peers)
}

/// Which exit code a trace that is not taken is.
pub fn refused(error: &TraceError) -> Failure {
    match error {
        TraceError::Unreadable { .. } => Failure::system(error),
        TraceError::Nonsense { .. } | TraceError::Empty { .. } => Failure::data(error),
    }
}

/// The slots of the cache here: as many as `--memory` holds, and not more than there are blocks.
fn local(args: &Args, trace: &Trace, path: &Path) -> Result<Layout, Failure> {
    let (bytes, pieces) = args.replay.block(args.iov);
    let local =
        Layout::new(bytes, pieces, u64::from(trace.distinct()), args.memory).map_err(Failure::usage)?;
    let most = trace.entries.iter().max_by_key(|entry| entry.distinct);
    if let Some(most) = most.filter(|most| u64::from(most.distinct) > local.slots) {
        return Err(Failure::failed(format!(
            "{}:{}: the request has {} blocks of {bytes} bytes, and --memory {} holds {}; raise --memory to {} or more, \
             or lower the size of a block",
            path.display(),
            most.line,
            most.distinct,
            human(args.memory),
            args.memory / bytes,
            at_least(local.bytes() / local.slots * u64::from(most.distinct)),
        )));
    }
    Ok(local)
}

fn open(args: &Args, node: &Engine, names: &[String]) -> Result<(Vec<Peer>, Vec<Segment>), Failure> {
    let peer = |name: &String| node.open_within(name, OPEN_TIMEOUT).map_err(|e| engine(&e));
    let peers: Vec<Peer> = names.iter().map(peer).collect::<Result<_, _>>()?;
    let segments = peers.iter().map(|peer| args.segment_of(peer));
    let segments = segments.collect::<Result<_, _>>()?;
    Ok((peers, segments))
}

fn judge(args: &Args, report: &Report, peers: &[Peer]) -> Outcome {
    let mut found = Vec::new();
    if let Some(why) = &report.stopped {
        let (begun, failed) = (report.requests, report.errors);
        let what = format!("stopped after {begun} requests, {failed} requests failed: {why}");
        match gone::gone(peers, &what) {
            Some(gone) => return Err(gone),
            None => found.push(Failure::failed(what)),
        }
    }
    if let Some(wrong) = report.wrong.filter(|wrong| *wrong > 0) {
        found.push(Failure::failed(format!("{wrong} bytes are wrong")));
    }
    if let Some(least) = args.min_gb_per_s.filter(|least| report.gb_per_s_avg < *least) {
        found.push(Failure::threshold(format!("{:.3} GB/s, --min-gb-per-s {least}", report.gb_per_s_avg)));
    }
    if let Some(most) = args.max_p99_us.filter(|most| report.read.p99_us > *most) {
        found.push(Failure::threshold(format!("p99 {:.1} us, --max-p99-us {most}", report.read.p99_us)));
    }
    found.into_iter().reduce(Failure::worse).map_or(Ok(()), Err)
}
