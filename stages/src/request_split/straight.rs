//! The way of a request that comes alone while nothing waits, and is one slice: judged, charged and passed on as a turn of
//! its peer would, without the lists by which turns are fair, for there is nobody to be fair to.
//! Deliberately no case of its own: whatever speaks against it is for the turn to find again.

use pipeline_graph::{Batch, Nanos, Outlet};

use super::plan::Plan;
use super::{OUT, Split};
use crate::key::Key;
use crate::window::{Class, Grant};
use crate::world::World;

impl Split {
    /// Passes on what is in `input` if it is such a request. Whether it was; if not, nothing has been done.
    #[inline]
    pub(super) fn turned_straight(
        &mut self,
        world: &World,
        input: &mut Batch<Key>,
        out: &mut Outlet<Key>,
        now: Nanos,
    ) -> bool {
        let ledger = &*world.ledger;
        let Some(key) = input.peek().filter(|_| input.len() == 1 && self.holds_nothing()) else {
            return false;
        };
        let Some(cover) = ledger.look(key).filter(|cover| !cover.is_cut()) else { return false };
        let Some(target) = world.peers.get(cover.peer()) else { return false };
        let view = target.view.load();
        if self.objection(world, cover, &view, now).is_some() {
            return false;
        }
        let mut plan = Plan::new(ledger, cover, &view, self.sizes.of_slice(cover), self.stage);
        let piece = plan.peek().ok().filter(|piece| plan.is_whole(piece) && out.room(OUT, key) > 0);
        let Some(piece) = piece else { return false };
        let want = Grant { bytes: piece.len, slices: 1 };
        if ledger.window.acquire_by(self.shard.holder(), cover.peer(), Class::Whole, piece.len, want).is_err()
        {
            return false;
        }
        cover.set_charged();
        cover.set_remote(&piece.remote);
        // Room was asked for.
        let _ = out.push(OUT, key);
        self.ends.cut(1);
        self.stays.passed(1);
        input.pop();
        self.turned = true;
        true
    }
}
