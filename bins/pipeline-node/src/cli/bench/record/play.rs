//! A record played against real nodes: each batch is submitted when it was, or as soon as there is room, whatever became of
//! those before it.
//!
//! Deliberately not where its bytes lay, which a record does not say: each request has a place of its own, apart from its
//! neighbours, so that nothing is merged that may not have been mergeable.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pipeline_node::{Batch, Engine, Region, Request, Segment, Status, SubmitError};

use super::form::{Record, Run};
use crate::cli::failures;
use crate::cli::load::tally::Tally;
use crate::cli::load::{Direction, Waiter, Waiting};

/// Places begin at multiples of this, and lie at least this far apart.
const APART: u64 = 64;
/// Batches that are looked at for their end in a turn: they end nearly in order.
const LOOKED_AT: usize = 64;

/// How fast time passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// So many times as fast as in the record; latency is from the intended time.
    Times(f64),
    /// So many batches in flight, each as soon as it may; latency is from its submit.
    Asap(u64),
}

/// A record, ready to play.
pub struct Play<'a> {
    /// Ours.
    pub engine: &'a Engine,
    /// Local bytes.
    pub region: &'a Region,
    /// Peers of the record are these in turn.
    pub segments: &'a [Segment],
    /// It.
    pub record: &'a Record,
    /// How fast.
    pub pace: Pace,
    /// Begin again at its end until so much time has passed; `None`: once.
    pub time: Option<Duration>,
    /// How its thread waits.
    pub waits: Waiting,
}

/// What it came to.
pub struct Played {
    /// Counts.
    pub tally: Tally,
    /// Batches that were submitted.
    pub batches: u64,
    /// Of those, later than a millisecond after the intended time; and by how much at most.
    pub late: u64,
    /// See [`Self::late`].
    pub late_max_ns: u64,
    /// The first thing that went wrong.
    pub trouble: Option<String>,
}

struct Flight {
    batch: Batch,
    index: usize,
    since_ns: u64,
}

/// Bytes that a request of a run takes in memory, with what lies between.
fn span(run: &Run) -> u64 {
    let row = run.bytes / u64::from(run.rows);
    let row = if run.rows == 1 { row } else { row + APART };
    (row * u64::from(run.rows)).next_multiple_of(APART) + APART
}

/// Bytes of memory that the largest request of a record takes.
pub fn largest(record: &Record) -> u64 {
    (0..record.batches.len()).flat_map(|batch| record.runs(batch)).map(span).max().unwrap_or(0)
}

impl Play<'_> {
    /// Plays it.
    pub fn run(&self) -> Played {
        let start = Instant::now();
        let mut played = Played { tally: Tally::new(), batches: 0, late: 0, late_max_ns: 0, trouble: None };
        let waiter = match Waiter::new(self.waits, self.engine) {
            Ok(waiter) => waiter,
            Err(trouble) => return Played { trouble: Some(trouble), ..played },
        };
        let (mut flights, mut requests, mut place) = (VecDeque::new(), Vec::new(), 0);
        let mut built = false;
        loop {
            let now = nanos(start.elapsed());
            let (round, index) = (played.batches / self.len(), (played.batches % self.len()) as usize);
            let is_over = match self.time {
                Some(time) => now >= nanos(time),
                None => round > 0,
            };
            let more = played.trouble.is_none() && !is_over;
            let due = self.due(round, index);
            let has_room = !matches!(self.pace, Pace::Asap(depth) if flights.len() as u64 >= depth);
            if more && has_room && due <= now {
                if !std::mem::replace(&mut built, true) {
                    self.build(index, &mut place, &mut requests);
                }
                match self.engine.submit(&requests, waiter.options()) {
                    Ok(batch) => {
                        built = false;
                        played.batches += 1;
                        let is_open = matches!(self.pace, Pace::Times(_));
                        let since_ns = if is_open { due } else { now };
                        if is_open && now - due > 1_000_000 {
                            played.late += 1;
                            played.late_max_ns = played.late_max_ns.max(now - due);
                        }
                        flights.push_back(Flight { batch, index, since_ns });
                        continue;
                    }
                    Err(SubmitError::Busy { .. }) => {}
                    Err(e) => {
                        played.trouble = Some(e.to_string());
                        continue;
                    }
                }
            }
            if self.reap(&mut flights, &mut played, start) {
                continue;
            }
            if flights.is_empty() && !more {
                played.tally.elapsed_ns = nanos(start.elapsed());
                return played;
            }
            pause(&waiter, &flights, if more && has_room { due.saturating_sub(now) } else { u64::MAX });
        }
    }

    fn len(&self) -> u64 {
        self.record.batches.len() as u64
    }

    /// When a batch is meant to start, nanoseconds from the start.
    fn due(&self, round: u64, index: usize) -> u64 {
        match self.pace {
            Pace::Asap(_) => 0,
            Pace::Times(times) => {
                // A record that is played again begins anew after a gap like its mean one.
                let span = self.record.span_ns() as f64 * (1.0 + 1.0 / self.len() as f64);
                ((round as f64 * span + self.record.batches[index].at_ns as f64) / times) as u64
            }
        }
    }

    /// The requests of a batch, each at the next place.
    fn build(&self, index: usize, place: &mut u64, requests: &mut Vec<Request>) {
        requests.clear();
        for run in self.record.runs(index) {
            let segment = &self.segments[run.peer as usize % self.segments.len()];
            let (rows, row) = (run.rows, run.bytes / u64::from(run.rows));
            let memory = self.region.len().min(segment.len());
            for _ in 0..run.times {
                let at = if *place + span(run) > memory { 0 } else { *place };
                *place = at + span(run);
                let request = match run.op {
                    Direction::Write => Request::write(self.region, at, segment.at(at), row),
                    Direction::Read => Request::read(self.region, at, segment.at(at), row),
                };
                let stride = row + APART;
                requests.push(if rows == 1 { request } else { request.strided(rows, stride, stride) });
            }
        }
    }

    /// Counts the batches that have ended; `false` when none has.
    fn reap(&self, flights: &mut VecDeque<Flight>, played: &mut Played, start: Instant) -> bool {
        let mut any = false;
        let mut i = 0;
        while i < flights.len().min(LOOKED_AT) {
            let Some(summary) = flights[i].batch.poll() else {
                i += 1;
                continue;
            };
            any = true;
            let Some(flight) = flights.remove(i) else { break };
            let at = nanos(start.elapsed());
            let latency = at.saturating_sub(flight.since_ns);
            let batch = &self.record.batches[flight.index];
            if summary.failed == 0 {
                played.tally.done(batch.requests, batch.bytes, at, latency);
                continue;
            }
            let runs = self.record.runs(flight.index);
            let sizes = runs.iter().flat_map(|run| std::iter::repeat_n(run.bytes, run.times as usize));
            for (status, bytes) in flight.batch.results().zip(sizes) {
                match status {
                    Status::Failed(failure) => {
                        played.tally.failed(1);
                        played.trouble.get_or_insert_with(|| failures::request(&failure));
                    }
                    _ => played.tally.done(1, bytes, at, latency),
                }
            }
        }
        any
    }
}

/// Waits until the oldest batch has ended or the next one is due.
fn pause(waiter: &Waiter<'_>, flights: &VecDeque<Flight>, due_in_ns: u64) {
    let bound = if due_in_ns == 0 { 10_000_000 } else { due_in_ns.min(100_000_000) };
    let bound = Duration::from_nanos(bound);
    match flights.front() {
        Some(flight) => waiter.pause(&flight.batch, bound),
        // Not due yet: as exactly as the system sleeps.
        None => std::thread::sleep(bound),
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
