//! What is known of the memory of peers: which bytes a region's name means there. Control teaches it
//! ([`crate::Transport::learn`]), the post half looks it up for each work request, without a lock.
//!
//! Each start of a peer has a table of its own, in chunks that are made when they are needed. An entry is replaced as a whole
//! and stays when its region goes, until its place is used again: whether a region is there at all is the business of the view
//! of the peer, which is asked first. Deliberately no rights: this protocol knows none; the target judges.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwapOption;

use crate::error::Error;
use crate::memory::RegionId;
use crate::wr::{Refusal, Span};

/// Entries of a chunk.
const CHUNK: usize = 256;
/// Chunks of a table.
const CHUNKS: usize = 4096;
/// Most regions of one peer.
pub(super) const REGIONS_MAX: usize = CHUNK * CHUNKS;

/// A region of a peer. What was looked up may be kept: a name never means other bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    region: RegionId,
    address: u64,
    len: u64,
}

impl Place {
    fn address_of(&self, offset: u64, len: u64) -> Result<u64, Refusal> {
        let end = offset.checked_add(len).filter(|end| *end <= self.len);
        // `learn` has seen that the whole does not wrap.
        end.map(|_| self.address + offset).ok_or(Refusal::OutOfBounds)
    }
}

type Chunk = Box<[ArcSwapOption<Place>]>;

/// The regions of one start of a peer.
pub(super) struct Remote {
    chunks: Box<[OnceLock<Chunk>]>,
}

impl Remote {
    fn new() -> Self {
        Self { chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect() }
    }

    fn region(&self, region: RegionId) -> Option<Arc<Place>> {
        let index = region.index() as usize;
        let found = self.chunks.get(index / CHUNK)?.get()?.get(index % CHUNK)?.load_full()?;
        (found.region == region).then_some(found)
    }

    fn learn(&self, place: Place) -> Result<(), String> {
        let index = place.region.index() as usize;
        let chunk = self.chunks.get(index / CHUNK);
        let chunk = chunk.ok_or_else(|| format!("it is number {index}, and {REGIONS_MAX} are the most"))?;
        place.address.checked_add(place.len).ok_or("it passes the end of what there is of addresses")?;
        let chunk = chunk.get_or_init(|| (0..CHUNK).map(|_| ArcSwapOption::empty()).collect());
        let slot = &chunk[index % CHUNK];
        // Told again with every change of the peer's table: most of it is known.
        if slot.load().as_deref() != Some(&place) {
            slot.store(Some(Arc::new(place)));
        }
        Ok(())
    }
}

/// Looks up for one lane. Remembers one region: consecutive requests of a lane are of the same one as a rule.
pub(super) struct Lookup {
    remote: Arc<Remote>,
    last: Option<Arc<Place>>,
}

impl Lookup {
    pub(super) fn new(remote: Arc<Remote>) -> Self {
        Self { remote, last: None }
    }

    /// The address of a range there.
    ///
    /// # Errors
    /// What the request ends with: the range is in no region that is known.
    #[inline]
    pub(super) fn address(&mut self, span: Span, len: u64) -> Result<u64, Refusal> {
        if self.last.as_ref().is_none_or(|last| last.region != span.region) {
            self.last = self.remote.region(span.region);
        }
        let place = self.last.as_ref().ok_or(Refusal::UnknownRegion)?;
        place.address_of(span.offset, len)
    }
}

/// What was learnt of all peers, by their starts. Any thread.
#[derive(Default)]
pub(super) struct Learnt(Mutex<HashMap<u64, Arc<Remote>>>);

impl Learnt {
    /// The table of a start of a peer, for links that lead there: made here if nothing was learnt of it yet.
    pub(super) fn of(&self, incarnation: u64) -> Arc<Remote> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(incarnation).or_insert_with(|| Arc::new(Remote::new())).clone()
    }

    /// See [`crate::Transport::learn`]. `keys` is the address, as [`keys_of`] writes it.
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
        let address = keys.try_into().map(u64::from_le_bytes);
        let learnt = match address {
            Ok(address) => self.of(incarnation).learn(Place { region, address, len }),
            Err(_) => Err(format!("its address has {} bytes, not 8", keys.len())),
        };
        learnt.map_err(|why| Error::Protocol {
            peer: format!("of start {incarnation:016x}"),
            reason: format!("what it says of its region {:016x} makes no sense: {why}", region.0),
        })
    }

    /// See [`crate::Transport::forget`]. Links that are still there keep their table until they go.
    pub(super) fn forget(&self, incarnation: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&incarnation);
    }
}

