//! Purses: what a worker has charged to the windows and does not use, so that it asks them once for several batches and gives
//! back to itself. Deliberately without a share that is kept from anybody: a worker empties its purse before it sleeps and
//! as soon as it sees that somebody is short, and until nobody is, all ask the windows themselves.
//!
//! What is in a purse is charged, so no purse raises what may be in flight.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use pipeline_graph::BATCH;

use super::{Class, Grant, Short, Window};
use crate::peer::PeerId;

/// Peers that a purse holds something of, at most: one a place, by the low bits of its number.
const PLACES: usize = 64;

/// How many batches a purse asks for at once.
const BATCHES: u32 = 4;

/// That of one worker, which alone writes it: by loads and stores. On lines of its own.
#[repr(align(128))]
pub(super) struct Purse {
    /// Places that hold something, as bits.
    held: AtomicU64,
    /// There is somebody who empties it.
    open: AtomicBool,
    places: [Place; PLACES],
}

#[derive(Default)]
struct Place {
    peer: AtomicU32,
    /// For whole requests and for pieces.
    classes: [Pocket; 2],
}

#[derive(Default)]
struct Pocket {
    bytes: AtomicU64,
    slices: AtomicU32,
}

impl Pocket {
    #[inline]
    fn get(&self) -> Grant {
        Grant { bytes: self.bytes.load(Relaxed), slices: self.slices.load(Relaxed) }
    }

    #[inline]
    fn set(&self, to: Grant) {
        self.bytes.store(to.bytes, Relaxed);
        self.slices.store(to.slices, Relaxed);
    }
}

impl Default for Purse {
    fn default() -> Self {
        let places = std::array::from_fn(|_| Place::default());
        Self { held: AtomicU64::new(0), open: AtomicBool::new(false), places }
    }
}

const CLASSES: [Class; 2] = [Class::Whole, Class::Piece];

impl Purse {
    /// The place of a peer, if it holds something of it.
    #[inline]
    fn of(&self, peer: PeerId) -> Option<&Place> {
        let at = peer.0 as usize % PLACES;
        let holds = self.held.load(Relaxed) & 1 << at != 0;
        Some(&self.places[at]).filter(|place| holds && place.peer.load(Relaxed) == peer.0)
    }

    /// At least one slice of `piece` bytes and up to `want`, if it has that.
    #[inline]
    fn take(&self, peer: PeerId, class: Class, piece: u64, want: Grant) -> Option<Grant> {
        let pocket = &self.of(peer)?.classes[class as usize];
        let has = pocket.get();
        if has.slices == 0 || has.bytes < piece {
            return None;
        }
        let got = Grant { bytes: want.bytes.max(piece).min(has.bytes), slices: want.slices.min(has.slices) };
        pocket.set(Grant { bytes: has.bytes - got.bytes, slices: has.slices - got.slices });
        Some(got)
    }

    /// Puts something in, unless its place is another peer's or it would hold more than `most`.
    #[inline]
    fn put(&self, peer: PeerId, class: Class, back: Grant, most: Grant) -> bool {
        let at = peer.0 as usize % PLACES;
        let (place, held) = (&self.places[at], self.held.load(Relaxed));
        if held & 1 << at == 0 {
            place.peer.store(peer.0, Relaxed);
            self.held.store(held | 1 << at, Relaxed);
        } else if place.peer.load(Relaxed) != peer.0 {
            return false;
        }
        let pocket = &place.classes[class as usize];
        let has = pocket.get();
        let sum = Grant { bytes: has.bytes + back.bytes, slices: has.slices + back.slices };
        let fits = sum.bytes <= most.bytes && sum.slices <= most.slices;
        if fits {
            pocket.set(sum);
        }
        fits
    }

    /// Takes out what is in one place.
    fn empty(&self, at: usize, mut out: impl FnMut(PeerId, Class, Grant)) {
        let place = &self.places[at];
        self.held.store(self.held.load(Relaxed) & !(1 << at), Relaxed);
        let peer = PeerId(place.peer.load(Relaxed));
        for (class, pocket) in CLASSES.into_iter().zip(&place.classes) {
            let has = pocket.get();
            pocket.set(Grant::NONE);
            if has != Grant::NONE {
                out(peer, class, has);
            }
        }
    }

