//! The table of regions from outside: what it refuses, what keeps a region alive, and what races may not break.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Instant;

use pipeline_transports::memory::{Access, Memory, Region, RegionId, Regions};
use pipeline_transports::wr::{Op, Refusal};
use pipeline_transports::{Error, memory};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

fn table(capacity: usize) -> Arc<Regions> {
    Arc::new(Regions::new(capacity))
}

/// Memory at an address that nobody dereferences.
fn at(base: u64, len: u64) -> Memory {
    // SAFETY: the tests that use it only register it; nothing reads or writes it.
    unsafe { Memory::from_raw(base as *mut u8, len) }
}

/// An empty region is refused with its length named, and spoils nothing for the next one (B01).
#[test]
fn empty_region_is_refused() {
    let regions = table(4);
    let error = regions.add(at(0x1000, 0), Access::ReadWrite).unwrap_err();
    assert!(matches!(&error, Error::BadArgument(text) if text.contains("0 bytes")), "{error}");
    assert!(regions.is_empty());
    let id = regions.add(Memory::allocate(MIB).unwrap(), Access::ReadWrite).unwrap();
    assert!(regions.open(id, 0, 4096, Op::Write).is_ok());
}

/// Ranges that wrap, or lie at address 0, are refused; so are offsets and lengths whose sum wraps (B05).
#[test]
fn wrapping_ranges_are_refused() {
    let regions = table(4);
    for (base, len) in [(0xFFFF_FFFF_FFFF_F000, 0x2000), (0x1000, u64::MAX), (0, 4096), (1, 1 << 63)] {
        let result = regions.add(at(base, len), Access::ReadWrite);
        assert!(matches!(result, Err(Error::BadArgument(_))), "{base:#x} + {len:#x}");
    }
    let id = regions.add(Memory::allocate(0x3000).unwrap(), Access::ReadWrite).unwrap();
    regions.pin(id).unwrap();
    for (offset, len) in
        [(0xFFFF_FFFF_FFFF_F000, 0x2000), (0, 0x3001), (0x3000, 1), (1, u64::MAX), (u64::MAX, 1)]
    {
        assert_eq!(regions.open(id, offset, len, Op::Read).unwrap_err(), Refusal::OutOfBounds);
        assert!(matches!(regions.local(id, offset, len), Err(Error::BadArgument(_))));
    }
    assert_eq!(regions.facts(id).unwrap().accesses, 0, "a refused access does not count");
    assert!(regions.open(id, 0, 0x3000, Op::Read).is_ok());
    assert_eq!(regions.open(id, 0, 0, Op::Read).unwrap_err(), Refusal::Malformed);
    regions.unpin(id);
}

/// Every way of overlapping a live region is refused with that region's name; touching it is fine.
#[test]
fn overlaps_are_refused() {
    let regions = table(8);
    let live = regions.add(at(0x10000, 0x1000), Access::Read).unwrap();
    for (base, len) in
        [(0x10000, 0x1000), (0xF000, 0x1001), (0x10FFF, 1), (0x10800, 0x100), (0x8000, 0x10000)]
    {
        let result = regions.add(at(base, len), Access::Read);
        assert!(matches!(result, Err(Error::Overlap(id)) if id == live), "{base:#x} + {len:#x}");
    }
    regions.add(at(0xF000, 0x1000), Access::Read).unwrap();
    regions.add(at(0x11000, 0x1000), Access::Read).unwrap();
    drop(regions.remove(live).unwrap());
    regions.add(at(0x10800, 0x100), Access::Read).unwrap();
}

/// Sixteen threads register two overlapping shapes at once, a thousand times: one wins each round, the
/// others get an overlap error, and the table is empty at the end (B03).
#[test]
fn overlap_race_has_one_winner() {
    let regions = table(16);
    let base = 0x7000_0000_0000;
    let (round, winners) = (Barrier::new(16), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..16u64 {
            let (regions, round, winners) = (&regions, &round, &winners);
            scope.spawn(move || {
                for number in 1..=1000 {
                    round.wait();
                    let won = match regions.add(at(base + thread % 2 * MIB / 2, MIB), Access::ReadWrite) {
                        Ok(id) => Some(id),
                        Err(Error::Overlap(_)) => None,
                        Err(other) => panic!("{other}"),
                    };
                    winners.fetch_add(u64::from(won.is_some()), Ordering::Relaxed);
                    round.wait();
                    assert_eq!((winners.load(Ordering::Relaxed), regions.len()), (number, 1));
                    round.wait();
                    if let Some(id) = won {
                        drop(regions.remove(id).unwrap());
                    }
                }
            });
        }
    });
    assert!(regions.is_empty());
    regions.add(at(base, MIB), Access::Read).unwrap();
}

