//! What is kept of a submission until it is written: bounded in batches and in runs of equal requests.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crossbeam_channel::{Receiver, Sender, bounded};
use pipeline_stages::Request;
use pipeline_stages::client::Listener;
use pipeline_stages::peer::PeerId;
use pipeline_transports::{Nanos, Op};

/// Batches that may wait to be written.
const BATCHES: usize = 1 << 16;
/// Runs of all of those: 4 MiB.
const RUNS: usize = 1 << 17;

/// Requests of a batch that follow each other and are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) op: Op,
    pub(super) peer: PeerId,
    pub(super) bytes: u64,
    pub(super) rows: u32,
    pub(super) times: u32,
}

/// A batch.
pub(super) struct Note {
    pub(super) at: Nanos,
    /// Batches before it that there was no room for.
    pub(super) lost: u64,
    pub(super) runs: Box<[Run]>,
}

/// Notes that wait.
pub(super) struct Notes {
    push: Sender<Note>,
    pop: Receiver<Note>,
    runs: AtomicUsize,
    lost: AtomicU64,
}

impl Default for Notes {
    fn default() -> Self {
        let (push, pop) = bounded(BATCHES);
        Self { push, pop, runs: AtomicUsize::new(0), lost: AtomicU64::new(0) }
    }
}

impl Notes {
    /// The oldest one.
    pub(super) fn pop(&self) -> Option<Note> {
        let note = self.pop.try_recv().ok()?;
        self.runs.fetch_sub(note.runs.len(), Relaxed);
        Some(note)
    }

    /// Batches that were lost since the last one for which there was room.
    pub(super) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Relaxed)
    }
}

impl Listener for Notes {
    fn submitted(&self, at: Nanos, requests: &mut dyn Iterator<Item = Request>) {
        let mut runs: Vec<Run> = Vec::with_capacity(1);
        for request in requests {
            // What was taken was judged: its bytes can be counted.
            let bytes = request.bytes().unwrap_or(u64::MAX);
            let run = Run { op: request.op, peer: request.remote.peer, bytes, rows: request.rows, times: 1 };
            match runs.last_mut() {
                Some(last) if Run { times: 1, ..*last } == run => last.times += 1,
                _ => runs.push(run),
            }
        }
        let len = runs.len();
        let has_room = self.runs.fetch_add(len, Relaxed) + len <= RUNS;
        let lost = if has_room { self.take_lost() } else { 0 };
        if !has_room || self.push.try_send(Note { at, lost, runs: runs.into() }).is_err() {
            self.runs.fetch_sub(len, Relaxed);
            self.lost.fetch_add(lost + 1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipeline_stages::Remote;
    use pipeline_transports::RegionId;

    fn request(len: u64) -> Request {
        let remote = Remote { peer: PeerId(3), incarnation: 1, segment: 0, offset: 0 };
        Request::write(RegionId(1), 0, remote, len)
    }

    /// Equal neighbours are one run; others, and those that are strided otherwise, are not.
    #[test]
    fn equal_neighbours_are_a_run() {
        let notes = Notes::default();
        let all = [request(8), request(8), request(4), request(4).strided(2, 8, 8), request(8), request(8)];
        notes.submitted(5, &mut all.into_iter());
        let note = notes.pop().unwrap();
        let runs: Vec<_> = note.runs.iter().map(|run| (run.bytes, run.rows, run.times)).collect();
        assert_eq!((note.at, runs), (5, vec![(8, 1, 2), (4, 1, 1), (8, 2, 1), (8, 1, 2)]));
    }

    /// What there is no room for is counted, and told by the next batch that finds room; nothing grows.
    #[test]
    fn bounded() {
        let notes = Notes::default();
        let many: Vec<_> = (0..RUNS as u64 / 2).map(|i| request(i % 2 + 1)).collect();
        (0..5).for_each(|at| notes.submitted(at, &mut many.iter().copied()));
        let popped: Vec<_> = std::iter::from_fn(|| notes.pop()).map(|note| (note.at, note.lost)).collect();
        assert_eq!(popped, [(0, 0), (1, 0)]);
        notes.submitted(9, &mut [request(1)].into_iter());
        assert_eq!(notes.pop().unwrap().lost, 3);
        (0..BATCHES as u64 + 7).for_each(|at| notes.submitted(at, &mut [request(1)].into_iter()));
        assert_eq!(notes.take_lost(), 7);
        assert_eq!(notes.runs.load(Relaxed), BATCHES);
    }
}
