//! A file whose chunks are moved by several workers: how many are left, the checksum of the whole from those
//! of its chunks, and the first thing that went wrong. Deliberately bounded: only chunks that overtook others are
//! kept, and there are never more of them than workers.

use std::collections::BTreeMap;

/// Counts of one file. Behind a lock, held for a few instructions a chunk.
#[derive(Debug)]
pub struct Assembly {
    left: u64,
    crc: u32,
    summed_to: u64,
    overtook: BTreeMap<u64, (u32, u64)>,
    trouble: Option<String>,
}

/// What a file came to, once its last chunk has ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// All chunks moved; CRC32C of the whole file.
    Whole(u32),
    /// The first reason.
    Failed(String),
}

impl Assembly {
    /// Of so many chunks, at least one.
    pub fn new(chunks: u64) -> Self {
        Self { left: chunks, crc: 0, summed_to: 0, overtook: BTreeMap::new(), trouble: None }
    }

    /// Whether a chunk has failed: the rest need not be moved.
    pub fn is_spoilt(&self) -> bool {
        self.trouble.is_some()
    }

    /// A chunk was moved: `crc` over its `len` bytes at `offset`.
    pub fn moved(&mut self, offset: u64, len: u64, crc: u32) -> Option<Ended> {
        self.overtook.insert(offset, (crc, len));
        while let Some((crc, len)) = self.overtook.remove(&self.summed_to) {
            self.crc = crc32c::crc32c_combine(self.crc, crc, len as usize);
            self.summed_to += len;
        }
        self.ended()
    }

    /// A chunk could not be moved, or was not tried because another one failed.
    pub fn failed(&mut self, reason: String) -> Option<Ended> {
        self.trouble.get_or_insert(reason);
        self.overtook.clear();
        self.ended()
    }

    fn ended(&mut self) -> Option<Ended> {
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            return None;
        }
        Some(match self.trouble.take() {
            Some(reason) => Ended::Failed(reason),
            None => Ended::Whole(self.crc),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the order in which chunks end, the checksum is that of the whole file.
    #[test]
    fn order_does_not_matter() {
        let bytes: Vec<u8> = (0..1000_u32).map(|i| (i * 7) as u8).collect();
        let chunks: Vec<(u64, &[u8])> =
            bytes.chunks(300).enumerate().map(|(i, c)| (300 * i as u64, c)).collect();
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
            let mut assembly = Assembly::new(4);
            let ends: Vec<_> = order
                .iter()
                .map(|&i| (chunks[i].0, chunks[i].1))
                .filter_map(|(at, c)| assembly.moved(at, c.len() as u64, crc32c::crc32c(c)))
                .collect();
            assert_eq!(ends, [Ended::Whole(crc32c::crc32c(&bytes))]);
        }
    }

    /// One failed chunk fails the file, once, after its last chunk, with the first reason.
    #[test]
    fn first_trouble_is_told() {
        let mut assembly = Assembly::new(3);
        assert_eq!(assembly.moved(0, 1, 0), None);
        assert_eq!(assembly.failed("disk full".into()), None);
        assert!(assembly.is_spoilt());
        assert_eq!(assembly.failed("not tried".into()), Some(Ended::Failed("disk full".into())));
    }
}
