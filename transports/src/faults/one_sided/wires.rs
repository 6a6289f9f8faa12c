//! What a test may do to a one-sided wire of one node, and see of it. Deliberately one lock for all: nothing is measured here.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::link::{LinkId, Waker};
use crate::memory::{Access, RegionId};
use crate::transport::SessionId;
use crate::wr::Blame;

/// How often what was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Exchanges begun.
    pub dialled: u64,
    /// Exchanges answered.
    pub answered: u64,
    /// Regions that were told their names.
    pub bound: u64,
    /// Starts of peers forgotten.
    pub forgotten: u64,
    /// Ends let go of.
    pub let_go: u64,
    /// Work requests refused because nobody had told of their region.
    pub unlearnt: u64,
    /// Work requests that have begun and do not come to an end.
    pub stalled: u64,
    /// Times that peers of another engine were looked for.
    pub found: u64,
    /// Times that they were asked whether they live.
    pub probed: u64,
}

/// Of one node. All clones are one.
#[derive(Clone, Default)]
pub struct Wires(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Rung when let_go may go on.
    released: tokio::sync::Notify,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) down: HashSet<u16>,
    pub(super) stalled: bool,
    pub(super) nonsense: bool,
    pub(super) tending_panics: bool,
    holds_ends: bool,
    /// Of another engine's protocol: the name of this node, if it has one; whether it answers, whether its listener can be had,
    /// whether the directory answers it.
    pub(super) called: Option<String>,
    pub(super) mute: bool,
    pub(super) unbindable: bool,
    pub(super) directory_down: bool,
    /// No link can be dialled.
    pub(super) undialable: bool,
    /// What peers may be told of, with the names of regions, in the order in which it was published.
    pub(super) published: Vec<(u64, Published)>,
    pub(super) learnt: HashMap<(u64, RegionId), u64>,
    /// Links dialled here.
    pub(super) links: HashMap<LinkId, Arc<End>>,
    /// Ends of links that peers dialled.
    pub(super) serving: HashMap<(SessionId, LinkId), Arc<End>>,
    pub(super) counts: Counts,
    pub(super) changed: Vec<Waker>,
    pub(super) reapers: Vec<Waker>,
}

/// Where a region lies.
#[derive(Clone, Copy)]
pub(super) struct Published {
    pub(super) address: u64,
    pub(super) len: u64,
    pub(super) access: Access,
}

/// The acceptor's end of a link, which its dialler works with.
#[derive(Default)]
pub(super) struct End {
    gone: AtomicBool,
    nic: AtomicU64,
    incarnation: AtomicU64,
    /// How the dialler's side died.
    pub(super) doom: Mutex<Option<Blame>>,
}

/// While bytes move over any wire it is held shared; whoever lets go of an end takes it alone.
pub(super) static MOVING: RwLock<()> = RwLock::new(());

impl End {
    pub(super) fn take_over(&self, nic: u16, incarnation: u64) {
        self.nic.store(nic.into(), SeqCst);
        self.incarnation.store(incarnation, SeqCst);
    }

    pub(super) fn incarnation(&self) -> u64 {
        self.incarnation.load(SeqCst)
    }

    /// Why the dialler's side is dead, if it is: a target that is gone does not answer.
    pub(super) fn doomed(&self) -> Option<Blame> {
        let doom = *self.doom.lock().unwrap_or_else(PoisonError::into_inner);
        doom.or_else(|| self.gone.load(SeqCst).then_some(Blame::Path))
    }

    pub(super) fn die(&self, blame: Blame) {
        self.doom.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(blame);
    }
}

impl Wires {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.state().counts
    }

    /// Regions of peers that were learnt and not forgotten.
    pub fn learnt(&self) -> usize {
        self.state().learnt.len()
    }

    /// Links of this node that are open.
    pub fn links(&self) -> usize {
        self.state().links.len()
    }

    /// Ends that peers' links have here.
    pub fn serving(&self) -> usize {
        self.state().serving.len()
    }

    /// What is posted from now on begins and does not come to an end, until the link dies.
    pub fn stall(&self, stalled: bool) {
        self.state().stalled = stalled;
    }

    /// Regions published from now on are told with keys that make no sense.
    pub fn tell_nonsense(&self, nonsense: bool) {
        self.state().nonsense = nonsense;
    }

    /// Looking after its devices panics. Before the node starts.
    pub fn panic_in_tend(&self) {
        self.state().tending_panics = true;
    }

    /// What peers of another engine call this node. Before it starts.
    pub fn call(&self, name: &str) {
        self.state().called = Some(name.to_owned());
    }

    /// Whether this node leaves whoever looks for it without an answer.
    pub fn set_mute(&self, mute: bool) {
        self.state().mute = mute;
    }

    /// This node's listener cannot be had. Before it starts.
    pub fn set_unbindable(&self) {
        self.state().unbindable = true;
    }

    /// Whether this node's directory of peers of another engine is out of reach.
    pub fn set_directory_down(&self, down: bool) {
        self.state().directory_down = down;
    }

    /// Whether links of this node can be dialled.
    pub fn set_undialable(&self, undialable: bool) {
        self.state().undialable = undialable;
    }

    /// Ends that peers want let go of are kept until this is said to be over.
    pub fn hold_ends(&self, hold: bool) {
        self.state().holds_ends = hold;
        self.0.released.notify_waiters();
    }

    /// Links on a NIC of this node die, as far as `which` says so, in the middle of what they do.
    pub fn kill(&self, nic: u16, blame: Blame) {
        let state = self.state();
        state
            .links
            .values()
            .filter(|end| end.nic.load(SeqCst) == u64::from(nic))
            .for_each(|end| end.die(blame));
        state.reapers.iter().for_each(Waker::wake);
    }

    /// A port of this node goes down or comes up. What is on it does not notice by itself.
    pub fn set_down(&self, nic: u16, down: bool) {
        let mut state = self.state();
        if down {
            state.down.insert(nic)
        } else {
            state.down.remove(&nic)
        };
        state.changed.iter().for_each(Waker::wake);
    }

    pub(super) async fn let_go(&self, session: SessionId, only: Option<LinkId>) {
        loop {
            let released = self.0.released.notified();
            if !self.state().holds_ends {
                break;
            }
            released.await;
        }
        // Nothing moves over any wire in this moment, and over these never again.
        let alone = MOVING.write().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *self.state();
        let mut count = 0;
        state.serving.retain(|(of, link), end| {
            let goes = *of == session && only.is_none_or(|only| only == *link);
            end.gone.fetch_or(goes, SeqCst);
            count += u64::from(goes);
            !goes
        });
        state.counts.let_go += count;
        drop(alone);
    }
}
