//! What a node tells its peers about a region, so that their NICs reach it: the bytes of `Registered::keys`.
//!
//! ```text
//! 1 version   1 access (bit 0 READ, bit 1 WRITE)   2 NICs   2 pieces   8 skew   8 piece   8 stride   NICs x pieces x 4 rkey
//! ```
//! All little-endian; keys of the first NIC come first. Deliberately without address and without the region's length: the
//! one is nobody's business, the other comes with the region.

use super::pieces::Pieces;
use crate::control::WireError;
use crate::control::fields::{Fields, Put};
use crate::memory::Access;
use crate::transport::KEYS_MAX;
use crate::wr::Op;

const VERSION: u8 = 1;
const WHAT: &str = "rdma keys of a region";
const HEAD_BYTES: usize = 30;

/// Most keys of a region: its pieces times the NICs.
pub(super) const KEYS: usize = (KEYS_MAX - HEAD_BYTES) / 4;

/// A region of a peer, or of this node as peers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RegionKeys {
    /// What the registrations allow.
    pub(super) access: Access,
    /// How it is laid over registrations.
    pub(super) pieces: Pieces,
    /// One of each piece, for each NIC of the region's node in turn.
    pub(super) rkeys: Box<[u32]>,
}

impl RegionKeys {
    /// To bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES + 4 * self.rkeys.len());
        let bit = |op, bit| if self.access.allows(op) { bit } else { 0 };
        out.put_u8(VERSION);
        out.put_u8(bit(Op::Read, 1) | bit(Op::Write, 2));
        out.put_u16((self.rkeys.len() / usize::from(self.pieces.count())) as u16);
        out.put_u16(self.pieces.count());
        let (skew, piece, stride) = self.pieces.numbers();
        [skew, piece, stride].into_iter().for_each(|n| out.put_u64(n));
        self.rkeys.iter().for_each(|key| out.put_u32(*key));
        out
    }

    /// From bytes of a peer, for a region of `len` bytes.
    ///
    /// # Errors
    /// Whatever is not exactly that.
    pub(super) fn decode(bytes: &[u8], len: u64) -> Result<Self, WireError> {
        let mut f = Fields::new(bytes, WHAT);
        if f.u8()? != VERSION {
            return Err(WireError::Malformed(WHAT));
        }
        let access = match f.u8()? {
            0 => Access::Local,
            1 => Access::Read,
            2 => Access::Write,
            3 => Access::ReadWrite,
            _ => return Err(WireError::Malformed(WHAT)),
        };
        let (nics, count) = (f.u16()?, f.u16()?);
        let (skew, piece, stride) = (f.u64()?, f.u64()?, f.u64()?);
        let pieces = Pieces::checked(len, skew, piece, stride, count).ok_or(WireError::Malformed(WHAT))?;
        let keys = usize::from(nics) * usize::from(count);
        if nics == 0 || keys > KEYS {
            return Err(WireError::Malformed(WHAT));
        }
        let rkeys = (0..keys).map(|_| f.u32()).collect::<Result<_, _>>()?;
        f.end()?;
        Ok(Self { access, pieces, rkeys })
    }

    /// The key of a piece for a NIC.
    #[inline]
    pub(super) fn rkey(&self, nic: u16, piece: u16) -> Option<u32> {
        self.rkeys.get(usize::from(nic) * usize::from(self.pieces.count()) + usize::from(piece)).copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::pieces::Lengths;
    use super::super::settings::Addresses;
    use super::*;

    /// Keys of two NICs for a region of three pieces.
    fn keys() -> RegionKeys {
        let pieces =
            Pieces::plan(0x1234_5000, 40_000, Lengths::new(16_384, 4096), Addresses::Hidden).unwrap();
        assert_eq!(pieces.count(), 3);
        RegionKeys { access: Access::Read, pieces, rkeys: (0..6).collect() }
    }

    /// What is encoded is decoded, and found by NIC and piece; every cut short of the end, a byte too many, another
    /// version and a region of another length are refused.
    #[test]
    fn round_trip() {
        let keys = keys();
        let bytes = keys.encode();
        assert_eq!(RegionKeys::decode(&bytes, 40_000).unwrap(), keys);
        assert_eq!((keys.rkey(0, 2), keys.rkey(1, 0), keys.rkey(2, 0)), (Some(2), Some(3), None));
        for cut in 0..bytes.len() {
            assert!(RegionKeys::decode(&bytes[..cut], 40_000).is_err());
        }
        assert!(RegionKeys::decode(&[&bytes[..], &[0]].concat(), 40_000).is_err());
        let mut other = bytes.clone();
        other[0] = 2;
        assert!(RegionKeys::decode(&other, 40_000).is_err());
        assert!(RegionKeys::decode(&bytes, 80_000).is_err(), "pieces that end before the region");
        assert!(RegionKeys::decode(&bytes, 100).is_err(), "pieces longer than the region");
    }

    /// As many keys as may be fit into what a page carries for a region.
    #[test]
    fn the_most_keys_fit() {
        let pieces = Pieces::plan(0, 4096, Lengths::new(1 << 20, 4096), Addresses::Hidden).unwrap();
        let keys = RegionKeys { access: Access::ReadWrite, pieces, rkeys: vec![7; KEYS].into() };
        assert!(keys.encode().len() <= KEYS_MAX);
        assert_eq!(RegionKeys::decode(&keys.encode(), 4096).unwrap(), keys);
    }

    proptest! {
        /// Any bytes are decoded to what encodes to them, or refused.
        #[test]
        fn any_bytes(mut bytes in prop::collection::vec(any::<u8>(), 0..80), flips in prop::collection::vec((0usize..60, any::<u8>()), 0..4), len in 0u64..1 << 20) {
            for input in [std::mem::take(&mut bytes), flipped(&flips)] {
                if let Ok(keys) = RegionKeys::decode(&input, len) {
                    prop_assert_eq!(keys.encode(), input);
                }
            }
        }
    }

    fn flipped(flips: &[(usize, u8)]) -> Vec<u8> {
        let mut bytes = keys().encode();
        for (at, to) in flips {
            let at = at % bytes.len();
            bytes[at] = *to;
        }
        bytes
    }
}
