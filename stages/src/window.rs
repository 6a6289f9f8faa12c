//! Windows: how many bytes and slices may be in flight, over all peers and for each.
//! Charged when a slice is cut, returned when it ends. Deliberately no queue: who finds no window asks again
//! when the ledger rings.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::peer::PeerId;

/// What one peer has in flight.
#[derive(Default)]
struct Share {
    bytes: AtomicU64,
    slices: AtomicU32,
}

/// All windows. Any thread.
///
/// A peer with nothing in flight may always take one slice of up to `bytes_in_flight`, so that no slice size
/// and no other peer can starve it. If the global window is used up, one such slice *at a time* is let
/// through on top: in flight are never more than twice `bytes_in_flight`.
#[repr(align(128))]
pub struct Window {
    bytes_limit: u64,
    share_bytes: u64,
    share_slices: u32,
    bytes: AtomicU64,
    /// Peer (plus one) whose slice was let through on top.
    on_top: AtomicU32,
    shares: Box<[Share]>,
}

/// What was charged, to be used or given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Bytes.
    pub bytes: u64,
    /// Slices.
    pub slices: u32,
}

impl Window {
    /// Windows for `peers` peers, each with `share_percent` of `bytes_limit` and of `slices`.
    pub fn new(bytes_limit: u64, slices: u32, share_percent: u64, peers: usize) -> Self {
        let share = |whole: u64| (u128::from(whole) * u128::from(share_percent) / 100) as u64;
        Self {
            bytes_limit,
            share_bytes: share(bytes_limit).max(1),
            share_slices: u32::try_from(share(u64::from(slices))).unwrap_or(u32::MAX).max(1),
            bytes: AtomicU64::new(0),
            on_top: AtomicU32::new(0),
            shares: (0..peers).map(|_| Share::default()).collect(),
        }
    }

    /// The most that one slice may have.
    pub fn bytes_limit(&self) -> u64 {
        self.bytes_limit
    }

    /// Bytes in flight over all peers.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Charges at least one slice of `piece` bytes, and up to `want`; `None` when there is no window.
    pub fn acquire(&self, peer: PeerId, piece: u64, want: Grant) -> Option<Grant> {
        let share = self.shares.get(peer.0 as usize)?;
        let slices = raise(&share.slices, want.slices, self.share_slices)?;
        let granted = self.acquire_bytes(share, peer, piece, want.bytes);
        match granted {
            Some(bytes) => Some(Grant { bytes, slices }),
            None => {
                share.slices.fetch_sub(slices, Relaxed);
                None
            }
        }
    }

    /// Whether a slice of `piece` bytes would be let through now.
    pub fn could(&self, peer: PeerId, piece: u64) -> bool {
        let Some(share) = self.shares.get(peer.0 as usize) else { return false };
        let (used, slices) = (share.bytes.load(Relaxed), share.slices.load(Relaxed));
        let fits = self.bytes_limit.saturating_sub(self.bytes()) >= piece;
        slices < self.share_slices
            && (used == 0 || self.share_bytes.saturating_sub(used) >= piece)
            && (fits || (used == 0 && self.on_top.load(Relaxed) == 0))
    }

    fn acquire_bytes(&self, share: &Share, peer: PeerId, piece: u64, want: u64) -> Option<u64> {
        let mut used = share.bytes.load(Relaxed);
        let (idle, bytes) = loop {
            let room = self.share_bytes.saturating_sub(used);
            let take = match (used, room >= piece) {
                (_, true) => want.max(piece).min(room),
                (0, false) => piece,
                _ => return None,
            };
            match share.bytes.compare_exchange_weak(used, used + take, Relaxed, Relaxed) {
                Ok(_) => break (used == 0, take),
                Err(seen) => used = seen,
            }
        };
        let granted = self.acquire_global(peer, piece, bytes, idle);
        let kept = granted.unwrap_or(0);
        if kept < bytes {
            share.bytes.fetch_sub(bytes - kept, Relaxed);
        }
        granted
    }

    fn acquire_global(&self, peer: PeerId, piece: u64, want: u64, idle: bool) -> Option<u64> {
        let mut used = self.bytes.load(Relaxed);
        loop {
            let room = self.bytes_limit.saturating_sub(used);
            if room < piece {
                let first = idle && self.on_top.compare_exchange(0, peer.0 + 1, Relaxed, Relaxed).is_ok();
                if first {
                    self.bytes.fetch_add(piece, Relaxed);
                }
                return first.then_some(piece);
            }
            let take = want.min(room);
            match self.bytes.compare_exchange_weak(used, used + take, Relaxed, Relaxed) {
                Ok(_) => return Some(take),
                Err(seen) => used = seen,
            }
        }
    }

    /// Gives back what ended or was not used.
    pub fn release(&self, peer: PeerId, back: Grant) {
        let Some(share) = self.shares.get(peer.0 as usize) else { return };
        self.bytes.fetch_sub(back.bytes, Relaxed);
        share.slices.fetch_sub(back.slices, Relaxed);
        if share.bytes.fetch_sub(back.bytes, Relaxed) == back.bytes {
            let _ = self.on_top.compare_exchange(peer.0 + 1, 0, Relaxed, Relaxed);
        }
    }
}

/// Raises a counter by up to `want`, not above `limit`.
fn raise(counter: &AtomicU32, want: u32, limit: u32) -> Option<u32> {
    let mut used = counter.load(Relaxed);
    loop {
        let take = want.min(limit.saturating_sub(used));
        if take == 0 {
            return None;
        }
        match counter.compare_exchange_weak(used, used + take, Relaxed, Relaxed) {
            Ok(_) => return Some(take),
            Err(seen) => used = seen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PeerId = PeerId(0);
    const B: PeerId = PeerId(1);

    fn grant(bytes: u64, slices: u32) -> Grant {
        Grant { bytes, slices }
    }

    /// A peer gets its share of bytes and slices and no more, whole pieces only, and all of it comes back.
    #[test]
    fn shares() {
        let w = Window::new(1000, 40, 25, 2);
        assert_eq!(w.acquire(A, 100, grant(3200, 32)), Some(grant(250, 10)));
        assert_eq!(w.acquire(A, 1, grant(1, 1)), None);
        assert_eq!(w.acquire(B, 100, grant(100, 1)), Some(grant(100, 1)));
        w.release(A, grant(200, 9));
        assert_eq!(w.acquire(A, 201, grant(201, 1)), None);
        w.release(A, grant(50, 1));
        w.release(B, grant(100, 1));
        assert_eq!(w.bytes(), 0);
    }

    /// An idle peer may take one slice larger than its share; with the window used up, one at a time.
    #[test]
    fn idle_peers_are_not_starved() {
        let w = Window::new(1000, 40, 50, 3);
        assert_eq!(w.acquire(A, 900, grant(1800, 2)).unwrap().bytes, 900);
        assert_eq!(w.acquire(A, 1, grant(1, 1)), None);
        assert_eq!(w.acquire(B, 1000, grant(1000, 1)).unwrap().bytes, 1000);
        assert_eq!(w.acquire(PeerId(2), 200, grant(200, 1)), None);
        assert_eq!(w.bytes(), 1900);
        w.release(B, grant(1000, 1));
        assert_eq!(w.acquire(PeerId(2), 200, grant(200, 1)).unwrap().bytes, 200);
    }
}
