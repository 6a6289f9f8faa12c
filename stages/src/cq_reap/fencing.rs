//! Slices whose WRITE had begun on a link that died: they wait until the target has let go of the link, and go on then.
//! Deliberately no question and no timer of its own: control asks, and their deadlines are watched with all others.

use std::sync::Arc;

use pipeline_graph::{Nanos, Outlet};
use pipeline_transports::LinkId;

use super::{CqReap, RESPITE_NS, RETRY};
use crate::fence::FenceState;
use crate::key::Key;
use crate::ledger::Ledger;
use crate::list::List;
use crate::peer::LinkLife;
use crate::reason::{Code, Reason};

/// See the file's head. Never more links than slices wait.
#[derive(Default)]
pub(super) struct Fencing {
    links: Vec<Unanswered>,
}

struct Unanswered {
    id: LinkId,
    life: Arc<LinkLife>,
    slices: List,
}

impl Fencing {
    pub(super) fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Takes a slice in: one that is in no list.
    pub(super) fn wait(&mut self, ledger: &Ledger, position: u32, id: LinkId, life: &Arc<LinkLife>) {
        let known = self.links.iter().position(|link| link.id == id);
        let at = known.unwrap_or_else(|| {
            self.links.push(Unanswered { id, life: life.clone(), slices: List::default() });
            self.links.len() - 1
        });
        self.links[at].slices.push(ledger, position);
    }

    /// Takes a slice out that waits no longer; `false` for one that is not here.
    pub(super) fn leave(&mut self, ledger: &Ledger, position: u32) -> bool {
        let id = ledger.at(position).link();
        let Some(at) = self.links.iter().position(|link| link.id == id) else { return false };
        self.links[at].slices.remove(ledger, position);
        if self.links[at].slices.is_empty() {
            self.links.swap_remove(at);
        }
        true
    }

    /// Whether [`Self::settled`] has any.
    pub(super) fn is_settled(&self) -> bool {
        self.links.iter().any(Unanswered::is_settled)
    }

    /// The slices of a link whose fence has come to something, and whether it is confirmed.
    pub(super) fn settled(&mut self) -> Option<(List, bool)> {
        let at = self.links.iter().position(Unanswered::is_settled)?;
        let link = self.links.swap_remove(at);
        Some((link.slices, link.life.fence.state() == FenceState::Confirmed))
    }

    /// All slices, whatever became of their links.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = List> {
        self.links.drain(..).map(|link| link.slices)
    }
}

impl Unanswered {
    fn is_settled(&self) -> bool {
        matches!(self.life.fence.state(), FenceState::Confirmed | FenceState::OutOfReach)
    }
}

impl CqReap {
    /// Watches a slice that waits: until its deadline, or, cancelled, as long as a fence takes if the target is well.
    pub(super) fn wait_for_fence(&mut self, position: u32, cancelled: bool, now: Nanos) {
        let ledger = &*self.world.ledger;
        let slot = ledger.at(position);
        if cancelled {
            slot.grant_respite();
            self.holding.hold_until(ledger, position, slot.deadline().min(now + RESPITE_NS));
        } else {
            self.holding.hold(ledger, position);
        }
    }

    /// A waiting slice whose time has come, or whose batch was cancelled.
    pub(super) fn wait_no_longer(&mut self, position: u32, now: Nanos) {
        let world = self.world.clone();
        let ledger = &*world.ledger;
        let slot = ledger.at(position);
        if slot.deadline() > now && slot.grant_respite() {
            return self.wait_for_fence(position, true, now);
        }
        let waited = self.fencing.leave(ledger, position);
        debug_assert!(waited, "what is watched and not posted waits for a fence");
        if waited {
            self.holding.doom(ledger, position, Code::new(Reason::Undetermined, self.stage));
        }
    }

    /// Lets slices go whose fence has come to something. Whether any went.
    pub(super) fn settle(&mut self, out: &mut Outlet<Key>, now: Nanos) -> bool {
        if self.fencing.is_empty() && self.again.is_empty() {
            return false;
        }
        let world = self.world.clone();
        let ledger = &*world.ledger;
        while let Some((mut slices, confirmed)) = self.fencing.settled() {
            while let Some(position) = slices.pop(ledger) {
                self.holding.let_go(ledger, position);
                self.stays.end(ledger.at(position), now);
                let unknown = (!confirmed).then(|| Code::new(Reason::Undetermined, self.stage));
                match unknown.or_else(|| ledger.verdict(ledger.at(position), now, self.stage)) {
                    Some(code) => self.holding.doom(ledger, position, code),
                    None => self.again.push(ledger, position),
                }
            }
        }
        let mut any = false;
        while let Some(position) = self.again.head() {
            let key = ledger.key_at(position);
            if out.room(RETRY, key) == 0 {
                break;
            }
            self.holding.grasp(key);
            self.again.remove(ledger, position);
            // Room was asked for.
            let _ = out.push(RETRY, key);
            self.holding.let_loose();
            any = true;
        }
        any
    }

    /// The stage has panicked: nobody waits for their fences any more.
    pub(super) fn abandon_waiting(&mut self) {
        let world = self.world.clone();
        let ledger = &*world.ledger;
        let code = Code::new(Reason::Undetermined, self.stage);
        for mut slices in self.fencing.drain() {
            while let Some(position) = slices.pop(ledger) {
                self.holding.let_go(ledger, position);
                ledger.abandon(position, code);
            }
        }
        self.again.abandon(ledger, code);
    }
}
