//! What a protocol says of the answers on a lane: which work requests they end, and where the bytes between them belong.
//! Deliberately no sockets' turns and no deaths: [`super::reap`] has those.

use std::fmt::Display;

use super::connection::Connected;
use crate::clock::Nanos;
use crate::link::LinkId;
use crate::tcp::inbox::Received;
use crate::wr::{Blame, Completion, Completions, Outcome, WrId};

/// How far a work request had come when it was taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakenBack {
    /// No byte of it had left, and none will.
    Dropped,
    /// A READ on the wire: its payload will be thrown away.
    Discarding,
    /// A WRITE on the wire.
    MustAbort,
    /// Not here (any more).
    NotHere,
}

/// Why digesting stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Digested {
    /// All that has come is worked off: only more input makes more work.
    All,
    /// There is no room for completions.
    Full,
    /// The answer at hand came before the poster said that it has let go of the payload.
    Early,
    /// The lane has been killed, and nothing behind this counts.
    Over,
}

/// The answers of one lane, in the words of a protocol. It is kept by the half that alone completes and takes back the lane's
/// work requests.
pub(crate) trait Inbound: Send {
    /// The lane.
    type Lane: Connected;
    /// What a target must not do.
    type Violation: Display;
    /// Whose fault it is when a lane stands still.
    const STALLED: Blame;

    /// None yet.
    fn new(lane: &Self::Lane) -> Self;
    /// Work requests that can be outstanding at a time.
    fn depth(lane: &Self::Lane) -> usize;
    /// Work requests ever posted, and those of them of which no answer is awaited any more.
    fn posted(lane: &Self::Lane) -> u64;
    /// See [`Self::posted`].
    fn settled(&self) -> u64;
    /// Changes whenever bytes of requests have left.
    fn handed(lane: &Self::Lane) -> u64;
    /// Whether payload is on its way, and the socket tells of every byte.
    fn is_midstream(&self) -> bool;
    /// Whether something may be digested although nothing has come since the last time.
    fn may_go_on(&self, lane: &Self::Lane) -> bool;
    /// Whether a request that was never sent can be ended.
    fn has_ended_here(&self, lane: &Self::Lane) -> bool;
    /// Ends such requests, as far as [`Self::digest`] does not.
    fn end_here(&mut self, lane: &Self::Lane, ends: &mut Ends<'_>);
    /// Works off what has come; adds the payload to `bytes`.
    ///
    /// # Errors
    /// What the target must not do.
    fn digest(
        &mut self,
        lane: &Self::Lane,
        ends: &mut Ends<'_>,
        bytes: &mut u64,
    ) -> Result<Digested, Self::Violation>;
    /// Receives once, payload to where it belongs, and to `scratch` what nobody wants; after [`Digested::All`] only.
    ///
    /// # Errors
    /// What the target must not do.
    fn receive(&mut self, lane: &Self::Lane, scratch: &mut [u8]) -> Result<Received, Self::Violation>;
    /// Takes a work request back.
    fn cancel(&mut self, lane: &Self::Lane, id: WrId) -> TakenBack;
    /// The lane is dead and its poster quiet: ends what is left, as far as there is room; `false` if there was not enough.
    fn flush(&mut self, lane: &Self::Lane, ends: &mut Ends<'_>) -> bool;
    /// Tells of a violation; answers whose fault the end of the lane is then.
    fn accuse(lane: &Self::Lane, now: Nanos, violation: Self::Violation) -> Blame;
    /// Whether the freed room is waited for.
    fn is_room_wanted(lane: &Self::Lane) -> bool;
    /// Whose fault the end of the stream is, where the socket says whose.
    fn blame(said: Blame, _awaits_answers: bool) -> Blame {
        said
    }
    /// Nothing is there to read: says for how many bytes the socket shall wake us.
    fn rest(&mut self, _lane: &Self::Lane) {}
    /// Whether bytes may be there of which the socket does not tell.
    fn is_deaf(&self) -> bool {
        false
    }
}

/// Where ended work requests of one lane go.
pub(crate) struct Ends<'a> {
    pub(super) link: LinkId,
    pub(super) completed: &'a mut u64,
    pub(super) out: &'a mut Completions,
}

impl Ends<'_> {
    /// How many more may end.
    pub(crate) fn room(&self) -> usize {
        self.out.room()
    }

    /// Ends one.
    pub(crate) fn complete(&mut self, id: WrId, outcome: Outcome) {
        *self.completed += 1;
        self.out.push(Completion { id, link: self.link, outcome });
    }
}
