//! How a region is laid over memory registrations: one where the device takes it whole, else several that overlap.
//!
//! A device has a longest registration. A region beyond it is registered in pieces of that length, each of which begins a
//! *stride* after the one before. They overlap by the longest work request, so that every work request lies whole within
//! the piece that its offset names: none is ever cut, and no region is shortened.
//!
//! Addresses on the wire are none: registrations begin at the *skew*, the region's place within its large page, so that
//! an address is skew + offset whatever the piece. A peer learns how the pages of a region lie, which is what a NIC must
//! know to translate with large pages, and nothing of where. Only peers of another engine are told addresses, where its
//! protocol knows nothing else ([`Addresses::Real`]). Deliberately pure arithmetic.

use super::settings::Addresses;

/// Registrations begin and end at multiples of it.
pub(super) const PAGE: u64 = 4096;

/// A NIC may translate with pages as large as this one, if address and registration agree below it.
const LARGE_PAGE: u64 = 2 << 20;

/// Most pieces of a region.
pub(super) const PIECES_MAX: u64 = 240;

/// How a region is laid over registrations. Every value obeys [`Pieces::checked`], but for where it begins when addresses are
/// real.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pieces {
    /// Bytes of the region.
    len: u64,
    /// What NICs call its first byte: where it lies within its large page (the skew), or its address.
    first: u64,
    /// Bytes of a piece; the last is shorter as a rule.
    piece: u64,
    /// From the beginning of a piece to that of the next.
    stride: u64,
    /// How many there are, at least 1.
    count: u16,
}

/// What a device and the file allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lengths {
    /// The longest registration, a multiple of [`PAGE`].
    pub(super) piece: u64,
    /// The longest work request: at most half of it.
    pub(super) overlap: u64,
}

impl Lengths {
    /// From the device's longest registration and message, and what the file says of both.
    pub(super) fn new(longest_registration: u64, longest_request: u64) -> Self {
        let piece = (longest_registration & !(PAGE - 1)).max(2 * PAGE);
        Self { piece, overlap: longest_request.clamp(1, piece / 2) }
    }
}

impl Pieces {
    /// For a region of `len` bytes at `base`. `None` if it takes more than [`PIECES_MAX`].
    pub(super) fn plan(base: u64, len: u64, lengths: Lengths, addresses: Addresses) -> Option<Self> {
        let first = match addresses {
            Addresses::Hidden => base % LARGE_PAGE,
            Addresses::Real => base,
        };
        let Lengths { piece, overlap } = lengths;
        if len <= piece {
            return Some(Self { len, first, piece: len, stride: len, count: 1 });
        }
        // Rounded so that all pieces lie within their pages as the region does.
        let stride = (piece - overlap) & !(PAGE - 1);
        let count = (len - piece).div_ceil(stride) + 1;
        let count = u16::try_from(count).ok().filter(|count| u64::from(*count) <= PIECES_MAX)?;
        Some(Self { len, first, piece, stride, count })
    }

    /// A region of a peer of another engine: one registration, which begins at the region's address. `None` for one of no
    /// bytes, or that passes the end of addresses.
    pub(crate) fn at_address(address: u64, len: u64) -> Option<Self> {
        address.checked_add(len).filter(|_| len > 0)?;
        Some(Self { len, first: address, piece: len, stride: len, count: 1 })
    }

    /// From numbers of a peer; `None` for those that no plan gives.
    pub(super) fn checked(len: u64, skew: u64, piece: u64, stride: u64, count: u16) -> Option<Self> {
        let last = stride.checked_mul(u64::from(count).checked_sub(1)?)?;
        let reach = last.checked_add(piece)?;
        let fits = (1..=len).contains(&piece)
            && (1..=piece).contains(&stride)
            && last < len
            && reach >= len
            && skew < LARGE_PAGE
            && len.checked_add(LARGE_PAGE).is_some()
            && u64::from(count) <= PIECES_MAX;
        fits.then_some(Self { len, first: skew, piece, stride, count })
    }

    /// Offset and length of a piece.
    pub(super) fn span(&self, at: u16) -> (u64, u64) {
        let from = self.stride * u64::from(at);
        (from, self.piece.min(self.len - from))
    }

    /// The piece that holds all of a range; `None` past the end of the region, or for a range longer than pieces overlap
    /// that crosses one's end.
    #[inline]
    pub(super) fn holder(&self, offset: u64, len: u64) -> Option<u16> {
        let end = offset.checked_add(len).filter(|end| *end <= self.len)?;
        if self.count == 1 {
            return Some(0);
        }
        let at = (offset / self.stride).min(u64::from(self.count - 1));
        (end <= at * self.stride + self.piece || end == self.len).then_some(at as u16)
    }

    /// The address of an offset, in the words of any piece's key.
    #[inline]
    pub(super) fn address(&self, offset: u64) -> u64 {
        self.first + offset
    }

    /// How many pieces there are.
    pub(super) fn count(&self) -> u16 {
        self.count
    }

