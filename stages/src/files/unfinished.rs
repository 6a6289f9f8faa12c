//! The hidden directory at the root of a tree, where lies what is not in its place yet and must be found again:
//! uploads kept for a resume (`part-…`, at most 256 and never more bytes than the disk has free, for a week) and
//! unpublished or replaced generations (`tree-…`, until their owner ends). Whoever uses an entry holds a `flock` on
//! it, so that another process that serves the same tree leaves it alone. It is removed when it is empty.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use cap_std::fs::{Dir, DirBuilder, DirBuilderExt, MetadataExt};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use sha2::{Digest, Sha256};

use super::error::FileError;
use super::tree::{Tree, open_for_calls};
use crate::control::lock;

/// Its name; nobody may name it, and no listing shows it.
pub const UNFINISHED: &str = ".pipeline-node";
/// Uploads that are kept, at most.
const KEPT_FILES: usize = 256;
/// How long an upload is kept.
const KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

/// What this process uses of it.
#[derive(Default)]
pub(super) struct Holds {
    parts: HashMap<String, Arc<Hold>>,
    trees: HashSet<String>,
}

/// A kept upload in use. A later upload of the same path takes it over: then `live` is false for the earlier one.
pub(super) struct Hold {
    pub(super) file: File,
    pub(super) live: RwLock<bool>,
}

/// A kept upload, taken for use.
pub(super) struct Kept {
    pub(super) dir: Dir,
    pub(super) name: String,
    pub(super) hold: Arc<Hold>,
    /// Bytes that were there already, right or wrong.
    pub(super) before: u64,
}

/// An empty directory, taken for a generation.
pub(super) struct Taken {
    /// The hidden directory, and its name there.
    pub(super) unfinished: Dir,
    pub(super) name: String,
    pub(super) dir: Dir,
    /// A descriptor that holds the lock.
    pub(super) lock: OwnedFd,
}

impl Tree {
    /// Takes the kept upload of `path` for use, or makes one. One that is in use in this process is taken over: its
    /// session may be dead and not know it yet.
    pub(super) fn take_kept(&self, path: &str, executable: bool) -> Result<Kept, FileError> {
        let io = |e| FileError::io(path, "written", e);
        let mut holds = lock(&self.holds);
        let dir = self.unfinished().map_err(io)?;
        let name = kept_name(path);
        let (file, before) = match holds.parts.get(&name) {
            Some(earlier) => {
                // Waits for the write that is under way; no later one will happen.
                *earlier.live.write().unwrap_or_else(PoisonError::into_inner) = false;
                let file = earlier.file.try_clone().map_err(io)?;
                let before = file.metadata().map_err(io)?.len();
                (file, before)
            }
            None => {
                prune(&dir, &holds).map_err(io)?;
                open_kept(&dir, &name, executable).map_err(io)?.ok_or(FileError::Busy(
                    "another process is writing this file; wait for it, or copy without `--resume`",
                ))?
            }
        };
        let hold = Arc::new(Hold { file, live: RwLock::new(true) });
        holds.parts.insert(name.clone(), hold.clone());
        Ok(Kept { dir, name, hold, before })
    }

    /// Ends the use of a kept upload: `publish` moves it to its place, unless it was taken over meanwhile; without, it
    /// stays for a later one.
    pub(super) fn end_kept(
        &self,
        kept: &Kept,
        publish: Option<&dyn Fn() -> io::Result<()>>,
    ) -> io::Result<bool> {
        let mut holds = lock(&self.holds);
        if !holds.parts.get(&kept.name).is_some_and(|hold| Arc::ptr_eq(hold, &kept.hold)) {
            return Ok(false);
        }
        if let Some(publish) = publish {
            publish()?;
        }
        holds.parts.remove(&kept.name);
        let _ = rustix::fs::flock(&kept.hold.file, FlockOperation::Unlock);
        self.leave(&holds);
        Ok(true)
    }

    /// Makes an empty directory for a generation and takes it for use.
    pub(super) fn take_tree(&self) -> io::Result<Taken> {
        let mut holds = lock(&self.holds);
        let unfinished = self.unfinished()?;
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let name = format!("tree-{:016x}", u64::from_le_bytes(random));
        unfinished.create_dir(&name)?;
        let dir = unfinished.open_dir(&name)?;
        let lock = open_for_calls(&dir)?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        holds.trees.insert(name.clone());
        Ok(Taken { unfinished, name, dir, lock })
    }

