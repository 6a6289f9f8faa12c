//! The bytes of blocks: what belongs at each place of each peer, put there before the clock starts, and compared.
//! Bytes depend on the peer and the place there, so with a place for every block no two blocks are alike.

use std::time::Duration;

use pipeline_node::{Engine, Options, Region, Request, Segment, Status};

use super::store::Store;
use crate::cli::bench::pattern::{PIECE, fill, wrong};
use crate::cli::draw::mix;
use crate::cli::failures;
use crate::cli::load::layout::Layout;

/// Pieces of a megabyte that are under way together.
const FLEET: u64 = 8;
/// For room in the engine's tables.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the bytes of a run are, and where they lie here.
#[derive(Clone, Copy)]
pub struct Bytes<'a> {
    /// Our memory.
    pub region: &'a Region,
    /// Slots in it.
    pub local: Layout,
    /// Places at the peers.
    pub store: &'a Store,
    /// A run's own, so that what an earlier run left is wrong.
    pub seed: u64,
}

impl Bytes<'_> {
    /// What a peer's bytes begin with.
    fn seed_of(&self, peer: usize) -> u64 {
        mix(self.seed ^ peer as u64)
    }

    /// Local offset, remote offset and length of each piece of a block, a megabyte at most.
    fn pieces(&self, slot: u32, block: u32) -> impl Iterator<Item = (u64, u64, usize)> {
        let (peer, place) = self.store.find(block);
        let remote = self.store.shelves[peer].layout.pieces(place);
        let both = self.local.pieces(u64::from(slot)).zip(remote);
        both.flat_map(|((local, len), (remote, _))| {
            steps(len).map(move |(at, n)| (local + at, remote + at, n))
        })
    }

    /// Puts a block's bytes into a slot.
    ///
    /// # Errors
    /// The region's reason.
    pub fn put(&self, slot: u32, block: u32, scratch: &mut Scratch) -> Result<(), String> {
        let (peer, _) = self.store.find(block);
        for (local, remote, n) in self.pieces(slot, block) {
            fill(&mut scratch.a[..n], self.seed_of(peer), remote);
            self.region.write_shared(local, &scratch.a[..n]).map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    /// How many bytes of a slot are not those of a block.
    ///
    /// # Errors
    /// The region's reason.
    pub fn wrong(&self, slot: u32, block: u32, scratch: &mut Scratch) -> Result<u64, String> {
        let (peer, _) = self.store.find(block);
        let mut count = 0;
        for (local, remote, n) in self.pieces(slot, block) {
            self.region.read_shared(local, &mut scratch.a[..n]).map_err(|e| e.to_string())?;
            count += wrong(&scratch.a[..n], &mut scratch.b, self.seed_of(peer), remote);
        }
        Ok(count)
    }

    /// Zeroes a slot, so that nothing which comes later is right by what was there.
    ///
    /// # Errors
    /// The region's reason.
    pub fn wipe(&self, slot: u32, scratch: &mut Scratch) -> Result<(), String> {
        scratch.a.fill(0);
        for (local, len) in self.local.pieces(u64::from(slot)) {
            for (at, n) in steps(len) {
                self.region.write_shared(local + at, &scratch.a[..n]).map_err(|e| e.to_string())?;
            }
        }
        Ok(())
    }

    /// Zeroes all slots: touches their pages as well.
    ///
    /// # Errors
    /// The region's reason.
    pub fn clear(&self) -> Result<(), String> {
        let zeros = vec![0; PIECE];
        steps(self.local.bytes())
            .try_for_each(|(at, n)| self.region.write_shared(at, &zeros[..n]))
            .map_err(|e| e.to_string())
    }

    /// How many bytes of all slots are not zero.
    ///
    /// # Errors
    /// The region's reason.
    pub fn not_zero(&self) -> Result<u64, String> {
        let mut bytes = vec![0; PIECE];
        let mut count = 0;
        for (at, n) in steps(self.local.bytes()) {
            self.region.read_shared(at, &mut bytes[..n]).map_err(|e| e.to_string())?;
            count += bytes[..n].iter().filter(|b| **b != 0).count() as u64;
        }
        Ok(count)
    }

    /// WRITEs what belongs there to all places of all peers.
    ///
    /// # Errors
    /// A peer's reason.
    pub fn fill_peers(&self, engine: &Engine, segments: &[Segment]) -> Result<(), String> {
        let ferry = Ferry::new(engine)?;
        for (peer, segment) in segments.iter().enumerate() {
            let mut parts = steps(self.store.shelves[peer].layout.bytes());
            let seed = self.seed_of(peer);
            while ferry.carry(&mut parts, |ferry, parts| ferry.put(segment, seed, parts))? {}
        }
        Ok(())
    }

    /// READs those blocks back from their peers and counts wrong bytes.
    ///
    /// # Errors
    /// A peer's reason.
    pub fn wrong_at_peers(
        &self,
        engine: &Engine,
        segments: &[Segment],
        blocks: impl Iterator<Item = u32>,
    ) -> Result<u64, String> {
        let ferry = Ferry::new(engine)?;
        let mut count = 0;
        let mut places: Vec<_> = blocks.map(|block| self.store.find(block)).collect();
        places.sort_unstable();
        places.dedup();
        for (peer, segment) in segments.iter().enumerate() {
            let mine = places.iter().filter(|(p, _)| *p == peer);
            let layout = self.store.shelves[peer].layout;
            let mut parts = mine
                .flat_map(|(_, place)| layout.pieces(*place))
                .flat_map(|(offset, len)| steps(len).map(move |(at, n)| (offset + at, n)));
            let seed = self.seed_of(peer);
            while ferry.carry(&mut parts, |ferry, parts| {
                count += ferry.wrong(segment, seed, parts)?;
                Ok(())
            })? {}
        }
        Ok(count)
    }
}

/// Memory for pieces that are made and compared.
pub struct Scratch {
    a: Vec<u8>,
    b: Vec<u8>,
}

impl Scratch {
    /// Two pieces.
    pub fn new() -> Self {
        Self { a: vec![0; PIECE], b: vec![0; PIECE] }
    }
}

/// Carries pieces to and from peers outside of what is measured.
struct Ferry<'a> {
    engine: &'a Engine,
    region: Region,
}