    /// What it holds, for whoever sums up: while its worker works, any number that it had meanwhile.
    fn each(&self, mut each: impl FnMut(PeerId, Class, Grant)) {
        let held = self.held.load(Relaxed);
        for (_, place) in self.places.iter().enumerate().filter(|(at, _)| held & 1 << at != 0) {
            let peer = PeerId(place.peer.load(Relaxed));
            CLASSES
                .into_iter()
                .zip(&place.classes)
                .for_each(|(class, pocket)| each(peer, class, pocket.get()));
        }
    }
}

/// A worker that has a purse, as whoever works for it names it to the windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holder(Option<u16>);

impl Holder {
    /// Nobody: all is asked of the windows themselves, and given back to them.
    pub(crate) const NONE: Self = Self(None);

    /// The worker of this number.
    pub(crate) fn worker(index: usize) -> Self {
        Self(u16::try_from(index).ok())
    }
}

impl Window {
    #[inline]
    fn purse(&self, holder: Holder) -> Option<&Purse> {
        self.purses.get(usize::from(holder.0?))
    }

    /// The most that a purse may hold of one peer and class: so little that a share has room for as much in the purse of each
    /// worker.
    fn most(&self) -> Grant {
        let parts = 4 * self.purses.len() as u64;
        let slices = (u64::from(self.share_slices) / parts) as u32;
        Grant { bytes: self.share_bytes / parts, slices: slices.min(2 * BATCHES * BATCH as u32) }
    }

