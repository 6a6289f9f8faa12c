//! Runs: requests of one submission that touch each other on both sides and travel as one. The first of them leads, in
//! its own slots; those behind it in the batch's chain only know where in the run they begin, and cost nothing until
//! somebody asks what became of them. A slice that fails is told to exactly those whose bytes it has.
//! Deliberately no slot of its own: a run is what `submit` found adjacent, never more.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Ledger, RequestSlot, Slot};
use crate::reason::Code;

/// How long a run may be, and how many requests have become how many. On a line of its own: submitters write it.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Runs {
    /// Most bytes of a run; 0: nothing is merged.
    longest: AtomicU64,
    submitted: AtomicU64,
    entered: AtomicU64,
}

impl Runs {
    pub(crate) fn longest(&self) -> u64 {
        self.longest.load(Relaxed)
    }

    /// `submitted` requests have entered the graph as so many.
    pub(crate) fn count(&self, submitted: u32, entered: u32) {
        self.submitted.fetch_add(u64::from(submitted), Relaxed);
        self.entered.fetch_add(u64::from(entered), Relaxed);
    }

    /// Requests that were submitted so far, and what they entered as.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.submitted.load(Relaxed), self.entered.load(Relaxed))
    }
}

impl Ledger {
    /// Merges neighbours up to this many bytes, but never to more than a quarter of what a peer may have in flight: a run
    /// must not wait where its parts would not.
    pub(crate) fn merge_up_to(&self, bytes: u64) {
        self.runs.longest.store(bytes.min(self.window.share_bytes() / 4), Relaxed);
    }

    /// Most bytes of a run; 0: nothing is merged.
    pub fn longest_run(&self) -> u64 {
        self.runs.longest()
    }

    /// Notes how a slice failed on the requests whose bytes it has. A cover slice has those that are not cut.
    #[cold]
    pub(super) fn note_failure(&self, slot: Slot, is_cover: bool, code: Code) {
        let (first, cover) = (slot.request(), self.cover_of(slot.request()));
        let request = self.request(first);
        if request.merged() == 0 {
            return request.note(code);
        }
        let (start, end) = match is_cover {
            true => (request.cut.load(Relaxed), cover.len()),
            false => {
                let start = slot.local().offset - cover.local().offset;
                (start, start + slot.len())
            }
        };
        request.note_run();
        self.each_of_run(first, |request, from, to| {
            if from < end && start < to {
                request.note(code);
            }
        });
    }

    /// How many requests a run is that has ended, and how many of them have failed.
    #[inline]
    pub(super) fn tally_run(&self, first: u32) -> (u32, u32) {
        let request = self.request(first);
        let behind = request.merged();
        if behind == 0 {
            return (1, u32::from(!request.code().is_done()));
        }
        let mut failed = 0;
        if request.has_failed_run() {
            self.each_of_run(first, |request, _, _| failed += u32::from(!request.code().is_done()));
        }
        (1 + behind, failed)
    }

    /// Each request of a run, with its first byte in it and the one behind its last.
    pub(super) fn each_of_run(&self, first: u32, mut each: impl FnMut(&RequestSlot, u64, u64)) {
        let (mut at, mut from) = (first, 0);
        for left in (0..=self.request(first).merged()).rev() {
            let request = self.request(at);
            at = request.chain.load(Relaxed);
            let to = match left {
                0 => self.cover_of(first).len(),
                _ => self.request(at).cut.load(Relaxed),
            };
            each(request, from, to);
            from = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use pipeline_transports::{Op, RegionId, Span};

    use super::*;
    use crate::ledger::{Birth, Ending};
    use crate::peer::PeerId;
    use crate::reason::Reason;

    const LENS: [u64; 4] = [10, 20, 5, 30];

    fn birth(offset: u64, len: u64) -> Birth {
        let span = Span { region: RegionId(1), offset };
        Birth {
            request: 0,
            batch: 0,
            peer: PeerId(0),
            op: Op::Write,
            local: span,
            remote: span,
            len,
            deadline: 1,
            transport: None,
        }
    }

    /// A run of four requests, of which the first `cut` bytes are cut.
    fn run(cut: u64) -> Ledger {
        let ledger = crate::testing::ledger(4, 4);
        ledger.request(0).open(0, 0);
        ledger.request(0).lead(3);
        ledger.request(0).cut.store(cut, Relaxed);
        for i in 1..4 {
            ledger.request(i as u32).follow(LENS[..i].iter().sum());
            ledger.request(i as u32 - 1).chain.store(i as u32, Relaxed);
        }
        ledger.cover_of(0).bear(&birth(100, LENS.iter().sum()));
        ledger
    }

    fn failed(ledger: &Ledger) -> [bool; 4] {
        [0, 1, 2, 3].map(|i| !ledger.request(i).code().is_done())
    }

    /// Whatever bytes a failed slice has, exactly the requests that have some of them fail, and each by the first slice
    /// that did.
    #[test]
    fn a_slice_fails_its_own() {
        let late = Code::new(Reason::Deadline, 1);
        for (at, len, expected) in [
            (0, 10, [true, false, false, false]),
            (9, 2, [true, true, false, false]),
            (10, 20, [false, true, false, false]),
            (29, 7, [false, true, true, true]),
            (34, 1, [false, false, true, false]),
            (64, 1, [false, false, false, true]),
            (0, 65, [true; 4]),
        ] {
            let ledger = run(65);
            let slice = ledger.at(0);
            slice.bear(&birth(100 + at, len));
            ledger.note_failure(slice, false, late);
            ledger.note_failure(slice, false, Code::new(Reason::Cancelled, 1));
            assert_eq!(failed(&ledger), expected, "{len} bytes at {at}");
            let count = expected.iter().filter(|failed| **failed).count() as u32;
            assert_eq!(ledger.tally_run(0), (4, count));
            let of = |i: u32| ledger.request(i).code();
            assert!((0..4).filter(|i| expected[*i as usize]).all(|i| of(i) == late));
        }
    }

    /// A cover slice that ends early fails those of whom bytes are not cut yet, and no others.
    #[test]
    fn a_cover_fails_what_is_not_cut() {
        for (cut, expected) in
            [(0, [true; 4]), (10, [false, true, true, true]), (31, [false, false, true, true])]
        {
            let ledger = run(cut);
            ledger.note_failure(ledger.cover_of(0), true, Code::new(Reason::Deadline, 1));
            assert_eq!(failed(&ledger), expected, "{cut} bytes cut");
        }
    }

    /// A run that is well is counted as all of its requests, without a look at those behind the first.
    #[test]
    fn a_run_that_is_well() {
        let ledger = run(0);
        ledger.request(2).note(Code::new(Reason::Deadline, 1));
        assert_eq!(ledger.tally_run(0), (4, 0), "nobody has told the first that one failed");
        assert_eq!(ledger.unfinished(None), 0, "no request was taken from the table");
        Ending::new(&ledger).finish();
    }
}