/// A region is Busy while a peer accesses it or a request pins it, unharmed by the attempt, and goes after.
#[test]
fn removal_waits_for_users() {
    let regions = table(2);
    let id = regions.add(Memory::allocate(4096).unwrap(), Access::ReadWrite).unwrap();
    let guard = regions.open(id, 8, 16, Op::Write).unwrap();
    assert_eq!(guard.len(), 16);
    assert!(matches!(regions.remove(id), Err(Error::Busy(busy, why)) if busy == id && why.contains("peer")));
    assert!(matches!(regions.read_into(id, 0, &mut [0]), Err(Error::Busy(..))));
    drop(regions.open(id, 0, 1, Op::Read).unwrap());
    drop(guard);
    regions.pin(id).unwrap();
    assert!(matches!(regions.remove(id), Err(Error::Busy(_, why)) if why.contains("requests")));
    assert!(matches!(regions.write_from(id, 0, &[0]), Err(Error::Busy(..))));
    regions.pin(id).unwrap();
    assert!(regions.unpin(id) && regions.unpin(id));
    let memory = regions.remove(id).unwrap();
    assert_eq!(memory.len(), 4096);
    assert!(matches!(regions.pin(id), Err(Error::NotRegistered(_))));
    assert!(matches!(regions.remove(id), Err(Error::NotRegistered(_))));
    assert_eq!(regions.open(id, 0, 1, Op::Read).unwrap_err(), Refusal::UnknownRegion);
}

/// A shut region lets the active go on and nobody begin; it can be opened again, or removed once idle.
#[test]
fn shutting_drains() {
    let regions = table(2);
    let id = regions.add(Memory::allocate(4096).unwrap(), Access::ReadWrite).unwrap();
    let guard = regions.open(id, 0, 1, Op::Read).unwrap();
    regions.shut(id).unwrap();
    assert_eq!(regions.open(id, 0, 1, Op::Read).unwrap_err(), Refusal::Closing);
    assert!(matches!(regions.pin(id), Err(Error::Busy(..))));
    assert!(matches!(regions.remove(id), Err(Error::Busy(..))));
    assert_eq!(regions.open(id, 0, 1, Op::Read).unwrap_err(), Refusal::Closing, "Busy leaves it shut");
    regions.reopen(id).unwrap();
    drop(regions.open(id, 0, 1, Op::Read).unwrap());
    regions.shut(id).unwrap();
    drop(guard);
    drop(regions.remove(id).unwrap());
    assert!(matches!(regions.shut(id), Err(Error::NotRegistered(_))));
    assert!(matches!(regions.reopen(id), Err(Error::NotRegistered(_))));
}

/// An old name never means new memory in the same slot, for peers, pins and removal alike; and ids from
/// another table mean nothing here.
#[test]
fn stale_names_mean_nothing() {
    let regions = table(1);
    let old = regions.add(Memory::allocate(4096).unwrap(), Access::ReadWrite).unwrap();
    drop(regions.remove(old).unwrap());
    let new = regions.add(Memory::allocate(4096).unwrap(), Access::ReadWrite).unwrap();
    assert_eq!(old.index(), new.index());
    let foreign = table(1).add(Memory::allocate(4096).unwrap(), Access::ReadWrite).unwrap();
    for id in [old, foreign, RegionId(0), RegionId(u64::MAX)] {
        assert_eq!(regions.open(id, 0, 1, Op::Read).unwrap_err(), Refusal::UnknownRegion, "{id:?}");
        assert!(matches!(regions.pin(id), Err(Error::NotRegistered(_))));
        assert!(matches!(regions.local(id, 0, 1), Err(Error::NotRegistered(_))));
        assert!(matches!(regions.remove(id), Err(Error::NotRegistered(_))));
        assert!(regions.facts(id).is_none());
    }
    assert_eq!(regions.facts(new).unwrap().len, 4096);
}

