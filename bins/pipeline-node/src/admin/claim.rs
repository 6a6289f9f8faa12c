//! A path that becomes this node's socket: mode 0600 from the first moment, whatever the process's umask; what a node that was
//! killed has left there makes room, and a node that lives does not. At the end it is removed, if it is still ours: by its folder,
//! which is kept open, because a path may lead elsewhere by then (the application changed its directory, the folder was moved).

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::reach;

/// Connections that wait to be taken.
const BACKLOG: i32 = 64;
/// How long another start in the same folder is waited for; it takes a moment, unless somebody keeps the lock on purpose.
const LOCKED: Duration = Duration::from_secs(1);

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClaimError {
    /// A node answers there.
    #[error(
        "{path}: another node answers there (pid {pid}): give this one another `socket` under [admin], or another name"
    )]
    Taken {
        /// The path.
        path: String,
        /// Its process.
        pid: i32,
    },
    /// A node answers there whose process cannot be seen from here.
    #[error(
        "{0}: a node answers there that runs in another PID namespace, as in a container that shares this folder: give this one another \
         `socket` under [admin], or another name"
    )]
    Elsewhere(String),
    /// Somebody listens there and takes no connections, so nobody can say who.
    #[error(
        "{0}: a node that takes no connections listens there; if it is stopped, let it go on or end it, else remove the socket, or \
         name another `socket` under [admin]"
    )]
    Deaf(String),
    /// What is there is no socket.
    #[error("{0}: there is something that is no socket: remove it, or name another `socket` under [admin]")]
    NoSocket(String),
    /// The system refuses.
    #[error("{path}: {why}{help}")]
    System {
        /// The path.
        path: String,
        /// Why.
        why: io::Error,
        /// What to do about it.
        help: &'static str,
    },
}

/// A bound socket, removed when this goes.
#[derive(Debug)]
pub(crate) struct Claim {
    /// As it is told: whole, whatever the directory of the process is later.
    path: PathBuf,
    folder: OwnedFd,
    /// Its name there.
    base: OsString,
    /// Device and inode: somebody else may have replaced it meanwhile.
    node: (u64, u64),
}

impl Claim {
    /// Binds it.
    ///
    /// # Errors
    /// [`ClaimError`], with the path.
    pub(crate) fn new(path: &Path) -> Result<(Self, UnixListener), ClaimError> {
        let failed = |help| {
            move |why: Errno| ClaimError::System { path: path.display().to_string(), why: why.into(), help }
        };
        let name = SocketAddrUnix::new(path)
            .map_err(failed(": a path of a socket has at most 107 bytes; name a shorter one"))?;
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty())
            .map_err(failed(": the folder of the socket must be there"))?;
        // Held until the socket is bound: two starts must not both find a dead one.
        lock(&folder);
        make_room(path)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let socket = socket.map_err(failed(""))?;
        // The file gets the mode of the descriptor, so that there is no moment in which others may connect.
        let owners = Mode::RUSR | Mode::WUSR;
        rustix::fs::fchmod(&socket, owners).map_err(failed(""))?;
        rustix::net::bind(&socket, &name)
            .map_err(failed(": a socket must be possible there, and this user may write to the folder"))?;
        // From here on it goes with the claim, whatever fails.
        let claim = Self::bound(path, folder).map_err(failed(""))?;
        // What a umask took away that its owner needs.
        rustix::fs::chmodat(&claim.folder, &claim.base, owners, AtFlags::empty()).map_err(failed(""))?;
        rustix::net::listen(&socket, BACKLOG).map_err(failed(""))?;
        let _ = rustix::fs::flock(&claim.folder, FlockOperation::NonBlockingUnlock);
        Ok((claim, socket.into()))
    }

    /// What has just been bound there.
    fn bound(path: &Path, folder: OwnedFd) -> Result<Self, Errno> {
        let base = path.file_name().unwrap_or_default().to_owned();
        match rustix::fs::statat(&folder, &base, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
                Ok(Self { path, folder, base, node: (stat.st_dev, stat.st_ino) })
            }
            Err(why) => {
                let _ = rustix::fs::unlinkat(&folder, &base, AtFlags::empty());
                Err(why)
            }
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let there = rustix::fs::statat(&self.folder, &self.base, AtFlags::SYMLINK_NOFOLLOW);
        if there.is_ok_and(|s| (s.st_dev, s.st_ino) == self.node) {
            let _ = rustix::fs::unlinkat(&self.folder, &self.base, AtFlags::empty());
        }
    }
}