/// What [`Learnt::learn`] is to be told of a region at this address.
pub(super) fn keys_of(address: u64) -> Vec<u8> {
    address.to_le_bytes().to_vec()
}

#[cfg(all(test, not(pipeline_loom)))]
mod tests {
    use super::*;

    const START: u64 = 5;

    fn learn(learnt: &Learnt, region: RegionId, address: u64, len: u64) -> Result<(), Error> {
        learnt.learn(START, region, len, &keys_of(address))
    }

    fn find(lookup: &mut Lookup, region: RegionId, offset: u64, len: u64) -> Result<u64, Refusal> {
        lookup.address(Span { region, offset }, len)
    }

    /// What was learnt is found by name and range; names that were never learnt, and ranges that leave the region or wrap,
    /// are refused before anything is sent.
    #[test]
    fn found_or_refused() {
        let learnt = Learnt::default();
        let (one, two) = (RegionId::new(300, 1), RegionId::new(19_999, 1));
        learn(&learnt, one, 0x7f00_0000_0000, 4096).unwrap();
        learn(&learnt, two, u64::MAX - 10, 10).unwrap();
        let mut lookup = Lookup::new(learnt.of(START));
        assert_eq!(find(&mut lookup, one, 4095, 1), Ok(0x7f00_0000_0fff));
        assert_eq!(find(&mut lookup, two, 0, 10), Ok(u64::MAX - 10));
        assert_eq!(find(&mut lookup, one, 0, 4096), Ok(0x7f00_0000_0000));
        for (offset, len) in [(4095, 2), (4096, 1), (0, 4097), (u64::MAX, 2)] {
            assert_eq!(find(&mut lookup, one, offset, len), Err(Refusal::OutOfBounds));
        }
        for unknown in [RegionId::new(300, 2), RegionId::new(301, 1), RegionId(0), RegionId(u64::MAX)] {
            assert_eq!(find(&mut lookup, unknown, 0, 1), Err(Refusal::UnknownRegion));
        }
    }

    /// What is told again changes nothing; a region that follows in the same place replaces its predecessor, and a lane that
    /// knew that one asks anew for the new name.
    #[test]
    fn told_again() {
        let learnt = Learnt::default();
        let (old, new) = (RegionId::new(1, 1), RegionId::new(1, 2));
        learn(&learnt, old, 0x1000, 64).unwrap();
        let first = learnt.of(START).region(old).unwrap();
        learn(&learnt, old, 0x1000, 64).unwrap();
        assert!(Arc::ptr_eq(&first, &learnt.of(START).region(old).unwrap()));
        let mut lookup = Lookup::new(learnt.of(START));
        assert_eq!(find(&mut lookup, old, 0, 64), Ok(0x1000));
        learn(&learnt, new, 0x9000, 64).unwrap();
        assert_eq!(find(&mut lookup, new, 0, 64), Ok(0x9000));
        assert_eq!(find(&mut lookup, old, 0, 64), Err(Refusal::UnknownRegion));
    }

    /// Starts of peers are apart; one that is forgotten is empty when it comes again, and a link that is still there keeps
    /// what it has.
    #[test]
    fn starts_are_apart() {
        let learnt = Learnt::default();
        let id = RegionId::new(0, 1);
        learn(&learnt, id, 0x1000, 64).unwrap();
        assert!(learnt.of(START + 1).region(id).is_none());
        let link = learnt.of(START);
        learnt.forget(START);
        assert!(link.region(id).is_some() && learnt.of(START).region(id).is_none());
    }

    /// Keys that are no address, regions that wrap and numbers beyond the most are refused, and leave nothing behind.
    #[test]
    fn nonsense() {
        let learnt = Learnt::default();
        let id = RegionId::new(0, 1);
        let short = learnt.learn(START, id, 64, &[1; 7]).unwrap_err();
        assert!(matches!(short, Error::Protocol { .. }));
        assert!(learn(&learnt, id, u64::MAX, 2).is_err());
        let beyond = RegionId::new(REGIONS_MAX as u32, 1);
        let error = learn(&learnt, beyond, 0x1000, 64).unwrap_err();
        assert!(error.to_string().contains("1048576"), "{error}");
        assert!(learnt.of(START).region(id).is_none() && learnt.of(START).region(beyond).is_none());
    }
}