/// Rights are those given at registration, for each direction.
#[test]
fn rights_are_kept() {
    let regions = table(4);
    for (access, read, write) in [
        (Access::Local, false, false),
        (Access::Read, true, false),
        (Access::Write, false, true),
        (Access::ReadWrite, true, true),
    ] {
        let id = regions.add(Memory::allocate(64).unwrap(), access).unwrap();
        for (op, allowed) in [(Op::Read, read), (Op::Write, write)] {
            match regions.open(id, 0, 64, op) {
                Ok(_) => assert!(allowed, "{access:?} {op:?}"),
                Err(refusal) => assert!(!allowed && refusal == Refusal::Denied, "{access:?} {op:?}"),
            }
        }
    }
}

/// A span of the node's own needs a pin, and copies in and out arrive where they should.
#[test]
fn local_access() {
    let regions = table(1);
    let id = regions.add(Memory::allocate(100).unwrap(), Access::Local).unwrap();
    assert!(matches!(regions.local(id, 0, 1), Err(Error::BadArgument(text)) if text.contains("pin")));
    regions.write_from(id, 10, b"hello").unwrap();
    regions.pin(id).unwrap();
    let span = regions.local(id, 10, 5).unwrap();
    let mut got = [0; 5];
    // SAFETY: the span is pinned and 5 bytes long.
    unsafe { memory::copy::copy(span.ptr, got.as_mut_ptr(), span.len as usize) };
    assert_eq!(&got, b"hello");
    regions.write_shared(id, 99, b"!").unwrap();
    assert!(matches!(regions.write_shared(id, 99, b"!!"), Err(Error::BadArgument(_))));
    regions.read_shared(id, 99, &mut got[..1]).unwrap();
    assert_eq!(got[0], b'!');
    regions.unpin(id);
    assert_eq!(regions.facts(id).unwrap().pins, 0);
}

/// The handle reads, writes and gives its memory back; dropped, it leaves the region where it is.
#[test]
fn handle_frees_nothing_in_passing() {
    let regions = table(1);
    let id = regions.add(Memory::allocate(64).unwrap(), Access::Read).unwrap();
    drop(Region::new(&regions, id).unwrap());
    assert_eq!(regions.len(), 1);
    let mut region = Region::new(&regions, id).unwrap();
    region.write(60, b"tail").unwrap();
    // SAFETY: nobody else touches the region.
    unsafe { region.as_mut_slice()[0] = 1 };
    // SAFETY: as above.
    assert_eq!((unsafe { region.as_slice() }[63], region.len()), (b'l', 64));
    let guard = regions.open(id, 0, 1, Op::Read).unwrap();
    let (region, error) = region.unregister().unwrap_err();
    assert!(matches!(error, Error::Busy(..)));
    drop(guard);
    let memory = region.unregister().map_err(|(_, error)| error).unwrap();
    let mut first = [0];
    memory.read(0, &mut first).unwrap();
    assert_eq!((first, regions.len()), ([1], 0));
}

/// A full table says so with its limit, and twenty thousand regions come and go in well under a second.
#[test]
fn many_regions() {
    let count = 20_000u64;
    let regions = table(count as usize);
    let begin = Instant::now();
    let ids: Vec<_> = (0..count)
        // An order that neither ascends nor descends: the overlap check must not depend on it.
        .map(|i| regions.add(at(0x1_0000_0000 + (i * 7919 % count) * 4096, 4096), Access::Read).unwrap())
        .collect();
    let error = regions.add(at(0x1000, 1), Access::Read).unwrap_err();
    assert!(matches!(error, Error::Limit { what: "regions", limit: 20_000 }), "{error}");
    for id in ids {
        drop(regions.open(id, 0, 4096, Op::Read).unwrap());
        drop(regions.remove(id).unwrap());
    }
    assert!(regions.is_empty());
    assert!(begin.elapsed().as_secs() < 5, "20 000 regions took {:?}: quadratic?", begin.elapsed());
}

