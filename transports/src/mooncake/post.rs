//! Work requests of a lane as requests of Mooncake's protocol, as many deep as the lane holds, one behind the other. A real
//! client waits for each answer before it sends the next; a real server does not mind.
//!
//! Deliberately no lanes' turns: [`crate::tcp::halves`] has those.

use std::io;
use std::os::fd::AsFd;

use super::lane::Lane;
use super::outgoing::Outgoing;
use super::peers::Lookup;
use crate::fault::broken_by;
use crate::memory::Regions;
use crate::tcp::halves::{Outbound, StreamPost};
use crate::wr::{Blame, Outcome, Refusal, WorkRequest};

/// The write half of lanes.
pub(super) type MooncakePost = StreamPost<Requests>;

/// See the file's head.
pub(super) struct Requests {
    outgoing: Outgoing,
    lookup: Lookup,
}

impl Outbound for Requests {
    type Lane = Lane;
    const MOVE_BYTES: usize = super::MOVE_BYTES;

    fn new(lane: &Lane) -> Self {
        Self { outgoing: Outgoing::new(lane.framing, &lane.ring), lookup: Lookup::new(lane.remote.clone()) }
    }

    fn room(&self, lane: &Lane) -> usize {
        lane.ring.room_or_starve()
    }

    fn has_work(&self, lane: &Lane) -> bool {
        self.outgoing.has_work(&lane.ring)
    }

    fn take(&mut self, lane: &Lane, regions: &Regions, work: &[WorkRequest]) -> usize {
        let ring = &lane.ring;
        let taken = ring.room_or_starve().min(work.len());
        for w in &work[..taken] {
            let address = match w.len {
                0 => Err(Refusal::Malformed),
                len => self.lookup.address(w.remote, len),
            };
            let at = match address {
                // A pinned region within bounds, by the poster's contract; what is not fails this one alone.
                Ok(_) => regions.local(w.local.region, w.local.offset, w.len).map(|span| span.ptr).ok(),
                Err(_) => None,
            };
            let fate = address.map_err(Outcome::Refused).and_then(|_| at.ok_or(Outcome::Failed));
            let number = ring.append(w.id, w.op, fate, w.len);
            self.outgoing.aim(ring, number, address.unwrap_or_default());
        }
        taken
    }

    fn build(&mut self, lane: &Lane) -> bool {
        if self.outgoing.is_empty() && self.outgoing.build(&lane.ring) {
            // Some were passed that are not sent: to end them is the reaper's.
            lane.connection.pair.wakes.reap.wake();
        }
        !self.outgoing.is_empty()
    }

    unsafe fn send(&mut self, lane: &Lane, limit: usize) -> io::Result<usize> {
        // SAFETY: by the caller's promise.
        unsafe { self.outgoing.send(lane.connection.stream.as_fd(), limit) }
    }

    fn sent(&mut self, lane: &Lane, _bytes: usize) -> bool {
        lane.ring.hand_over(self.outgoing.sent())
    }

    fn disown(&mut self, lane: &Lane) {
        self.outgoing.disown(&lane.ring);
    }

    /// Nobody sends on a lane of which nothing is wanted.
    fn blame(error: &io::Error) -> Blame {
        match broken_by(error) {
            Blame::Nobody => Blame::Peer,
            blame => blame,
        }
    }
}
