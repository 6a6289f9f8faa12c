//! What is told of a region to [`crate::Transport::learn`]: its address at the other node, and the key of each of that node's
//! NICs, all little-endian. Within this process only: the wire has a descriptor.

use crate::transport::KEYS_MAX;

/// Most NICs of a node.
pub(super) const NICS_MAX: usize = (KEYS_MAX - 8) / 4;

/// To bytes.
pub(super) fn encode(address: u64, rkeys: &[u32]) -> Vec<u8> {
    let keys = rkeys.iter().flat_map(|key| key.to_le_bytes());
    address.to_le_bytes().into_iter().chain(keys).collect()
}

/// From bytes; `None` for what [`encode`] does not write.
pub(super) fn decode(bytes: &[u8]) -> Option<(u64, Box<[u32]>)> {
    let (address, keys) = bytes.split_first_chunk::<8>()?;
    let (keys, rest) = keys.as_chunks::<4>();
    let keys: Box<[u32]> = keys.iter().map(|key| u32::from_le_bytes(*key)).collect();
    (rest.is_empty() && !keys.is_empty()).then(|| (u64::from_le_bytes(*address), keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told is understood, and nothing else; as many NICs as may be fit.
    #[test]
    fn round_trip() {
        let bytes = encode(0x7f12_3456_7890, &[1, u32::MAX]);
        assert_eq!(decode(&bytes), Some((0x7f12_3456_7890, [1, u32::MAX].into())));
        for cut in (0..bytes.len()).filter(|cut| *cut != 12) {
            assert_eq!(decode(&bytes[..cut]), None, "{cut}");
        }
        assert!(encode(0, &[0; NICS_MAX]).len() <= KEYS_MAX);
    }
}
