//! A whole directory that takes another one's place at one moment: built unseen, filled with new files and with links
//! to those that have not changed, then exchanged (`renameat2(RENAME_EXCHANGE)`). Whoever looks sees the old tree
//! or the new one. Deliberately without a second way for file systems that cannot exchange: between two renames
//! there would be nothing.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use cap_std::fs::{Dir, Metadata, MetadataExt};
use pipeline_transports::control::How;
use rustix::fs::{Mode, RenameFlags};
use rustix::io::Errno;

use super::error::FileError;
use super::listing::{is_executable, stamp};
use super::made::Made;
use super::part::Part;
use super::path;
use super::tree::{Tree, make_directory, parent, same_file_system, sync_entries};
use super::unfinished::Taken;
use crate::control::lock;

/// See the module. May be filled from several threads.
pub struct Generation {
    tree: Arc<Tree>,
    path: String,
    above: String,
    parent: Dir,
    name: String,
    /// What was made for it above its place.
    made: Made,
    /// What stood there when this began.
    before: Option<Dir>,
    new: Taken,
    stand: Mutex<Stand>,
}

/// How far it has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stand {
    Unpublished,
    Published,
    Abandoned,
}

impl Generation {
    /// Begins one that will stand at `path`.
    ///
    /// # Errors
    /// [`FileError`]: the tree's own root, a file in its place, a file system that cannot exchange directories, or
    /// the system's reason.
    pub fn stage(tree: &Arc<Tree>, path: &str) -> Result<Self, FileError> {
        if path.is_empty() {
            let reason = "the root of a segment cannot be replaced; name a folder below it";
            return Err(FileError::BadPath { path: path.to_owned(), reason });
        }
        let mut made = Made::default();
        let begun = Self::begun(tree, path, &mut made).inspect_err(|_| made.remove(&tree.dir));
        let (parent, above, name, before, new) = begun?;
        let (above, name) = (above.to_owned(), name.to_owned());
        let (tree, path) = (tree.clone(), path.to_owned());
        let stand = Mutex::new(Stand::Unpublished);
        let staged = Self { tree, path, above, parent, name, made, before, new, stand };
        staged.check()?;
        Ok(staged)
    }

