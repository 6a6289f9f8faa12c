//! Windows: how many bytes and slices may be in flight, over all peers and for each.
//! Charged when a slice is cut, returned when it ends. Deliberately no queue: who finds no window asks again
//! when the ledger rings.

mod purse;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crossbeam_utils::CachePadded;
use pipeline_graph::Nanos;

use crate::peer::PeerId;
pub(crate) use purse::Holder;
use purse::Purse;

/// What one peer has in flight.
#[derive(Default)]
struct Share {
    all: Tally,
    /// Of that, pieces of requests that were cut.
    pieces: Tally,
}

#[derive(Default)]
struct Tally {
    bytes: AtomicU64,
    slices: AtomicU32,
}

/// Where a slice comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It is a request.
    Whole,
    /// It was cut from one.
    Piece,
}

/// Why there is no window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Short {
    /// Pieces have their part of the peer's share: whole requests may still go.
    Pieces,
    /// Nothing may go.
    All,
}

/// One in so many bytes and slices of a share is kept free of pieces, so that a request of one slice need not wait until
/// one of a terabyte gives something back.
const KEPT: u64 = 8;

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
    bytes: CachePadded<AtomicU64>,
    /// Peer (plus one) whose slice was let through on top.
    on_top: CachePadded<AtomicU32>,
    /// How many are short.
    short: CachePadded<AtomicU32>,
    /// Time that they have been short, together.
    short_ns: CachePadded<AtomicU64>,
    shares: Box<[Share]>,
    /// One a worker that cuts, if they are several.
    purses: Box<[Purse]>,
}

/// What was charged, to be used or given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Bytes.
    pub bytes: u64,
    /// Slices.
    pub slices: u32,
}

impl Grant {
    /// Nothing.
    pub const NONE: Self = Self { bytes: 0, slices: 0 };

    pub(crate) fn add(&mut self, more: Self) {
        self.bytes += more.bytes;
        self.slices += more.slices;
    }

    /// No more than `bytes` take, in pieces of `piece`.
    pub(crate) fn up_to(self, bytes: u64, piece: u64) -> Self {
        let slices = u32::try_from(bytes.div_ceil(piece)).unwrap_or(u32::MAX);
        Self { bytes: self.bytes.min(bytes), slices: self.slices.min(slices) }
    }

    fn without_kept(self) -> Self {
        let Self { bytes, slices } = self;
        Self { bytes: bytes - bytes / KEPT, slices: slices - slices / KEPT as u32 }
    }
}

impl Tally {
    /// Raises it by at least one slice of `piece` bytes and up to `want`, not above `limit`; one slice of any size if
    /// there is nothing.
    fn raise(&self, piece: u64, want: Grant, limit: Grant) -> Option<Grant> {
        let slices = raise(&self.slices, want.slices, limit.slices)?;
        let take = |used: u64| match (used, limit.bytes.saturating_sub(used)) {
            (_, room) if room >= piece => Some(want.bytes.max(piece).min(room)),
            (0, _) => Some(piece),
            _ => None,
        };
        match self.bytes.fetch_update(Relaxed, Relaxed, |used| take(used).map(|more| used + more)) {
            Ok(used) => Some(Grant { bytes: take(used).unwrap_or(0), slices }),
            Err(_) => {
                self.slices.fetch_sub(slices, Relaxed);
                None
            }
        }
    }

    fn could(&self, piece: u64, limit: Grant) -> bool {
        let (used, slices) = (self.bytes.load(Relaxed), self.slices.load(Relaxed));
        slices < limit.slices && (used == 0 || limit.bytes.saturating_sub(used) >= piece)
    }

    fn lower(&self, by: Grant) {
        self.bytes.fetch_sub(by.bytes, Relaxed);
        self.slices.fetch_sub(by.slices, Relaxed);
    }
}

