//! A file that is written in the folder of its place: without a name where the file system has that (`O_TMPFILE`), so
//! that nothing stays behind even if this process is killed; else, and for the moment between two system calls at
//! the end, as `.NAME.part-<random>`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::OnceLock;

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

/// Bytes of a name that go into the name beside it, so that it fits 255.
const NAME_KEPT: usize = 200;

/// See the module.
pub(super) struct Beside {
    pub(super) file: File,
    part: String,
    named: bool,
}

impl Beside {
    /// In `parent`, for a file `name`.
    pub(super) fn create(parent: &Dir, name: &str, executable: bool) -> io::Result<Self> {
        let part = part_name(name)?;
        let mode = if executable { 0o777 } else { 0o666 };
        if can_be_linked() {
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            match rustix::fs::openat(parent.as_fd(), ".", flags, Mode::from_raw_mode(mode)) {
                Ok(fd) => return Ok(Self { file: fd.into(), part, named: false }),
                // File systems and kernels that have no nameless files.
                Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT | Errno::NOSYS) => {}
                Err(e) => return Err(e.into()),
            }
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(mode);
        let file = parent.open_with(&part, &options)?.into_std();
        Ok(Self { file, part, named: true })
    }

    /// Gives it its name, in place of whatever file has that.
    pub(super) fn publish(&self, parent: &Dir, name: &str) -> io::Result<()> {
        if !self.named {
            let link = |to: &str| {
                let from = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                rustix::fs::linkat(CWD, from, parent.as_fd(), to, AtFlags::SYMLINK_FOLLOW)
            };
            match link(name) {
                // Only a rename replaces what is there.
                Err(Errno::EXIST) => link(&self.part)?,
                other => return Ok(other?),
            }
        }
        parent.rename(&self.part, parent, name).inspect_err(|_| {
            if !self.named {
                let _ = parent.remove_file(&self.part);
            }
        })
    }

    /// Takes an unfinished one away.
    pub(super) fn remove(&self, parent: &Dir, path: &str) {
        if self.named
            && let Err(e) = parent.remove_file(&self.part)
        {
            tracing::warn!(path, "an unfinished upload stays behind as {}: {e}", self.part);
        }
    }
}

/// A nameless file gets its name through `/proc`.
fn can_be_linked() -> bool {
    static PROC: OnceLock<bool> = OnceLock::new();
    *PROC.get_or_init(|| std::fs::exists("/proc/self/fd").unwrap_or(false))
}

/// Whether a name is that of an upload in progress.
pub(super) fn is_part(name: &str) -> bool {
    let hex = |h: &str| h.len() == 16 && h.bytes().all(|b| b.is_ascii_hexdigit());
    name.starts_with('.') && name.rsplit_once(".part-").is_some_and(|(_, random)| hex(random))
}

fn part_name(name: &str) -> io::Result<String> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let kept = (0..=name.len().min(NAME_KEPT)).rev().find(|&i| name.is_char_boundary(i)).unwrap_or(0);
    Ok(format!(".{}.part-{:016x}", &name[..kept], u64::from_le_bytes(random)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name beside a file fits the file system, is hidden, and is recognised.
    #[test]
    fn part_names() {
        for name in ["a".to_owned(), "é".repeat(127), "x".repeat(255)] {
            let part = part_name(&name).unwrap();
            assert!(part.len() <= 255 && is_part(&part), "{part}");
        }
        assert!(!is_part(".bashrc") && !is_part("a.part-0123456789abcdef") && !is_part(".a.part-1"));
    }
}
