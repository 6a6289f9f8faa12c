//! The peers of a node, as the data path sees them: a fixed table of snapshots that control replaces.
//! Deliberately no sockets and no waiting: a slice whose peer has no link yet waits in `nic_select`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use pipeline_transports::{Access, LinkId, NicId, Offer, PairId, RegionId};

use crate::fence::{Fence, Unfenced};
use crate::seats::Place;
use crate::traffic::{Moved, Moves};

/// Index of a peer in the table. A name once known keeps its index for the life of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub u32);

/// Where a peer stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PeerState {
    /// Never reached, or being reached.
    #[default]
    Connecting,
    /// Its control session stands.
    Up,
    /// Its session ended or cannot be opened; control tries again with back-off when somebody wants it.
    Down,
    /// Its session stands, and it has said that it is about to stop: what has begun ends, new requests are refused.
    Leaving,
}

/// What a peer has told of itself: immutable, replaced whole.
#[derive(Clone, Debug, Default)]
pub struct PeerView {
    /// Name it gave.
    pub name: String,
    /// Changes with every start of that node: an old view never means new memory.
    pub incarnation: u64,
    /// Its transports.
    pub offers: Vec<Offer>,
    /// Its segments.
    pub segments: Vec<Arc<SegmentView>>,
    /// Dead links to this start of it that may still write there: as long as there are any, no WRITE is sent.
    pub unfenced: Arc<Unfenced>,
}

/// A segment: an ordered list of regions in one offset space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentView {
    /// Its name.
    pub name: String,
    /// `"dram"`, `"dir"` …
    pub kind: String,
    /// Bytes over all regions.
    pub len: u64,
    /// Regions by ascending `start`, without overlap; a gap only where a region was unregistered.
    pub regions: Vec<RegionView>,
}

/// One region of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionView {
    /// Its name in the peer's table.
    pub id: RegionId,
    /// First offset of it in the segment.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// What we may do.
    pub access: Access,
}

impl SegmentView {
    /// The region that holds `offset`, by binary search; `None` past the end.
    #[inline]
    pub fn region_at(&self, offset: u64) -> Option<&RegionView> {
        let after = self.regions.partition_point(|r| r.start <= offset);
        let region = self.regions.get(after.checked_sub(1)?)?;
        (offset - region.start < region.len).then_some(region)
    }
}

/// A link that `nic_select` may choose.
#[derive(Clone, Debug)]
pub struct LinkRef {
    /// Its name.
    pub id: LinkId,
    /// Index in [`crate::world::World::transports`].
    pub transport: u16,
    /// Local NIC of that transport.
    pub nic: NicId,
    /// NIC of the peer's transport that it leads to, as the transport said.
    pub remote_nic: u16,
    /// Worker pair that posts and reaps on it.
    pub pair: PairId,
    /// Index of the post worker in the post pool: the answer to `dispatch = "owner"`.
    pub post_worker: u32,
    /// Shared life of the link.
    pub life: Arc<LinkLife>,
}

/// The little that threads share about one link. On lines of its own: the worker that posts on it counts here, and the link
/// beside it may be another worker's.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct LinkLife {
    /// Set by whoever sees it die first; never cleared.
    pub dead: AtomicBool,
    /// Control: its NIC, or the way between its two NICs, rests after a failure or with its port down. As long as it does,
    /// it is only chosen where nothing else lives.
    pub resting: AtomicBool,
    /// Work requests chosen for it and not ended: what `nic_select` balances by.
    pub outstanding: AtomicU32,
    /// Their bytes: what it balances NICs by. Only of a link that [`Self::weighs`].
    pub bytes: AtomicU64,
    /// Whether bytes are counted: its transport has NICs to choose from.
    weighs: bool,
    /// Whether it may still write at its target when it is dead.
    pub fence: Fence,
    /// Where its reaper counts for the peer.
    pub(crate) moved: Arc<Moved>,
}

impl LinkLife {
    /// Of a link to this start of a peer.
    pub fn to(view: &PeerView) -> Self {
        Self { fence: Fence::new(view.unfenced.clone()), ..Self::default() }
    }