impl Window {
    /// Windows for `peers` peers, each with `share_percent` of `bytes_limit` and of `slices`.
    pub fn new(bytes_limit: u64, slices: u32, share_percent: u64, peers: usize) -> Self {
        let share = |whole: u64| (u128::from(whole) * u128::from(share_percent) / 100) as u64;
        Self {
            bytes_limit,
            share_bytes: share(bytes_limit).max(1),
            share_slices: u32::try_from(share(u64::from(slices))).unwrap_or(u32::MAX).max(1),
            bytes: CachePadded::default(),
            on_top: CachePadded::default(),
            short: CachePadded::default(),
            short_ns: CachePadded::default(),
            shares: (0..peers).map(|_| Share::default()).collect(),
            purses: Box::default(),
        }
    }

    /// Bytes of a purse.
    pub const PURSE_BYTES: u64 = size_of::<Purse>() as u64;

    /// With a purse for each of so many workers. One alone needs none.
    pub fn divided(self, workers: usize) -> Self {
        let purses = if workers > 1 { workers } else { 0 };
        Self { purses: (0..purses).map(|_| Purse::default()).collect(), ..self }
    }

    /// The most that one slice may have.
    pub fn bytes_limit(&self) -> u64 {
        self.bytes_limit
    }

    /// Bytes that one peer may have in flight.
    pub fn share_bytes(&self) -> u64 {
        self.share_bytes
    }

    /// Slices that one peer may have in flight.
    pub fn share_slices(&self) -> u32 {
        self.share_slices
    }