    /// The place above it, what stands in its own, and an empty directory to fill.
    fn begun<'a>(
        tree: &Tree,
        path: &'a str,
        made: &mut Made,
    ) -> Result<(Dir, &'a str, &'a str, Option<Dir>, Taken), FileError> {
        let io = |e| FileError::io(path, "written", e);
        let (parent, above, name) = parent(&tree.dir, path, made)?;
        let before = match parent.symlink_metadata(name) {
            Ok(facts) if facts.is_dir() => Some(parent.open_dir(name).map_err(io)?),
            Ok(_) => return Err(FileError::NotDirectory(path.to_owned())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(io(e)),
        };
        Ok((parent, above, name, before, tree.take_tree().map_err(io)?))
    }

    /// Finds out now, not after all bytes have travelled, that the exchange will not work.
    fn check(&self) -> Result<(), FileError> {
        let io = |e| FileError::io(&self.path, "written", e);
        if !same_file_system(&self.parent, &self.new.dir) {
            let reason = "it is on another file system than the root of its tree; copy it without `--atomic`";
            return Err(FileError::Unsupported { path: self.path.clone(), reason });
        }
        if let Some(before) = &self.before {
            let mode = Mode::from_raw_mode(before.dir_metadata().map_err(io)?.mode() & 0o7777);
            rustix::fs::fchmod(&self.new.lock, mode).map_err(|e| io(e.into()))?;
        }
        // Two empty directories inside are exchanged for a trial.
        let trial = [".a", ".b"];
        trial.iter().try_for_each(|name| self.new.dir.create_dir(name)).map_err(io)?;
        let exchanged = exchange(&self.new.dir, trial[0], &self.new.dir, trial[1]);
        trial.iter().try_for_each(|name| self.new.dir.remove_dir(name)).map_err(io)?;
        exchanged.map_err(|e| self.unfit(e))
    }

    fn unfit(&self, error: Errno) -> FileError {
        match error {
            Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::XDEV => FileError::Unsupported {
                path: self.path.clone(),
                reason: "its file system cannot exchange two directories at one moment; copy it without `--atomic`",
            },
            other => FileError::io(&self.path, "written", other.into()),
        }
    }

    /// Begins a file in it.
    ///
    /// # Errors
    /// As [`Part::begin`].
    pub fn begin(&self, path: &str, len: u64, how: How) -> Result<Part, FileError> {
        let base = self.new.dir.try_clone().map_err(|e| FileError::io(path, "written", e))?;
        // It is on the disk when all of it is; what is unpublished is not kept.
        Part::begin_below(&self.tree, base, path, len, How { keep: false, sync: false, ..how })
    }

    /// Its root, for reading: what is in it is whole.
    pub(super) fn dir(&self) -> &Dir {
        &self.new.dir
    }

    /// Makes a directory in it.
    ///
    /// # Errors
    /// As [`Tree::make_directory`].
    pub fn make_directory(&self, path: &str) -> Result<(), FileError> {
        // Unpublished it goes as a whole.
        make_directory(&self.new.dir, path).map(drop)
    }

    /// Takes the file `path` over from the tree that this one will replace, by a link, if it still has this stamp.
    ///
    /// # Errors
    /// [`FileError::Mismatch`] when it is another one by now, or the system's reason; then it has to be sent.
    pub fn link(&self, path: &str, len: u64, stamped: u64, executable: bool) -> Result<(), FileError> {
        let io = |e| FileError::io(path, "linked", e);
        let before = self.before.as_ref().ok_or_else(|| FileError::NotFound(path.to_owned()))?;
        let (from, name) = path::split(path::file(path)?);
        let from = before.open_dir(from).map_err(io)?;
        let is_same = |facts: &Metadata| {
            facts.is_file()
                && facts.len() == len
                && stamp(facts) == stamped
                && is_executable(facts) == executable
        };
        let changed = || {
            let reason = "the published file has changed meanwhile".to_owned();
            FileError::Mismatch { path: path.to_owned(), reason }
        };
        if !is_same(&from.symlink_metadata(name).map_err(io)?) {
            return Err(changed());
        }
        let (to, _, _) = parent(&self.new.dir, path, &mut Made::default())?;
        from.hard_link(name, &to, name).map_err(io)?;
        if !to.symlink_metadata(name).is_ok_and(|facts| is_same(&facts)) {
            let _ = to.remove_file(name);
            return Err(changed());
        }
        Ok(())
    }

    /// Puts it in its place. What stood there is removed when this is dropped.
    ///
    /// # Errors
    /// The system's reason; then what stood there still does.
    pub fn publish(&self, sync: bool) -> Result<(), FileError> {
        let io = |e| FileError::io(&self.path, "written", e);
        let mut stand = lock(&self.stand);
        match *stand {
            Stand::Unpublished => {}
            Stand::Published => return Ok(()),
            // Some of it may be left, and must not be taken for the whole.
            Stand::Abandoned => return Err(FileError::NotFound(self.path.clone())),
        }
        if sync {
            // One call for all of its files and directories.
            rustix::fs::syncfs(&self.new.lock).map_err(|e| io(e.into()))?;
        }
        match self.parent.symlink_metadata(&self.name) {
            Ok(facts) if facts.is_dir() => {
                exchange(&self.new.unfinished, &self.new.name, &self.parent, &self.name)
                    .map_err(|e| self.unfit(e))?;
            }
            Ok(_) => return Err(FileError::NotDirectory(self.path.clone())),
            // Should another one come in between, the system refuses to replace it.
            Err(e) if e.kind() == io::ErrorKind::NotFound => self.place().map_err(io)?,
            Err(e) => return Err(io(e)),
        }
        *stand = Stand::Published;
        if sync {
            sync_entries(&self.tree.dir, &self.above).map_err(io)?;
        }
        Ok(())
    }

    /// Removes what of it is not published, or what it has replaced, as its drop does: for who ends while others still use it.
    pub fn abandon(&self) {
        let mut stand = lock(&self.stand);
        self.tree.end_tree(&self.new.unfinished, &self.new.name);
        if *stand != Stand::Published {
            *stand = Stand::Abandoned;
            self.made.remove(&self.tree.dir);
        }
    }

    /// Moves it to its place, where nothing stands.
    fn place(&self) -> io::Result<()> {
        let place = |above: &Dir| self.new.unfinished.rename(&self.new.name, above, &self.name);
        match place(&self.parent) {
            // Whoever had made the directory above it has taken that away again, because it was empty.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                Made::default().make(&self.tree.dir, &self.above)?;
                place(&self.tree.dir.open_dir(&self.above)?)
            }
            placed => placed,
        }
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.abandon();
    }
}

fn exchange(a: &Dir, of_a: &str, b: &Dir, of_b: &str) -> rustix::io::Result<()> {
    rustix::fs::renameat_with(a.as_fd(), of_a, b.as_fd(), of_b, RenameFlags::EXCHANGE)
}