/// Waits for the lock of a folder. Without it (a file system that has none, somebody who keeps it) things go on: what it
/// prevents is rare, and found by `bind`.
fn lock(folder: impl AsFd) {
    let begin = Instant::now();
    while let Err(Errno::WOULDBLOCK) = rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        if begin.elapsed() > LOCKED {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Removes what a dead node has left.
fn make_room(path: &Path) -> Result<(), ClaimError> {
    let shown = || path.display().to_string();
    let Ok(stat) = rustix::fs::lstat(path) else { return Ok(()) };
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::Socket {
        return Err(ClaimError::NoSocket(shown()));
    }
    let failed = |why: Errno, help| Err(ClaimError::System { path: shown(), why: why.into(), help });
    match reach::connect(path) {
        Ok(stream) => match listener_of(stream) {
            // Its forked children may keep a socket open that nobody listens at any more.
            Some(pid) if !lives(pid) => (),
            Some(pid) => return Err(ClaimError::Taken { path: shown(), pid }),
            None => return Err(ClaimError::Elsewhere(shown())),
        },
        Err(Errno::CONNREFUSED | Errno::NOENT) => (),
        Err(Errno::AGAIN) => return Err(ClaimError::Deaf(shown())),
        // It may well be another user's, and alive.
        Err(why) => return failed(why, ": it is another user's: name another `socket` under [admin]"),
    }
    match rustix::fs::unlink(path) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(why) => failed(why, ": remove it, or name another `socket` under [admin]"),
    }
}

/// The process that began to listen there; `None` if it cannot be seen from here, for which the kernel says 0. (By tokio, whose type
/// has room for that: in that of rustix 0 is no process, so an answer would read as none.)
fn listener_of(stream: UnixStream) -> Option<i32> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().ok()?;
    let process = || {
        let _entered = runtime.enter();
        stream.set_nonblocking(true).ok()?;
        tokio::net::UnixStream::from_std(stream).ok()?.peer_cred().ok()?.pid()
    };
    let pid = process().filter(|pid| *pid > 0);
    // Whoever starts an engine may do so within a runtime of its own, where none may be waited for.
    runtime.shutdown_background();
    pid
}

fn lives(pid: i32) -> bool {
    let process = rustix::process::Pid::from_raw(pid);
    process.is_some_and(|pid| !matches!(rustix::process::test_kill_process(pid), Err(Errno::SRCH)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    /// A socket is its owner's only, whatever the umask; while its node lives nobody gets it; it goes with its node, and what
    /// a killed one has left makes room. What is no socket stays.
    #[test]
    fn one_node_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let (claim, listener) = Claim::new(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
        let taken = Claim::new(&path).unwrap_err().to_string();
        assert!(
            taken.contains(&format!("another node answers there (pid {})", std::process::id())),
            "{taken}"
        );
        drop((claim, listener));
        assert!(!path.exists());

        let (claim, listener) = Claim::new(&path).unwrap();
        std::mem::forget(claim);
        drop(listener);
        assert!(path.exists(), "as a killed node leaves it");
        let (claim, _listener) = Claim::new(&path).unwrap();
        // Somebody replaced it: that is not ours to remove.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "not a socket").unwrap();
        drop(claim);
        assert!(Claim::new(&path).unwrap_err().to_string().contains("no socket"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "not a socket");
    }

    /// A socket goes with its node also where its path leads elsewhere by then, and is told whole however it was named; its folder
    /// is free for other starts meanwhile.
    #[test]
    fn a_path_may_come_to_lead_elsewhere() {
        let root = tempfile::tempdir().unwrap();
        let (before, after) = (root.path().join("before"), root.path().join("after"));
        std::fs::create_dir(&before).unwrap();
        let depth = std::env::current_dir().unwrap().components().count() - 1;
        let up: PathBuf = std::iter::repeat_n("..", depth).collect();
        let relative = up.join(before.strip_prefix("/").unwrap()).join("a.sock");
        let (claim, _listener) = Claim::new(&relative).unwrap();
        assert!(claim.path().is_absolute() && claim.path().exists(), "{}", claim.path().display());
        let begin = Instant::now();
        drop(Claim::new(&before.join("b.sock")).unwrap());
        assert!(begin.elapsed() < LOCKED, "the lock of the folder is kept");
        std::fs::rename(&before, &after).unwrap();
        drop(claim);
        assert_eq!(std::fs::read_dir(&after).unwrap().count(), 0);
    }

    /// Somebody who listens and takes no connections (a node that is stopped, once enough have asked it) is not waited for, and
    /// keeps its socket.
    #[test]
    fn whoever_takes_no_connections_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let queue = reach::tests::full(&path);
        let deaf = Claim::new(&path).unwrap_err().to_string();
        assert!(deaf.contains("takes no connections"), "{deaf}");
        assert!(path.exists());
        drop(queue);
        drop(Claim::new(&path).unwrap());
    }

    /// A path that cannot be one says what is wrong with it.
    #[test]
    fn impossible_paths() {
        let folder = tempfile::tempdir().unwrap();
        let error = |path: &Path| Claim::new(path).unwrap_err().to_string();
        let missing = error(&folder.path().join("no/a.sock"));
        assert!(missing.contains("the folder of the socket must be there"), "{missing}");
        let long = error(&folder.path().join("x".repeat(200)));
        assert!(long.contains("at most 107 bytes"), "{long}");
    }
}
