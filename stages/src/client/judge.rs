//! Whether the memory that a request names is there: bounds and access on both sides, looked up once for the many
//! requests that follow each other in the same regions. Pins local regions, several requests at a time.
//! Deliberately without any number that makes no sense whatever the memory: those are refused before.

use std::sync::Arc;

use pipeline_transports::{RegionId, Regions};

use crate::ledger::SEGMENTS_MAX;
use crate::peer::{PeerId, PeerState, PeerView, RegionView};
use crate::reason::Reason;
use crate::request::Request;
use crate::world::World;

/// See the file's head.
pub(super) struct Judge<'a> {
    world: &'a World,
    /// The last peer looked at: most batches go to one.
    view: Option<(PeerId, Arc<PeerView>)>,
    /// The last remote region looked at, and the segment that it is in.
    far: Option<Far>,
    /// Where the last request goes.
    there: FarEnd,
    pins: Pins<'a>,
}

/// The remote region that a request begins in.
#[derive(Clone, Copy, Default)]
pub(super) struct FarEnd {
    pub(super) region: RegionId,
    /// Where it ends, from the segment's start.
    pub(super) end: u64,
}

#[derive(Clone, Copy)]
struct Far {
    segment: u32,
    segment_len: u64,
    region: RegionView,
}

impl<'a> Judge<'a> {
    pub(super) fn new(world: &'a World) -> Self {
        let pins = Pins { regions: &world.regions, region: RegionId::default(), len: 0, stock: 0, last: 0 };
        Self { world, view: None, far: None, there: FarEnd::default(), pins }
    }

    /// Judges a request's memory, and pins it: the pin is the request's from here on.
    #[inline]
    pub(super) fn judge(&mut self, request: &Request) -> Result<(), Reason> {
        self.meet(request)?;
        self.judge_remote(request)?;
        self.pins.take(request.local, request.local_offset + request.spans().0)
    }

    /// As before, for a request that was judged when it was prepared: only what may have changed since.
    #[inline]
    pub(super) fn judge_again(&mut self, request: &Request, there: FarEnd) -> Result<(), Reason> {
        self.meet(request)?;
        self.there = there;
        self.pins.take(request.local, 0)
    }

    /// Judges a request's memory, and leaves nothing pinned for it. Answers where it goes.
    pub(super) fn look_at(&mut self, request: &Request) -> Result<FarEnd, Reason> {
        self.judge(request)?;
        self.pins.put_back();
        Ok(self.there)
    }

    /// The remote region that the last request begins in which was judged.
    #[inline]
    pub(super) fn target(&self) -> RegionId {
        self.there.region
    }

    #[inline]
    fn judge_remote(&mut self, request: &Request) -> Result<(), Reason> {
        let (_, there) = request.spans();
        let offset = request.remote.offset;
        let segment = request.remote.segment;
        let known =
            |far: &Far| far.segment == segment && offset.wrapping_sub(far.region.start) < far.region.len;
        let far = match self.far.filter(known) {
            Some(far) => far,
            None => self.look(segment, offset, there)?,
        };
        // `nonsense` has ruled out that these wrap.
        if offset + there > far.segment_len {
            return Err(Reason::RemoteBounds);
        }
        if !far.region.access.allows(request.op) {
            return Err(Reason::Denied);
        }
        self.there = FarEnd { region: far.region.id, end: far.region.start + far.region.len };
        Ok(())
    }

    /// Whether a request that goes on where the last one that was judged ended, or where one ended that this was said of
    /// before, is in the same regions on both sides: then it is as sound as that one.
    #[inline]
    pub(super) fn reaches(&self, request: &Request) -> bool {
        request.remote.offset + request.len <= self.there.end
            && request.local_offset + request.len <= self.pins.len
    }

    /// The peer of a request, at the start that it names.
    #[inline]
    fn meet(&mut self, request: &Request) -> Result<(), Reason> {
        let remote = &request.remote;
        if self.view.as_ref().is_none_or(|(peer, _)| *peer != remote.peer) {
            let peer = self.world.peers.get(remote.peer).ok_or(Reason::PeerGone)?;
            // Looked at once for all that follow for it: a peer that leaves waits for whoever was on the way in.
            if peer.state() == PeerState::Leaving {
                return Err(Reason::PeerLeaving);
            }
            self.view = Some((remote.peer, peer.view.load_full()));
            self.far = None;
        }
        let Some((_, view)) = &self.view else { return Err(Reason::PeerGone) };
        if view.incarnation == remote.incarnation { Ok(()) } else { Err(Reason::StalePeer) }
    }

    fn look(&mut self, segment: u32, offset: u64, bytes: u64) -> Result<Far, Reason> {
        let Some((_, view)) = &self.view else { return Err(Reason::PeerGone) };
        let found = view.segments.get(segment as usize).filter(|_| segment < SEGMENTS_MAX);
        let found = found.ok_or(Reason::UnknownSegment)?;
        if offset + bytes > found.len {
            return Err(Reason::RemoteBounds);
        }
        let region = *found.region_at(offset).ok_or(Reason::UnknownSegment)?;
        let far = Far { segment, segment_len: found.len, region };
        self.far = Some(far);
        Ok(far)
    }
}

/// Pins of one region, taken ahead: a step on a counter that all threads share costs more than the rest of a judgement.
struct Pins<'a> {
    regions: &'a Regions,
    region: RegionId,
    len: u64,
    /// Pins that no request has.
    stock: u32,
    /// How many were taken the last time.
    last: u32,
}

/// Most pins taken ahead.
const AHEAD: u32 = 64;

impl Pins<'_> {
    /// A pin for a request that ends at `end`.
    #[inline]
    fn take(&mut self, region: RegionId, end: u64) -> Result<(), Reason> {
        if self.region != region || self.stock == 0 {
            self.fetch(region)?;
        }
        if end > self.len {
            return Err(Reason::LocalBounds);
        }
        self.stock -= 1;
        Ok(())
    }

    /// The last one that was taken is not needed.
    fn put_back(&mut self) {
        self.stock += 1;
    }

    fn fetch(&mut self, region: RegionId) -> Result<(), Reason> {
        let ahead = if self.region == region { (self.last * 2).clamp(1, AHEAD) } else { 1 };
        self.give_back();
        self.len = self.regions.pin_times(region, ahead).map_err(|_| Reason::NotRegistered)?;
        (self.region, self.stock, self.last) = (region, ahead, ahead);
        Ok(())
    }

    fn give_back(&mut self) {
        if self.stock > 0 {
            self.regions.unpin_times(self.region, self.stock);
            self.stock = 0;
        }
    }
}

impl Drop for Pins<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}
