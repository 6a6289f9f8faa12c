//! A peer's files to here: see what is here already, ask for a chunk in the lease, READ it, check it, write it into a
//! [`Part`], which puts the file in its place when it is whole.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::Sender;
use pipeline_node::{FileAnswer, FileEntry, FileKind, FileRequest, How};
use pipeline_stages::files::{Generation, Part, Tree};

use super::assembly::{Assembly, Ended};
use super::compare::{self, Check, There};
use super::folders::Folders;
use super::session::{Bench, Session};
use super::tree::{RemoteFile, RemoteTree};

/// Where the files of a source go.
pub struct Target {
    /// The folder here, and what of it is unfinished.
    pub tree: Arc<Tree>,
    /// Path of the source's root in it.
    pub path: String,
    /// What takes the place of this path; without, files are put in their places one by one.
    pub generation: Option<Arc<Generation>>,
    /// What this copy makes here.
    pub folders: Arc<Folders>,
}

impl Target {
    /// Begins a file whose path in the tree is `path`.
    fn begin(&self, path: &str, len: u64, how: How) -> Result<Part, String> {
        self.folders.making(|| {
            let begun = match &self.generation {
                Some(generation) => generation.begin(self.names(path), len, how),
                None => Part::begin(&self.tree, path, len, how),
            };
            // Of a generation they are in that.
            let own = begun.as_ref().ok().filter(|_| self.generation.is_none());
            own.into_iter().for_each(|part| self.folders.note(part.made()));
            begun.map_err(|e| e.to_string())
        })
    }

    fn make_directory(&self, path: &str) -> Result<(), String> {
        let made = self.folders.making(|| match &self.generation {
            Some(generation) => generation.make_directory(self.names(path)),
            None => self.tree.make_directory(path).map(|made| self.folders.note(&made)),
        });
        made.map_err(|e| e.to_string())
    }

    /// What is the same need not be fetched. In a generation it has to be linked; if that fails it is fetched after all.
    fn take_over(&self, path: &str, there: &There, stamp: u64) -> bool {
        let link = |g: &Generation| g.link(self.names(path), there.len, stamp, there.executable).is_ok();
        self.generation.as_deref().is_none_or(link)
    }

    /// A path of the tree as the generation names it.
    fn names<'a>(&self, path: &'a str) -> &'a str {
        path.strip_prefix(&self.path).map_or(path, |rest| rest.trim_start_matches('/'))
    }
}

/// A piece of work for one worker.
pub enum Task<'a> {
    /// A file of one chunk at most, start to end.
    Small {
        /// There.
        from: There,
        /// Its path in the target's tree.
        to: String,
        /// Where it goes.
        target: &'a Target,
    },
    /// A chunk of a file that is here is compared.
    Check {
        /// With which.
        check: Arc<Check>,
        /// Where in it.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// A chunk of a file is moved.
    Chunk {
        /// The file.
        file: Arc<Download>,
        /// Where in it.
        offset: u64,
        /// Bytes.
        len: u64,
    },
}

/// A file on its way.
pub struct Download {
    from: There,
    part: Part,
    state: Mutex<State>,
}

struct State {
    assembly: Assembly,
    /// The peer's stamp of the file; chunks of two different files must not be mixed.
    stamp: Option<u64>,
}

/// Offers everything that stands at `from` in the segment, to be put at its target.
pub fn produce<'a>(
    session: &Session<'_>,
    segment: &str,
    from: &str,
    target: &'a Target,
    tasks: &Sender<Task<'a>>,
) {
    for found in RemoteTree::new(session, segment, from, Path::new(&target.path)) {
        if session.is_lost() {
            return;
        }
        let (name, is_file, offered) = match found {
            Ok(RemoteFile { path, local, entry }) => {
                let is_file = entry.kind == FileKind::File;
                // It is made of the target's path and of names from the wire, which are text.
                let to = local.to_str().unwrap_or_default();
                let from = There {
                    segment: segment.to_owned(),
                    path: path.clone(),
                    len: entry.len,
                    executable: entry.executable,
                };
                (path, is_file, offer(session, from, target, to, &entry, tasks))
            }
            Err((path, reason)) => (path, false, Err(reason)),
        };
        match offered {
            Ok(()) => {}
            Err(reason) if is_file => session.progress.failed(&name, &reason),
            Err(reason) => session.progress.missed(&name, &reason),
        }
    }
}

fn offer<'a>(
    session: &Session<'_>,
    from: There,
    target: &'a Target,
    to: &str,
    entry: &FileEntry,
    tasks: &Sender<Task<'a>>,
) -> Result<(), String> {
    match entry.kind {
        FileKind::Directory => return target.make_directory(to),
        FileKind::File => {}
        FileKind::Symlink => return Err("a symbolic link there; those are never followed".into()),
        FileKind::Other => return Err("neither a file nor a folder".into()),
    }
    let send = |task| tasks.send(task).map_err(|_| "no worker is left".to_owned());
    if from.len <= session.chunk {
        return send(Task::Small { from, to: to.to_owned(), target });
    }
    if let Some((here, stamp)) = same_kind(session, target, to, &from) {
        let offer = |check, offset, len| send(Task::Check { check, offset, len });
        let found = compare::large(session, &Arc::new(here), &from, offer)?;
        if found.is_some() && target.take_over(to, &from, stamp) {
            session.progress.skipped(from.len);
            return Ok(());
        }
    }
    let file = Arc::new(Download::begin(session, target, from, to)?);
    let (mut offset, all) = (0, file.from.len);
    while offset < all {
        let len = session.chunk.min(all - offset);
        send(Task::Chunk { file: file.clone(), offset, len })?;
        offset += len;
    }
    Ok(())
}

