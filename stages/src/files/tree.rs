//! A directory that nothing leaves and into which files are put whole: what is behind a `dir` segment, and the
//! destination of a copy to here. Deliberately without a rule of who may read or write: that is the segment's.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, MetadataExt};
use rustix::fs::{Mode, OFlags};

use super::error::FileError;
use super::listing::{is_executable, open, stamp};
use super::made::Made;
use super::path;
use super::unfinished::Holds;

/// A file that stands in a tree.
#[derive(Debug)]
pub struct Seen {
    /// Open for reading.
    pub file: File,
    /// Bytes.
    pub len: u64,
    /// Whether its owner may execute it.
    pub executable: bool,
    /// Changes whenever the file does.
    pub stamp: u64,
}

/// See the module. Shared by all that write into it.
pub struct Tree {
    pub(super) dir: Dir,
    pub(super) holds: Mutex<Holds>,
}

impl Tree {
    /// Opens the directory `path`.
    ///
    /// # Errors
    /// The system's reason why it cannot be opened.
    pub fn open(path: &Path) -> std::io::Result<Arc<Self>> {
        let dir = Dir::open_ambient_dir(path, ambient_authority())?;
        Ok(Arc::new(Self { dir, holds: Mutex::default() }))
    }

    /// Opens the file `path` for reading.
    ///
    /// # Errors
    /// [`FileError`]: a path that leads elsewhere, nothing there, no regular file, or the system's reason.
    pub fn file(&self, path: &str) -> Result<Seen, FileError> {
        let (file, facts) = open(&self.dir, path)?;
        Ok(Seen { file, len: facts.len(), executable: is_executable(&facts), stamp: stamp(&facts) })
    }

    /// Makes a directory and those above it, and answers which were not there; one that exists is fine, and so is the tree
    /// itself (an empty path).
    ///
    /// # Errors
    /// [`FileError`]: a path that leads elsewhere, a file in its place, or the system's reason.
    pub fn make_directory(&self, path: &str) -> Result<Made, FileError> {
        make_directory(&self.dir, path)
    }

    /// Removes directories that were made in it and are still empty.
    pub fn unmake(&self, made: &Made) {
        made.remove(&self.dir);
    }
}

/// Makes a directory below `base` and those above it.
pub(super) fn make_directory(base: &Dir, path: &str) -> Result<Made, FileError> {
    let (place, mut made) = (path::below(path)?, Made::default());
    if place == "." {
        return Ok(made);
    }
    let all = made.make(base, place).map_err(|e| match e.kind() {
        std::io::ErrorKind::AlreadyExists => FileError::NotDirectory(path.to_owned()),
        _ => FileError::io(path, "written", e),
    });
    match all {
        Ok(()) => Ok(made),
        Err(e) => {
            made.remove(base);
            Err(e)
        }
    }
}

/// The directory in which the file `path` belongs, made if need be, with its path, and the file's name. What was not there is
/// added to `made`.
pub(super) fn parent<'a>(
    base: &Dir,
    path: &'a str,
    made: &mut Made,
) -> Result<(Dir, &'a str, &'a str), FileError> {
    let io = |e| FileError::io(path, "written", e);
    let (above, name) = path::split(path::file(path)?);
    if above != "." {
        made.make(base, above).map_err(io)?;
    }
    Ok((base.open_dir(above).map_err(io)?, above, name))
}

/// Has the entries of the directory `at` below `base`, and of all between them, on the disk when it returns.
pub(super) fn sync_entries(base: &Dir, at: &str) -> std::io::Result<()> {
    let mut rest = at;
    while rest != "." {
        rustix::fs::fsync(open_for_calls(&base.open_dir(rest)?)?)?;
        rest = path::split(rest).0;
    }
    Ok(rustix::fs::fsync(open_for_calls(base)?)?)
}

/// A descriptor of a directory that can be synced and locked: those of [`Dir`] may be good for paths only.
pub(super) fn open_for_calls(dir: &Dir) -> std::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir.as_fd(), ".", flags, Mode::empty())?)
}

/// Whether both are on one file system, between whose directories a name can be moved at one moment.
pub(super) fn same_file_system(a: &Dir, b: &Dir) -> bool {
    matches!((a.dir_metadata(), b.dir_metadata()), (Ok(a), Ok(b)) if a.dev() == b.dev())
}
