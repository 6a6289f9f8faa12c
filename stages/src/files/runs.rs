//! Which bytes of a file have come, with the checksum of each run; neighbours are merged. Bounded: whoever leaves
//! too many gaps is told to send more in order.

use std::collections::BTreeMap;

/// Runs of bytes that may wait for a gap before them to be filled.
const RUNS: usize = 4096;
/// What is wrong with bytes of which some have come.
pub(super) const TWICE: &str = "bytes came twice";

/// See the module.
#[derive(Default)]
pub(super) struct Runs(BTreeMap<u64, (u64, u32)>);

impl Runs {
    /// Bytes came, with their CRC32C.
    pub(super) fn add(&mut self, mut at: u64, mut len: u64, mut crc: u32) -> Result<(), &'static str> {
        if len == 0 {
            return Ok(());
        }
        if self.touch(at, len) {
            return Err(TWICE);
        }
        let before = self.0.range(..=at).next_back().map(|(&s, &(l, c))| (s, l, c));
        let after = self.0.range(at..).next().map(|(&s, &(l, c))| (s, l, c));
        if let Some((s, l, c)) = after.filter(|(s, ..)| *s == at + len) {
            self.0.remove(&s);
            crc = crc32c::crc32c_combine(crc, c, l as usize);
            len += l;
        }
        if let Some((s, l, c)) = before.filter(|(s, l, _)| s + l == at) {
            crc = crc32c::crc32c_combine(c, crc, len as usize);
            (at, len) = (s, l + len);
        }
        if self.0.len() >= RUNS && !self.0.contains_key(&at) {
            return Err("its bytes come in too many pieces; send them more in order");
        }
        self.0.insert(at, (len, crc));
        Ok(())
    }

    /// Whether some of these bytes have come.
    pub(super) fn touch(&self, at: u64, len: u64) -> bool {
        let before = self.0.range(..=at).next_back().is_some_and(|(start, (have, _))| start + have > at);
        before || self.0.range(at..).next().is_some_and(|(start, _)| at.saturating_add(len) > *start)
    }

    /// Whether all of these bytes have come.
    pub(super) fn cover(&self, at: u64, len: u64) -> bool {
        let run = self.0.range(..=at).next_back();
        at.checked_add(len).is_some_and(|end| run.is_some_and(|(start, (have, _))| start + have >= end))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The checksum, if exactly the bytes up to `len` have come.
    pub(super) fn whole(&self, len: u64) -> Option<u32> {
        match (len, self.0.first_key_value()) {
            (0, None) => Some(0),
            (_, Some((0, &(have, crc)))) if have == len => Some(crc),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        /// In whatever order pieces come, the checksum is that of the whole, and only when all have come.
        #[test]
        fn runs_sum_up(order in proptest::sample::subsequence((0..20usize).collect::<Vec<_>>(), 20), seed: u64) {
            let bytes: Vec<u8> = (0..1000u64).map(|i| (i.wrapping_mul(seed | 1) >> 7) as u8).collect();
            let mut order = order;
            for i in (1..order.len()).rev() {
                order.swap(i, (seed.rotate_left(i as u32) % (i as u64 + 1)) as usize);
            }
            let mut runs = Runs::default();
            for (done, i) in order.iter().enumerate() {
                proptest::prop_assert!(runs.whole(1000).is_none(), "whole after {done} pieces");
                proptest::prop_assert!(!runs.cover(*i as u64 * 50 + 10, 30), "not yet");
                let piece = &bytes[i * 50..(i + 1) * 50];
                runs.add(*i as u64 * 50, 50, crc32c::crc32c(piece)).unwrap();
                proptest::prop_assert!(runs.add(*i as u64 * 50 + 49, 2, 0).is_err());
            }
            proptest::prop_assert_eq!(runs.whole(1000), Some(crc32c::crc32c(&bytes)));
            proptest::prop_assert!(runs.cover(0, 1000) && !runs.cover(1, 1000) && !runs.cover(1, u64::MAX));
            proptest::prop_assert_eq!(runs.whole(999), None);
        }
    }
}
