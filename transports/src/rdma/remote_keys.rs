//! The keys by which the NICs of peers know their regions, as they have told them: looked up by the name of a region for
//! each work request that leaves.
//!
//! Each start of a peer has a table of its own, in chunks that are made when they are needed: a peer that names the
//! strangest regions there are makes at most [`REGIONS_MAX`] entries. Looking up takes no lock; entries are replaced as a
//! whole (see `local_keys`). An entry stays when its region goes, until its place is used again: whether a region is
//! there at all is the business of the view of the peer, which is asked first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwapOption;

use super::region_keys::RegionKeys;
use crate::error::Error;
use crate::memory::RegionId;
use crate::wr::{Op, Refusal};

/// Entries of a chunk.
const CHUNK: usize = 256;
/// Chunks of a table.
const CHUNKS: usize = 4096;
/// Most regions of one peer.
pub(super) const REGIONS_MAX: usize = CHUNK * CHUNKS;

/// A region of a peer. What was looked up may be kept: a name never means another region.
#[derive(Debug)]
pub(super) struct RemoteRegion {
    region: RegionId,
    keys: RegionKeys,
}

/// Where the bytes of a work request lie there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RemoteKey {
    /// Their address in the words of the key.
    pub(super) address: u64,
    /// The key.
    pub(super) rkey: u32,
}

impl RemoteRegion {
    /// Its name.
    pub(super) fn id(&self) -> RegionId {
        self.region
    }

    /// The key of a range for the peer's NIC with this index. Refuses what the peer's NIC would refuse: a NIC that is
    /// asked for too much ends the connection.
    #[inline]
    pub(super) fn find(&self, nic: u16, op: Op, offset: u64, len: u64) -> Result<RemoteKey, Refusal> {
        if !self.keys.access.allows(op) {
            return Err(Refusal::Denied);
        }
        let pieces = &self.keys.pieces;
        let piece = pieces.holder(offset, len).ok_or(Refusal::OutOfBounds)?;
        let rkey = self.keys.rkey(nic, piece).ok_or(Refusal::UnknownRegion)?;
        Ok(RemoteKey { address: pieces.address(offset), rkey })
    }
}

type Chunk = Box<[ArcSwapOption<RemoteRegion>]>;

/// The regions of one start of a peer.
pub(super) struct RemoteKeys {
    chunks: Box<[OnceLock<Chunk>]>,
}

impl RemoteKeys {
    fn new() -> Self {
        Self { chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect() }
    }

    /// All that is known of a region.
    pub(super) fn region(&self, region: RegionId) -> Option<Arc<RemoteRegion>> {
        let found = self.slot(region)?.load_full()?;
        (found.region == region).then_some(found)
    }

    /// As [`RemoteRegion::find`], for whoever asks once.
    ///
    /// # Errors
    /// What the peer would refuse it with.
    #[cfg(test)]
    pub(super) fn find(
        &self,
        region: RegionId,
        nic: u16,
        op: Op,
        offset: u64,
        len: u64,
    ) -> Result<RemoteKey, Refusal> {
        let found = self.slot(region).ok_or(Refusal::UnknownRegion)?.load();
        let found = found.as_ref().filter(|found| found.region == region);
        found.ok_or(Refusal::UnknownRegion)?.find(nic, op, offset, len)
    }

    fn slot(&self, region: RegionId) -> Option<&ArcSwapOption<RemoteRegion>> {
        let index = region.index() as usize;
        self.chunks.get(index / CHUNK)?.get()?.get(index % CHUNK)
    }

    /// A peer's word on a region.
    fn enter(&self, region: RegionId, keys: RegionKeys) -> Result<(), String> {
        let index = region.index() as usize;
        let chunk = self.chunks.get(index / CHUNK);
        let chunk = chunk.ok_or_else(|| format!("it is number {index}, and {REGIONS_MAX} are the most"))?;
        let chunk = chunk.get_or_init(|| (0..CHUNK).map(|_| ArcSwapOption::empty()).collect());
        let slot = &chunk[index % CHUNK];
        // Told again with every change of the peer's table: most of it is known.
        if !slot.load().as_ref().is_some_and(|known| known.region == region && known.keys == keys) {
            slot.store(Some(Arc::new(RemoteRegion { region, keys })));
        }
        Ok(())
    }
}

/// What was learnt of all peers, by their starts. Any thread.
#[derive(Default)]
pub(super) struct Learnt(Mutex<HashMap<u64, Arc<RemoteKeys>>>);

impl Learnt {
    /// The table of a start of a peer, for links that lead there: made here if nothing was learnt of it yet.
    pub(super) fn of(&self, incarnation: u64) -> Arc<RemoteKeys> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(incarnation).or_insert_with(|| Arc::new(RemoteKeys::new())).clone()
    }

    /// See [`crate::Transport::learn`].
    ///
    /// # Errors
    /// [`Error::Protocol`].
    pub(super) fn learn(
        &self,
        incarnation: u64,
        region: RegionId,
        len: u64,
        keys: &[u8],
    ) -> Result<(), Error> {
        let keys = RegionKeys::decode(keys, len).map_err(|why| senseless(incarnation, region, &why))?;
        self.enter(incarnation, region, keys)
    }

    /// As [`Self::learn`], of keys that came in other words than ours.
    ///
    /// # Errors
    /// [`Error::Protocol`] for a region beyond the most.
    pub(super) fn enter(&self, incarnation: u64, region: RegionId, keys: RegionKeys) -> Result<(), Error> {
        self.of(incarnation).enter(region, keys).map_err(|why| senseless(incarnation, region, &why))
    }

    /// See [`crate::Transport::forget`]. Links that are still there keep their table until they go.
    pub(super) fn forget(&self, incarnation: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&incarnation);
    }
}

