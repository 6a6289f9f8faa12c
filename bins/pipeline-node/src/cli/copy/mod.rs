//! `copy`: files and trees to or from a `dir` segment of a node, through the pipeline, verified at both ends.

mod assembly;
mod carry;
mod compare;
mod download;
mod fanout;
mod folders;
mod interrupt;
mod names;
mod pace;
mod place;
mod progress;
mod rules;
mod session;
mod tree;
mod upload;
mod walk;
mod way;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;
use pipeline_node::{Engine, FileAnswer, FileKind, FileRequest, Peer};
use pipeline_stages::files::Generation;

use super::exit::{Failure, Outcome};
use super::failures::engine;
use super::file::{self, source};
use super::logs;
use super::quantity::human;
use carry::Carrier;
use fanout::Shape;
use folders::Folders;
use names::under;
use pace::Pace;
use place::RemotePlace;
use progress::{Counts, Progress};
use rules::Rules;
use session::Session;
use tree::RemoteTree;
use walk::{Kind, Walk};
use way::Way;

/// Copy files and trees to or from a node.
///
/// One side is PEER:SEGMENT[/PATH]; the segment is of kind `dir`. As with cp -r, a source lands inside DST when
/// that is a folder (or ends with `/`), and becomes DST otherwise. Every file is written beside its place, checked
/// by CRC32C at both ends, and renamed. What fails is listed, the rest goes on, and the exit code is 1. With several
/// DST, all of them PEER:SEGMENT[/PATH], each gets all of it. With --resume, --skip-unchanged or --atomic a source
/// lands inside DST only if that ends with `/`: a second run means the same.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  pipeline-node copy ./weights 10.0.0.2:7001:models/
  pipeline-node copy 10.0.0.2:7001:models/weights /srv/models/
  pipeline-node copy --resume --bwlimit 50MiB ./weights 10.0.0.2:7001:models/weights
  pipeline-node copy --atomic --fsync ./weights 10.0.0.2:7001:models/current
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
    #[command(flatten)]
    rules: Rules,
}

/// Runs it.
///
/// # Errors
/// 1 when a file failed, 2 for a command line that makes no sense, 69 when the peer cannot be reached.
pub fn run(args: &Args) -> Outcome {
    let way = Way::parse(&args.places)?;
    let loaded = file::load(&source(args.config.as_deref(), &args.set))?;
    logs::of_command();
    let node = Engine::start(file::unpublished(loaded.config)).map_err(|e| engine(&e))?;
    let pace = args.rules.bwlimit.map(Pace::new);
    let how = (args.rules, pace.as_ref());
    let remote = match &way {
        Way::Out { from, to } => return fanout::run(&node, (from, to), args.fanout, how, args.json),
        Way::Up { to, .. } => to,
        Way::Down { from, .. } => &from[0],
    };
    let peer = node.open_within(&remote.peer, session::OPEN_TIMEOUT).map_err(|e| engine(&e))?;
    let begin = Instant::now();
    let (counts, is_there) = match &way {
        Way::Out { .. } => unreachable!("it has been carried out"),
        Way::Up { from, to } => {
            let (files, bytes) = tally(from);
            let progress = Progress::new(files, bytes);
            let done = up(&node, &peer, (from, to), &carry::ByWrite, how, &progress);
            let counts = progress.finish(files);
            (counts, done?)
        }
        Way::Down { from, to, into } => down(&node, &peer, from, (to, *into), how)?,
    };
    say(args, &counts, begin.elapsed())?;
    let Counts { files, skipped, failed, .. } = counts;
    let untried = counts.untried();
    if (failed, untried) == (0, 0) {
        return Ok(());
    }
    let mut came = format!("{failed} failed, {files} were copied, {skipped} were the same");
    if untried > 0 {
        came += &format!(", {untried} were not tried");
    }
    if !is_there {
        came += &format!(": {}", gone(&remote.peer));
    }
    Err(Failure::failed(came))
}

/// That a peer went in the middle of a copy, and what to do.
fn gone(peer: &str) -> String {
    format!("peer {peer} is gone; copy again when it is back, with --resume to send only what is missing")
}

