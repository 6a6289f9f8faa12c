//! What a transport must provide to be put to the suite: two nodes, a way to link them, and steps.
//! Deliberately explicit stepping: the suite decides when which half runs, in one thread.

use std::sync::Arc;

use crate::caps::Caps;
use crate::clock::Nanos;
use crate::error::Error;
use crate::link::{Halves, LinkId};
use crate::memory::{Access, Memory, RegionId, Regions};
use crate::wr::Completions;

/// Two nodes of one transport: the initiator posts and reaps, the target is posted to.
///
/// Tables of at least 64 regions on both sides, links of at least 8 work requests, no injected faults.
pub trait Fixture: Sized {
    /// Fresh nodes, halves attached, no link yet.
    fn new() -> Self;
    /// Of the transport under test.
    fn caps(&self) -> Caps;
    /// Whether bytes really move (a simulator may be told not to).
    fn moves_bytes(&self) -> bool {
        true
    }
    /// The initiator's regions.
    fn initiator(&self) -> &Arc<Regions>;
    /// The target's regions.
    fn target(&self) -> &Arc<Regions>;
    /// Registers memory of the initiator.
    fn add_local(&mut self, memory: Memory) -> RegionId {
        self.initiator().add(memory, Access::Local).expect("the fixture's table has room")
    }
    /// Registers memory of the target, and lets the initiator learn of it. Answers what a request must name.
    fn add_remote(&mut self, memory: Memory, access: Access) -> RegionId {
        self.target().add(memory, access).expect("the fixture's table has room")
    }
    /// Unregisters memory of the initiator.
    ///
    /// # Errors
    /// As [`Regions::remove`].
    fn remove_local(&mut self, region: RegionId) -> Result<Memory, Error> {
        self.initiator().remove(region)
    }
    /// Unregisters memory of the target.
    ///
    /// # Errors
    /// As [`Regions::remove`].
    fn remove_remote(&mut self, region: RegionId) -> Result<Memory, Error> {
        self.target().remove(region)
    }
    /// Whether a target that is not stepped stands still. Not where its device does all the work.
    fn stands_still(&self) -> bool {
        true
    }
    /// Whether its wire says why the target refused something.
    fn says_why(&self) -> bool {
        true
    }
    /// Whether accesses ask the target's table of regions. A device only knows what is registered with it, so a region that
    /// is being unregistered serves until it is; and it refuses by ending the link, so what the initiator does not know to
    /// be wrong costs that link.
    fn asks_the_table(&self) -> bool {
        true
    }
    /// Dials one more link and lets all halves adopt their ends.
    fn connect(&mut self) -> LinkId;
    /// Attaches the initiator's pair once more; its old halves stay where they are.
    fn attach_again(&mut self) -> Halves;
    /// Loses the target's serve half, and puts a new one in its place. `false`: it has none.
    fn lose_serve(&mut self) -> bool {
        false
    }
    /// The initiator's halves.
    fn halves(&mut self) -> &mut Halves;
    /// The time to hand to the halves.
    fn now(&mut self) -> Nanos;
    /// Runs the target's serve half once, if it has one, and lets time pass where time is simulated.
    fn step_target(&mut self);
    /// Kills a link from the target's side. `false`: this fixture cannot.
    fn sever(&mut self, _link: LinkId) -> bool {
        false
    }
    /// Has the target let go of a link, as when its dialler has asked for a fence. Where dead links are fenced by
    /// themselves there is nothing to do.
    fn fence(&mut self, _link: LinkId) {
        assert!(self.caps().fenced, "a fixture of an unfenced transport says how to fence");
    }
    /// Lets time pass where it is simulated, and nothing else.
    fn pass_time(&mut self) {}
    /// Drives the initiator's halves once; the target stands still. Answers how many completions came.
    fn step_near(&mut self, out: &mut Completions) -> usize {
        self.pass_time();
        let now = self.now();
        self.halves().post.flush(now);
        self.halves().reap.reap(now, out)
    }
    /// Drives all halves once: flush, the target, reap. Answers how many completions came.
    fn step(&mut self, out: &mut Completions) -> usize {
        let now = self.now();
        self.halves().post.flush(now);
        self.step_target();
        let now = self.now();
        self.halves().reap.reap(now, out)
    }
}
