//! The timed loop: keeps so many batches in flight, and counts how each one ends.
//! Deliberately nothing but the public API: what is measured is what an application gets.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pipeline_node::{Batch, Engine, Region, Request, Segment, SubmitError};

use super::direction::Direction;
use super::layout::Layout;
use super::tally::Tally;
use super::waiting::{Waiter, Waiting};
use crate::cli::failures;

/// When a round ends.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// After a time; what is in flight then is still counted.
    Time(Duration),
    /// After so many batches of each thread.
    Batches(u64),
}

/// One size, ready to run.
pub struct Load<'a> {
    /// Ours.
    pub engine: &'a Engine,
    /// Local bytes.
    pub region: &'a Region,
    /// The target's.
    pub segment: &'a Segment,
    /// Direction.
    pub op: Direction,
    /// Places.
    pub layout: Layout,
    /// Bytes a request.
    pub size: u64,
    /// Requests a batch.
    pub batch: u64,
    /// Batches in flight, a thread.
    pub depth: u64,
    /// Threads that submit.
    pub threads: u64,
    /// Requests a second over all threads.
    pub rate: Option<f64>,
    /// End.
    pub until: Until,
    /// How its threads wait for their batches.
    pub waits: Waiting,
}

/// What a round came to.
pub struct Round {
    /// Counts.
    pub tally: Tally,
    /// Requests each thread submitted: which places have been used follows from it.
    pub submitted: Vec<u64>,
    /// The first thing that went wrong.
    pub trouble: Option<String>,
}

struct Flight {
    batch: Batch,
    since_ns: u64,
}

impl Load<'_> {
    /// Runs one round.
    pub fn run(&self) -> Round {
        let start = Instant::now();
        if self.threads == 1 {
            // The calling thread is the application: what it uses stays to be seen.
            return self.thread(0, start);
        }
        let rounds: Vec<Round> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..self.threads).map(|t| scope.spawn(move || self.thread(t, start))).collect();
            threads.into_iter().filter_map(|t| t.join().ok()).collect()
        });
        let mut all = Round { tally: Tally::new(), submitted: Vec::new(), trouble: None };
        for round in rounds {
            all.tally.merge(&round.tally, true);
            all.submitted.extend(round.submitted);
            all.trouble = all.trouble.or(round.trouble);
        }
        all
    }

    /// The place of the `i`-th request of thread `t`.
    fn slot(&self, t: u64, i: u64) -> u64 {
        let own = self.depth * self.batch;
        (t * own + i % own) % self.layout.slots
    }

    /// Places that a round has used.
    pub fn used(&self, submitted: &[u64]) -> Vec<bool> {
        let mut used = vec![false; self.layout.slots as usize];
        for (t, &n) in submitted.iter().enumerate() {
            for i in 0..n.min(self.depth * self.batch) {
                used[self.slot(t as u64, i) as usize] = true;
            }
        }
        used
    }

    fn thread(&self, t: u64, start: Instant) -> Round {
        let mut flights: VecDeque<Flight> = VecDeque::with_capacity(self.depth as usize);
        let mut requests = Vec::new();
        let mut round = Round { tally: Tally::new(), submitted: vec![0], trouble: None };
        let waiter = match Waiter::new(self.waits, self.engine) {
            Ok(waiter) => waiter,
            Err(trouble) => return Round { trouble: Some(trouble), ..round },
        };
        let mut batches = 0;
        loop {
            let now = nanos(start.elapsed());
            let more = round.trouble.is_none()
                && match self.until {
                    Until::Time(time) => now < nanos(time),
                    Until::Batches(n) => batches < n,
                };
            let due = self.due(t, batches);
            if more && (flights.len() as u64) < self.depth && due <= now {
                self.build(t, round.submitted[0], &mut requests);
                match self.engine.submit(&requests, waiter.options()) {
                    Ok(batch) => {
                        // With a rate, a late start counts: latency is from the intended time.
                        let since_ns = if self.rate.is_some() { due } else { now };
                        flights.push_back(Flight { batch, since_ns });
                        round.submitted[0] += self.batch;
                        batches += 1;
                        continue;
                    }
                    Err(SubmitError::Busy { .. }) => {}
                    Err(e) => {
                        round.trouble = Some(e.to_string());
                        continue;
                    }
                }
            }
            if self.reap(&mut flights, &mut round, start) {
                continue;
            }
            if flights.is_empty() && !more {
                round.tally.elapsed_ns = nanos(start.elapsed());
                return round;
            }
            pause(&waiter, &flights, if more { due.saturating_sub(now) } else { u64::MAX });
        }
    }

    /// When batch `i` of thread `t` is meant to start, nanoseconds from the start of the round.
    fn due(&self, t: u64, i: u64) -> u64 {
        let Some(rate) = self.rate else { return 0 };
        let gap = self.batch as f64 * 1e9 / rate;
        ((i * self.threads + t) as f64 * gap) as u64
    }

    fn build(&self, t: u64, first: u64, requests: &mut Vec<Request>) {
        requests.clear();
        for i in first..first + self.batch {
            let pieces = self.layout.pieces(self.slot(t, i));
            requests.extend(pieces.map(|(offset, len)| match self.op {
                Direction::Write => Request::write(self.region, offset, self.segment.at(offset), len),
                Direction::Read => Request::read(self.region, offset, self.segment.at(offset), len),
            }));
        }
    }

    /// Counts the batches that have ended; `false` when none has.
    fn reap(&self, flights: &mut VecDeque<Flight>, round: &mut Round, start: Instant) -> bool {
        let mut any = false;
        let mut i = 0;
        while i < flights.len() {
            let Some(summary) = flights[i].batch.poll() else {
                // Batches end nearly in order: once the first is not done, the others rarely are.
                if any {
                    break;
                }
                i += 1;
                continue;
            };
            any = true;
            let Some(flight) = flights.remove(i) else { break };
            let at = nanos(start.elapsed());
            if summary.failed == 0 {
                round.tally.done(self.batch, self.batch * self.size, at, at.saturating_sub(flight.since_ns));
            } else {
                self.failed(&flight.batch, round, at, flight.since_ns);
            }
        }
        any
    }

    /// A batch of which some requests failed: a request is done when all of its pieces are.
    fn failed(&self, batch: &Batch, round: &mut Round, at: u64, since_ns: u64) {
        let results: Vec<_> = batch.results().collect();
        for pieces in results.chunks(results.len() / self.batch as usize) {
            let failure = pieces.iter().find_map(|s| match s {
                pipeline_node::Status::Failed(failure) => Some(failure),
                _ => None,
            });
            match failure {
                None => round.tally.done(1, self.size, at, at.saturating_sub(since_ns)),
                Some(failure) => {
                    round.tally.failed(1);
                    round.trouble.get_or_insert_with(|| failures::request(failure));
                }
            }
        }
    }
}

/// Waits until the oldest batch has ended or the next one is due.
fn pause(waiter: &Waiter<'_>, flights: &VecDeque<Flight>, due_in_ns: u64) {
    let bound = if due_in_ns == 0 { 10_000_000 } else { due_in_ns.min(100_000_000) };
    let bound = Duration::from_nanos(bound);
    match flights.front() {
        Some(flight) => waiter.pause(&flight.batch, bound),
        // Nothing in flight: not due yet, or busy with somebody else's work.
        None => std::thread::sleep(bound.min(Duration::from_micros(100))),
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
