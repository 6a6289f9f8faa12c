//! The item of the transfer graph: 8 bytes that name a slice slot, or a request's cover slice.
//! Deliberately no pointer: a stale key finds a newer generation and is counted, never followed.

use pipeline_graph::Item;

/// Index (31 bits), whether it is a cover slice (1 bit), and generation (32 bits).
///
/// A request enters the graph as its *cover slice*, which lives in the request's own slot and costs no slice
/// slot; `request_split` cuts it into slices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(u64);

impl Item for Key {}

const COVER: u32 = 1 << 31;

impl Key {
    /// The key of slice slot `index`.
    #[inline]
    pub fn slice(index: u32, generation: u32) -> Self {
        debug_assert!(index < COVER);
        Self(u64::from(generation) << 32 | u64::from(index))
    }

    /// The key of the cover slice in request slot `index`.
    #[inline]
    pub fn cover(index: u32, generation: u32) -> Self {
        debug_assert!(index < COVER);
        Self(u64::from(generation) << 32 | u64::from(index | COVER))
    }

    /// From the number a work request carried.
    #[inline]
    pub fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// As a number, for a work request.
    #[inline]
    pub fn raw(self) -> u64 {
        self.0
    }

    /// Whether it names a cover slice.
    #[inline]
    pub fn is_cover(self) -> bool {
        self.0 as u32 & COVER != 0
    }

    /// Index of the slot.
    #[inline]
    pub fn index(self) -> usize {
        (self.0 as u32 & !COVER) as usize
    }

    /// Generation of the slot.
    #[inline]
    pub fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The key of the same slot in its next generation.
    #[inline]
    pub(crate) fn next(self) -> Self {
        Self(self.0.wrapping_add(1 << 32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key keeps index, kind and generation apart up to their largest values.
    #[test]
    fn parts_do_not_mix() {
        let slice = Key::slice(0x7fff_ffff, 0xffff_ffff);
        let cover = Key::cover(5, 9);
        assert!(!slice.is_cover() && cover.is_cover());
        assert_eq!((slice.index(), slice.generation()), (0x7fff_ffff, 0xffff_ffff));
        assert_eq!((cover.index(), cover.generation()), (5, 9));
        assert_eq!(Key::from_raw(cover.raw()), cover);
        assert_eq!((slice.next(), cover.next()), (Key::slice(0x7fff_ffff, 0), Key::cover(5, 10)));
    }
}
