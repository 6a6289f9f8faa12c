//! The cells in which halves count what they move: each pair of workers in its own, by a plain load and store once a batch.
//! Deliberately without any rate: whoever asks sums them up.

use std::sync::{Arc, Mutex, PoisonError};

use pipeline_graph::Count;
use pipeline_transports::{Op, Served};

use crate::seats::Place;

/// What one reaper has seen end, of a NIC or of a peer: one writer, on lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Moved {
    slices: Count,
    /// By direction: see [`index`].
    bytes: [Count; 2],
    errors: Count,
}

/// Bytes by direction.
pub(crate) type Bytes = [u64; 2];

/// Where bytes of a direction are.
#[inline]
pub(crate) fn index(op: Op) -> usize {
    usize::from(op == Op::Write)
}

impl Moved {
    /// Slices that are applied at their destination, with their bytes.
    #[inline]
    pub(crate) fn done(&self, slices: u64, bytes: Bytes) {
        self.slices.add(slices);
        for (sum, bytes) in self.bytes.iter().zip(bytes) {
            sum.add(bytes);
        }
    }

    /// As [`Self::done`], for one.
    pub(crate) fn done_one(&self, op: Op, len: u64) {
        let mut bytes = [0; 2];
        bytes[index(op)] = len;
        self.done(1, bytes);
    }

    /// One that came back without having been done.
    pub(crate) fn failed(&self) {
        self.errors.add(1);
    }

    /// Adds what was counted to a sum.
    pub(crate) fn add_to(&self, sum: &mut Sum) {
        sum.slices += self.slices.get();
        sum.bytes_read += self.bytes[index(Op::Read)].get();
        sum.bytes_written += self.bytes[index(Op::Write)].get();
        sum.errors += self.errors.get();
    }
}

/// What was counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) slices: u64,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    pub(crate) errors: u64,
    /// By serve halves.
    pub(crate) served_in: u64,
    pub(crate) served_out: u64,
}

/// What one serve half did for peers: one writer, on lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ServedBytes {
    taken: Count,
    given: Count,
}

impl ServedBytes {
    /// It did this.
    #[inline]
    pub(crate) fn add(&self, served: &Served) {
        if served.bytes_in > 0 {
            self.taken.add(served.bytes_in);
        }
        if served.bytes_out > 0 {
            self.given.add(served.bytes_out);
        }
    }

    /// Adds what was counted to a sum.
    pub(crate) fn add_to(&self, sum: &mut Sum) {
        sum.served_in += self.taken.get();
        sum.served_out += self.given.get();
    }
}

/// What has moved to and from one peer: a cell for each pair of workers that ever had a link to it, so what was counted
/// outlasts links, sessions and panics.
#[derive(Default)]
pub(crate) struct Moves(Mutex<Vec<(Place, Arc<Moved>)>>);

impl Moves {
    fn cells(&self) -> std::sync::MutexGuard<'_, Vec<(Place, Arc<Moved>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cell of a pair.
    pub(crate) fn by(&self, place: Place) -> Arc<Moved> {
        let mut cells = self.cells();
        if let Some((_, cell)) = cells.iter().find(|(known, _)| *known == place) {
            return cell.clone();
        }
        let cell = Arc::<Moved>::default();
        cells.push((place, cell.clone()));
        cell
    }

    /// Over all pairs.
    pub(crate) fn sum(&self) -> Sum {
        let mut sum = Sum::default();
        self.cells().iter().for_each(|(_, cell)| cell.add_to(&mut sum));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums over reapers and serve halves are exact, by direction; a pair has one cell, however often it is asked for.
    #[test]
    fn sums() {
        let moves = Moves::default();
        moves.by((0, 0, 0)).done(3, [3 << 40, 0]);
        moves.by((0, 1, 0)).done_one(Op::Write, 7);
        moves.by((0, 1, 0)).failed();
        moves.by((0, 0, 0)).done(0, [0, 0]);
        let expected = Sum { slices: 4, bytes_read: 3 << 40, bytes_written: 7, errors: 1, ..Sum::default() };
        assert_eq!(moves.sum(), expected);
        let served = ServedBytes::default();
        served.add(&Served { bytes_in: 5, bytes_out: 8, ..Served::default() });
        served.add(&Served { bytes_in: 1, ..Served::default() });
        let mut sum = Sum::default();
        served.add_to(&mut sum);
        assert_eq!((sum.served_in, sum.served_out), (6, 8));
    }
}
