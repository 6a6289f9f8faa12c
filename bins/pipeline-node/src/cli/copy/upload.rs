//! Local files to a peer: begin, have each extent carried there ([`Carrier`]), commit.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::Sender;
use pipeline_node::{FileAnswer, FileRequest};

use super::assembly::{Assembly, Ended};
use super::carry::{Carrier, Extent};
use super::names::under;
use super::session::{Bench, Session};
use super::walk::{Found, Kind, Walk};

/// What [`produce`] makes and [`work`] takes: a piece of work for one worker.
pub enum Task {
    /// A file of one chunk at most, start to end.
    Small {
        /// Here.
        from: PathBuf,
        /// There.
        to: String,
    },
    /// A chunk of a larger file.
    Chunk {
        /// The file.
        upload: Arc<Upload>,
        /// Where in it.
        offset: u64,
        /// Bytes.
        len: u64,
    },
}

/// A file of several chunks.
pub struct Upload {
    id: u32,
    file: File,
    from: PathBuf,
    to: String,
    state: Mutex<Assembly>,
}

/// Uploads what stands below `from` to `to` in the session's segment.
pub fn produce(
    session: &Session<'_>,
    carrier: &dyn Carrier,
    (segment, from, to): (&str, &Path, &str),
    tasks: &Sender<Task>,
) {
    for found in Walk::new(from) {
        if session.is_lost() {
            return;
        }
        match found {
            Ok(found) => offer(session, carrier, segment, found, to, tasks),
            Err(missed) => session.progress.failed(&missed.path.display().to_string(), &missed.reason),
        }
    }
}

fn offer(
    session: &Session<'_>,
    carrier: &dyn Carrier,
    segment: &str,
    found: Found,
    to: &str,
    tasks: &Sender<Task>,
) {
    let to = under(to, &found.names.join("/"));
    let sent = match found.kind {
        Kind::Folder => {
            // Folders are made even if nothing is in them; the root of a segment exists.
            let made = if to.is_empty() {
                Ok(FileAnswer::Done)
            } else {
                session.ask(FileRequest::MakeDirectory { segment: segment.to_owned(), path: to.clone() })
            };
            made.map(drop)
        }
        Kind::File(len) if len <= session.chunk => send(tasks, Task::Small { from: found.path.clone(), to }),
        Kind::File(len) => large(session, &found.path, to, len, tasks),
    };
    if let Err(reason) = sent {
        carrier.missed(&found.path);
        session.progress.failed(&found.path.display().to_string(), &reason);
    }
}

/// Workers outlive the producer, so a task always finds one.
fn send(tasks: &Sender<Task>, task: Task) -> Result<(), String> {
    tasks.send(task).map_err(|_| "no worker is left".to_owned())
}

fn large(
    session: &Session<'_>,
    from: &Path,
    to: String,
    len: u64,
    tasks: &Sender<Task>,
) -> Result<(), String> {
    let file = File::open(from).map_err(|e| e.to_string())?;
    let id = begin(session, &file, &to, len)?;
    let state = Mutex::new(Assembly::new(len.div_ceil(session.chunk)));
    let upload = Arc::new(Upload { id, file, from: from.to_path_buf(), to, state });
    let mut offset = 0;
    while offset < len {
        let piece = session.chunk.min(len - offset);
        send(tasks, Task::Chunk { upload: upload.clone(), offset, len: piece })?;
        offset += piece;
    }
    Ok(())
}

fn begin(session: &Session<'_>, file: &File, to: &str, len: u64) -> Result<u32, String> {
    let executable = file.metadata().map_err(|e| e.to_string())?.permissions().mode() & 0o100 != 0;
    match session.ask(FileRequest::Begin { lease: session.lease(), path: to.to_owned(), len, executable })? {
        FileAnswer::Begun { upload } => Ok(upload),
        other => Err(format!("unexpected answer {other:?}")),
    }
}

/// Does one task.
pub fn work(session: &Session<'_>, carrier: &dyn Carrier, bench: &mut Bench, task: Task) {
    match task {
        Task::Small { from, to } => {
            let done = small(session, carrier, bench, &from, &to);
            conclude(session, carrier, (&from, &to), done);
        }
        Task::Chunk { upload, offset, len } => {
            let state = || upload.state.lock().unwrap_or_else(PoisonError::into_inner);
            let spoilt = state().is_spoilt();
            let moved = if spoilt {
                Err("another part of it failed".to_owned())
            } else {
                let (file, from) = (&upload.file, upload.from.as_path());
                carry(session, carrier, bench, &Extent { file, from, upload: upload.id, offset, len })
            };
            let ended = match moved {
                Ok(crc) => state().moved(offset, len, crc),
                Err(reason) => state().failed(reason),
            };
            match ended {
                None => {}
                Some(Ended::Whole(crc)) => {
                    let done = commit(session, upload.id, crc);
                    conclude(session, carrier, (&upload.from, &upload.to), done);
                }
                Some(Ended::Failed(reason)) => {
                    abort(session, upload.id);
                    conclude(session, carrier, (&upload.from, &upload.to), Err(reason));
                }
            }
        }
    }
}

fn small(
    session: &Session<'_>,
    carrier: &dyn Carrier,
    bench: &mut Bench,
    from: &Path,
    to: &str,
) -> Result<(), String> {
    let file = File::open(from).map_err(|e| e.to_string())?;
    let len = file.metadata().map_err(|e| e.to_string())?.len();
    if len > session.chunk {
        return Err("it grew while it was being copied".into());
    }
    let upload = begin(session, &file, to, len)?;
    let whole = Extent { file: &file, from, upload, offset: 0, len };
    let crc = if len == 0 { Ok(0) } else { carry(session, carrier, bench, &whole) };
    crc.and_then(|crc| commit(session, upload, crc)).inspect_err(|_| abort(session, upload))
}

/// Moves one extent; answers its CRC32C.
fn carry(
    session: &Session<'_>,
    carrier: &dyn Carrier,
    bench: &mut Bench,
    extent: &Extent<'_>,
) -> Result<u32, String> {
    carrier.carry(session, bench, extent).inspect(|_| session.progress.bytes(extent.len))
}

fn commit(session: &Session<'_>, upload: u32, crc32c: u32) -> Result<(), String> {
    session.ask(FileRequest::Commit { upload, crc32c }).map(drop)
}

/// Tells the peer to forget a file; if that fails as well, its session's end does it.
fn abort(session: &Session<'_>, upload: u32) {
    let _ = session.ask(FileRequest::Abort { upload });
}

fn conclude(
    session: &Session<'_>,
    carrier: &dyn Carrier,
    (from, to): (&Path, &str),
    done: Result<(), String>,
) {
    match &done {
        Ok(()) => carrier.whole(from, to),
        Err(_) => carrier.missed(from),
    }
    match done {
        Ok(()) => session.progress.file(),
        Err(reason) => session.progress.failed(&from.display().to_string(), &reason),
    }
}
