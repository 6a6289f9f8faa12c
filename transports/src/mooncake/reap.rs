//! The answers on a lane: they end work requests, and READ payload goes straight to registered memory.
//!
//! A target that rejects a request says so and reads on no further: it answers a connection in order and closes it then. So
//! the requests behind have not begun; nothing of them is ever applied, and they may be sent again elsewhere. Behind any
//! other end of a connection they may have.
//!
//! Deliberately no lanes' turns and no deaths: [`crate::tcp::halves`] has those.

use std::os::fd::AsFd;

use super::arrivals::{Arrivals, Received, Taken};
use super::lane::Lane;
use super::ring::{Entered, Stand};
use super::waking::bytes_worth_waking;
use super::wire::Status;
use crate::clock::Nanos;
use crate::fault::broken_by;
use crate::tcp::halves::{Connection, Digested, Ends, Inbound, StreamReap, TakenBack};
use crate::tcp::{inbox, socket};
use crate::wr::{Blame, Outcome, Refusal, WrId};

/// The read half of lanes.
pub(super) type MooncakeReap = StreamReap<Answers>;

/// See the file's head.
pub(super) struct Answers {
    arrivals: Arrivals,
    /// The request whose answer is at hand; those before have ended.
    next: u64,
    /// The request that was rejected: it ends so, and what is behind has not begun.
    rejected: Option<u64>,
    cancel_hint: u64,
    /// Bytes that must have come before the socket says so.
    awaited: u32,
}

/// What a target must not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Violation {
    #[error("it answered with {0:02x?}, which is no status")]
    NotAStatus([u8; 8]),
    #[error("it answered with status {0}, which nobody has defined")]
    UnknownStatus(u32),
    #[error("it sent bytes that nobody has asked for")]
    Unasked,
}

impl Inbound for Answers {
    type Lane = Lane;
    type Violation = Violation;
    const STALLED: Blame = Blame::Peer;

    fn new(lane: &Lane) -> Self {
        Self { arrivals: Arrivals::new(lane.framing), next: 0, rejected: None, cancel_hint: 0, awaited: 1 }
    }

    fn depth(lane: &Lane) -> usize {
        lane.ring.places()
    }

    fn posted(lane: &Lane) -> u64 {
        lane.ring.appended()
    }

    fn settled(&self) -> u64 {
        self.next
    }

    fn handed(lane: &Lane) -> u64 {
        lane.ring.handed()
    }

    fn is_midstream(&self) -> bool {
        self.arrivals.is_midstream() && self.awaited == 1
    }

    /// Bytes may have come of requests that were published later.
    fn may_go_on(&self, lane: &Lane) -> bool {
        lane.ring.published() > self.next
    }

    /// Whether the request at hand is one that the poster has passed without sending it.
    fn has_ended_here(&self, lane: &Lane) -> bool {
        let ring = &lane.ring;
        ring.published() > self.next && matches!(ring.at(self.next).stand, Stand::Cancelled | Stand::Ended(_))
    }