/// What was done: as JSON if asked for, else a line for whoever sits at a terminal.
fn say(args: &Args, counts: &Counts, took: Duration) -> Result<(), Failure> {
    let Counts { files, skipped, sent_bytes, resumed_bytes, skipped_bytes, failed, .. } = *counts;
    let seconds = took.as_secs_f64().max(1e-9);
    if args.json {
        let line = serde_json::json!({
            "files": files, "bytes": counts.file_bytes, "sent_bytes": sent_bytes,
            "resumed_bytes": resumed_bytes, "skipped": skipped, "skipped_bytes": skipped_bytes, "failed": failed,
            "untried": counts.untried(), "seconds": seconds, "gb_per_s": sent_bytes as f64 / 1e9 / seconds,
        });
        return file::print(&format!("{line}\n"));
    }
    if std::io::IsTerminal::is_terminal(&std::io::stderr()) {
        let rate = human((sent_bytes as f64 / seconds) as u64);
        let mut line = format!("{files} files, {} sent in {seconds:.2} s, {rate}/s", human(sent_bytes));
        if resumed_bytes > 0 {
            line += &format!("; {} were there from an earlier copy", human(resumed_bytes));
        }
        if skipped > 0 {
            line += &format!("; {skipped} files of {} were the same", human(skipped_bytes));
        }
        eprintln!("{line}");
    }
    Ok(())
}

/// How a copy is made, and how fast at most.
type How<'a> = (Rules, Option<&'a Pace>);

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
    how: How<'_>,
    progress: &Progress,
) -> Result<bool, Failure> {
    let rules = how.0;
    if rules.atomic && !(from.len() == 1 && from[0].is_dir()) {
        return Err(Failure::usage(ONE_FOLDER));
    }
    let session = Session::open(node, peer, &to.segment, how, progress)?;
    let inside =
        to.into || from.len() > 1 || to.path.is_empty() || (!rules.compares() && is_folder(peer, to));
    let mut generation = 0;
    let mut targets = Vec::new();
    for source in from {
        match place_of(source, &to.path, inside) {
            Ok(path) => {
                let segment = to.segment.clone();
                if rules.atomic {
                    generation = stage(&session, &segment, &path)?;
                }
                targets.push((source, Arc::new(upload::Target { segment, path, generation })));
            }
            Err(reason) => progress.missed(&source.display().to_string(), &reason),
        }
    }
    session.run(
        |tasks| {
            for (source, target) in &targets {
                upload::produce(&session, carrier, (source, target), tasks);
            }
        },
        |bench, task| upload::work(&session, carrier, bench, task),
    )?;
    if generation != 0 {
        publish(&session, generation).map_err(Failure::failed)?;
    }
    session.close();
    Ok(!session.is_lost())
}

const ONE_FOLDER: &str = "`--atomic` replaces a folder as a whole: give it one source, and a folder";
const NOT_PUBLISHED: &str = "nothing was published: what stood there still does";

/// Puts a generation in its place, unless something of it is missing.
fn publish(session: &Session<'_>, generation: u32) -> Result<(), String> {
    if session.progress.has_failed() || session.is_lost() {
        let _ = session.ask(FileRequest::Abort { upload: generation });
        return Err(NOT_PUBLISHED.to_owned());
    }
    session.ask_patiently(FileRequest::Publish { generation, sync: session.rules.fsync }).map(drop)
}

/// Where a source goes in the segment.
fn place_of(source: &Path, to: &str, inside: bool) -> Result<String, String> {
    if inside { way::name_of(source).map(|name| under(to, &name)) } else { Ok(to.to_owned()) }
}

fn stage(session: &Session<'_>, segment: &str, path: &str) -> Result<u32, Failure> {
    let stage = FileRequest::Stage { segment: segment.to_owned(), path: path.to_owned() };
    match session.ask(stage) {
        Ok(FileAnswer::Begun { id, .. }) => Ok(id),
        Ok(other) => Err(Failure::failed(format!("unexpected answer {other:?}"))),
        Err(reason) => Err(Failure::failed(reason)),
    }
}

/// Whether the destination is a folder there; the root of a segment is.
fn is_folder(peer: &Peer, to: &RemotePlace) -> bool {
    let list = FileRequest::List { segment: to.segment.clone(), path: to.path.clone(), after: String::new() };
    to.path.is_empty()
        || matches!(peer.files(list), Ok(FileAnswer::Listing { kind: FileKind::Directory, .. }))
}