fn senseless(incarnation: u64, region: RegionId, why: &dyn std::fmt::Display) -> Error {
    Error::Protocol {
        peer: format!("of start {incarnation:016x}"),
        reason: format!("what it says of its region {:016x} makes no sense: {why}", region.0),
    }
}

impl std::fmt::Debug for RemoteKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteKeys").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::pieces::{Lengths, Pieces};
    use super::super::settings::Addresses;
    use super::*;
    use crate::memory::Access;

    const LEN: u64 = 40_000;

    /// The bytes of a region's keys: three pieces on two NICs, from `first` on.
    fn told(first: u32, access: Access) -> Vec<u8> {
        let pieces = Pieces::plan(0x7_0000_5000, LEN, Lengths::new(16_384, 4096), Addresses::Hidden).unwrap();
        RegionKeys { access, pieces, rkeys: (first..first + 6).collect() }.encode()
    }

    /// What a peer told is found by region, NIC, operation and range; all that its NIC would refuse is refused here, with
    /// the reason.
    #[test]
    fn found_or_refused() {
        let learnt = Learnt::default();
        let id = RegionId::new(300, 9);
        learnt.learn(5, id, LEN, &told(10, Access::Read)).unwrap();
        let keys = learnt.of(5);
        let find = |id, nic, op, offset, len| keys.find(id, nic, op, offset, len);
        assert_eq!(find(id, 1, Op::Read, 12_288, 4096), Ok(RemoteKey { address: 0x5000 + 12_288, rkey: 14 }));
        assert_eq!(find(id, 0, Op::Read, LEN - 1, 1), Ok(RemoteKey { address: 0x5000 + LEN - 1, rkey: 12 }));
        assert_eq!(find(id, 0, Op::Write, 0, 1), Err(Refusal::Denied));
        assert_eq!(find(id, 0, Op::Read, LEN - 1, 2), Err(Refusal::OutOfBounds));
        assert_eq!(find(id, 2, Op::Read, 0, 1), Err(Refusal::UnknownRegion));
        assert_eq!(find(RegionId::new(300, 8), 0, Op::Read, 0, 1), Err(Refusal::UnknownRegion));
        assert_eq!(find(RegionId::new(9_000, 1), 0, Op::Read, 0, 1), Err(Refusal::UnknownRegion));
        assert_eq!(keys.region(id).unwrap().find(0, Op::Read, 0, 1).unwrap().rkey, 10);
    }

    /// What is told again changes nothing; a region that follows in the same place replaces its predecessor.
    #[test]
    fn told_again() {
        let learnt = Learnt::default();
        let (old, new) = (RegionId::new(1, 1), RegionId::new(1, 2));
        learnt.learn(5, old, LEN, &told(10, Access::Read)).unwrap();
        let first = learnt.of(5).region(old).unwrap();
        learnt.learn(5, old, LEN, &told(10, Access::Read)).unwrap();
        assert!(Arc::ptr_eq(&first, &learnt.of(5).region(old).unwrap()));
        learnt.learn(5, new, LEN, &told(20, Access::Read)).unwrap();
        assert!(learnt.of(5).region(old).is_none());
        assert_eq!(learnt.of(5).find(new, 0, Op::Read, 0, 1).unwrap().rkey, 20);
    }

    /// Starts of peers are apart; one that is forgotten is empty when it comes again, and a link that is still there keeps
    /// what it has.
    #[test]
    fn starts_are_apart() {
        let learnt = Learnt::default();
        let id = RegionId::new(0, 1);
        learnt.learn(5, id, LEN, &told(10, Access::Read)).unwrap();
        assert!(learnt.of(6).region(id).is_none());
        let link = learnt.of(5);
        learnt.forget(5);
        assert!(link.region(id).is_some() && learnt.of(5).region(id).is_none());
    }

    /// Bytes that make no sense and numbers of regions beyond the most are refused, and leave nothing behind.
    #[test]
    fn nonsense() {
        let learnt = Learnt::default();
        let id = RegionId::new(0, 1);
        let error = learnt.learn(5, id, LEN, b"nonsense").unwrap_err();
        assert!(matches!(error, Error::Protocol { .. }));
        assert!(learnt.learn(5, id, LEN + 100_000, &told(1, Access::Read)).is_err());
        let beyond = RegionId::new(REGIONS_MAX as u32, 1);
        let error = learnt.learn(5, beyond, LEN, &told(1, Access::Read)).unwrap_err();
        assert!(error.to_string().contains("1048576"), "{error}");
        assert!(learnt.of(5).region(id).is_none() && learnt.of(5).region(beyond).is_none());
        learnt.learn(5, RegionId::new(REGIONS_MAX as u32 - 1, 1), LEN, &told(1, Access::Read)).unwrap();
    }
}