    /// As [`Self::acquire`], by a worker: out of its purse as long as that lasts.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn acquire_by(
        &self,
        holder: Holder,
        peer: PeerId,
        class: Class,
        piece: u64,
        want: Grant,
    ) -> Result<Grant, Short> {
        let Some(purse) = self.purse(holder) else { return self.acquire(peer, class, piece, want) };
        if let Some(got) = purse.take(peer, class, piece, want) {
            return Ok(got);
        }
        // With what is in the purse it may be enough.
        if purse.of(peer).is_some() {
            purse.empty(peer.0 as usize % PLACES, |peer, class, has| self.release(peer, class, has));
        }
        if self.is_short() || !purse.open.load(Relaxed) {
            return self.acquire(peer, class, piece, want);
        }
        let most = self.most();
        let more = |want: Grant| Grant {
            bytes: want.bytes.saturating_mul(u64::from(BATCHES)).min(most.bytes).max(want.bytes),
            slices: want.slices.saturating_mul(BATCHES).min(most.slices).max(want.slices),
        };
        let all = self.acquire(peer, class, piece, more(want))?;
        let got = Grant { bytes: all.bytes.min(want.bytes.max(piece)), slices: all.slices.min(want.slices) };
        self.release_by(
            holder,
            peer,
            class,
            Grant { bytes: all.bytes - got.bytes, slices: all.slices - got.slices },
        );
        Ok(got)
    }

    /// As [`Self::release`], by a worker: into its purse, as long as nobody is short.
    #[inline]
    pub(crate) fn release_by(&self, holder: Holder, peer: PeerId, class: Class, back: Grant) {
        if back == Grant::NONE {
            return;
        }
        let purse = self.purse(holder).filter(|purse| purse.open.load(Relaxed) && !self.is_short());
        // A slice on top of the windows goes back to them, or it would be on top for ever.
        let kept = purse
            .is_some_and(|purse| self.on_top.load(Relaxed) == 0 && purse.put(peer, class, back, self.most()));
        if !kept {
            self.release(peer, class, back);
        }
    }

    /// From here on the worker empties its purse whenever it has to; `false`: it does so no longer, and empties it.
    pub(crate) fn open_purse(&self, holder: Holder, open: bool) {
        if let Some(purse) = self.purse(holder) {
            purse.open.store(open, Relaxed);
            self.empty_purse(holder);
        }
    }

    /// By the worker: before it sleeps, and whenever somebody is short. Whether anything went back.
    pub(crate) fn empty_purse(&self, holder: Holder) -> bool {
        let Some(purse) = self.purse(holder) else { return false };
        let mut held = purse.held.load(Relaxed);
        let any = held != 0;
        while held != 0 {
            purse.empty(held.trailing_zeros() as usize, |peer, class, has| self.release(peer, class, has));
            held &= held - 1;
        }
        any
    }

    /// Whether a worker keeps anything, which it may have to give up.
    #[inline]
    pub(crate) fn keeps(&self, holder: Holder) -> bool {
        self.purse(holder).is_some_and(|purse| purse.held.load(Relaxed) != 0)
    }

    /// Whether somebody found less than it needs: then nobody keeps anything.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Relaxed) > 0
    }

    /// Somebody is short from here on, or no longer.
    pub(crate) fn say_short(&self, short: bool) {
        match short {
            true => self.short.fetch_add(1, Relaxed),
            false => self.short.fetch_sub(1, Relaxed),
        };
    }

    /// What purses hold of a peer, or of all: charged, and in flight nowhere.
    pub(super) fn in_purses(&self, of: Option<PeerId>, in_class: Option<Class>) -> Grant {
        let mut sum = Grant::NONE;
        for purse in &self.purses {
            purse.each(|peer, class, has| {
                if of.is_none_or(|of| of == peer) && in_class.is_none_or(|wanted| wanted == class) {
                    sum.bytes += has.bytes;
                    sum.slices += has.slices;
                }
            });
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 1 << 20;
    const PEERS: u64 = 3;

    /// In flight: what was granted, and not given back.
    type Held = Vec<(PeerId, Class, Grant)>;

    fn sum(held: &Held, of: impl Fn(PeerId, Class) -> bool) -> Grant {
        let wanted = held.iter().filter(|h| of(h.0, h.1));
        wanted.fold(Grant::NONE, |sum, h| Grant {
            bytes: sum.bytes + h.2.bytes,
            slices: sum.slices + h.2.slices,
        })
    }

    /// What is charged of a peer, in all and for pieces.
    fn charged(window: &Window, peer: PeerId) -> [Grant; 2] {
        let share = &window.shares[peer.0 as usize];
        [&share.all, &share.pieces]
            .map(|tally| Grant { bytes: tally.bytes.load(Relaxed), slices: tally.slices.load(Relaxed) })
    }

    /// What is charged is in flight, but for what purses hold.
    fn check(window: &Window, held: &Held) {
        for peer in (0..PEERS).map(|peer| PeerId(peer as u32)) {
            for (charged, class) in charged(window, peer).into_iter().zip([None, Some(Class::Piece)]) {
                let flying = sum(held, |p, c| p == peer && class.is_none_or(|class| c == class));
                let kept = window.in_purses(Some(peer), class);
                let both = Grant { bytes: flying.bytes + kept.bytes, slices: flying.slices + kept.slices };
                assert_eq!(charged, both);
            }
        }
        assert_eq!(window.bytes(), sum(held, |_, _| true).bytes);
    }

    fn random(state: &mut u64, sides: u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % sides
    }

    /// Whatever workers take and give back, in whatever order: all that is charged is in flight or in a purse, so limits hold
    /// as they do without purses; once somebody has said that it is short and the others have looked, purses hold nothing, and
    /// it gets what it would get if there were none; and in the end nothing is charged.
    #[test]
    fn a_purse_keeps_nothing_from_anybody() {
        let (mut from_purse, mut short) = (0, 0);
        for seed in 1..60_u64 {
            let workers = 2 + seed as usize % 3;
            let (window, mut state) = (Window::new(LIMIT, 2048, 25, PEERS as usize).divided(workers), seed);
            (0..workers).for_each(|worker| window.open_purse(Holder::worker(worker), true));
            let mut held = Held::new();
            for _ in 0..2_000 {
                let worker = Holder::worker(random(&mut state, workers as u64) as usize);
                let peer = PeerId(random(&mut state, PEERS) as u32);
                let class = CLASSES[random(&mut state, 2) as usize];
                if random(&mut state, 5) < 3 {
                    let most = if random(&mut state, 8) == 0 { LIMIT } else { LIMIT / 512 };
                    let piece = 1 + random(&mut state, most);
                    let slices = 1 + random(&mut state, 8) as u32;
                    let want = Grant { bytes: piece * u64::from(slices), slices };
                    let before = charged(&window, peer);
                    let mut got = window.acquire_by(worker, peer, class, piece, want);
                    from_purse += u32::from(got.is_ok() && charged(&window, peer) == before);
                    if got.is_err() {
                        window.say_short(true);
                        (0..workers).for_each(|worker| _ = window.empty_purse(Holder::worker(worker)));
                        assert_eq!(window.in_purses(None, None), Grant::NONE);
                        let could = window.could(peer, class, piece);
                        got = window.acquire_by(worker, peer, class, piece, want);
                        assert_eq!(got.map(|_| ()), could);
                        window.say_short(false);
                        short += 1;
                    }
                    let Ok(got) = got else { continue };
                    assert!(got.bytes >= piece && (1..=slices).contains(&got.slices), "{got:?} of {want:?}");
                    held.push((peer, class, got));
                } else if !held.is_empty() {
                    let at = random(&mut state, held.len() as u64) as usize;
                    let (peer, class, got) = held.swap_remove(at);
                    window.release_by(worker, peer, class, got);
                }
                check(&window, &held);
            }
            held.drain(..)
                .for_each(|(peer, class, got)| window.release_by(Holder::worker(0), peer, class, got));
            (0..workers).for_each(|worker| window.open_purse(Holder::worker(worker), false));
            assert!(window.is_idle());
            assert!((0..PEERS).all(|peer| charged(&window, PeerId(peer as u32)) == [Grant::NONE; 2]));
        }
        assert!(from_purse > 1_000 && short > 1_000, "{from_purse} {short}");
    }

    /// A worker that takes and gives back by batches touches what all share once in a while, not each time.
    #[test]
    fn batches_stay_in_the_purse() {
        let window = Window::new(1 << 30, 1 << 16, 25, 1).divided(2);
        let (worker, peer, piece) = (Holder::worker(1), PeerId(0), 4096);
        window.open_purse(worker, true);
        let want = Grant { bytes: 32 * piece, slices: 32 };
        let mut changes = 0;
        for _ in 0..100 {
            let before = charged(&window, peer);
            let got = window.acquire_by(worker, peer, Class::Piece, piece, want).unwrap();
            assert_eq!(got, want);
            window.release_by(worker, peer, Class::Piece, got);
            changes += u32::from(charged(&window, peer) != before);
        }
        assert_eq!(changes, 1);
        window.say_short(true);
        let got = window.acquire_by(worker, peer, Class::Piece, piece, want).unwrap();
        window.release_by(worker, peer, Class::Piece, got);
        assert!(window.empty_purse(worker) && window.is_idle() && charged(&window, peer) == [Grant::NONE; 2]);
    }

    /// Workers that take and give back at the same time: never more in flight than the limit and one slice on top, and all is
    /// back at the end.
    #[test]
    fn threads_keep_to_the_limit() {
        let window = Window::new(LIMIT, 256, 50, PEERS as usize).divided(3);
        let flying = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for index in 0..3 {
                let (window, flying) = (&window, &flying);
                scope.spawn(move || {
                    let (worker, mut state) = (Holder::worker(index), index as u64 + 1);
                    window.open_purse(worker, true);
                    let mut held = Held::new();
                    for _ in 0..20_000 {
                        let peer = PeerId(random(&mut state, PEERS) as u32);
                        let piece = 1 + random(&mut state, LIMIT / 64);
                        let want = Grant { bytes: 4 * piece, slices: 4 };
                        if let Ok(got) = window.acquire_by(worker, peer, Class::Whole, piece, want) {
                            let sum = flying.fetch_add(got.bytes, Relaxed) + got.bytes;
                            assert!(sum <= LIMIT + LIMIT / 64, "{sum}");
                            held.push((peer, Class::Whole, got));
                        }
                        if held.len() > 4 {
                            let (peer, class, got) = held.swap_remove(random(&mut state, 4) as usize);
                            flying.fetch_sub(got.bytes, Relaxed);
                            window.release_by(worker, peer, class, got);
                        }
                        if random(&mut state, 100) == 0 {
                            window.empty_purse(worker);
                        }
                    }
                    held.drain(..).for_each(|(peer, class, got)| window.release_by(worker, peer, class, got));
                    window.open_purse(worker, false);
                });
            }
        });
        assert!(window.is_idle() && window.in_purses(None, None) == Grant::NONE);
    }
}
