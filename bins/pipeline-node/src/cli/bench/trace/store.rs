//! Where the blocks of a trace are kept: on which peer, and where in its segment.
//! A peer is chosen by the hash of a block's id, so it is the same in every run with as many peers. Places are given
//! out in the order of the trace, and used again from the first when the segment is smaller (*folded*).

use crate::cli::draw::mix;
use crate::cli::exit::Failure;
use crate::cli::load::layout::Layout;

/// The blocks of one peer.
pub struct Shelf {
    /// Different blocks it keeps.
    pub blocks: u64,
    /// Where they lie in its segment.
    pub layout: Layout,
}

impl Shelf {
    /// Whether different blocks share places.
    pub fn is_folded(&self) -> bool {
        self.blocks > self.layout.slots
    }
}

/// The shelves of all peers, and each block's place.
pub struct Store {
    /// By peer.
    pub shelves: Vec<Shelf>,
    /// By block: peer, and its number among the blocks of that peer.
    places: Vec<(u32, u32)>,
}

/// Which blocks go to which of so many peers.
pub struct Shares {
    places: Vec<(u32, u32)>,
    /// By peer: how many blocks it keeps.
    pub blocks: Vec<u64>,
}

impl Shares {
    /// For blocks with these ids in the file.
    pub fn new(ids: &[u64], peers: usize) -> Self {
        let mut blocks = vec![0; peers];
        let places = ids.iter().map(|id| {
            let peer = (mix(*id) % peers as u64) as usize;
            blocks[peer] += 1;
            (peer as u32, blocks[peer] as u32 - 1)
        });
        Self { places: places.collect(), blocks }
    }
}

impl Store {
    /// With `memory[peer]` bytes at each peer, for blocks of `bytes` bytes in `pieces` pieces.
    ///
    /// # Errors
    /// Exit 1 when a segment has no room for one block, 2 when a block cannot be cut so.
    pub fn new(shares: Shares, bytes: u64, pieces: u64, memory: &[u64]) -> Result<Self, Failure> {
        let shelf = |(&blocks, &memory): (&u64, &u64)| {
            let layout = Layout::new(bytes, pieces, blocks, memory).map_err(Failure::usage)?;
            if layout.bytes() > memory {
                return Err(Failure::failed(format!(
                    "a segment of {memory} bytes has no room for a block of {bytes}; enlarge it, or --memory"
                )));
            }
            Ok(Shelf { blocks, layout })
        };
        let shelves = shares.blocks.iter().zip(memory).map(shelf).collect::<Result<_, _>>()?;
        Ok(Self { shelves, places: shares.places })
    }

    /// A block's peer, and its place there.
    pub fn find(&self, block: u32) -> (usize, u64) {
        let (peer, number) = self.places[block as usize];
        let peer = peer as usize;
        (peer, u64::from(number) % self.shelves[peer].layout.slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block's peer depends on its id alone, all peers get about as many, and places are shared only when there is
    /// no room for all.
    #[test]
    fn places() {
        let ids: Vec<u64> = (0..9000).collect();
        let store = |ids: &[u64], memory| Store::new(Shares::new(ids, 3), 64, 1, &[memory; 3]).unwrap();
        let roomy = store(&ids, 1 << 20);
        assert!(roomy.shelves.iter().all(|s| (2700..3300).contains(&s.blocks)));
        let mut places: Vec<_> = (0..9000).map(|b| roomy.find(b)).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!((places.len(), roomy.shelves[0].is_folded()), (9000, false));
        let backwards = store(&ids.iter().rev().copied().collect::<Vec<_>>(), 1 << 20);
        assert!((0..9000).all(|b| backwards.find(b).0 == roomy.find(8999 - b).0));
        let tight = store(&ids, 64 * 100);
        assert!(tight.shelves[0].is_folded() && (0..9000).all(|b| tight.find(b).1 < 100));
        assert!(Store::new(Shares::new(&ids, 1), 1 << 20, 1, &[1000]).is_err());
    }
}
