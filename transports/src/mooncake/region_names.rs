//! Names for the buffers of peers. Mooncake has none: a buffer is an address and a length. A name that was given here means
//! these bytes of this start of a peer for ever: one whose buffer has gone is not given again.
//!
//! Places in the tables of names are: so a peer that registers and unregisters all day needs no more of them than it has
//! buffers at a time. Deliberately no look-up by name: see [`super::peers`].

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::descriptor::Buffer;
use super::peers::REGIONS_MAX;
use crate::memory::RegionId;

/// Starts of peers that are remembered. Of one that is not, all names are new when it is asked again.
const STARTS_MAX: usize = 4096;

/// The names of all that was found. Any thread.
#[derive(Default)]
pub(super) struct RegionNames(Mutex<Known>);

#[derive(Default)]
struct Known {
    starts: HashMap<u64, Start>,
    /// Names given so far, to all: what tells names of one place apart.
    given: u32,
    /// Times that a peer was asked.
    asked: u64,
}

#[derive(Default)]
struct Start {
    /// By address, length, and the keys of RDMA: with other keys it is other memory.
    names: HashMap<(u64, u64, Vec<u32>), RegionId>,
    /// Places whose buffers have gone.
    free: Vec<u32>,
    /// When it was asked last.
    asked: u64,
}

impl RegionNames {
    /// Names for all buffers that a start of a peer has now, in their order. `None`: there are more than can be named.
    pub(super) fn name(&self, incarnation: u64, buffers: &[&Buffer]) -> Option<Vec<RegionId>> {
        if buffers.len() > REGIONS_MAX {
            return None;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.make_room(incarnation);
        let Known { starts, given, asked } = &mut *known;
        *asked += 1;
        let start = starts.entry(incarnation).or_default();
        start.asked = *asked;
        let mut before = std::mem::take(&mut start.names);
        let kept = |buffer: &&Buffer| (buffer.addr, buffer.length, buffer.rkey.clone());
        for range in buffers.iter().map(kept) {
            if let Some(name) = before.remove(&range) {
                start.names.insert(range, name);
            }
        }
        start.free.extend(before.into_values().map(RegionId::index));
        let names = buffers.iter().map(|buffer| {
            let places = start.names.len() as u32;
            *start.names.entry(kept(buffer)).or_insert_with(|| {
                // 0 names nothing, and 2^32 names later nobody knows the first any more.
                *given = given.wrapping_add(1).max(1);
                RegionId::new(start.free.pop().unwrap_or(places), *given)
            })
        });
        Some(names.collect())
    }

    /// Nobody knows the names of this start any more.
    pub(super) fn forget(&self, incarnation: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).starts.remove(&incarnation);
    }
}

impl Known {
    /// Forgets the start that was asked longest ago, if there are too many.
    fn make_room(&mut self, incarnation: u64) {
        if self.starts.len() < STARTS_MAX || self.starts.contains_key(&incarnation) {
            return;
        }
        let oldest = self.starts.iter().min_by_key(|(_, start)| start.asked).map(|(id, _)| *id);
        oldest.map(|id| self.starts.remove(&id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn buffer(addr: u64, length: u64) -> Buffer {
        Buffer { addr, length, name: "x".into(), ..Buffer::default() }
    }

    fn name(names: &RegionNames, start: u64, buffers: &[Buffer]) -> Vec<RegionId> {
        names.name(start, &buffers.iter().collect::<Vec<_>>()).unwrap()
    }

    /// The same bytes of the same start keep their name, whatever else comes and goes and in whatever order they are told;
    /// others, and those of another start, have others.
    #[test]
    fn names_stay() {
        let names = RegionNames::default();
        let first = name(&names, 5, &[buffer(4096, 8), buffer(8192, 8)]);
        let again = name(&names, 5, &[buffer(8192, 8), buffer(100, 1), buffer(4096, 8), buffer(4096, 9)]);
        assert_eq!([again[0], again[2]], [first[1], first[0]]);
        let other = name(&names, 6, &[buffer(4096, 8)]);
        let all: HashSet<RegionId> = first.iter().chain(&again).chain(&other).copied().collect();
        assert_eq!(all.len(), 5);
        assert!(!all.contains(&RegionId(0)));
        assert_eq!(again.iter().map(|id| id.index()).collect::<HashSet<_>>(), (0..4).collect());
    }

    /// A name whose buffer has gone is never given again, not to the same bytes either; its place is.
    #[test]
    fn names_end_and_places_do_not() {
        let names = RegionNames::default();
        let mut seen = HashSet::new();
        for round in 0..1000u64 {
            let given = name(&names, 5, &[buffer(4096 + round % 3, 8), buffer(1 << 20, 8)]);
            assert!(given.iter().all(|id| id.index() < 2), "round {round}: {given:?}");
            assert!(seen.insert(given[0]) && (round == 0) == seen.insert(given[1]));
        }
        names.forget(5);
        assert!(seen.insert(name(&names, 5, &[buffer(1 << 20, 8)])[0]), "names of a forgotten start are new");
    }

    /// As few starts are remembered as was said: those that were asked last.
    #[test]
    fn starts_are_bounded() {
        let names = RegionNames::default();
        let first = name(&names, 0, &[buffer(1, 1)]);
        for start in 1..STARTS_MAX as u64 {
            name(&names, start, &[buffer(1, 1)]);
        }
        assert_eq!(name(&names, 0, &[buffer(1, 1)]), first);
        name(&names, u64::MAX, &[buffer(1, 1)]);
        assert_eq!(names.0.lock().unwrap().starts.len(), STARTS_MAX);
        assert_eq!(name(&names, 0, &[buffer(1, 1)]), first, "it was asked of late");
    }
}