    /// Its numbers, for the wire: skew, piece, stride.
    pub(super) fn numbers(&self) -> (u64, u64, u64) {
        (self.first, self.piece, self.stride)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a device takes whole is one piece, at the place that it has in its large page.
    #[test]
    fn whole() {
        let lengths = Lengths::new(u64::MAX, 1 << 30);
        let pieces = Pieces::plan(0x7f12_3416_7890, 1 << 40, lengths, Addresses::Hidden).unwrap();
        assert_eq!((pieces.count(), pieces.span(0)), (1, (0, 1 << 40)));
        assert_eq!(pieces.address(5), 0x16_7890 + 5, "what lies below 2 MiB of the address");
        assert_eq!(pieces.holder((1 << 40) - 1, 1), Some(0));
        assert_eq!(pieces.holder((1 << 40) - 1, 2), None);
        assert_eq!(pieces.holder(u64::MAX, 2), None);
    }

    /// Where addresses are real, a byte is called by its own, in every piece; all else is as where they are hidden. What another
    /// engine tells of its own region is one piece so, unless it passes the end of addresses.
    #[test]
    fn real_addresses() {
        let (base, lengths) = (0x7f12_3416_7000, Lengths::new(16_384, 4096));
        let hidden = Pieces::plan(base, 40_000, lengths, Addresses::Hidden).unwrap();
        let real = Pieces::plan(base, 40_000, lengths, Addresses::Real).unwrap();
        assert_eq!((real.count(), real.address(12_288)), (3, base + 12_288));
        assert_eq!(Pieces { first: hidden.first, ..real }, hidden);
        let theirs = Pieces::at_address(base, 40_000).unwrap();
        assert_eq!((theirs.holder(39_999, 1), theirs.holder(39_999, 2)), (Some(0), None));
        assert_eq!(theirs.address(39_999), base + 39_999);
        assert!(Pieces::at_address(base, 0).is_none() && Pieces::at_address(u64::MAX, 2).is_none());
    }

    /// A region that would take too many pieces is refused whole.
    #[test]
    fn too_many() {
        let lengths = Lengths::new(2 * PAGE, 1);
        assert!(Pieces::plan(0, 1 << 30, lengths, Addresses::Hidden).is_none());
        assert!(Pieces::plan(0, PAGE * PIECES_MAX, lengths, Addresses::Hidden).is_some());
    }

    /// Limits that make no sense become ones that do.
    #[test]
    fn limits_are_made_usable() {
        assert_eq!(Lengths::new(0, 0), Lengths { piece: 2 * PAGE, overlap: 1 });
        assert_eq!(Lengths::new(10_000, 1 << 30), Lengths { piece: 2 * PAGE, overlap: PAGE });
    }

    proptest! {
        /// Whatever the region, the limit and the longest request: pieces cover every byte and nothing else, begin where
        /// their pages do, and each range up to the longest request lies whole within the piece that is answered for it;
        /// a peer accepts the numbers.
        #[test]
        fn every_request_has_its_piece(
            base in 0u64..1 << 47,
            len in 1u64..1 << 28,
            limit in 1u64..1 << 27,
            request in 1u64..1 << 26,
            ranges in prop::collection::vec((any::<u64>(), any::<u64>()), 64),
        ) {
            let lengths = Lengths::new(limit, request);
            let Some(pieces) = Pieces::plan(base, len, lengths, Addresses::Hidden) else { return Ok(()) };
            let (skew, piece, stride) = pieces.numbers();
            prop_assert_eq!(Pieces::checked(len, skew, piece, stride, pieces.count()), Some(pieces));
            prop_assert_eq!(pieces.span(0).0, 0);
            for at in 0..pieces.count() {
                let (from, bytes) = pieces.span(at);
                prop_assert!(bytes >= 1 && bytes <= lengths.piece && from + bytes <= len);
                prop_assert!(at == 0 || from % PAGE == 0);
                prop_assert_eq!(at + 1 == pieces.count(), from + bytes == len);
            }
            for (offset, bytes) in ranges {
                let bytes = 1 + bytes % lengths.overlap.min(len);
                let offset = offset % (len - bytes + 1);
                let held_by = pieces.holder(offset, bytes);
                prop_assert!(held_by.is_some());
                let (from, long) = pieces.span(held_by.unwrap());
                prop_assert!(from <= offset && offset + bytes <= from + long);
            }
            prop_assert_eq!(pieces.holder(len, 1), None);
        }

        /// No numbers of a peer lead to a range outside of a piece, or to a number that wraps.
        #[test]
        fn numbers_of_a_peer(
            numbers in prop::array::uniform4(prop_oneof![any::<u64>(), 0u64..1 << 14]),
            count in 0u16..300,
            ranges in prop::collection::vec((0u64..1 << 15, 0u64..1 << 15), 16),
        ) {
            let [len, skew, piece, stride] = numbers;
            let Some(pieces) = Pieces::checked(len, skew, piece, stride, count) else { return Ok(()) };
            for (offset, bytes) in ranges {
                let Some(at) = pieces.holder(offset, bytes) else { continue };
                let (from, long) = pieces.span(at);
                prop_assert!(at < count && from <= offset && offset + bytes <= from + long);
                prop_assert!(pieces.address(offset) >= offset);
            }
        }
    }
}