/// While owners add, remove and reuse memory, and peers open and read what they get, no access ever sees
/// memory that is not there yet or gone already.
#[test]
fn add_remove_open_race() {
    const ROUNDS: u64 = 500;
    let regions = table(4);
    // By owner: the id of its region, and how often it has been opened.
    let current: [(AtomicU64, AtomicU64); 2] = Default::default();
    let owners_left = AtomicU64::new(2);
    std::thread::scope(|scope| {
        for (slot, opened) in &current {
            let (regions, owners_left) = (&regions, &owners_left);
            scope.spawn(move || {
                let mut memory = Memory::allocate(4096).unwrap();
                for round in 1..=ROUNDS {
                    memory.write(4000, &round.to_le_bytes()).unwrap();
                    let id = regions.add(memory, Access::Read).unwrap();
                    let before = opened.load(Ordering::Relaxed);
                    slot.store(id.0, Ordering::Release);
                    while opened.load(Ordering::Relaxed) == before {
                        std::thread::yield_now();
                    }
                    memory = loop {
                        match regions.remove(id) {
                            Ok(memory) => break memory,
                            // Peers that never pause would keep it busy: no more may begin.
                            Err(Error::Busy(..)) => {
                                regions.shut(id).unwrap();
                                std::thread::yield_now();
                            }
                            Err(other) => panic!("{other}"),
                        }
                    };
                    // Nobody may see this: the region is gone.
                    memory.write(4000, &[0xEE; 8]).unwrap();
                }
                owners_left.fetch_sub(1, Ordering::Relaxed);
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                while owners_left.load(Ordering::Relaxed) > 0 {
                    for (slot, opened) in &current {
                        let id = RegionId(slot.load(Ordering::Acquire));
                        let Ok(guard) = regions.open(id, 4000, 8, Op::Read) else {
                            std::thread::yield_now();
                            continue;
                        };
                        let mut stamp = [0; 8];
                        // SAFETY: the guard covers these 8 bytes while it lives.
                        unsafe { memory::copy::copy(guard.ptr(), stamp.as_mut_ptr(), 8) };
                        let round = u64::from_le_bytes(stamp);
                        assert!((1..=ROUNDS).contains(&round), "touched memory that is gone: {round:#x}");
                        opened.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert!(regions.is_empty());
}

proptest! {
    /// Whatever is added and removed in whatever order, the table agrees with a plain list about overlaps,
    /// names and counts.
    #[test]
    fn agrees_with_a_plain_list(steps in prop::collection::vec((any::<bool>(), 1..64u64, 1..16u64), 1..80)) {
        let regions = table(12);
        let mut live: Vec<(RegionId, u64, u64)> = Vec::new();
        for (add, at_page, pages) in steps {
            if add {
                let (base, end) = (at_page << 12, (at_page + pages) << 12);
                let hit = |id: RegionId| live.iter().any(|(i, b, e)| *i == id && *b < end && base < *e);
                let free = !live.iter().any(|(_, b, e)| *b < end && base < *e);
                match regions.add(at(base, end - base), Access::Read) {
                    Ok(id) => {
                        prop_assert!(free && live.len() < 12);
                        prop_assert!(!live.iter().any(|(i, ..)| *i == id));
                        live.push((id, base, end));
                    }
                    Err(Error::Overlap(id)) => prop_assert!(hit(id), "{id:?} does not overlap"),
                    Err(Error::Limit { .. }) => prop_assert!(free && live.len() == 12),
                    Err(other) => prop_assert!(false, "{other}"),
                }
            } else if !live.is_empty() {
                let (id, base, end) = live.swap_remove(at_page as usize % live.len());
                let memory = regions.remove(id).unwrap();
                prop_assert_eq!((memory.ptr() as u64, memory.len()), (base, end - base));
                prop_assert!(matches!(regions.remove(id), Err(Error::NotRegistered(_))));
            }
            prop_assert_eq!(regions.len(), live.len());
            for (id, base, end) in &live {
                prop_assert_eq!(regions.facts(*id).unwrap().len, end - base);
            }
        }
    }
}
