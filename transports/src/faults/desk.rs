//! What the two halves of a pair share: work requests that have not been posted, and completions that have not
//! been told. Deliberately a plain lock: this is never compiled into a node.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock::Nanos;
use crate::faults::plan::{Fate, Plan, Site};
use crate::link::LinkId;
use crate::wr::{Blame, Completion, Outcome, WorkRequest, WrId};

/// See the file's head.
pub(super) struct Desk {
    plan: Plan,
    transport: String,
    /// Who is at the other end of the links dialled here.
    peers: Arc<Mutex<HashMap<LinkId, String>>>,
    state: Mutex<State>,
}

/// What waits. Bounded by what the stages may have in flight.
#[derive(Default)]
pub(super) struct State {
    /// To be posted at that time.
    pub(super) held: Vec<(Nanos, LinkId, WorkRequest)>,
    /// To be told at that time.
    pub(super) late: Vec<(Nanos, Completion)>,
    /// Links that are closed but for what `late` still says of them.
    pub(super) closed: Vec<(LinkId, Blame)>,
}

impl Desk {
    pub(super) fn new(plan: Plan, transport: &str, peers: Arc<Mutex<HashMap<LinkId, String>>>) -> Self {
        Self { plan, transport: transport.to_owned(), peers, state: Mutex::default() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn judge(&self, site: Site, link: LinkId) -> Fate {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let peer = peers.get(&link).map_or("", String::as_str);
        self.plan.judge(site, &self.transport, peer)
    }

    pub(super) fn forget(&self, link: LinkId) {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner).remove(&link);
    }
}

impl State {
    /// Says at once how a work request that was held ended.
    pub(super) fn tell(&mut self, id: WrId, link: LinkId, outcome: Outcome) {
        self.late.push((0, Completion { id, link, outcome }));
    }

    /// One whose time has come, and which `fits`.
    pub(super) fn due(&mut self, now: Nanos, fits: impl Fn(LinkId) -> bool) -> Option<(LinkId, WorkRequest)> {
        let at = self.held.iter().position(|(due, link, _)| *due <= now && fits(*link))?;
        let (_, link, work) = self.held.remove(at);
        Some((link, work))
    }

    /// The link is dead: what was held for it never leaves.
    pub(super) fn cut(&mut self, link: LinkId) {
        let (gone, kept) = std::mem::take(&mut self.held).into_iter().partition(|(_, l, _)| *l == link);
        self.held = kept;
        let gone: Vec<_> = gone;
        for (_, link, work) in gone {
            self.tell(work.id, link, Outcome::NotBegun);
        }
    }

    /// Takes one back that was held.
    pub(super) fn withdraw(&mut self, id: WrId) -> bool {
        let Some(at) = self.held.iter().position(|(_, _, work)| work.id == id) else { return false };
        let (_, link, work) = self.held.remove(at);
        self.tell(work.id, link, Outcome::NotBegun);
        true
    }
}
