//! What may be in flight, over all peers and for each: charged when a slice is cut, given back when it ends.
//! As `stages/src/window` has it, but for purses and for the one slice that a starved peer is let through on top of all.

use super::setup;

/// Of a peer's share one in so many is kept from pieces of requests that were cut.
const KEPT: u64 = 8;

/// See the file's head.
pub struct Window {
    limit: Tally,
    share: Tally,
    all: Tally,
    peers: Vec<Tally>,
    /// Whether somebody found none since the last one came back.
    pub short: bool,
    /// How often somebody found none.
    pub refusals: u64,
}

#[derive(Clone, Copy, Default)]
struct Tally {
    bytes: u64,
    slices: u64,
}

impl Window {
    /// Nothing in flight.
    pub fn new(limits: setup::Window, peers: usize) -> Self {
        let share = |whole: u64| (whole as u128 * u128::from(limits.share_percent) / 100).max(1) as u64;
        Self {
            limit: Tally { bytes: limits.bytes, slices: limits.slices },
            share: Tally { bytes: share(limits.bytes), slices: share(limits.slices) },
            all: Tally::default(),
            peers: vec![Tally::default(); peers],
            short: false,
            refusals: 0,
        }
    }

    /// Charges one slice; whether there was room.
    pub fn take(&mut self, peer: usize, bytes: u64, is_piece: bool) -> bool {
        let (all, own) = (self.all, self.peers[peer]);
        let kept = |whole: u64| if is_piece { whole - whole / KEPT } else { whole };
        let fits = own.slices < kept(self.share.slices)
            && all.slices < self.limit.slices
            && (own.bytes == 0
                || (own.bytes + bytes <= kept(self.share.bytes) && all.bytes + bytes <= self.limit.bytes));
        if fits {
            self.all = Tally { bytes: all.bytes + bytes, slices: all.slices + 1 };
            self.peers[peer] = Tally { bytes: own.bytes + bytes, slices: own.slices + 1 };
        } else {
            self.short = true;
            self.refusals += 1;
        }
        fits
    }

    /// Gives one back.
    pub fn give(&mut self, peer: usize, bytes: u64) {
        for tally in [&mut self.all, &mut self.peers[peer]] {
            tally.bytes -= bytes;
            tally.slices -= 1;
        }
    }

    /// Slices in flight.
    pub fn slices(&self) -> u64 {
        self.all.slices
    }

    /// Bytes in flight.
    pub fn bytes(&self) -> u64 {
        self.all.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer has its share, of which pieces leave an eighth; one with nothing in flight gets one slice of any size.
    #[test]
    fn shares() {
        let limits = setup::Window { bytes: 1_600, slices: 100, share_percent: 50 };
        let mut window = Window::new(limits, 2);
        assert!((0..7).all(|_| window.take(0, 100, true)));
        assert!(!window.take(0, 100, true) && window.take(0, 100, false));
        assert!(!window.take(0, 100, false) && window.short);
        assert!(window.take(1, 5_000, true) && !window.take(1, 1, true));
        window.give(0, 100);
        assert_eq!((window.slices(), window.bytes(), window.refusals), (8, 5_700, 3));
    }
}
