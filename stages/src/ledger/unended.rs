//! Batches that have not ended, for whoever looks from outside. Deliberately without any lock and any list: it walks the table,
//! and what ends meanwhile is told as it was a moment ago.

use std::sync::atomic::Ordering::Relaxed;

use pipeline_graph::Nanos;

use super::Ledger;

/// Requests of one batch that are looked at, one by one, at most.
const LOOKED_AT: u32 = 65_536;

/// A batch that has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenBatch {
    /// Its place in the table.
    pub index: u32,
    /// Since it was submitted.
    pub age_ns: Nanos,
    /// Requests.
    pub requests: u32,
    /// Those that have not ended, of the first 65 536.
    pub left: u32,
    /// Those that have failed.
    pub failed: u32,
    /// Whether its end was asked for.
    pub cancelled: bool,
    /// Whether only its notice is left.
    pub notice: bool,
}

impl Ledger {
    /// How many batches have not ended, and the `most` oldest of them, the oldest first.
    pub fn open_batches(&self, now: Nanos, most: usize) -> (usize, Vec<OpenBatch>) {
        let all = 0..self.batches.limit();
        let mut open: Vec<(Nanos, u32)> = all
            .filter(|batch| !self.batches.word(*batch).is_done())
            .map(|batch| (self.batches.submitted_at(batch), batch))
            .collect();
        let total = open.len();
        open.sort_unstable();
        open.truncate(most);
        (total, open.into_iter().map(|(at, batch)| self.open_batch(now.saturating_sub(at), batch)).collect())
    }

    fn open_batch(&self, age_ns: Nanos, index: u32) -> OpenBatch {
        let (mut at, _, requests) = self.batches.chain(index);
        let mut left = 0;
        for _ in 0..requests.min(LOOKED_AT) {
            let Some(request) = self.requests.get(at as usize) else { break };
            left += u32::from(request.is_open()) * (1 + request.merged());
            at = request.chain.load(Relaxed);
        }
        let word = self.batches.word(index);
        OpenBatch {
            index,
            age_ns,
            requests,
            left: left.min(requests),
            failed: self.batches.tally(index).1,
            cancelled: word.is_cancelled(),
            notice: left == 0 && word.marks().notice,
        }
    }
}
