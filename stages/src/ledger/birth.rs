//! How a slot comes to life: as the cover slice of a request, which brings what all of its slices have in common, or as a
//! piece of one. Deliberately only in a slot that is free and in one hand.

use std::sync::atomic::Ordering::*;

use pipeline_graph::Nanos;
use pipeline_transports::{Op, Span};

use super::Slot;
use super::flags::{CHARGED, TRANSPORT, TRANSPORT_SHIFT, WRITE};
use super::slot::{NIL, Phase};
use crate::peer::PeerId;
use crate::reason::Code;

/// What a slice is born with.
#[derive(Clone, Copy, Debug)]
pub struct Birth {
    /// Position of its request.
    pub request: u32,
    /// Its batch.
    pub batch: u32,
    /// To whom.
    pub peer: PeerId,
    /// Direction.
    pub op: Op,
    /// Local bytes.
    pub local: Span,
    /// Remote bytes. A cover slice counts `offset` from the start of its segment.
    pub remote: Span,
    /// How many.
    pub len: u64,
    /// When it is too late.
    pub deadline: Nanos,
    /// Transport that was chosen before it was cut.
    pub transport: Option<u16>,
}

/// A piece of a request that is born: what it does not share with the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// First byte in the request's local region.
    pub(crate) local_offset: u64,
    /// Remote bytes.
    pub(crate) remote: Span,
    /// How many.
    pub(crate) len: u64,
}

/// See [`Slot::heritage`].
#[derive(Clone, Copy)]
pub(crate) struct Heritage {
    request: u32,
    flags: u32,
}

impl Slot<'_> {
    /// Fills a free slot that its taker alone has, with what its request shares with all of its slices, and makes it live.
    #[inline]
    pub(crate) fn bear(&self, birth: &Birth) {
        let request = self.ledger.request(birth.request);
        request.set_batch(birth.batch);
        request.set_peer(birth.peer);
        request.local_region.store(birth.local.region.0, Relaxed);
        request.deadline.store(birth.deadline, Relaxed);
        let op = if birth.op == Op::Write { WRITE } else { 0 };
        let transport = birth.transport.map_or(0, |t| (u32::from(t) + 1) << TRANSPORT_SHIFT);
        let part = Part { local_offset: birth.local.offset, remote: birth.remote, len: birth.len };
        self.fill(birth.request, op | transport, &part);
    }

    /// What its pieces inherit from a cover slice.
    #[inline]
    pub(crate) fn heritage(&self) -> Heritage {
        let flags = self.near.flags.load(Relaxed) & (WRITE | TRANSPORT);
        Heritage { request: self.request(), flags: flags | CHARGED }
    }

    /// Fills a free slot with a charged piece of a request, and makes it live.
    #[inline]
    pub(crate) fn bear_part(&self, of: Heritage, part: &Part) {
        self.fill(of.request, of.flags, part);
    }

    #[inline]
    fn fill(&self, request: u32, flags: u32, part: &Part) {
        let near = self.near;
        near.next.store(NIL, Relaxed);
        near.request.store(request, Relaxed);
        near.code.store(Code::DONE.raw(), Relaxed);
        near.flags.store(flags, Relaxed);
        near.link.store(0, Relaxed);
        near.len.store(part.len, Relaxed);
        near.local_offset.store(part.local_offset, Relaxed);
        self.set_remote(&part.remote);
        near.word.store(Phase::Live.word(self.generation()), Release);
    }
}

#[cfg(test)]
mod tests {
    use pipeline_transports::RegionId;

    use super::*;
    use crate::testing::ledger;

    /// A piece has what its request has, and its own bytes; it is charged, and nothing else of its cover's state is its.
    #[test]
    fn parts_share_their_request() {
        let ledger = ledger(1, 1);
        let (cover, slot) = (ledger.cover_of(0), ledger.at(0));
        let span = |offset| Span { region: RegionId(7), offset };
        cover.bear(&Birth {
            request: 0,
            batch: 1,
            peer: PeerId(2),
            op: Op::Write,
            local: span(100),
            remote: span(0),
            len: 64,
            deadline: 11,
            transport: Some(4),
        });
        cover.set_cut();
        cover.set_watched();
        slot.bear_part(cover.heritage(), &Part { local_offset: 132, remote: span(32), len: 32 });
        assert_eq!((slot.local(), slot.remote(), slot.len()), (span(132), span(32), 32));
        assert_eq!((slot.batch(), slot.peer(), slot.deadline()), (1, PeerId(2), 11));
        assert_eq!((slot.op(), slot.transport(), slot.is_charged()), (Op::Write, Some(4), true));
        assert!(!slot.is_cut() && !slot.is_watched());
    }
}
