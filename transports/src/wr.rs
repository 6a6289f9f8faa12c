//! Work requests and completions: the verbs' words for "move these bytes" and "they are moved".
//! Deliberately by region and offset, never by address: an address from the wire is never dereferenced.

use crate::link::LinkId;
use crate::memory::RegionId;

/// The initiator's own name for a work request; comes back in its completion, is never sent to a peer.
/// (The stages put a slice key in it: index and generation.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WrId(pub u64);

/// Direction of a one-sided transfer, seen from the initiator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Remote bytes into a local region.
    Read,
    /// Local bytes into a remote region.
    Write,
}

/// A run of bytes in a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The region: of the local table, or of the peer's.
    pub region: RegionId,
    /// First byte, from the region's start.
    pub offset: u64,
}

/// Moves `len` bytes between `local` and `remote`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkRequest {
    /// Comes back in the completion.
    pub id: WrId,
    /// Direction.
    pub op: Op,
    /// In the local region table. The poster has pinned the region until the completion.
    pub local: Span,
    /// In the peer's region table.
    pub remote: Span,
    /// Bytes; never 0.
    pub len: u64,
}

/// How a work request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Applied at the destination.
    Done,
    /// The target refused it; nothing was applied.
    Refused(Refusal),
    /// Its link died and no byte of it had left: it may be posted again elsewhere.
    NotBegun,
    /// Its link died after a byte may have left. A READ may be posted again; a WRITE's effect is unknown
    /// until the target has confirmed a fence.
    Begun,
    /// The transport failed it (an injected error, a completion with error); nothing was applied.
    Failed,
}

/// Why a target refuses a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Refusal {
    /// No such region, or one that was unregistered or replaced.
    UnknownRegion = 1,
    /// Offset and length pass the end of the region, or wrap.
    OutOfBounds = 2,
    /// The region does not allow this operation.
    Denied = 3,
    /// The region is being unregistered.
    Closing = 4,
    /// The request makes no sense on this wire (length 0, unknown operation).
    Malformed = 5,
    /// The target has refused it, and its protocol cannot say why. Never on our own wire.
    Unsaid = 6,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::UnknownRegion, Self::OutOfBounds, Self::Denied, Self::Closing, Self::Malformed, Self::Unsaid];

    /// From its number on the wire.
    pub fn from_wire(code: u8) -> Option<Self> {
        Self::from_number(code).filter(|refusal| *refusal != Self::Unsaid)
    }

    /// From its number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| *refusal as u8 == number)
    }
}

/// One completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Which work request.
    pub id: WrId,
    /// On which link.
    pub link: LinkId,
    /// How it ended.
    pub outcome: Outcome,
}

/// Whose fault the end of a link was, as far as this side can tell: what decides who rests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Blame {
    /// It was asked for, or nobody knows: nobody rests.
    #[default]
    Nobody,
    /// This side's NIC: its port is down, or it refused what was posted.
    LocalNic,
    /// Something between the two NICs, or the peer's NIC: other ways to the same peer may be well.
    Path,
    /// The peer as a whole.
    Peer,
}

/// Where a reaper puts completions: bounded, reused, never grows.
#[derive(Debug)]
pub struct Completions {
    done: Vec<Completion>,
    closed: Vec<LinkId>,
    /// As long as `closed`.
    blames: Vec<Blame>,
    moved: bool,
    capacity: usize,
}

impl Completions {
    /// Room for `capacity` completions a call.
    pub fn with_capacity(capacity: usize) -> Self {
        let (done, closed) = (Vec::with_capacity(capacity), Vec::with_capacity(capacity));
        Self { done, closed, blames: Vec::with_capacity(capacity), moved: false, capacity }
    }

    /// How many more completions fit.
    pub fn room(&self) -> usize {
        self.capacity - self.done.len()
    }

    /// Adds one. The caller has asked [`Self::room`]; a completion beyond it would be lost, so this panics.
    pub fn push(&mut self, completion: Completion) {
        assert!(self.room() > 0, "a reaper pushed a completion without room: a bug of the transport");
        self.done.push(completion);
    }

    /// How many more dead links fit.
    pub fn closed_room(&self) -> usize {
        self.capacity - self.closed.len()
    }

    /// Reports that a link is dead *and* all of its work requests have been completed.
    pub fn push_closed(&mut self, link: LinkId) {
        self.push_closed_by(link, Blame::Nobody);
    }

    /// As [`Self::push_closed`], with whose fault it was.
    pub fn push_closed_by(&mut self, link: LinkId, blame: Blame) {
        assert!(self.closed_room() > 0, "a reaper reported a link without room: a bug of the transport");
        self.closed.push(link);
        self.blames.push(blame);
    }

    /// Notes that bytes came, of work requests that may not be complete yet: whoever waits need not fall asleep.
    pub fn note_moved(&mut self) {
        self.moved = true;
    }

    /// Whether bytes came since the last [`Self::clear`].
    pub fn has_moved(&self) -> bool {
        self.moved
    }

    /// Completions since the last [`Self::clear`].
    pub fn done(&self) -> &[Completion] {
        &self.done
    }

    /// Links that died, each after its last completion.
    pub fn closed(&self) -> &[LinkId] {
        &self.closed
    }

    /// Whose fault the end of the `at`-th of [`Self::closed`] was.
    pub fn blame(&self, at: usize) -> Blame {
        self.blames.get(at).copied().unwrap_or_default()
    }

    /// Empties it for the next call.
    pub fn clear(&mut self) {
        self.done.clear();
        self.closed.clear();
        self.blames.clear();
        self.moved = false;
    }
}