    /// Of a link whose slices count for this peer, and which a pair of workers has.
    pub fn counted(self, peer: &Peer, place: Place) -> Self {
        Self { moved: peer.moved.by(place), ..self }
    }

    /// Of a link of a transport with so many NICs.
    pub fn among(self, nics: usize) -> Self {
        Self { weighs: nics > 1, ..self }
    }

    /// Of a link whose target nobody can ask to let go of it.
    pub fn unfenceable(self) -> Self {
        Self { fence: Fence::impossible(), ..self }
    }

    /// Slices were chosen for it.
    #[inline]
    pub(crate) fn add(&self, slices: u32, bytes: u64) {
        self.outstanding.fetch_add(slices, Ordering::Relaxed);
        if self.weighs {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Slices that were chosen for it have ended, or go elsewhere.
    #[inline]
    pub(crate) fn end(&self, slices: u32, bytes: u64) {
        self.outstanding.fetch_sub(slices, Ordering::Relaxed);
        if self.weighs {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// It dies with a stage that panicked: nobody chooses it any more, and what of it had begun is unfenced, unless its
    /// transport fences dead links (`fenced`) by itself.
    pub(crate) fn die_with_its_stage(&self, fenced: bool) {
        self.dead.store(true, Ordering::Relaxed);
        if !fenced {
            self.fence.demand();
        }
    }

    /// Whether it rests.
    #[inline]
    pub fn is_resting(&self) -> bool {
        self.resting.load(Ordering::Relaxed)
    }

    /// Whether it is dead.
    #[inline]
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }
}

/// One peer.
pub struct Peer {
    /// Name or address it was opened by.
    pub label: Arc<str>,
    state: AtomicU32,
    /// What it told of itself.
    pub view: ArcSwap<PeerView>,
    /// Live links, of all transports. Only control replaces the list.
    pub links: ArcSwap<Vec<LinkRef>>,
    /// Grows whenever `links`, `view` or the state change: a waiting stage sees that it must look again.
    pub version: AtomicU64,
    /// Why it is down, for the error a user sees.
    pub reason: ArcSwap<String>,
    /// What has moved, and how much of it had to be sent again.
    pub(crate) moved: Moves,
    pub(crate) retries: AtomicU64,
    /// Why the last lane to it could not be dialled; empty when the last one could.
    pub lane_error: ArcSwap<String>,
}

impl Peer {
    /// A peer nobody has reached yet.
    pub fn new(label: &str) -> Self {
        Self {
            label: label.into(),
            state: AtomicU32::new(0),
            view: ArcSwap::default(),
            links: ArcSwap::default(),
            version: AtomicU64::new(0),
            reason: ArcSwap::default(),
            moved: Moves::default(),
            retries: AtomicU64::new(0),
            lane_error: ArcSwap::default(),
        }
    }

    /// Where it stands.
    pub fn state(&self) -> PeerState {
        match self.state.load(Ordering::Acquire) {
            1 => PeerState::Up,
            2 => PeerState::Down,
            3 => PeerState::Leaving,
            _ => PeerState::Connecting,
        }
    }

    /// Control only: moves it, and lets waiters look again.
    pub fn set_state(&self, state: PeerState) {
        let code = match state {
            PeerState::Connecting => 0,
            PeerState::Up => 1,
            PeerState::Down => 2,
            PeerState::Leaving => 3,
        };
        self.state.store(code, Ordering::Release);
        self.version.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(lens: &[u64]) -> SegmentView {
        let mut start = 0;
        let mut regions = Vec::new();
        for (i, &len) in lens.iter().enumerate() {
            regions.push(RegionView { id: RegionId(i as u64), start, len, ..RegionView::default() });
            start += len;
        }
        SegmentView { len: start, regions, ..SegmentView::default() }
    }

    /// Offsets at, before and after each seam find the right region, and none is found past the end.
    #[test]
    fn region_lookup_at_the_seams() {
        let s = segment(&[10, 1, 5]);
        let at = |o| s.region_at(o).map(|r| r.id.0);
        assert_eq!([at(0), at(9), at(10), at(11), at(15)], [Some(0), Some(0), Some(1), Some(2), Some(2)]);
        assert_eq!([at(16), at(u64::MAX)], [None, None]);
        assert!(segment(&[]).region_at(0).is_none());
    }
}
