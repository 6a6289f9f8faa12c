//! A peer's files to here: ask for a chunk in the lease, READ it, check it, write it beside its place, rename.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::Sender;
use pipeline_node::{FileAnswer, FileEntry, FileKind, FileRequest};

use super::assembly::{Assembly, Ended};
use super::session::{Bench, Session};
use super::tree::{RemoteFile, RemoteTree};

/// A chunk of a file.
pub struct Task {
    file: Arc<Download>,
    offset: u64,
    len: u64,
}

/// A file on its way.
struct Download {
    from: String,
    to: PathBuf,
    beside: PathBuf,
    file: File,
    len: u64,
    state: Mutex<State>,
}

struct State {
    assembly: Assembly,
    /// The peer's stamp of the file; chunks of two different files must not be mixed.
    stamp: Option<u64>,
}

/// Offers everything that stands at `from` in the segment, to be put at `to`.
pub fn produce(session: &Session<'_>, segment: &str, from: &str, to: &Path, tasks: &Sender<Task>) {
    for found in RemoteTree::new(session, segment, from, to) {
        if session.is_lost() {
            return;
        }
        let (name, offered) = match found {
            Ok(RemoteFile { path, local, entry }) => {
                let offered = offer(session, &path, &local, &entry, tasks);
                (path, offered)
            }
            Err((path, reason)) => (path, Err(reason)),
        };
        if let Err(reason) = offered {
            session.progress.failed(&name, &reason);
        }
    }
}

fn offer(
    session: &Session<'_>,
    path: &str,
    local: &Path,
    entry: &FileEntry,
    tasks: &Sender<Task>,
) -> Result<(), String> {
    match entry.kind {
        FileKind::Directory => return fs::create_dir_all(local).map_err(|e| e.to_string()),
        FileKind::File => {}
        FileKind::Symlink => return Err("a symbolic link there; those are never followed".into()),
        FileKind::Other => return Err("neither a file nor a folder".into()),
    }
    let (beside, file) = create_beside(local, entry.executable).map_err(|e| e.to_string())?;
    let chunks = entry.len.div_ceil(session.chunk);
    let state = State { assembly: Assembly::new(chunks), stamp: None };
    let (from, to) = (path.to_owned(), local.to_path_buf());
    let download = Arc::new(Download { from, to, beside, file, len: entry.len, state: Mutex::new(state) });
    if chunks == 0 {
        conclude(session, &download, Ok(()));
        return Ok(());
    }
    let mut offset = 0;
    while offset < entry.len {
        let len = session.chunk.min(entry.len - offset);
        let task = Task { file: download.clone(), offset, len };
        tasks.send(task).map_err(|_| "no worker is left".to_owned())?;
        offset += len;
    }
    Ok(())
}

/// A new file in the folder of `path`, under a name of its own; folders above are made.
fn create_beside(path: &Path, executable: bool) -> io::Result<(PathBuf, File)> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    if path.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "a folder stands in its place"));
    }
    let mut salt = [0; 8];
    getrandom::fill(&mut salt).map_err(io::Error::other)?;
    // Short, so that the longest legal name still has room for it.
    let beside = path.with_file_name(format!(".part-{:016x}", u64::from_le_bytes(salt)));
    let mode = if executable { 0o777 } else { 0o666 };
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
    Ok((beside, file))
}

/// Does one task.
pub fn work(session: &Session<'_>, bench: &mut Bench, task: Task) {
    let Task { file, offset, len } = task;
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
        Some(Ended::Whole(_)) => conclude(session, &file, Ok(())),
        Some(Ended::Failed(reason)) => conclude(session, &file, Err(reason)),
    }
}

fn chunk(
    session: &Session<'_>,
    bench: &mut Bench,
    file: &Download,
    offset: u64,
    len: u64,
) -> Result<u32, String> {
    let request = FileRequest::Read {
        lease: session.lease(),
        path: file.from.clone(),
        file_offset: offset,
        lease_offset: bench.lease_offset,
        len,
    };
    let crc = match session.ask(request)? {
        FileAnswer::Filled { len: got, crc32c, file_len, stamp } => {
            let mut state = file.state.lock().unwrap_or_else(PoisonError::into_inner);
            if got != len || file_len != file.len || *state.stamp.get_or_insert(stamp) != stamp {
                return Err("it changed while it was being copied".into());
            }
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
    file.file.write_all_at(bytes, offset).map_err(|e| e.to_string())?;
    session.progress.bytes(len);
    Ok(crc)
}

/// Puts a whole file in its place, or takes what there is of it away.
fn conclude(session: &Session<'_>, file: &Download, done: Result<(), String>) {
    let done = done.and_then(|()| fs::rename(&file.beside, &file.to).map_err(|e| e.to_string()));
    match done {
        Ok(()) => session.progress.file(),
        Err(reason) => {
            let _ = fs::remove_file(&file.beside);
            session.progress.failed(&file.from, &reason);
        }
    }
}
