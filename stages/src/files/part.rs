//! A file on its way into a tree: written where no one looks, and put in its place when its length and checksum are
//! right. An unfinished one vanishes when it is dropped, even by a kill where the file system has nameless files;
//! only one that is to be kept stays, in `unfinished.rs`.

use std::fs::File;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::sync::{Arc, Mutex, PoisonError};

use cap_std::fs::Dir;
use pipeline_transports::control::How;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::beside::Beside;
use super::error::FileError;
use super::made::Made;
use super::runs::{Runs, TWICE};
use super::tree::{Tree, parent, same_file_system, sync_entries};
use super::unfinished::Kept;
use crate::control::lock;

/// See the module. May be written to from several threads.
pub struct Part {
    tree: Arc<Tree>,
    base: Dir,
    path: String,
    above: String,
    parent: Dir,
    name: String,
    /// What was made for it above its place.
    made: Made,
    place: Place,
    len: u64,
    how: How,
    state: Mutex<State>,
}

enum Place {
    Beside(Beside),
    Kept(Kept),
}

#[derive(Default)]
struct State {
    runs: Runs,
    /// A write failed, or bytes came twice: what is in the file is not what the runs say.
    broken: bool,
    /// Not to be kept after all.
    discarded: bool,
    ended: bool,
}

impl Part {
    /// Makes the directories above `path` in the tree and an empty file with room for `len` bytes, or goes on with
    /// one that was kept.
    ///
    /// # Errors
    /// [`FileError`]: a path that leads elsewhere, a directory in its place, no space, or the system's reason.
    pub fn begin(tree: &Arc<Tree>, path: &str, len: u64, how: How) -> Result<Self, FileError> {
        let base = tree.dir.try_clone().map_err(|e| FileError::io(path, "written", e))?;
        Self::begin_below(tree, base, path, len, how)
    }

    /// As [`Self::begin`], with a path below `base`, which is the tree or a generation of it.
    pub(super) fn begin_below(
        tree: &Arc<Tree>,
        base: Dir,
        path: &str,
        len: u64,
        how: How,
    ) -> Result<Self, FileError> {
        let mut made = Made::default();
        let begun = Self::begun(tree, &base, path, how, &mut made).inspect_err(|_| made.remove(&base));
        let (parent, above, name, place) = begun?;
        let (above, name) = (above.to_owned(), name.to_owned());
        let (tree, path, state) = (tree.clone(), path.to_owned(), Mutex::default());
        let part = Self { tree, base, path, above, parent, name, made, place, len, how, state };
        part.prepare().map_err(|e| FileError::io(&part.path, "written", e))?;
        Ok(part)
    }

