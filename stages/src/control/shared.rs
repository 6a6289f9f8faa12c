//! What all tasks of the control thread share. Locks are held for a few lines and never across an await.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use pipeline_transports::LinkId;
use pipeline_transports::control::Identity;
use pipeline_transports::transport::SessionId;
use tokio::sync::{Notify, watch};

use super::accepted::Accepted;
use super::dialled::Dialled;
use super::directory::Directory;
use super::fences::Owed;
use super::nics::Nics;
use super::pulls::Pulls;
use super::reach::Reach;
use super::settings::Settings;
use super::starts::{Start, Starts};
use super::throttle::Throttle;
use crate::peer::PeerId;
use crate::world::World;

/// See the module.
pub(super) struct Shared {
    pub(super) world: Arc<World>,
    /// Which NICs rest.
    pub(super) nics: Nics,
    pub(super) identity: Identity,
    pub(super) settings: Settings,
    /// `[peers]`, parsed.
    pub(super) names: HashMap<String, Reach>,
    /// Where nodes are that `[peers]` does not name.
    pub(super) directory: Option<Directory>,
    pub(super) local: OnceLock<SocketAddr>,
    /// Peers that were opened here; at most `limits.peers`, as in the table of peers.
    pub(super) dialled: Mutex<HashMap<PeerId, Arc<Dialled>>>,
    /// Sessions that peers opened; at most `settings.sessions`.
    pub(super) accepted: Mutex<HashMap<SessionId, Arc<Accepted>>>,
    /// Links we dialled, until the last of their work requests has ended; at most `settings.links`.
    pub(super) links: Mutex<HashMap<LinkId, Known>>,
    /// Lanes that peers dialled, by our names: the session of each, and the peer's name of it.
    pub(super) lanes: Mutex<HashMap<LinkId, (Arc<Accepted>, LinkId)>>,
    /// Set when the node begins to leave.
    pub(super) leaving: watch::Sender<bool>,
    /// Set when the node stops.
    pub(super) stop: watch::Sender<bool>,
    /// Sessions that have not ended.
    pub(super) running: watch::Sender<usize>,
    /// Cancels so far, for notices that are under way.
    pub(super) cancels: watch::Sender<u64>,
    pub(super) refusals: Throttle,
    /// Of the listener: that descriptors are short.
    pub(super) shortages: Throttle,
    /// Rung when links were fenced.
    pub(super) fenced: Notify,
    /// What clients have this node fetch from others.
    pub(super) pulls: Pulls,
    /// Starts of peers of which transports have learnt.
    pub(super) starts: Starts,
}

/// A link we dialled.
pub(super) struct Known {
    pub(super) dialled: Arc<Dialled>,
    /// NIC of the peer's that it leads to, once it is dialled.
    pub(super) remote_nic: u16,
    /// The reap seat has its end, and will say when it is closed.
    pub(super) adopted: bool,
    /// What is owed when it dies with a WRITE unanswered.
    pub(super) owed: Owed,
    /// Keeps what was learnt of the peer's regions.
    pub(super) _start: Arc<Start>,
}

/// Counts a session as running while it lives.
pub(super) struct Running(Arc<Shared>);

impl Running {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        shared.running.send_modify(|n| *n += 1);
        Self(shared.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.send_modify(|n| *n -= 1);
    }
}

/// Locks; a poisoned lock is taken over, because each critical section leaves its map whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A name for a link: unique in the process, so that two nodes in one process never meet under one name.
pub(super) fn new_link() -> LinkId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    LinkId(NEXT.fetch_add(1, Ordering::Relaxed))
}