/// Copies to here; answers whether the peer was there to the end.
fn down(
    node: &Engine,
    peer: &Peer,
    from: &[RemotePlace],
    to: (&Path, bool),
    how: How<'_>,
) -> Result<(Counts, bool), Failure> {
    let folders = Arc::default();
    interrupt::on_interrupt(&folders)?;
    let fetched = fetch(node, peer, from, to, how, &folders);
    match &fetched {
        Ok((counts, true)) if counts.failed == 0 => {}
        // The rest of the tree came, so what is empty in it is so there.
        Ok((_, true)) => folders.remove_destination(),
        _ => folders.remove(),
    }
    fetched
}

fn fetch(
    node: &Engine,
    peer: &Peer,
    from: &[RemotePlace],
    (to, into): (&Path, bool),
    how: How<'_>,
    folders: &Arc<Folders>,
) -> Result<(Counts, bool), Failure> {
    let rules = how.0;
    let (files, bytes) = count(node, peer, from)?;
    let progress = Progress::new(files, bytes);
    let session = Session::open(node, peer, &from[0].segment, how, &progress)?;
    let inside = into || to.file_name().is_none() || (!rules.compares() && to.is_dir());
    let targets = targets(from, to, inside, rules.atomic, folders)?;
    session.run(
        |tasks| {
            for (source, target) in from.iter().zip(&targets) {
                download::produce(&session, &source.segment, &source.path, target, tasks);
            }
        },
        |bench, task| download::work(&session, bench, task),
    )?;
    session.close();
    let published = match targets.iter().find_map(|target| target.generation.as_ref()) {
        None => Ok(()),
        Some(_) if progress.has_failed() || session.is_lost() => Err(NOT_PUBLISHED.to_owned()),
        Some(generation) => generation.publish(rules.fsync).map_err(|e| e.to_string()),
    };
    let counts = progress.finish(files);
    published.map_err(Failure::failed).map(|()| (counts, !session.is_lost()))
}

/// Files and bytes that there are to copy.
fn count(node: &Engine, peer: &Peer, from: &[RemotePlace]) -> Result<(u64, u64), Failure> {
    let uncounted = Progress::new(0, 0);
    let counter = Session::open(node, peer, &from[0].segment, (Rules::default(), None), &uncounted)?;
    let (mut files, mut bytes) = (0, 0);
    let root = Path::new("");
    for found in from.iter().flat_map(|f| RemoteTree::new(&counter, &f.segment, &f.path, root)).flatten() {
        if found.entry.kind == FileKind::File {
            files += 1;
            bytes += found.entry.len;
        }
    }
    counter.close();
    uncounted.finish(0);
    Ok((files, bytes))
}

/// Where each source goes: the folder here that it may not leave, and its path in that.
fn targets(
    from: &[RemotePlace],
    to: &Path,
    inside: bool,
    atomic: bool,
    folders: &Arc<Folders>,
) -> Result<Vec<download::Target>, Failure> {
    if atomic && from.len() != 1 {
        return Err(Failure::usage(ONE_FOLDER));
    }
    // A link in its place is followed, as always in a path that somebody typed.
    let to = to.canonicalize().unwrap_or_else(|_| to.to_path_buf());
    let parent = to.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let base = if inside { &to } else { parent };
    let failed = |e| Failure::failed(format!("{}: {e}", base.display()));
    let tree = folders.open(base).map_err(failed)?;
    tree.sweep();
    let target = |source: &RemotePlace| {
        let name =
            if inside { source.name() } else { to.file_name().and_then(|n| n.to_str()).unwrap_or_default() };
        let path = names::join(Path::new(""), name).map_err(Failure::failed)?;
        let path = path.to_str().unwrap_or_default().to_owned();
        let stage = || Generation::stage(&tree, &path).map(Arc::new).inspect(|g| folders.note_generation(g));
        let staged = atomic.then(|| folders.making(stage)).transpose();
        let generation = staged.map_err(|e| Failure::failed(&e))?;
        Ok(download::Target { tree: tree.clone(), path, generation, folders: folders.clone() })
    };
    from.iter().map(target).collect()
}
