//! The end of slices that nobody brings to their end: their holder panicked, or the engine was stopped by force.
//! Deliberately the same end as any other ([`Ending`]), by a key that may be stale: whoever was faster wins.

use std::sync::atomic::Ordering::Relaxed;

use pipeline_transports::LinkId;

use super::{Ending, Ledger, Phase};
use crate::key::Key;
use crate::reason::{Code, NOTICE_STAGE, Reason};

impl Ledger {
    /// Ends a slice whose holder is gone. What a transport had may have been applied, or not.
    pub(crate) fn abandon(&self, position: u32, code: Code) {
        self.abandon_key(self.key_at(position), code);
    }

    /// As [`Self::abandon`], for who is not sure that it has not ended before.
    pub(crate) fn abandon_key(&self, key: Key, code: Code) {
        let slot = self.at(self.position(key));
        let posted = slot.step(key.generation(), Phase::Posted, Phase::Live);
        if !slot.is(key.generation(), Phase::Live) {
            return;
        }
        let unknown = posted && slot.op() == pipeline_transports::Op::Write;
        slot.set_code(if unknown { Code::new(Reason::Undetermined, code.stage()) } else { code });
        let mut ending = Ending::new(self);
        ending.end_contested(key);
        ending.finish();
    }

    /// Ends every slice that a transport has, or had, on one of these links: their reaper is gone. For rare events: it
    /// looks at the whole table.
    pub(crate) fn abandon_posted(&self, mut on: impl FnMut(LinkId) -> bool, code: Code) {
        for position in 0..self.positions() {
            let key = self.key_at(position);
            if self.posted(key).is_some_and(|slot| on(slot.link())) {
                self.abandon_key(key, code);
            }
        }
    }

    /// Ends every slice that has not ended, as `reason`. Only when no stage and no transport runs any more: after
    /// the engine was stopped by force, or failed to start.
    pub fn end_all(&self, reason: Reason) {
        for position in 0..self.positions() {
            let (slot, key) = (self.at(position), self.key_at(position));
            slot.step(key.generation(), Phase::Posted, Phase::Live);
            if slot.is(key.generation(), Phase::Live) && !self.is_cut(position) {
                slot.set_code(Code::new(reason, crate::reason::SUBMIT_STAGE));
                let mut ending = Ending::new(self);
                ending.end_contested(key);
                ending.finish();
            }
        }
        for batch in self.outbox.batches() {
            self.end_notice(batch, Code::new(reason, NOTICE_STAGE));
        }
    }

    /// Whether a position is that of a cover slice whose last slice counts in its place.
    fn is_cut(&self, position: u32) -> bool {
        let Some(request) = position.checked_sub(self.slices) else { return false };
        self.request(request).cut.load(Relaxed) == self.at(position).len()
    }
}

#[cfg(test)]
mod tests {
    use pipeline_transports::{Op, RegionId, Span};

    use super::*;
    use crate::ledger::Birth;
    use crate::peer::PeerId;

    /// A slice that was posted and came back is its reaper's: the key that brought it to its poster, which a batch still
    /// names after the poster's panic, neither finds nor ends it.
    #[test]
    fn what_came_back_is_not_the_posters() {
        let ledger = crate::testing::ledger(4, 2);
        let span = Span { region: RegionId(0), offset: 0 };
        let birth = Birth {
            request: 0,
            batch: 0,
            peer: PeerId(0),
            op: Op::Write,
            local: span,
            remote: span,
            len: 1,
            deadline: 1,
            transport: None,
        };
        ledger.at(0).bear(&birth);
        let brought = ledger.key_at(0);
        let (_, posted) = ledger.post(brought).unwrap();
        assert!(ledger.post(brought).is_none() && ledger.posted(brought).is_none());
        assert!(ledger.posted(posted).is_some() && ledger.unpost(posted).is_some());
        ledger.abandon_key(brought, Code::new(Reason::StagePanic, 0));
        assert!(ledger.live(brought).is_none() && ledger.live(posted).is_some());
    }
}
