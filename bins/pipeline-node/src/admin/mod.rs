//! The administration of a running node: a unix socket (`[admin] socket`) at which it answers what it is doing.
//!
//! A line of JSON is a question, `{"show": "runtime", "interval_ms": 1000}`, and gets one line of JSON: an object with
//! `schema_version`, or with `error`. Lines, connections and answers are bounded, who asks must be the same user or root, and
//! all of it runs on the control thread, which the data path never waits for. Deliberately only questions: nothing here
//! changes a node, and it remembers nothing of who asked.

mod answer;
mod claim;
pub mod client;
mod desk;
mod holdings;
mod question;
mod reach;
mod server;
mod traffic;

pub use holdings::{Batches, OpenBatch, RegionLine, RegionList};
pub use traffic::{EdgeLine, LimitLine, NicLine, PeerLine, PeerList, RequestsLine, StageLine, WorkerLine};

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use crate::engine::Engine;
use crate::error::Error;

pub(crate) use claim::Claim;
use desk::Desk;
use server::serve;

/// Version of the questions and answers: it grows when one of them changes its meaning, and not when something is added.
pub const SCHEMA_VERSION: u64 = 1;

/// What can be shown.
pub const SUBJECTS: [&str; 9] =
    ["runtime", "edges", "pools", "peers", "nics", "regions", "batches", "config", "node"];

/// Longest question, in bytes.
const QUESTION_MAX: usize = 4096;
/// Longest answer: lists that a file does not bound are cut, and say of how many they are.
const ANSWER_MAX: usize = 4 << 20;
/// Connections at a time: see [`crate::guests`].
const CONNECTIONS_MAX: usize = 32;

/// Where sockets of nodes lie that name none: `$XDG_RUNTIME_DIR/pipeline-node`. `None` where there is no such folder of this
/// user.
pub fn directory() -> Option<PathBuf> {
    let runtime = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?);
    let stat = rustix::fs::stat(&runtime).ok()?;
    let is_ours = stat.st_uid == rustix::process::geteuid().as_raw();
    (runtime.is_absolute() && is_ours && runtime.is_dir()).then(|| runtime.join("pipeline-node"))
}

/// The socket of a node of this name in [`directory`], which is made if it is not there.
///
/// # Errors
/// When it cannot be made.
pub fn default_socket(name: &str) -> std::io::Result<Option<PathBuf>> {
    let Some(directory) = directory() else { return Ok(None) };
    match rustix::fs::mkdir(&directory, rustix::fs::Mode::RWXU) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(Some(socket_in(&directory, name))),
        Err(error) => Err(error.into()),
    }
}

/// The socket of a node of this name in a folder of sockets.
fn socket_in(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.sock"))
}

impl Engine {
    /// Serves the admin socket at a path, which must be free, or be what a node that was killed has left: for its own user and
    /// root only, until the engine stops, which removes it. `[admin] socket` of the file does the same at the start. Once.
    ///
    /// # Errors
    /// [`Error::Admin`], with the path and what to do about it.
    pub fn serve_admin(&self, socket: impl AsRef<Path>) -> Result<(), Error> {
        self.here()?;
        let mut admin = self.inner.admin.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(claim) = &*admin {
            return Err(Error::Admin(format!("{}: this node serves it already", claim.path().display())));
        }
        let (claim, listener) = Claim::new(socket.as_ref()).map_err(|e| Error::Admin(e.to_string()))?;
        *admin = Some(claim);
        self.inner.control.spawn(serve(listener, Desk::new(self.observer(), self.inner.config.clone())));
        Ok(())
    }

    /// Where its admin socket is.
    pub fn admin_socket(&self) -> Option<PathBuf> {
        self.here().ok()?;
        let admin = self.inner.admin.lock().unwrap_or_else(PoisonError::into_inner);
        admin.as_ref().map(|claim| claim.path().to_owned())
    }
}