    /// In their turn: [`Self::digest`] comes to them.
    fn end_here(&mut self, _lane: &Lane, _ends: &mut Ends<'_>) {}

    fn digest(&mut self, lane: &Lane, ends: &mut Ends<'_>, bytes: &mut u64) -> Result<Digested, Violation> {
        while self.next < lane.ring.published() {
            if ends.room() == 0 {
                return Ok(Digested::Full);
            }
            let entered = lane.ring.at(self.next);
            match entered.stand {
                Stand::Cancelled => self.pass(lane),
                Stand::Ended(outcome) => {
                    ends.complete(entered.id, outcome);
                    self.pass(lane);
                }
                Stand::Queued => return Ok(Digested::All),
                Stand::Begun | Stand::Discarding => match self.arrivals.take(&entered, bytes) {
                    Taken::Part | Taken::None { behind: false } => return Ok(Digested::All),
                    Taken::Status(status) => {
                        if !is_done(status)? {
                            // Its payload may still be leaving: the flush ends it when the poster has let go.
                            self.rejected = Some(self.next);
                            lane.connection.kill();
                            return Ok(Digested::Over);
                        }
                    }
                    Taken::Whole | Taken::None { behind: true } => {
                        // Not before its own bytes have left, whatever the target says.
                        if !lane.ring.has_left(self.next) {
                            return Ok(Digested::Early);
                        }
                        self.finish(lane, &entered, ends);
                    }
                },
            }
        }
        Ok(Digested::All)
    }

    fn receive(&mut self, lane: &Lane, scratch: &mut [u8]) -> Result<inbox::Received, Violation> {
        let socket = lane.connection.stream.as_fd();
        // SAFETY: local bytes of READs that are begun and not taken back: only this half completes or takes back, and it
        // is busy here.
        let received = unsafe { self.arrivals.receive(&lane.ring, self.next, socket, scratch) };
        Ok(match received {
            Ok(Received::More) => inbox::Received::More,
            Ok(Received::Drained) => inbox::Received::Drained,
            Ok(Received::Nothing) => inbox::Received::Nothing,
            Ok(Received::Unasked) => return Err(Violation::Unasked),
            Ok(Received::Ended) => inbox::Received::Closed(Blame::Nobody),
            Err(e) => inbox::Received::Closed(broken_by(&e)),
        })
    }

    fn cancel(&mut self, lane: &Lane, id: WrId) -> TakenBack {
        lane.ring.cancel(id, &mut self.cancel_hint)
    }

    fn flush(&mut self, lane: &Lane, ends: &mut Ends<'_>) -> bool {
        while self.next < lane.ring.appended() {
            if ends.room() == 0 {
                return false;
            }
            let entered = lane.ring.at(self.next);
            let outcome = match (entered.stand, self.rejected) {
                (Stand::Begun, None) => Some(Outcome::Begun),
                (Stand::Begun, Some(at)) if at == self.next => Some(Outcome::Refused(Refusal::Unsaid)),
                (Stand::Begun | Stand::Queued, _) => Some(Outcome::NotBegun),
                (Stand::Ended(outcome), _) => Some(outcome),
                (Stand::Discarding | Stand::Cancelled, _) => None,
            };
            if let Some(outcome) = outcome {
                ends.complete(entered.id, outcome);
            }
            self.pass(lane);
        }
        true
    }

    fn accuse(lane: &Lane, _now: Nanos, violation: Violation) -> Blame {
        let Connection { peer, id, .. } = &lane.connection;
        tracing::warn!(peer, link = id.0, reason = %violation, "closed a lane to a Mooncake peer");
        Blame::Peer
    }

    fn is_room_wanted(lane: &Lane) -> bool {
        lane.ring.room_wanted()
    }

    /// A target that leaves while something is asked of it is to blame; one that closes an idle lane may do so.
    fn blame(said: Blame, awaits_answers: bool) -> Blame {
        if said == Blame::Nobody && awaits_answers { Blame::Peer } else { said }
    }

    /// Within a large payload the socket need not wake us for each piece. Where it will not be told, it does for one.
    fn rest(&mut self, lane: &Lane) {
        let missing = match self.next < lane.ring.published() {
            true => self.arrivals.missing(&lane.ring.at(self.next)),
            false => 0,
        };
        let awaited = bytes_worth_waking(missing);
        if awaited != self.awaited && socket::wait_for(&lane.connection.stream, awaited).is_ok() {
            self.awaited = awaited;
        }
    }

    fn is_deaf(&self) -> bool {
        self.awaited > 1
    }
}

impl Answers {
    fn finish(&mut self, lane: &Lane, entered: &Entered, ends: &mut Ends<'_>) {
        if entered.stand == Stand::Begun {
            ends.complete(entered.id, Outcome::Done);
        }
        self.arrivals.next(entered);
        self.pass(lane);
    }

    fn pass(&mut self, lane: &Lane) {
        self.next += 1;
        lane.ring.end(self.next);
    }
}

/// Whether a status says that a request was carried out; else it was rejected.
fn is_done(status: [u8; 8]) -> Result<bool, Violation> {
    match Status::decode(&status) {
        Some(Status::Done) => Ok(true),
        Some(Status::Rejected) => Ok(false),
        Some(Status::Unknown(code)) => Err(Violation::UnknownStatus(code)),
        None => Err(Violation::NotAStatus(status)),
    }
}