    /// Removes what lies under the name of a generation: itself, or what it has replaced.
    pub(super) fn end_tree(&self, unfinished: &Dir, name: &str) {
        match unfinished.remove_dir_all(name) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                tracing::warn!("{UNFINISHED}/{name} stays until the next start of this node: {e}");
            }
            _ => {}
        }
        let mut holds = lock(&self.holds);
        holds.trees.remove(name);
        self.leave(&holds);
    }

    /// Removes what a process that was killed has left and nobody will ask for.
    pub fn sweep(&self) {
        let holds = lock(&self.holds);
        let found = self.dir.symlink_metadata(UNFINISHED).is_ok_and(|facts| facts.is_dir());
        let Ok(dir) = (if found { self.dir.open_dir(UNFINISHED) } else { return }) else { return };
        if let Err(e) = prune(&dir, &holds) {
            tracing::warn!("{UNFINISHED} could not be looked through: {e}");
        }
        let trees: Vec<_> = names(&dir, "tree-").filter(|name| !holds.trees.contains(name)).collect();
        drop(holds);
        // Their names are random, so none of these comes into use meanwhile.
        for name in trees {
            let unused = dir.open_dir(&name).and_then(|tree| open_for_calls(&tree)).is_ok_and(is_unused);
            if unused && let Err(e) = dir.remove_dir_all(&name) {
                tracing::warn!("{UNFINISHED}/{name} could not be removed: {e}");
            }
        }
        self.leave(&lock(&self.holds));
    }

    /// Opens the hidden directory, and makes it if need be.
    fn unfinished(&self) -> io::Result<Dir> {
        for _ in 0..8 {
            let mut builder = DirBuilder::new();
            match self.dir.create_dir_with(UNFINISHED, builder.mode(0o700)) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                _ => {}
            }
            match self.dir.symlink_metadata(UNFINISHED) {
                Ok(facts) if !facts.is_dir() => return Err(io::ErrorKind::NotADirectory.into()),
                _ => {}
            }
            match self.dir.open_dir(UNFINISHED) {
                // Another process found it empty in between.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                opened => return opened,
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// Removes the hidden directory when nobody needs it; the system refuses if something is in it.
    fn leave(&self, holds: &Holds) {
        if holds.parts.is_empty() && holds.trees.is_empty() {
            let _ = self.dir.remove_dir(UNFINISHED);
        }
    }
}

/// Opens or makes a kept upload and locks it; `None` when another process has it.
fn open_kept(dir: &Dir, name: &str, executable: bool) -> io::Result<Option<(File, u64)>> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(if executable { 0o777 } else { 0o666 });
    for _ in 0..8 {
        let file = File::from(rustix::fs::openat(dir, name, flags, mode)?);
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            other => other?,
        }
        let facts = file.metadata()?;
        if !facts.is_file() || facts.nlink() > 1 {
            // Somebody else's file under this name must not be written to.
            rustix::fs::unlinkat(dir, name, AtFlags::empty())?;
            continue;
        }
        // Between opening and locking another process may have moved it to its place.
        let there = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
        if there.is_ok_and(|there| there.st_ino == facts.ino()) {
            return Ok(Some((file, facts.len())));
        }
    }
    Ok(None)
}

/// Removes kept uploads that are too old, too many, or hold more bytes than are free: the oldest first.
fn prune(dir: &Dir, holds: &Holds) -> io::Result<()> {
    let mut kept = Vec::new();
    for name in names(dir, "part-").filter(|name| !holds.parts.contains_key(name)) {
        let facts = dir.symlink_metadata(&name)?;
        let changed = facts.modified().map_or(SystemTime::UNIX_EPOCH, |t| t.into_std());
        kept.push((changed, facts.blocks() * 512, name));
    }
    kept.sort();
    let space = rustix::fs::fstatvfs(dir.as_fd())?;
    let (mut free, mut bytes) = (space.f_bavail * space.f_frsize, kept.iter().map(|k| k.1).sum::<u64>());
    let mut count = kept.len();
    for (changed, held, name) in kept {
        let old = changed.elapsed().is_ok_and(|age| age > KEPT_FOR);
        if !old && count < KEPT_FILES && bytes <= free {
            break;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let unused = rustix::fs::openat(dir, &name, flags, Mode::empty()).map_or(true, is_unused);
        if unused {
            dir.remove_file(&name)?;
            (count, bytes, free) = (count - 1, bytes - held, free + held);
        }
    }
    Ok(())
}

/// Whether no process holds it.
fn is_unused(at: impl AsFd) -> bool {
    rustix::fs::flock(at, FlockOperation::NonBlockingLockExclusive).is_ok()
}

fn names<'a>(dir: &Dir, start: &'a str) -> impl Iterator<Item = String> + use<'a> {
    let entries = dir.entries().into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(move |name| name.starts_with(start))
}

/// The same for the same path, whatever else was uploaded.
fn kept_name(path: &str) -> String {
    let digest = Sha256::digest(path.as_bytes());
    let hex: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("part-{hex}")
}
