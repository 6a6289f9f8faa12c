//! `copy`: files and trees to or from a `dir` segment of a node, through the pipeline, verified at both ends.

mod assembly;
mod carry;
mod download;
mod fanout;
mod names;
mod place;
mod progress;
mod session;
mod tree;
mod upload;
mod walk;

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args as ClapArgs;
use pipeline_node::{Engine, FileAnswer, FileKind, FileRequest, Peer};

use super::exit::{Failure, Outcome};
use super::failures::engine;
use super::file::{self, source};
use super::logs;
use super::quantity::human;
use carry::Carrier;
use fanout::Shape;
use names::under;
use place::{Place, RemotePlace};
use progress::Progress;
use session::Session;
use tree::RemoteTree;
use walk::{Kind, Walk};

/// Copy files and trees to or from a node.
///
/// One side is PEER:SEGMENT[/PATH]; the segment is of kind `dir`. As with cp -r, a source lands inside DST when
/// that is a folder (or ends with `/`), and becomes DST otherwise. Every file is written beside its place, checked
/// by CRC32C at both ends, and renamed. What fails is listed, the rest goes on, and the exit code is 1. With several
/// DST, all of them PEER:SEGMENT[/PATH], each gets all of it.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  pipeline-node copy ./weights 10.0.0.2:7001:models/
  pipeline-node copy 10.0.0.2:7001:models/weights /srv/models/
  pipeline-node copy -c client.toml a.bin b.bin [::1]:7001:models/llama/
  pipeline-node copy ./weights n1:models/ n2:models/ n3:models/ --fanout chain")]
pub struct Args {
    /// What to copy, then where to.
    #[arg(required = true, num_args = 2.., value_names = ["SRC", "DST"])]
    places: Vec<String>,
    /// How it gets to several DST: the source sends to each (star), or to the first, and each node hands on to the next
    /// (chain) or to two (tree); nodes must be allowed to pull from each other: segments.NAME.pull in their files.
    #[arg(long, value_enum, default_value_t)]
    fanout: Shape,
    /// The file that declares the pipeline of this side, and names of peers [default: the preset `tcp`].
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Override a value of the file: 'pools.nic.threads=2'. May be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// What was copied, as one JSON object on stdout.
    #[arg(long)]
    json: bool,
}

/// Which way, and the one peer and segment it is about.
enum Way {
    Up { from: Vec<PathBuf>, to: RemotePlace },
    Out { from: Vec<PathBuf>, to: Vec<RemotePlace> },
    Down { from: Vec<RemotePlace>, to: PathBuf, into: bool },
}

/// Runs it.
///
/// # Errors
/// 1 when a file failed, 2 for a command line that makes no sense, 69 when the peer cannot be reached.
pub fn run(args: &Args) -> Outcome {
    let way = way(&args.places)?;
    let loaded = file::load(&source(args.config.as_deref(), &args.set))?;
    logs::install("warn", false);
    let node = Engine::start(loaded.config).map_err(|e| engine(&e))?;
    let remote = match &way {
        Way::Out { from, to } => return fanout::run(&node, from, to, args.fanout, args.json),
        Way::Up { to, .. } => to,
        Way::Down { from, .. } => &from[0],
    };
    let peer = node.open_within(&remote.peer, session::OPEN_TIMEOUT).map_err(|e| engine(&e))?;
    let begin = Instant::now();
    let (wanted, (files, bytes, failed)) = match &way {
        Way::Out { .. } => unreachable!("it has been carried out"),
        Way::Up { from, to } => {
            let (files, bytes) = tally(from);
            let progress = Progress::new(files, bytes);
            up(&node, &peer, (from, to), &carry::ByWrite, &progress)?;
            (files, progress.finish())
        }
        Way::Down { from, to, into } => down(&node, &peer, from, to, *into)?,
    };
    let seconds = begin.elapsed().as_secs_f64();
    let untried = wanted.saturating_sub(files + failed);
    if args.json {
        let gb_per_s = bytes as f64 / 1e9 / seconds.max(1e-9);
        let line = serde_json::json!({
            "files": files, "bytes": bytes, "failed": failed, "untried": untried, "seconds": seconds,
            "gb_per_s": gb_per_s,
        });
        file::print(&format!("{line}\n"))?;
    } else if std::io::IsTerminal::is_terminal(&std::io::stderr()) {
        let rate = human((bytes as f64 / seconds.max(1e-9)) as u64);
        eprintln!("{files} files, {} in {seconds:.2} s, {rate}/s", human(bytes));
    }
    match (failed, untried) {
        (0, 0) => Ok(()),
        (_, 0) => Err(Failure::failed(format!("{failed} failed, {files} were copied"))),
        _ => Err(Failure::failed(format!(
            "{failed} failed, {files} were copied, {untried} were not tried: peer {} is gone",
            remote.peer
        ))),
    }
}

