//! Local files to a peer: see what is there already, begin, have each extent carried there ([`Carrier`]), commit.

use std::fs::{File, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::Sender;
use pipeline_node::{Compared, FileAnswer, FileRequest, How};
use sha2::{Digest, Sha256};

use super::assembly::{Assembly, Ended};
use super::carry::{Carrier, Extent, Placed, read_exact};
use super::compare::{self, Check, There};
use super::names::under;
use super::session::{Bench, Session};
use super::walk::{Found, Kind, Walk};

/// Where the files of a source go.
#[derive(Clone, Debug)]
pub struct Target {
    /// The segment there.
    pub segment: String,
    /// Path of the source's root in it.
    pub path: String,
    /// The generation that takes the place of this path; 0: files are put in their places one by one.
    pub generation: u32,
}

/// What [`produce`] makes and [`work`] takes: a piece of work for one worker.
pub enum Task {
    /// A file of one chunk at most, start to end.
    Small {
        /// Here.
        from: PathBuf,
        /// There.
        to: Spot,
    },
    /// A chunk of a larger file is compared.
    Check {
        /// With which.
        check: Arc<Check>,
        /// Where in it.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// A chunk of a larger file is moved.
    Chunk {
        /// The file.
        upload: Arc<Upload>,
        /// Where in it.
        offset: u64,
        /// Bytes.
        len: u64,
    },
}

/// The place of one file below its target.
#[derive(Clone, Debug)]
pub struct Spot {
    target: Arc<Target>,
    names: String,
}

impl Spot {
    /// Its path in the segment, where readers find it.
    fn path(&self) -> String {
        under(&self.target.path, &self.names)
    }

    /// Its path as requests of the target's generation name it.
    fn staged(&self) -> String {
        if self.target.generation == 0 { self.path() } else { self.names.clone() }
    }
}

/// A file that was begun there.
pub struct Upload {
    id: u32,
    held: bool,
    file: Arc<File>,
    /// What it was when it was opened.
    stamp: Stamp,
    from: PathBuf,
    to: Spot,
    state: Mutex<Assembly>,
}

/// Changes when a local file does.
type Stamp = (u64, u64, i64, i64);

fn stamp(facts: &Metadata) -> Stamp {
    (facts.ino(), facts.len(), facts.mtime(), facts.mtime_nsec())
}

/// Uploads what stands below `from` to its target.
pub fn produce(
    session: &Session<'_>,
    carrier: &dyn Carrier,
    (from, target): (&Path, &Arc<Target>),
    tasks: &Sender<Task>,
) {
    for found in Walk::new(from) {
        if session.is_lost() {
            return;
        }
        match found {
            Ok(found) => offer(session, carrier, found, target, tasks),
            Err(missed) => session.progress.missed(&missed.path.display().to_string(), &missed.reason),
        }
    }
}

fn offer(
    session: &Session<'_>,
    carrier: &dyn Carrier,
    found: Found,
    target: &Arc<Target>,
    tasks: &Sender<Task>,
) {
    let to = Spot { target: target.clone(), names: found.names.join("/") };
    let sent = match found.kind {
        Kind::Folder => folder(session, &to),
        Kind::File(len) if len <= session.chunk => send(tasks, Task::Small { from: found.path.clone(), to }),
        Kind::File(len) => large(session, carrier, &found.path, &to, len, tasks),
    };
    if let Err(reason) = sent {
        carrier.missed(&found.path);
        let what = found.path.display().to_string();
        match found.kind {
            Kind::Folder => session.progress.missed(&what, &reason),
            Kind::File(_) => session.progress.failed(&what, &reason),
        }
    }
}

/// Folders are made even if nothing is in them; the root of a segment or a generation exists.
fn folder(session: &Session<'_>, to: &Spot) -> Result<(), String> {
    let (segment, path, generation) = (to.target.segment.clone(), to.staged(), to.target.generation);
    if path.is_empty() {
        return Ok(());
    }
    session.ask(FileRequest::MakeDirectory { segment, path, generation }).map(drop)
}

/// Workers outlive the producer, so a task always finds one.
fn send(tasks: &Sender<Task>, task: Task) -> Result<(), String> {
    tasks.send(task).map_err(|_| "no worker is left".to_owned())
}

fn large(
    session: &Session<'_>,
    carrier: &dyn Carrier,
    from: &Path,
    to: &Spot,
    len: u64,
    tasks: &Sender<Task>,
) -> Result<(), String> {
    let (file, facts) = open(from)?;
    let (file, how) = (Arc::new(file), session.rules.how(is_executable(&facts)));
    if facts.len() != len {
        return Err(CHANGED.into());
    }
    if session.rules.compares() {
        let offer = |check, offset, len| send(tasks, Task::Check { check, offset, len });
        let found = compare::large(session, &file, &there(to, len, how.executable), offer)?;
        if found.is_some_and(|stamp| take_over(session, to, len, how, stamp)) {
            skipped(session, carrier, from, to, len);
            return Ok(());
        }
    }
    let (id, held) = begin(session, to, len, how)?;
    let state = Mutex::new(Assembly::new(len.div_ceil(session.chunk)));
    let (from, to, stamp) = (from.to_path_buf(), to.clone(), stamp(&facts));
    let upload = Arc::new(Upload { id, held, file, stamp, from, to, state });
    let mut offset = 0;
    while offset < len {
        let piece = session.chunk.min(len - offset);
        send(tasks, Task::Chunk { upload: upload.clone(), offset, len: piece })?;
        offset += piece;
    }
    Ok(())
}

const CHANGED: &str = "it changed while it was being copied";

fn open(from: &Path) -> Result<(File, Metadata), String> {
    let file = File::open(from).map_err(|e| e.to_string())?;
    let facts = file.metadata().map_err(|e| e.to_string())?;
    Ok((file, facts))
}

fn is_executable(facts: &Metadata) -> bool {
    facts.permissions().mode() & 0o100 != 0
}

fn there(to: &Spot, len: u64, executable: bool) -> There {
    There { segment: to.target.segment.clone(), path: to.path(), len, executable }
}

/// What is the same need not be sent. In a generation it has to be linked, and if that fails it is sent after all.
fn take_over(session: &Session<'_>, to: &Spot, len: u64, how: How, stamp: u64) -> bool {
    let Target { generation, .. } = *to.target;
    let how = How { link: Some(stamp), ..how };
    let link = FileRequest::Begin { lease: session.lease(), path: to.staged(), len, how, generation };
    generation == 0 || matches!(session.ask(link), Ok(FileAnswer::Done))
}

fn begin(session: &Session<'_>, to: &Spot, len: u64, how: How) -> Result<(u32, bool), String> {
    let (lease, path, generation) = (session.lease(), to.staged(), to.target.generation);
    match session.ask(FileRequest::Begin { lease, path, len, how, generation })? {
        FileAnswer::Begun { id, held } => Ok((id, held)),
        other => Err(format!("unexpected answer {other:?}")),
    }
}

/// Does one task.
pub fn work(session: &Session<'_>, carrier: &dyn Carrier, bench: &mut Bench, task: Task) {
    match task {
        Task::Small { from, to } => {
            if let Err(reason) = small(session, carrier, bench, &from, &to) {
                carrier.missed(&from);
                session.progress.failed(&from.display().to_string(), &reason);
            }
        }
        Task::Check { check, offset, len } => check.chunk(session, bench, offset, len),
        Task::Chunk { upload, offset, len } => {
            let state = || upload.state.lock().unwrap_or_else(PoisonError::into_inner);
            let spoilt = state().is_spoilt();
            let moved = if spoilt {
                Err("another part of it failed".to_owned())
            } else {
                extent(session, carrier, bench, &upload, offset, len)
            };
            let ended = match moved {
                Ok(crc) => state().moved(offset, len, crc),
                Err(reason) => state().failed(reason),
            };
            let done = match ended {
                None => return,
                Some(Ended::Whole(crc)) => commit(session, &upload, crc),
                Some(Ended::Failed(reason)) => Err(reason),
            };
            conclude(session, carrier, &upload, done);
        }
    }
}

fn small(
    session: &Session<'_>,
    carrier: &dyn Carrier,
    bench: &mut Bench,
    from: &Path,
    to: &Spot,
) -> Result<(), String> {
    let (file, facts) = open(from)?;
    let (len, how) = (facts.len(), session.rules.how(is_executable(&facts)));
    if len > session.chunk {
        return Err("it grew while it was being copied".into());
    }
    if session.rules.compares() {
        let found = compare::small(session, bench, &file, &there(to, len, how.executable))?;
        if found.is_some_and(|stamp| take_over(session, to, len, how, stamp)) {
            skipped(session, carrier, from, to, len);
            return Ok(());
        }
    }
    let (id, held) = begin(session, to, len, how)?;
    let state = Mutex::new(Assembly::new(1));
    let (file, from, stamp) = (Arc::new(file), from.to_path_buf(), stamp(&facts));
    let upload = Upload { id, held, file, stamp, from, to: to.clone(), state };
    let crc = if len == 0 { Ok(0) } else { extent(session, carrier, bench, &upload, 0, len) };
    conclude(session, carrier, &upload, crc.and_then(|crc| commit(session, &upload, crc)));
    Ok(())
}

/// Has one extent in the upload, and answers its CRC32C: it is moved, unless an earlier copy has left the same there.
fn extent(
    session: &Session<'_>,
    carrier: &dyn Carrier,
    bench: &mut Bench,
    upload: &Upload,
    offset: u64,
    len: u64,
) -> Result<u32, String> {
    let extent = Extent { file: &upload.file, from: &upload.from, upload: upload.id, offset, len };
    if upload.held {
        let bytes = &mut bench.buffer[..len as usize];
        read_exact(&upload.file, bytes, offset)?;
        let (digest, of) = (Sha256::digest(&*bytes).into(), Compared::Upload(upload.id));
        let answer = session.ask(FileRequest::Compare { of, offset, len, digest })?;
        if matches!(answer, FileAnswer::Same { same: true, .. }) {
            let crc = crc32c::crc32c(bytes);
            carrier.there(&extent, crc);
            session.progress.resumed(len);
            return Ok(crc);
        }
    }
    carrier.carry(session, bench, &extent).inspect(|_| session.progress.bytes(len))
}

fn commit(session: &Session<'_>, upload: &Upload, crc32c: u32) -> Result<(), String> {
    if stamp(&upload.file.metadata().map_err(|e| e.to_string())?) != upload.stamp {
        return Err(CHANGED.into());
    }
    session.ask_patiently(FileRequest::Commit { upload: upload.id, crc32c }).map(drop)
}

fn skipped(session: &Session<'_>, carrier: &dyn Carrier, from: &Path, to: &Spot, len: u64) {
    session.progress.skipped(len);
    announce(carrier, from, to);
}

/// A file that is whole can be had from there by others.
fn announce(carrier: &dyn Carrier, from: &Path, to: &Spot) {
    let generation = to.target.generation;
    let staged = (generation != 0).then(|| (generation, to.staged()));
    carrier.whole(from, &Placed { path: to.path(), staged });
}

fn conclude(session: &Session<'_>, carrier: &dyn Carrier, upload: &Upload, done: Result<(), String>) {
    match done {
        Ok(()) => {
            announce(carrier, &upload.from, &upload.to);
            session.progress.file(upload.stamp.1);
        }
        Err(reason) => {
            carrier.missed(&upload.from);
            // The peer is told that no more will come; if that fails as well, its session's end does it.
            let _ = session.ask(FileRequest::Abort { upload: upload.id });
            session.progress.failed(&upload.from.display().to_string(), &reason);
        }
    }
}