/// Offset in a segment and length.
type Part = (u64, usize);

impl<'a> Ferry<'a> {
    fn new(engine: &'a Engine) -> Result<Self, String> {
        let region = engine.allocate(FLEET * PIECE as u64).map_err(|e| e.to_string())?;
        Ok(Self { engine, region })
    }

    /// Takes the next parts; `false` when there were none.
    fn carry(
        &self,
        parts: &mut impl Iterator<Item = Part>,
        mut with: impl FnMut(&Self, &[Part]) -> Result<(), String>,
    ) -> Result<bool, String> {
        let load: Vec<_> = parts.take(FLEET as usize).collect();
        if load.is_empty() {
            return Ok(false);
        }
        with(self, &load).map(|()| true)
    }

    fn put(&self, segment: &Segment, seed: u64, parts: &[Part]) -> Result<(), String> {
        let mut bytes = vec![0; PIECE];
        let mut requests = Vec::with_capacity(parts.len());
        for ((offset, n), at) in parts.iter().zip((0..).step_by(PIECE)) {
            fill(&mut bytes[..*n], seed, *offset);
            self.region.write(at, &bytes[..*n]).map_err(|e| e.to_string())?;
            requests.push(Request::write(&self.region, at, segment.at(*offset), *n as u64));
        }
        self.run(&requests)
    }

    fn wrong(&self, segment: &Segment, seed: u64, parts: &[Part]) -> Result<u64, String> {
        let places = parts.iter().zip((0..).step_by(PIECE));
        let requests: Vec<_> = places
            .clone()
            .map(|((offset, n), at)| Request::read(&self.region, at, segment.at(*offset), *n as u64))
            .collect();
        self.run(&requests)?;
        let mut scratch = Scratch::new();
        let mut count = 0;
        for ((offset, n), at) in places {
            self.region.read(at, &mut scratch.a[..*n]).map_err(|e| e.to_string())?;
            count += wrong(&scratch.a[..*n], &mut scratch.b, seed, *offset);
        }
        Ok(count)
    }

