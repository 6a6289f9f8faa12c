//! The keys by which this node's own NICs know its regions: looked up by the name of a region for each work request.
//!
//! A table as long as the node's table of regions, made once. Looking up takes no lock. An entry is replaced as a whole
//! and freed when nobody looks at it any more (`arc-swap` has both proven), so no order of memory accesses is left to
//! reason about here: whoever finds an entry sees all of it, and whose name it does not carry is told that there is none.
//! Deliberately no registrations in it: whoever holds an entry too long holds numbers, and the NIC refuses stale ones.

use std::sync::Arc;

use arc_swap::ArcSwapOption;

use super::pieces::Pieces;
use crate::memory::RegionId;

/// A region of this node. What was looked up may be kept: a name never means another region.
#[derive(Debug)]
pub(super) struct LocalRegion {
    region: RegionId,
    base: u64,
    pieces: Pieces,
    /// One of each piece, for each NIC in turn.
    lkeys: Box<[u32]>,
}

/// Where the bytes of a work request lie here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LocalKey {
    /// Their address in the words of the key: what a work request names.
    pub(super) address: u64,
    /// The key.
    pub(super) lkey: u32,
    /// Their address in this process: what a work request names that carries them itself (inline), which the CPU copies.
    pub(super) at: u64,
}

impl LocalRegion {
    pub(super) fn new(region: RegionId, base: u64, pieces: Pieces, lkeys: Box<[u32]>) -> Self {
        Self { region, base, pieces, lkeys }
    }

    /// Its name.
    pub(super) fn id(&self) -> RegionId {
        self.region
    }

    /// The key of a range for the NIC with this index; `None` if it passes the end.
    #[inline]
    pub(super) fn find(&self, nic: u16, offset: u64, len: u64) -> Option<LocalKey> {
        let piece = self.pieces.holder(offset, len)?;
        let at = usize::from(nic) * usize::from(self.pieces.count()) + usize::from(piece);
        let lkey = *self.lkeys.get(at)?;
        Some(LocalKey { address: self.pieces.address(offset), lkey, at: self.base + offset })
    }
}

/// See the file's head.
pub(super) struct LocalKeys {
    slots: Box<[ArcSwapOption<LocalRegion>]>,
}

impl LocalKeys {
    /// For a table of `capacity` regions.
    pub(super) fn new(capacity: usize) -> Self {
        Self { slots: (0..capacity).map(|_| ArcSwapOption::empty()).collect() }
    }

    /// All that is known of a region.
    pub(super) fn region(&self, region: RegionId) -> Option<Arc<LocalRegion>> {
        let found = self.slots.get(region.index() as usize)?.load_full()?;
        (found.region == region).then_some(found)
    }

    /// As [`LocalRegion::find`], for whoever asks once.
    #[cfg(test)]
    pub(super) fn find(&self, region: RegionId, nic: u16, offset: u64, len: u64) -> Option<LocalKey> {
        let found = self.slots.get(region.index() as usize)?.load();
        found.as_ref().filter(|found| found.region == region)?.find(nic, offset, len)
    }

    /// A region has keys from now on. Its place was free: its table of regions gives a place to one at a time, and a
    /// registration leaves before its region does.
    pub(super) fn enter(&self, region: LocalRegion) {
        match self.slots.get(region.region.index() as usize) {
            Some(slot) => slot.store(Some(Arc::new(region))),
            None => tracing::error!(region = ?region.region, "a region beyond the table of regions: a bug"),
        }
    }

    /// It has none any more.
    pub(super) fn leave(&self, region: RegionId) {
        let Some(slot) = self.slots.get(region.index() as usize) else { return };
        if slot.load().as_ref().is_some_and(|found| found.region == region) {
            slot.store(None);
        }
    }
}

impl std::fmt::Debug for LocalKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalKeys").field("capacity", &self.slots.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::pieces::Lengths;
    use super::super::settings::Addresses;
    use super::*;

    fn region(index: u32, generation: u32, lkeys: &[u32]) -> LocalRegion {
        let pieces =
            Pieces::plan(0x10_0000_5000, 40_000, Lengths::new(16_384, 4096), Addresses::Hidden).unwrap();
        LocalRegion::new(RegionId::new(index, generation), 0x10_0000_5000, pieces, lkeys.into())
    }

    /// A range is found by its region's name, under the key of its piece for the NIC that asks; an older or younger name
    /// of the same place, a range past the end and a NIC that is not there are not.
    #[test]
    fn found_by_name_nic_and_range() {
        let keys = LocalKeys::new(4);
        keys.enter(region(3, 7, &[1, 2, 3, 11, 12, 13]));
        let id = RegionId::new(3, 7);
        let at = |nic, offset, len| keys.find(id, nic, offset, len).map(|k| (k.lkey, k.address, k.at));
        assert_eq!(at(0, 5, 1), Some((1, 0x5005, 0x10_0000_5005)));
        assert_eq!(at(1, 12_288, 4096), Some((12, 0x8000, 0x10_0000_8000)));
        assert_eq!(at(1, 39_999, 1), Some((13, 0x5000 + 39_999, 0x10_0000_5000 + 39_999)));
        assert_eq!((at(0, 39_999, 2), at(2, 0, 1), at(0, u64::MAX, 1)), (None, None, None));
        for other in [RegionId::new(3, 6), RegionId::new(3, 8), RegionId::new(2, 7), RegionId::new(4, 7)] {
            assert!(keys.find(other, 0, 0, 1).is_none() && keys.region(other).is_none());
        }
        assert_eq!(keys.region(id).unwrap().find(0, 5, 1), keys.find(id, 0, 5, 1));
    }

    /// A region that left is found no more, and one that left before does not take its successor along.
    #[test]
    fn leaving() {
        let keys = LocalKeys::new(1);
        keys.enter(region(0, 1, &[1, 2, 3]));
        keys.leave(RegionId::new(0, 1));
        assert!(keys.find(RegionId::new(0, 1), 0, 0, 1).is_none());
        keys.enter(region(0, 2, &[4, 5, 6]));
        keys.leave(RegionId::new(0, 1));
        assert_eq!(keys.find(RegionId::new(0, 2), 0, 0, 1).unwrap().lkey, 4);
        keys.leave(RegionId::new(9, 1));
        keys.enter(region(9, 1, &[]));
    }

    /// While others register and unregister, whoever looks up finds the right keys of a region or none: never a mix of two
    /// that follow each other in one place.
    #[test]
    fn found_while_it_changes() {
        let keys = LocalKeys::new(1);
        std::thread::scope(|scope| {
            let (keys, rounds) = (&keys, 2_000u32);
            scope.spawn(move || {
                for generation in 1..=rounds {
                    keys.enter(region(0, generation, &[generation; 3]));
                    keys.leave(RegionId::new(0, generation));
                }
                keys.enter(region(0, rounds + 1, &[rounds + 1; 3]));
            });
            for _ in 0..2 {
                scope.spawn(move || {
                    let mut generation = 1;
                    while generation <= rounds + 1 {
                        if let Some(key) = keys.find(RegionId::new(0, generation), 0, 0, 1) {
                            assert_eq!(key.lkey, generation);
                        }
                        let newest = keys.slots[0].load().as_ref().map(|r| r.region.generation());
                        match newest {
                            Some(newest) if newest > rounds => break,
                            Some(newest) => generation = newest,
                            None => {}
                        }
                    }
                });
            }
        });
    }
}
