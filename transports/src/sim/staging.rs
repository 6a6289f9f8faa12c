//! How the simulator copies: straight, or through a staging buffer, and then it is counted.
//! Deliberately the only place of it that touches payload.

use std::sync::Arc;

use crate::memory::copy::copy;
use crate::memory::{Guard, LocalSpan};
use crate::sim::random::Random;
use crate::sim::settings::SimSettings;
use crate::sync::{AtomicU64, Ordering};
use crate::transport::Staged;
use crate::wr::Op;

/// Its own stream of the seed: what else is drawn does not change with it.
const CORRUPTION: u64 = 0xC0;

/// Bytes of a staging buffer.
const BUFFER: usize = 64 << 10;

/// What all reap halves of a transport have staged. Any thread.
#[derive(Default)]
pub(super) struct Tally {
    copies: AtomicU64,
    bytes: AtomicU64,
}

impl Tally {
    pub(super) fn read(&self) -> Staged {
        Staged { copies: self.copies.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }
}

/// How one reap half copies.
pub(super) struct Copies {
    moves_bytes: bool,
    /// Empty: straight.
    buffer: Box<[u8]>,
    tally: Arc<Tally>,
    /// Work requests in a million of which a bit is changed, and which one that is.
    corrupt_ppm: u32,
    random: Random,
}

impl Copies {
    pub(super) fn new(settings: &SimSettings, tally: Arc<Tally>) -> Self {
        let len = if settings.direct { 0 } else { BUFFER };
        let (corrupt_ppm, random) = (settings.corrupt_ppm, Random::new(settings.seed, CORRUPTION));
        Self { moves_bytes: settings.moves_bytes, buffer: vec![0; len].into(), tally, corrupt_ppm, random }
    }

    /// Applies a work request.
    pub(super) fn make(&mut self, op: Op, local: LocalSpan, guard: &Guard) {
        let (from, to) = match op {
            Op::Write => (local.ptr.cast_const(), guard.ptr()),
            Op::Read => (guard.ptr().cast_const(), local.ptr),
        };
        let len = guard.len() as usize;
        if !self.moves_bytes {
            return;
        }
        if self.buffer.is_empty() {
            // SAFETY: both ranges were checked when the request began and are of the same length; the guard holds
            // the far one, the poster's pin holds the near one until the completion, which has not been given yet.
            unsafe { copy(from, to, len) };
        } else {
            self.stage(from, to, len);
        }
        if self.corrupt_ppm > 0 && len > 0 && self.random.chance(self.corrupt_ppm) {
            let (at, bit) = (self.random.below(len as u64) as usize, self.random.below(8));
            let mut byte = 0;
            // SAFETY: one byte of the range that was just written; `byte` is nobody else's.
            unsafe {
                copy(to.add(at), &raw mut byte, 1);
                byte ^= 1 << bit;
                copy(&raw const byte, to.add(at), 1);
            }
        }
    }

    /// Through the buffer. As [`Self::make`] has checked.
    fn stage(&mut self, from: *const u8, to: *mut u8, len: usize) {
        let mut at = 0;
        while at < len {
            let part = self.buffer.len().min(len - at);
            // SAFETY: as above for the two ranges, of which this is a part; the buffer is as long and nobody else's.
            unsafe {
                copy(from.add(at), self.buffer.as_mut_ptr(), part);
                copy(self.buffer.as_ptr(), to.add(at), part);
            }
            at += part;
        }
        self.tally.copies.fetch_add(1, Ordering::Relaxed);
        self.tally.bytes.fetch_add(len as u64, Ordering::Relaxed);
    }
}