    /// The directory of its place, and a file to write to.
    fn begun<'a>(
        tree: &Arc<Tree>,
        base: &Dir,
        path: &'a str,
        how: How,
        made: &mut Made,
    ) -> Result<(Dir, &'a str, &'a str, Place), FileError> {
        let (parent, above, name) = parent(base, path, made)?;
        if parent.symlink_metadata(name).is_ok_and(|m| m.is_dir()) {
            return Err(FileError::IsDirectory(path.to_owned()));
        }
        let place = if how.keep && same_file_system(&tree.dir, &parent) {
            Place::Kept(tree.take_kept(path, how.executable)?)
        } else {
            let beside = Beside::create(&parent, name, how.executable);
            Place::Beside(beside.map_err(|e| FileError::io(path, "written", e))?)
        };
        Ok((parent, above, name, place))
    }

    /// Directories that were made for it. Unless it comes to its place, or is kept, those that are empty go with it.
    pub fn made(&self) -> &Made {
        &self.made
    }

    /// Whether bytes of an earlier upload are there, to be confirmed by [`Self::same`].
    pub fn is_held(&self) -> bool {
        matches!(&self.place, Place::Kept(kept) if kept.before > 0)
    }

    /// Finds out now, not after most bytes have travelled, that there is no space.
    fn prepare(&self) -> std::io::Result<()> {
        let file = self.file();
        if let Place::Kept(kept) = &self.place {
            if kept.before > self.len {
                file.set_len(self.len)?;
            }
            let mode = file.metadata()?.permissions().mode();
            let wanted = if self.how.executable { mode | (mode & 0o444) >> 2 } else { mode & !0o111 };
            file.set_permissions(PermissionsExt::from_mode(wanted & 0o7777))?;
        }
        if self.len == 0 {
            return Ok(());
        }
        match fallocate(file, FallocateFlags::empty(), 0, self.len) {
            // Some file systems cannot; then the writes will tell.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    fn file(&self) -> &File {
        match &self.place {
            Place::Beside(beside) => &beside.file,
            Place::Kept(kept) => &kept.hold.file,
        }
    }

    /// Does `work` with the file, unless a later upload has taken it over.
    fn with<R>(&self, work: impl FnOnce(&File) -> Result<R, FileError>) -> Result<R, FileError> {
        let Place::Kept(kept) = &self.place else { return work(self.file()) };
        let live = kept.hold.live.read().unwrap_or_else(PoisonError::into_inner);
        if !*live {
            return Err(self.taken_over());
        }
        work(&kept.hold.file)
    }

    /// Writes bytes at `at`. They count when [`Self::came`] says so.
    ///
    /// # Errors
    /// [`FileError`]: bytes outside the file, no space, or the system's reason.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<(), FileError> {
        self.inside(at, bytes.len() as u64)?;
        let written = self
            .with(|file| file.write_all_at(bytes, at).map_err(|e| FileError::io(&self.path, "written", e)));
        written.inspect_err(|_| lock(&self.state).broken = true)
    }

    /// `len` bytes at `at` have been written; this is their CRC32C.
    ///
    /// # Errors
    /// [`FileError::Mismatch`] when they came before, or in too many pieces.
    pub fn came(&self, at: u64, len: u64, crc: u32) -> Result<(), FileError> {
        self.inside(at, len)?;
        let mut state = lock(&self.state);
        let added = state.runs.add(at, len, crc);
        state.broken |= added.is_err();
        added.map_err(|reason| self.mismatch(reason.to_owned()))
    }

    /// Whether `len` bytes at `at` have this SHA-256. If so they count as come, and their CRC32C is answered.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn same(
        &self,
        at: u64,
        len: u64,
        digest: &[u8; 32],
        scratch: &mut [u8],
    ) -> Result<Option<u32>, FileError> {
        match self.digest(at, len, scratch)? {
            Some((have, crc)) if have == *digest => self.came(at, len, crc).map(|()| Some(crc)),
            _ => Ok(None),
        }
    }

    /// SHA-256 and CRC32C of `len` bytes at `at`, whether they came or were there; `None` when there are fewer.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn digest(
        &self,
        at: u64,
        len: u64,
        scratch: &mut [u8],
    ) -> Result<Option<([u8; 32], u32)>, FileError> {
        self.inside(at, len)?;
        let (have, crc) = self.with(|file| {
            digest_of(file, at, len, scratch).map_err(|e| FileError::io(&self.path, "read", e))
        })?;
        Ok(have.map(|digest| (digest, crc)))
    }

    /// Puts the file in its place, if all of its bytes have come and have this CRC32C together.
    ///
    /// # Errors
    /// [`FileError::Mismatch`], or the system's reason. Then it is thrown away.
    pub fn commit(&self, crc: u32) -> Result<(), FileError> {
        let io = |e| FileError::io(&self.path, "written", e);
        let mut state = lock(&self.state);
        state.discarded = true;
        if state.broken {
            return Err(self.mismatch("a write to it failed".to_owned()));
        }
        match state.runs.whole(self.len) {
            None => return Err(self.mismatch(format!("not all of its {} bytes have come", self.len))),
            Some(have) if have != crc => {
                return Err(self.mismatch(format!("CRC32C is {have:08x}, announced was {crc:08x}")));
            }
            Some(_) => {}
        }
        if self.how.sync {
            self.file().sync_all().map_err(io)?;
        }
        let placed = match self.put(&self.parent) {
            // Whoever had made its directory has taken that away again: a file on its way is not seen in it.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                self.put(&parent(&self.base, &self.path, &mut Made::default())?.0)
            }
            placed => placed,
        };
        if !placed.map_err(io)? {
            return Err(self.taken_over());
        }
        state.ended = true;
        if self.how.sync {
            sync_entries(&self.base, &self.above).map_err(io)?;
        }
        Ok(())
    }

    /// Gives it its name in a directory; `false` when a later upload has taken it over.
    fn put(&self, parent: &Dir) -> std::io::Result<bool> {
        match &self.place {
            Place::Beside(beside) => beside.publish(parent, &self.name).map(|()| true),
            Place::Kept(kept) => {
                let publish = || kept.dir.rename(&kept.name, parent, &self.name);
                self.tree.end_kept(kept, Some(&publish))
            }
        }
    }

    /// Reads bytes that have come; `false` when some have not.
    pub(super) fn read(&self, at: u64, bytes: &mut [u8]) -> Result<bool, FileError> {
        if !lock(&self.state).runs.cover(at, bytes.len() as u64) {
            return Ok(false);
        }
        let read =
            |file: &File| file.read_exact_at(bytes, at).map_err(|e| FileError::io(&self.path, "read", e));
        self.with(read).map(|()| true)
    }

    /// Where it will be.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Bytes that it will have.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Refuses bytes outside the announced length, and those of which some have come.
    pub(super) fn awaits(&self, at: u64, len: u64) -> Result<(), FileError> {
        self.inside(at, len)?;
        if lock(&self.state).runs.touch(at, len) {
            return Err(self.mismatch(TWICE.to_owned()));
        }
        Ok(())
    }

    fn inside(&self, at: u64, len: u64) -> Result<(), FileError> {
        if at.checked_add(len).is_some_and(|end| end <= self.len) {
            return Ok(());
        }
        let reason = format!("{len} bytes at {at} pass its announced length {}", self.len);
        Err(self.mismatch(reason))
    }

    fn mismatch(&self, reason: String) -> FileError {
        FileError::Mismatch { path: self.path.clone(), reason }
    }

    fn taken_over(&self) -> FileError {
        self.mismatch("a later copy of the same file has taken it over".to_owned())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let state = lock(&self.state);
        if state.ended {
            return;
        }
        let is_kept = match &self.place {
            Place::Beside(beside) => {
                beside.remove(&self.parent, &self.path);
                false
            }
            Place::Kept(kept) => {
                let useless = kept.before == 0 && state.runs.is_empty();
                let remove = || kept.dir.remove_file(&kept.name);
                let last: Option<&dyn Fn() -> std::io::Result<()>> =
                    if state.discarded || useless { Some(&remove) } else { None };
                if let Err(e) = self.tree.end_kept(kept, last) {
                    tracing::warn!(path = self.path, "an unfinished upload stays behind: {e}");
                }
                last.is_none()
            }
        };
        if !is_kept {
            self.made.remove(&self.base);
        }
    }
}

/// SHA-256 and CRC32C of `len` bytes at `at`; `None` when the file is shorter.
pub(super) fn digest_of(
    file: &File,
    at: u64,
    len: u64,
    scratch: &mut [u8],
) -> std::io::Result<(Option<[u8; 32]>, u32)> {
    let (mut sha, mut crc, mut done) = (Sha256::new(), 0, 0);
    while done < len {
        let n = (len - done).min(scratch.len() as u64) as usize;
        match file.read_at(&mut scratch[..n], at.saturating_add(done)) {
            Ok(0) => return Ok((None, 0)),
            Ok(got) => {
                sha.update(&scratch[..got]);
                crc = crc32c::crc32c_append(crc, &scratch[..got]);
                done += got as u64;
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok((Some(sha.finalize().into()), crc))
}
