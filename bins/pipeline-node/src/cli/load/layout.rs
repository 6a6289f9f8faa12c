//! Where the requests of a size lie in the two regions: the same offsets on both sides.
//! Pieces and requests follow each other from the end to the start, so that none goes on where the last one ended:
//! nothing can coalesce them, and what is measured are requests of that size.

/// Pieces begin at multiples of this, so that a size is what it says and not a matter of alignment.
const ALIGN: u64 = 64;

/// The places of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    size: u64,
    iov: u64,
    stride: u64,
    /// Requests that have a place of their own.
    pub slots: u64,
}

impl Layout {
    /// Places for `in_flight` requests of `size` bytes in `iov` pieces each, as far as `memory` bytes hold
    /// them; beyond that places are shared. One request always has a place.
    ///
    /// # Errors
    /// When a request cannot be cut into so many pieces, or its places cannot be counted in 64 bits.
    pub fn new(size: u64, iov: u64, in_flight: u64, memory: u64) -> Result<Self, String> {
        if size < iov {
            return Err(format!("{size} bytes cannot be cut into {iov} pieces; lower --iov or raise --size"));
        }
        let longest = size - size / iov * (iov - 1);
        let stride = longest.checked_next_multiple_of(ALIGN);
        let each = stride.and_then(|s| s.checked_mul(iov)).ok_or("the size is beyond 64 bits")?;
        let stride = each / iov;
        Ok(Self { size, iov, stride, slots: (memory / each).clamp(1, in_flight.max(1)) })
    }

    /// Bytes of the region it needs on each side.
    pub fn bytes(&self) -> u64 {
        self.stride * self.iov * self.slots
    }

    /// Bytes of a request.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Offset and length of each piece of the request in `slot`.
    pub fn pieces(self, slot: u64) -> impl Iterator<Item = (u64, u64)> {
        let short = self.size / self.iov;
        (0..self.iov).map(move |i| {
            let len = if i + 1 == self.iov { self.size - short * i } else { short };
            let place = (self.iov - 1 - i) * self.slots + (self.slots - 1 - slot % self.slots);
            (place * self.stride, len)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces of all requests never overlap, stay inside, and add up to the size, also beyond 32 bits.
    #[test]
    fn places_do_not_overlap() {
        for (size, iov, in_flight) in
            [(4096, 1, 8), (4097, 4, 5), (1, 1, 3), (255, 255, 2), (4_294_967_297, 3, 2)]
        {
            let layout = Layout::new(size, iov, in_flight, u64::MAX / 4).unwrap();
            assert_eq!(layout.slots, in_flight);
            let mut spans: Vec<_> = (0..in_flight).flat_map(|s| layout.pieces(s)).collect();
            assert_eq!(spans.iter().map(|s| s.1).sum::<u64>(), size * in_flight);
            let goes_on = |w: &[(u64, u64)]| w[1].0 == w[0].0 + w[0].1;
            assert!(!spans.windows(2).any(goes_on), "{layout:?} can be coalesced");
            spans.sort_unstable();
            assert!(spans.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0), "{layout:?}");
            assert!(spans.last().is_some_and(|s| s.0 + s.1 <= layout.bytes()));
        }
    }

    /// Memory bounds the places, but one request always has one; impossible requests are refused.
    #[test]
    fn memory_is_a_bound() {
        assert_eq!(Layout::new(1 << 20, 1, 64, 8 << 20).unwrap().slots, 8);
        assert_eq!(Layout::new(1 << 20, 1, 64, 1).unwrap().slots, 1);
        assert!(Layout::new(3, 4, 1, 100).is_err());
        assert!(Layout::new(u64::MAX, 1, 1, 100).is_err());
    }
}