/// The file that stands here in the place of one there, if it could be the same, and its stamp.
fn same_kind(session: &Session<'_>, target: &Target, to: &str, there: &There) -> Option<(File, u64)> {
    if !session.rules.compares() {
        return None;
    }
    let seen = target.tree.file(to).ok()?;
    (seen.len == there.len && seen.executable == there.executable).then_some((seen.file, seen.stamp))
}

/// Does one task.
pub fn work(session: &Session<'_>, bench: &mut Bench, task: Task<'_>) {
    let (file, offset, len) = match task {
        Task::Small { from, to, target } => {
            let name = from.path.clone();
            if let Err(reason) = small(session, bench, from, target, &to) {
                session.progress.failed(&name, &reason);
            }
            return;
        }
        Task::Check { check, offset, len } => return check.chunk(session, bench, offset, len),
        Task::Chunk { file, offset, len } => (file, offset, len),
    };
    let state = || file.state.lock().unwrap_or_else(PoisonError::into_inner);
    let spoilt = state().assembly.is_spoilt();
    let moved = if spoilt {
        Err("another part of it failed".to_owned())
    } else {
        chunk(session, bench, &file, offset, len)
    };
    let ended = match moved {
        Ok(crc) => state().assembly.moved(offset, len, crc),
        Err(reason) => state().assembly.failed(reason),
    };
    match ended {
        None => {}
        Some(Ended::Whole(crc)) => conclude(session, &file, Ok(crc)),
        Some(Ended::Failed(reason)) => conclude(session, &file, Err(reason)),
    }
}

fn small(
    session: &Session<'_>,
    bench: &mut Bench,
    from: There,
    target: &Target,
    to: &str,
) -> Result<(), String> {
    if let Some((here, stamp)) = same_kind(session, target, to, &from)
        && compare::small(session, bench, &here, &from)?.is_some()
        && target.take_over(to, &from, stamp)
    {
        session.progress.skipped(from.len);
        return Ok(());
    }
    let (len, file) = (from.len, Download::begin(session, target, from, to)?);
    let crc = if len == 0 { Ok(0) } else { chunk(session, bench, &file, 0, len) };
    conclude(session, &file, crc);
    Ok(())
}

fn chunk(
    session: &Session<'_>,
    bench: &mut Bench,
    file: &Download,
    offset: u64,
    len: u64,
) -> Result<u32, String> {
    if file.part.is_held()
        && let Some(crc) = resumed(session, bench, file, offset, len)?
    {
        session.progress.resumed(len);
        return Ok(crc);
    }
    let request = FileRequest::Read {
        lease: session.lease(),
        path: file.from.path.clone(),
        file_offset: offset,
        lease_offset: bench.lease_offset,
        len,
    };
    let crc = match session.ask(request)? {
        FileAnswer::Filled { len: got, crc32c, file_len, stamp } => {
            if got != len || file_len != file.from.len {
                return Err(CHANGED.into());
            }
            file.is_of(stamp)?;
            crc32c
        }
        other => return Err(format!("unexpected answer {other:?}")),
    };
    session.get(bench, len)?;
    let bytes = &mut bench.buffer[..len as usize];
    bench.region.read(0, bytes).map_err(|e| e.to_string())?;
    if crc32c::crc32c(bytes) != crc {
        return Err(format!(
            "{len} bytes at offset {offset} arrived with another CRC32C than they left with"
        ));
    }
    file.part.write(offset, bytes).map_err(|e| e.to_string())?;
    file.part.came(offset, len, crc).map_err(|e| e.to_string())?;
    session.progress.bytes(len);
    Ok(crc)
}

const CHANGED: &str = "it changed while it was being copied";

/// The CRC32C of a chunk that an earlier copy has left here, if it is what the peer's file holds now.
fn resumed(
    session: &Session<'_>,
    bench: &mut Bench,
    file: &Download,
    offset: u64,
    len: u64,
) -> Result<Option<u32>, String> {
    let Some((digest, crc)) = file.part.digest(offset, len, &mut bench.buffer).map_err(|e| e.to_string())?
    else {
        return Ok(None);
    };
    let Some(stamp) = compare::ask(session, &file.from, (offset, len), digest)? else { return Ok(None) };
    file.is_of(stamp)?;
    file.part.came(offset, len, crc).map_err(|e| e.to_string())?;
    Ok(Some(crc))
}

impl Download {
    fn begin(session: &Session<'_>, target: &Target, from: There, to: &str) -> Result<Self, String> {
        let part = target.begin(to, from.len, session.rules.how(from.executable))?;
        // One of no chunks is put in its place at once, and its count is never asked for.
        let assembly = Assembly::new(from.len.div_ceil(session.chunk).max(1));
        Ok(Self { from, part, state: Mutex::new(State { assembly, stamp: None }) })
    }

    /// Refuses a chunk of another state of the file than the first one's.
    fn is_of(&self, stamp: u64) -> Result<(), String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *state.stamp.get_or_insert(stamp) != stamp {
            return Err(CHANGED.into());
        }
        Ok(())
    }
}

/// Puts a whole file in its place. What there is of another one goes with it, or is kept for a resume.
fn conclude(session: &Session<'_>, file: &Download, done: Result<u32, String>) {
    match done.and_then(|crc| file.part.commit(crc).map_err(|e| e.to_string())) {
        Ok(()) => session.progress.file(file.from.len),
        Err(reason) => session.progress.failed(&file.from.path, &reason),
    }
}
