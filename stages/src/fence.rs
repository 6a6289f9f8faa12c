//! Whether a dead link may still write: a target applies what it has received of a connection that is closed long since.
//! So a link that died with a begun WRITE unanswered is *unfenced* until the target has confirmed that it let go of it,
//! and no WRITE is sent there meanwhile: a late one never lands on newer bytes.
//! Where nobody can ask (another engine's protocol knows no fence) that word never comes: then no WRITE waits for it, none that
//! had begun is sent again, and nothing is counted.
//! Deliberately without the question: whom to ask, and how often, is for control.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::*};
use std::sync::{Arc, Mutex, PoisonError};

/// How many links to one start of a peer are unfenced. One for all names of that peer.
#[derive(Debug, Default)]
pub struct Unfenced {
    /// Read by the data path, relaxed: who learns that a slice has ended finds what was counted before it did.
    links: AtomicU32,
    /// Makes one of a link's step and the count. Rare, and never held for more than that.
    step: Mutex<()>,
}

impl Unfenced {
    /// How many there are.
    #[inline]
    pub fn links(&self) -> u32 {
        self.links.load(Relaxed)
    }
}

/// Where the fence of a link stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceState {
    /// There is nothing to fence.
    Idle,
    /// It is unfenced; control asks.
    Wanted,
    /// It is unfenced, and the peer cannot be asked now: nobody should wait for it.
    OutOfReach,
    /// Nothing of the link touches memory at the target any more.
    Confirmed,
}

/// The fence of one link.
#[derive(Debug, Default)]
pub struct Fence {
    state: AtomicU8,
    target: Arc<Unfenced>,
    impossible: bool,
}

impl Fence {
    /// Of a link to `target`.
    pub fn new(target: Arc<Unfenced>) -> Self {
        Self { target, ..Self::default() }
    }

    /// Of a link whose target nobody can ask.
    pub fn impossible() -> Self {
        Self { impossible: true, ..Self::default() }
    }

    /// Whether nobody can ask: a WRITE that had begun when the link died is undetermined for good.
    pub fn is_impossible(&self) -> bool {
        self.impossible
    }

    /// Where it stands.
    pub fn state(&self) -> FenceState {
        match self.state.load(Acquire) {
            0 => FenceState::Idle,
            1 => FenceState::Wanted,
            2 => FenceState::OutOfReach,
            _ => FenceState::Confirmed,
        }
    }

    /// Whether it counts.
    pub fn is_unfenced(&self) -> bool {
        matches!(self.state(), FenceState::Wanted | FenceState::OutOfReach)
    }

    /// A WRITE had begun on the link, which is dead. To be called before any slice of it ends or is sent again.
    pub(crate) fn demand(&self) {
        if self.impossible {
            return;
        }
        let _step = self.target.step.lock().unwrap_or_else(PoisonError::into_inner);
        if self.state() == FenceState::Idle {
            self.target.links.fetch_add(1, Relaxed);
            self.state.store(1, Release);
        }
    }

    /// Control: nothing of the link touches memory at the target any more. Whether it counted.
    pub(crate) fn confirm(&self) -> bool {
        let _step = self.target.step.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = self.is_unfenced();
        if counted {
            self.target.links.fetch_sub(1, Relaxed);
        }
        self.state.store(3, Release);
        counted
    }

    /// Control: the peer cannot be asked for now.
    pub(crate) fn out_of_reach(&self) {
        let _step = self.target.step.lock().unwrap_or_else(PoisonError::into_inner);
        if self.state() == FenceState::Wanted {
            self.state.store(2, Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link counts once however often it is demanded, no longer once it is confirmed, and never again.
    #[test]
    fn a_link_counts_once() {
        let target = Arc::new(Unfenced::default());
        let [a, b] = [(); 2].map(|()| Fence::new(target.clone()));
        assert!(a.state() == FenceState::Idle && !b.confirm());
        a.demand();
        a.demand();
        b.demand();
        assert_eq!((target.links(), b.state()), (1, FenceState::Confirmed));
        a.out_of_reach();
        assert!(a.is_unfenced() && a.state() == FenceState::OutOfReach);
        assert!(a.confirm() && !a.confirm());
        a.demand();
        a.out_of_reach();
        assert_eq!((target.links(), a.state()), (0, FenceState::Confirmed));
    }

    /// A link that nobody can ask about never counts, and is never waited for.
    #[test]
    fn an_impossible_fence_counts_nowhere() {
        let fence = Fence::impossible();
        fence.demand();
        fence.out_of_reach();
        assert!(fence.is_impossible() && !fence.is_unfenced());
        assert_eq!((fence.state(), fence.target.links()), (FenceState::Idle, 0));
    }
}