    /// Bytes in flight over all peers: what is charged, without what workers have in their purses.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed).saturating_sub(self.in_purses(None, None).bytes)
    }

    /// Somebody who cuts has found no window for so long.
    pub(crate) fn was_short(&self, ns: Nanos) {
        self.short_ns.fetch_add(ns, Relaxed);
    }

    /// Time that those who cut have found no window so far, summed over them.
    pub fn short_ns(&self) -> Nanos {
        self.short_ns.load(Relaxed)
    }

    /// Whether nothing is in flight to anybody.
    pub fn is_idle(&self) -> bool {
        let is = |tally: &Tally, idle: Grant| {
            (tally.bytes.load(Relaxed), tally.slices.load(Relaxed)) == (idle.bytes, idle.slices)
        };
        let is_idle = |(peer, share): (usize, &Share)| {
            let peer = Some(PeerId(peer as u32));
            is(&share.all, self.in_purses(peer, None))
                && is(&share.pieces, self.in_purses(peer, Some(Class::Piece)))
        };
        self.shares.iter().enumerate().all(is_idle) && self.bytes() == 0 && self.on_top.load(Relaxed) == 0
    }

    /// Charges at least one slice of `piece` bytes, and up to `want`; `None` when there is no window.
    ///
    /// # Errors
    /// Why there is none.
    pub fn acquire(&self, peer: PeerId, class: Class, piece: u64, want: Grant) -> Result<Grant, Short> {
        let share = self.shares.get(peer.0 as usize).ok_or(Short::All)?;
        if class == Class::Whole {
            return self.acquire_share(share, peer, piece, want).ok_or(Short::All);
        }
        let limit = Grant { bytes: self.share_bytes, slices: self.share_slices }.without_kept();
        let most = share.pieces.raise(piece, want, limit).ok_or(Short::Pieces)?;
        let got = self.acquire_share(share, peer, piece, most);
        let kept = got.unwrap_or(Grant::NONE);
        share.pieces.lower(Grant { bytes: most.bytes - kept.bytes, slices: most.slices - kept.slices });
        got.ok_or(Short::All)
    }

    fn acquire_share(&self, share: &Share, peer: PeerId, piece: u64, want: Grant) -> Option<Grant> {
        let slices = raise(&share.all.slices, want.slices, self.share_slices)?;
        let granted = self.acquire_bytes(share, peer, piece, want.bytes);
        match granted {
            Some(bytes) => Some(Grant { bytes, slices }),
            None => {
                share.all.slices.fetch_sub(slices, Relaxed);
                None
            }
        }
    }

    /// Whether a slice of `piece` bytes would be let through now.
    ///
    /// # Errors
    /// Why not.
    pub fn could(&self, peer: PeerId, class: Class, piece: u64) -> Result<(), Short> {
        let share = self.shares.get(peer.0 as usize).ok_or(Short::All)?;
        let limit = Grant { bytes: self.share_bytes, slices: self.share_slices };
        if class == Class::Piece && !share.pieces.could(piece, limit.without_kept()) {
            return Err(Short::Pieces);
        }
        let fits = self.bytes_limit.saturating_sub(self.bytes.load(Relaxed)) >= piece;
        let on_top = || share.all.bytes.load(Relaxed) == 0 && self.on_top.load(Relaxed) == 0;
        if share.all.could(piece, limit) && (fits || on_top()) { Ok(()) } else { Err(Short::All) }
    }

    fn acquire_bytes(&self, share: &Share, peer: PeerId, piece: u64, want: u64) -> Option<u64> {
        let mut used = share.all.bytes.load(Relaxed);
        let (idle, bytes) = loop {
            let room = self.share_bytes.saturating_sub(used);
            let take = match (used, room >= piece) {
                (_, true) => want.max(piece).min(room),
                (0, false) => piece,
                _ => return None,
            };
            match share.all.bytes.compare_exchange_weak(used, used + take, Relaxed, Relaxed) {
                Ok(_) => break (used == 0, take),
                Err(seen) => used = seen,
            }
        };
        let granted = self.acquire_global(peer, piece, bytes, idle);
        let kept = granted.unwrap_or(0);
        if kept < bytes {
            share.all.bytes.fetch_sub(bytes - kept, Relaxed);
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
    pub fn release(&self, peer: PeerId, class: Class, back: Grant) {
        let Some(share) = self.shares.get(peer.0 as usize) else { return };
        self.bytes.fetch_sub(back.bytes, Relaxed);
        if class == Class::Piece {
            share.pieces.lower(back);
        }
        share.all.slices.fetch_sub(back.slices, Relaxed);
        if share.all.bytes.fetch_sub(back.bytes, Relaxed) == back.bytes {
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
    use super::Class::{Piece, Whole};
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
        assert_eq!(w.acquire(A, Whole, 100, grant(3200, 32)), Ok(grant(250, 10)));
        assert_eq!(w.acquire(A, Whole, 1, grant(1, 1)), Err(Short::All));
        assert_eq!(w.acquire(B, Whole, 100, grant(100, 1)), Ok(grant(100, 1)));
        w.release(A, Whole, grant(200, 9));
        assert_eq!(w.acquire(A, Whole, 201, grant(201, 1)), Err(Short::All));
        w.release(A, Whole, grant(50, 1));
        w.release(B, Whole, grant(100, 1));
        assert_eq!(w.bytes(), 0);
    }

    /// An idle peer may take one slice larger than its share; with the window used up, one at a time.
    #[test]
    fn idle_peers_are_not_starved() {
        let w = Window::new(1000, 40, 50, 3);
        assert_eq!(w.acquire(A, Whole, 900, grant(1800, 2)).unwrap().bytes, 900);
        assert_eq!(w.acquire(A, Whole, 1, grant(1, 1)), Err(Short::All));
        assert_eq!(w.acquire(B, Whole, 1000, grant(1000, 1)).unwrap().bytes, 1000);
        assert_eq!(w.acquire(PeerId(2), Whole, 200, grant(200, 1)), Err(Short::All));
        assert_eq!(w.bytes(), 1900);
        w.release(B, Whole, grant(1000, 1));
        assert_eq!(w.acquire(PeerId(2), Whole, 200, grant(200, 1)).unwrap().bytes, 200);
    }

    /// Pieces leave an eighth of a share to whole requests, in bytes and in slices, and one piece of any size may go
    /// when there is none; what comes back is counted where it was taken.
    #[test]
    fn pieces_leave_room() {
        let w = Window::new(1600, 64, 50, 2);
        assert_eq!(w.acquire(A, Piece, 100, grant(10_000, 99)), Ok(grant(700, 28)));
        assert_eq!(w.acquire(A, Piece, 1, grant(1, 1)), Err(Short::Pieces));
        assert_eq!(w.could(A, Piece, 1), Err(Short::Pieces));
        assert_eq!([w.could(A, Whole, 100), w.could(A, Whole, 101)], [Ok(()), Err(Short::All)]);
        assert_eq!(w.acquire(A, Whole, 100, grant(100, 1)), Ok(grant(100, 1)));
        assert_eq!(w.acquire(A, Whole, 1, grant(1, 1)), Err(Short::All));
        w.release(A, Piece, grant(700, 28));
        assert_eq!(
            w.acquire(A, Piece, 701, grant(701, 1)),
            Err(Short::All),
            "the whole one still has its part"
        );
        w.release(A, Whole, grant(100, 1));
        assert_eq!(w.acquire(A, Piece, 1600, grant(1600, 1)), Ok(grant(1600, 1)));
        assert_eq!(
            w.acquire(B, Whole, 7, grant(7, 1)),
            Ok(grant(7, 1)),
            "one on top, for a peer that is idle"
        );
        w.release(A, Piece, grant(1600, 1));
        w.release(B, Whole, grant(7, 1));
        assert_eq!((w.bytes(), w.could(A, Piece, 700)), (0, Ok(())));
    }

    /// Whatever is taken and given back, in whatever order: no peer has more than its share, but for one slice when it
    /// had nothing; all together never more than twice the limit; pieces leave the others their part; a peer with
    /// nothing in flight is let through with any size while nobody else is on top; and in the end nothing is charged.
    #[test]
    fn nothing_is_ever_lost() {
        const LIMIT: u64 = 1 << 20;
        for seed in 1..40_u64 {
            let (w, mut random) = (Window::new(LIMIT, 256, 25, 3), seed);
            let mut roll = |sides: u64| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) % sides
            };
            let mut held: Vec<(PeerId, Class, Grant)> = Vec::new();
            for _ in 0..2_000 {
                let peer = PeerId(roll(3) as u32);
                let class = [Whole, Piece][roll(2) as usize];
                let had = |held: &[(PeerId, Class, Grant)], of: &dyn Fn(&Class) -> bool| {
                    let of_peer = held.iter().filter(|h| h.0 == peer && of(&h.1));
                    of_peer.fold((0, 0), |(bytes, slices), h| (bytes + h.2.bytes, slices + h.2.slices))
                };
                if roll(5) < 3 {
                    let large = roll(2) == 0;
                    let piece = 1 + roll(if large { LIMIT } else { LIMIT / 64 });
                    let want = grant(piece * (1 + roll(8)), 1 + roll(8) as u32);
                    let (before, could) = (had(&held, &|_| true), w.could(peer, class, piece));
                    let before_pieces = had(&held, &|c| *c == Piece);
                    let got = w.acquire(peer, class, piece, want);
                    assert_eq!(got.map(|_| ()), could, "what could go goes");
                    assert!(
                        got.is_ok() || before != (0, 0) || w.bytes() > LIMIT - piece,
                        "an idle peer is held up"
                    );
                    let Ok(got) = got else { continue };
                    assert!(got.bytes >= piece && got.slices >= 1 && got.slices <= want.slices);
                    held.push((peer, class, got));
                    let (bytes, slices) = had(&held, &|_| true);
                    assert!(slices <= 64 && (bytes <= LIMIT / 4 || before == (0, 0)), "{bytes} {slices}");
                    let (bytes, slices) = had(&held, &|c| *c == Piece);
                    let within = bytes <= LIMIT / 32 * 7 || before_pieces == (0, 0);
                    assert!(slices <= 56 && (within || class == Whole), "{bytes} {slices}");
                    assert!(w.bytes() <= 2 * LIMIT);
                } else if !held.is_empty() {
                    let at = roll(held.len() as u64) as usize;
                    let (peer, class, got) = held.swap_remove(at);
                    w.release(peer, class, got);
                }
            }
            held.drain(..).for_each(|(peer, class, got)| w.release(peer, class, got));
            assert!(w.is_idle());
        }
    }
}