    fn run(&self, requests: &[Request]) -> Result<(), String> {
        let batch = self.engine.submit_wait(requests, Options::default(), PATIENCE);
        let batch = batch.map_err(|e| e.to_string())?;
        // Its deadline ends it, so this ends.
        while batch.wait(Duration::from_secs(60)).is_err() {}
        let failed = batch.results().find_map(|status| match status {
            Status::Failed(failure) => Some(failures::request(&failure)),
            _ => None,
        });
        failed.map_or(Ok(()), Err)
    }
}

/// A range from 0 in steps of a megabyte.
fn steps(len: u64) -> impl Iterator<Item = Part> {
    (0..len).step_by(PIECE).map(move |at| (at, (len - at).min(PIECE as u64) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bench::trace::store::Shares;

    const KEEPER: &str = "version = 1\nuse = \"tcp\"\n\
        segments.kv = { kind = \"dram\", size = \"64KiB\", access = \"read_write\" }\n";

    /// A byte that is wrong here, one that is there though none was to come, and one that is wrong at a peer are each
    /// found and counted; whatever is right is not.
    #[test]
    fn one_wrong_byte_is_found() {
        let keepers = [Engine::from_toml(KEEPER).unwrap(), Engine::from_toml(KEEPER).unwrap()];
        let engine = Engine::from_toml("version = 1\nuse = \"tcp\"\n").unwrap();
        let segments: Vec<_> = keepers
            .iter()
            .map(|k| engine.open(&k.local_address().to_string()).unwrap().segment("kv").unwrap())
            .collect();
        let ids: Vec<u64> = (0..8).collect();
        let store = Store::new(Shares::new(&ids, 2), 3000, 3, &[64 << 10; 2]).unwrap();
        let local = Layout::new(3000, 3, 4, 1 << 20).unwrap();
        let region = engine.allocate(local.bytes()).unwrap();
        let bytes = Bytes { region: &region, local, store: &store, seed: 9 };
        let mut scratch = Scratch::new();
        bytes.clear().unwrap();
        bytes.put(2, 5, &mut scratch).unwrap();
        assert_eq!(bytes.wrong(2, 5, &mut scratch), Ok(0));
        assert!(bytes.wrong(2, 4, &mut scratch).unwrap() > 2900, "another block is no block");
        let (at, _) = local.pieces(2).nth(1).unwrap();
        let mut byte = [0];
        region.read(at + 7, &mut byte).unwrap();
        region.write(at + 7, &[!byte[0]]).unwrap();
        assert_eq!(bytes.wrong(2, 5, &mut scratch), Ok(1));
        bytes.wipe(2, &mut scratch).unwrap();
        assert_eq!(bytes.not_zero(), Ok(0));
        region.write(at, &[1]).unwrap();
        assert_eq!(bytes.not_zero(), Ok(1));

        bytes.fill_peers(&engine, &segments).unwrap();
        assert_eq!(bytes.wrong_at_peers(&engine, &segments, 0..8), Ok(0));
        let (peer, place) = store.find(6);
        let (offset, _) = store.shelves[peer].layout.pieces(place).next().unwrap();
        region.write(0, &[0]).unwrap();
        let spoil = Request::write(&region, 0, segments[peer].at(offset), 1);
        Ferry { engine: &engine, region: engine.allocate(1).unwrap() }.run(&[spoil]).unwrap();
        assert!(bytes.wrong_at_peers(&engine, &segments, 0..8).unwrap() <= 1);
        assert_eq!(bytes.wrong_at_peers(&engine, &segments, [6].into_iter()), Ok(1));
        assert_eq!(bytes.wrong_at_peers(&engine, &segments, [5].into_iter()), Ok(0));
    }
}
