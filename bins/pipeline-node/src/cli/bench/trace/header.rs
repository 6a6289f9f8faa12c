//! What is said before a replay: the machine, the trace, and where its blocks are. A figure without them says nothing.

use std::path::Path;

use super::args::{Speed, TraceArgs};
use super::bytes::Bytes;
use super::form::Trace;
use crate::cli::bench::args::Args;
use crate::cli::exit::Outcome;
use crate::cli::file;
use crate::cli::load::machine::machine;
use crate::cli::load::target::Target;
use crate::cli::quantity::human;

/// Prints it: to stdout, or with `--json`, where stdout is one object, to stderr.
///
/// # Errors
/// 71 when stdout takes nothing.
pub fn header(
    args: &Args,
    trace: &Trace,
    path: &Path,
    bytes: &Bytes<'_>,
    names: &[String],
    own: Option<&Target>,
) -> Outcome {
    let options = &args.replay;
    let mut lines = machine();
    lines.push(format!(
        "trace {}: {} requests in {:.1} s, {} blocks of {} tokens, {} different; {:.2} % had occurred before",
        path.display(),
        trace.entries.len(),
        trace.span_ns() as f64 / 1e9,
        trace.asked(),
        options.block_tokens,
        trace.distinct(),
        trace.seen_before_pct()
    ));
    let (size, pieces) = options.block(args.iov);
    let of = options.kv.as_ref().map_or("--block-bytes".into(), ToString::to_string);
    lines.push(format!(
        "block: {size} bytes ({of}) in {pieces} pieces; {} fit here ({})",
        bytes.local.slots,
        human(bytes.local.bytes())
    ));
    let speed = match options.speedup {
        Speed::Max => "as fast as possible, latency from a request's beginning".into(),
        Speed::Times(times) => {
            format!("{times} times as fast as in the file, latency from the intended time")
        }
    };
    lines.push(format!(
        "store {}, depth {} requests, batch {} blocks, slice {}, {}; {speed}",
        options.store.name(),
        args.depth,
        TraceArgs::batch(args.batch),
        args.slice.as_deref().unwrap_or("as the file says"),
        args.file.as_deref().map_or("preset tcp".into(), |f| f.display().to_string()),
    ));
    for (name, shelf) in names.iter().zip(&bytes.store.shelves) {
        let who = own
            .map_or(String::new(), |own| format!(" (a process of our own, pid {}, on loopback)", own.pid()));
        let folded = if shelf.is_folded() { ", FOLDED: blocks share places" } else { "" };
        let (blocks, places) = (shelf.blocks, shelf.layout.slots);
        lines.push(format!("peer {name}{who}: {blocks} blocks in {places} places{folded}"));
    }
    let text: String = lines.iter().map(|line| format!("# {line}\n")).collect();
    if args.json {
        eprint!("{text}");
        return Ok(());
    }
    file::print(&text)
}
