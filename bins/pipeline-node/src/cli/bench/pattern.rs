//! Bytes to send and to verify: different at every place and for every size, so that stale, shifted and missing
//! bytes all show. Deliberately cheap, not random.

/// Bytes that are made or compared at once.
pub const PIECE: usize = 1 << 20;

/// Fills `bytes` with what belongs at `offset` of the run `seed`.
pub fn fill(bytes: &mut [u8], seed: u64, offset: u64) {
    let lead = bytes.len().min(offset.next_multiple_of(8).wrapping_sub(offset) as usize);
    let (head, body) = bytes.split_at_mut(lead);
    let first = word(seed, offset / 8).to_le_bytes();
    let skip = (offset % 8) as usize;
    head.copy_from_slice(&first[skip..][..lead]);
    for (chunk, index) in body.chunks_mut(8).zip((offset + lead as u64) / 8..) {
        chunk.copy_from_slice(&word(seed, index).to_le_bytes()[..chunk.len()]);
    }
}

/// How many of `bytes` are not what belongs at `offset` of the run `seed`; `scratch` is overwritten.
pub fn wrong(bytes: &[u8], scratch: &mut [u8], seed: u64, offset: u64) -> u64 {
    let expected = &mut scratch[..bytes.len()];
    fill(expected, seed, offset);
    if bytes == expected {
        return 0;
    }
    bytes.iter().zip(expected).filter(|(a, b)| a != b).count() as u64
}

/// The mixer of splitmix64: one multiplication away from a different word.
fn word(seed: u64, index: u64) -> u64 {
    let mut x = seed.wrapping_add(index.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x ^ (x >> 27)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(bytes: &[u8], seed: u64, offset: u64) -> u64 {
        wrong(bytes, &mut vec![0; bytes.len()], seed, offset)
    }

    /// What was filled in pieces of any size verifies as a whole, and one flipped byte is one wrong byte.
    #[test]
    fn pieces_fit_together() {
        for cut in [0, 1, 7, 8, 333, 1000] {
            let mut bytes = vec![0; 1000];
            let (a, b) = bytes.split_at_mut(cut);
            fill(a, 7, 5);
            fill(b, 7, 5 + cut as u64);
            assert_eq!(count(&bytes, 7, 5), 0, "cut at {cut}");
            bytes[500] ^= 1;
            assert_eq!(count(&bytes, 7, 5), 1);
        }
    }

    /// Bytes of another run, another place, or none at all are nearly all wrong.
    #[test]
    fn stale_bytes_show() {
        let mut bytes = vec![0; 8000];
        assert!(count(&bytes, 1, 0) > 7900);
        fill(&mut bytes, 1, 0);
        assert!(count(&bytes, 2, 0) > 7900 && count(&bytes, 1, 8) > 7900);
    }
}