fn way(places: &[String]) -> Result<Way, Failure> {
    let parsed: Vec<_> =
        places.iter().map(|s| Place::parse(s)).collect::<Result<_, _>>().map_err(Failure::usage)?;
    let (mut local, mut remote, mut order) = (Vec::new(), Vec::<RemotePlace>::new(), Vec::new());
    for place in parsed {
        order.push(matches!(place, Place::Remote(_)));
        match place {
            Place::Local(path) => local.push(path),
            Place::Remote(place) => remote.push(place),
        }
    }
    let twice = |(i, a): (usize, &RemotePlace)| remote[..i].contains(a);
    match (order.first(), order.last()) {
        (Some(false), Some(true)) if !order.is_sorted() => {
            Err(Failure::usage("sources come first, then all destinations"))
        }
        (Some(false), Some(true)) if remote.iter().enumerate().any(twice) => {
            Err(Failure::usage("a destination is named twice"))
        }
        (Some(false), Some(true)) if remote.len() > 1 => Ok(Way::Out { from: local, to: remote }),
        (Some(false), Some(true)) => Ok(Way::Up { from: local, to: remote.swap_remove(0) }),
        (Some(true), Some(false)) if local.len() == 1 => {
            if remote.iter().any(|r| (&r.peer, &r.segment) != (&remote[0].peer, &remote[0].segment)) {
                return Err(Failure::usage("the sources are in several segments: copy them one by one"));
            }
            let into = places.last().is_some_and(|last| last.ends_with('/')) || remote.len() > 1;
            Ok(Way::Down { from: remote, to: local.swap_remove(0), into })
        }
        (_, Some(true)) => Err(Failure::usage("both sides are a peer's: copy to here first, then from here")),
        _ => Err(Failure::usage(
            "no side is PEER:SEGMENT[/PATH], or only some of the sources are; exactly one side is a peer's",
        )),
    }
}

/// How many files were wanted; files, bytes and failures.
type Counts = (u64, (u64, u64, u64));

/// Files and bytes of what is to be copied from here.
fn tally(from: &[PathBuf]) -> (u64, u64) {
    let (mut files, mut bytes) = (0, 0);
    for found in from.iter().flat_map(|f| Walk::new(f)).flatten() {
        if let Kind::File(len) = found.kind {
            files += 1;
            bytes += len;
        }
    }
    (files, bytes)
}

/// Copies to one destination; answers whether it was there to the end.
fn up(
    node: &Engine,
    peer: &Peer,
    (from, to): (&[PathBuf], &RemotePlace),
    carrier: &dyn Carrier,
    progress: &Progress,
) -> Result<bool, Failure> {
    let session = Session::open(node, peer, &to.segment, progress)?;
    let inside = to.into || from.len() > 1 || is_folder(peer, to);
    session.run(
        |tasks| {
            for source in from {
                match place_of(source, &to.path, inside) {
                    Ok(target) => {
                        upload::produce(&session, carrier, (&to.segment, source, &target), tasks);
                    }
                    Err(reason) => progress.failed(&source.display().to_string(), &reason),
                }
            }
        },
        |bench, task| upload::work(&session, carrier, bench, task),
    )?;
    session.close();
    Ok(!session.is_lost())
}

/// Whether the destination is a folder there; the root of a segment is.
fn is_folder(peer: &Peer, to: &RemotePlace) -> bool {
    let list = FileRequest::List { segment: to.segment.clone(), path: to.path.clone(), after: String::new() };
    to.path.is_empty()
        || matches!(peer.files(list), Ok(FileAnswer::Listing { kind: FileKind::Directory, .. }))
}

fn place_of(source: &Path, to: &str, inside: bool) -> Result<String, String> {
    if !inside {
        return Ok(to.to_owned());
    }
    // `.` and `..` have no name of their own.
    let named = if source.file_name().is_some() {
        source.to_path_buf()
    } else {
        source.canonicalize().map_err(|e| e.to_string())?
    };
    let name = named.file_name().ok_or("it has no name; name the destination in full")?;
    let name = name.to_str().ok_or("its name is not UTF-8")?;
    Ok(under(to, name))
}

fn down(node: &Engine, peer: &Peer, from: &[RemotePlace], to: &Path, into: bool) -> Result<Counts, Failure> {
    let uncounted = Progress::new(0, 0);
    let counter = Session::open(node, peer, &from[0].segment, &uncounted)?;
    let (mut files, mut bytes) = (0, 0);
    for found in from.iter().flat_map(|f| RemoteTree::new(&counter, &f.segment, &f.path, to)).flatten() {
        if found.entry.kind == FileKind::File {
            files += 1;
            bytes += found.entry.len;
        }
    }
    counter.close();
    uncounted.finish();
    let progress = Progress::new(files, bytes);
    let session = Session::open(node, peer, &from[0].segment, &progress)?;
    let inside = into || to.is_dir();
    session.run(
        |tasks| {
            for source in from {
                let name =
                    source.path.rsplit('/').next().filter(|n| !n.is_empty()).unwrap_or(&source.segment);
                let target = if inside { names::join(to, name) } else { Ok(to.to_path_buf()) };
                match target {
                    Ok(target) => download::produce(&session, &source.segment, &source.path, &target, tasks),
                    Err(reason) => progress.failed(&source.path, &reason),
                }
            }
        },
        |bench, task| download::work(&session, bench, task),
    )?;
    session.close();
    Ok((files, progress.finish()))
}
