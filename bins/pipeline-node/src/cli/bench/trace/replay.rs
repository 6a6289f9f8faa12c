//! The loop of a replay: begins requests when they are due, submits the blocks they miss, and notes when they come.
//! Deliberately nothing but the public API on the path, and one thread: what is measured is what a connector of an
//! inference engine would get.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pipeline_node::{Batch, Engine, Request, Segment, Status, SubmitError};

use super::args::Speed;
use super::bytes::{Bytes, Scratch};
use super::check::{Checker, Task};
use super::desk::{Counts, Desk, Event, Job};
use super::form::Trace;
use super::peak::Peak;
use super::progress::Progress;
use crate::cli::failures;
use crate::cli::load::tally::Tally;
use crate::cli::load::{Waiter, Waiting};

/// The longest sleep: ends of other batches than the oldest are seen within it.
const NAP: Duration = Duration::from_millis(1);

/// What is replayed, and against what.
pub struct Setting<'a> {
    /// Ours.
    pub engine: &'a Engine,
    /// By peer.
    pub segments: &'a [Segment],
    /// Where blocks lie.
    pub bytes: Bytes<'a>,
    /// What is asked for.
    pub trace: &'a Trace,
    /// How fast.
    pub speed: Speed,
    /// Requests of the trace that are open at a time.
    pub depth: usize,
    /// Blocks submitted together.
    pub batch: usize,
    /// How the loop waits for its batches.
    pub waits: Waiting,
    /// Whether a bar may be drawn.
    pub is_shown: bool,
}

/// What came of it.
pub struct Outcome {
    /// All bytes moved; latencies are those of requests that waited for blocks.
    pub moved: Tally,
    /// The best 100 ms.
    pub peak: Peak,
    /// Latencies from the same times to the last block written.
    pub written: Tally,
    /// How late requests began.
    pub behind: Tally,
    /// Blocks, by what became of them.
    pub counts: Counts,
    /// Requests that were begun.
    pub begun: usize,
    /// By peer: bytes moved.
    pub by_peer: Vec<u64>,
    /// Bytes moved by READ.
    pub bytes_read: u64,
    /// Bytes moved by WRITE.
    pub bytes_written: u64,
    /// The first thing that went wrong: nothing was begun after it.
    pub trouble: Option<String>,
}

struct Flight {
    batch: Batch,
    jobs: Vec<Job>,
    is_read: bool,
    /// When it was submitted.
    since_ns: u64,
}

/// A replay under way.
pub struct Replay<'a, 'c, 's> {
    setting: &'a Setting<'a>,
    waiter: Waiter<'a>,
    desk: Desk<'a>,
    /// With `--check`.
    checker: Option<&'c mut Checker<'s>>,
    scratch: Scratch,
    start: Instant,
    next: usize,
    flights: VecDeque<Flight>,
    requests: Vec<Request>,
    events: Vec<Event>,
    done: u64,
    outcome: Outcome,
}

impl<'a, 'c, 's> Replay<'a, 'c, 's> {
    /// Ready to run.
    ///
    /// # Errors
    /// Why it cannot wait as it shall.
    pub fn new(
        setting: &'a Setting<'a>,
        desk: Desk<'a>,
        checker: Option<&'c mut Checker<'s>>,
    ) -> Result<Self, String> {
        let outcome = Outcome {
            moved: Tally::new(),
            peak: Peak::default(),
            written: Tally::new(),
            behind: Tally::new(),
            counts: Counts::default(),
            begun: 0,
            by_peer: vec![0; setting.segments.len()],
            bytes_read: 0,
            bytes_written: 0,
            trouble: None,
        };
        Ok(Self {
            setting,
            waiter: Waiter::new(setting.waits, setting.engine)?,
            desk,
            checker,
            scratch: Scratch::new(),
            start: Instant::now(),
            next: 0,
            flights: VecDeque::new(),
            requests: Vec::new(),
            events: Vec::new(),
            done: 0,
            outcome,
        })
    }

    /// Runs it to its end, or to the first trouble and what was under way then.
    pub fn run(mut self) -> Outcome {
        let mut progress = Progress::new(self.setting.trace.entries.len() as u64, self.setting.is_shown);
        self.start = Instant::now();
        loop {
            let mut moved = self.begin();
            moved |= self.submit();
            moved |= self.reap();
            moved |= self.take_back(Duration::ZERO);
            progress.tell(self.done, self.outcome.moved.bytes, self.start.elapsed());
            if moved {
                continue;
            }
            if self.is_over() {
                break;
            }
            self.pause();
        }
        self.outcome.counts = self.desk.counts;
        self.outcome.begun = self.next;
        self.outcome
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// When the next request is meant to begin; `None` when none is to begin any more.
    fn due(&self) -> Option<u64> {
        let entry = self.setting.trace.entries.get(self.next).filter(|_| self.outcome.trouble.is_none())?;
        Some(match self.setting.speed {
            Speed::Max => 0,
            Speed::Times(times) => (entry.at_ns as f64 / times) as u64,
        })
    }

    fn begin(&mut self) -> bool {
        let mut any = false;
        while let Some(due) = self.due() {
            let now = self.now();
            // What still waits for room in the engine is asked for first.
            let held_up = !self.desk.reads.is_empty() || !self.desk.writes.is_empty();
            if due > now || held_up || self.desk.open() >= self.setting.depth {
                break;
            }
            // A late start counts: latency is from the intended time, where there is one.
            let since = if self.setting.speed == Speed::Max { now } else { due };
            if !self.desk.begin(self.next, since, &mut self.events) {
                break;
            }
            self.next += 1;
            self.outcome.behind.done(1, 0, now, now - since);
            any = true;
            self.note(now);
            self.submit();
        }
        any
    }

    /// Submits what was asked for, as far as the engine has room.
    fn submit(&mut self) -> bool {
        let mut any = false;
        for is_read in [true, false] {
            while self.submit_one(is_read) {
                any = true;
            }
        }
        any
    }

    /// Submits the next blocks of one request, if there are any and there is room.
    fn submit_one(&mut self, is_read: bool) -> bool {
        let setting = self.setting;
        let queue = if is_read { &mut self.desk.reads } else { &mut self.desk.writes };
        let Some(request) = queue.front().map(|job| job.request) else { return false };
        let same = queue.iter().take(setting.batch).take_while(|job| job.request == request);
        self.requests.clear();
        let mut jobs = Vec::with_capacity(setting.batch);
        for job in same {
            let (peer, place) = setting.bytes.store.find(job.block);
            let local = setting.bytes.local.pieces(u64::from(job.slot));
            let remote = setting.bytes.store.shelves[peer].layout.pieces(place);
            let (region, segment) = (setting.bytes.region, &setting.segments[peer]);
            self.requests.extend(local.zip(remote).map(|((local, len), (remote, _))| match is_read {
                true => Request::read(region, local, segment.at(remote), len),
                false => Request::write(region, local, segment.at(remote), len),
            }));
            jobs.push(*job);
        }
        let prepared = match (is_read, &self.checker) {
            (false, Some(_)) => self.fill(&jobs),
            _ => Ok(()),
        };
        let submitted = prepared.map(|()| setting.engine.submit(&self.requests, self.waiter.options()));
        let queue = if is_read { &mut self.desk.reads } else { &mut self.desk.writes };
        match submitted {
            Ok(Ok(batch)) => {
                queue.drain(..jobs.len());
                let since_ns = self.now();
                self.flights.push_back(Flight { batch, jobs, is_read, since_ns });
                true
            }
            Ok(Err(SubmitError::Busy { .. })) => false,
            Ok(Err(error)) => self.give_up(is_read, &jobs, error.to_string()),
            Err(error) => self.give_up(is_read, &jobs, error),
        }
    }

    /// Gives new blocks their bytes, which --check looks for at the peers.
    fn fill(&mut self, jobs: &[Job]) -> Result<(), String> {
        jobs.iter().try_for_each(|job| self.setting.bytes.put(job.slot, job.block, &mut self.scratch))
    }

    /// What cannot be submitted has failed.
    fn give_up(&mut self, is_read: bool, jobs: &[Job], trouble: String) -> bool {
        let queue = if is_read { &mut self.desk.reads } else { &mut self.desk.writes };
        queue.drain(..jobs.len());
        self.outcome.trouble.get_or_insert(trouble);
        let now = self.now();
        jobs.iter().for_each(|job| self.end(*job, is_read, false));
        self.note(now);
        true
    }

    /// Notes the blocks that have come; `false` when none has.
    fn reap(&mut self) -> bool {
        let mut any = false;
        let mut i = 0;
        while i < self.flights.len() {
            let Some(summary) = self.flights[i].batch.poll() else {
                // Batches end nearly in order: once the first is not done, the others rarely are.
                if any {
                    break;
                }
                i += 1;
                continue;
            };
            any = true;
            let Some(flight) = self.flights.remove(i) else { break };
            let now = self.now();
            let good = flight.jobs.len() as u64 * self.setting.bytes.local.size();
            self.outcome.peak.add(if summary.failed == 0 { good } else { 0 }, flight.since_ns, now);
            match summary.failed {
                0 => flight.jobs.iter().for_each(|job| self.end(*job, flight.is_read, true)),
                _ => self.end_failed(&flight),
            }
            self.note(now);
        }
        any
    }

    /// A batch of which some requests failed: a block has come when all of its pieces have.
    fn end_failed(&mut self, flight: &Flight) {
        let results: Vec<_> = flight.batch.results().collect();
        let pieces = results.len() / flight.jobs.len();
        for (job, pieces) in flight.jobs.iter().zip(results.chunks(pieces)) {
            let failure = pieces.iter().find_map(|status| match status {
                Status::Failed(failure) => Some(failure),
                _ => None,
            });
            if let Some(failure) = failure {
                self.outcome.trouble.get_or_insert_with(|| failures::request(failure));
            }
            self.end(*job, flight.is_read, failure.is_none());
        }
    }

    /// The end of a block's way.
    fn end(&mut self, job: Job, is_read: bool, ok: bool) {
        let now = self.now();
        let (peer, _) = self.setting.bytes.store.find(job.block);
        if ok {
            let bytes = self.setting.bytes.local.size();
            self.outcome.moved.done(0, bytes, now, 0);
            self.outcome.by_peer[peer] += bytes;
            let sum = if is_read { &mut self.outcome.bytes_read } else { &mut self.outcome.bytes_written };
            *sum += bytes;
        }
        if let Some(checker) = &mut self.checker {
            self.desk.hold(job.slot);
            checker.give(match (is_read, ok) {
                (true, true) => Task::Compare { slot: job.slot, block: job.block },
                _ => Task::Wipe { slot: job.slot },
            });
        }
        match is_read {
            true => self.desk.has_read(job, ok, &mut self.events),
            false => self.desk.has_written(job, ok, &mut self.events),
        }
    }

    /// Counts what has happened to requests by `now`.
    fn note(&mut self, now: u64) {
        self.outcome.moved.elapsed_ns = now;
        for event in self.events.drain(..) {
            match event {
                Event::Loaded { since_ns, waited: true, ok: true } => {
                    self.outcome.moved.done(1, 0, now, now.saturating_sub(since_ns));
                }
                Event::Written { since_ns, ok: true } => {
                    self.outcome.written.done(1, 0, now, now.saturating_sub(since_ns));
                }
                Event::Closed { ok } => {
                    self.done += 1;
                    self.outcome.moved.failed(u64::from(!ok));
                }
                _ => {}
            }
        }
    }

    /// Slots that the checking thread is done with.
    fn take_back(&mut self, patience: Duration) -> bool {
        let mut any = false;
        while let Some(checker) = &mut self.checker {
            match checker.back(if any { Duration::ZERO } else { patience }) {
                Ok(Some(slot)) => self.desk.release(slot),
                Ok(None) => break,
                Err(error) => {
                    // What it still has is not looked at: the replay has failed.
                    self.outcome.trouble.get_or_insert(error);
                    self.checker = None;
                }
            }
            any = true;
        }
        any
    }

    fn is_over(&self) -> bool {
        let checking = self.checker.as_ref().map_or(0, |checker| checker.pending());
        self.due().is_none() && self.desk.open() == 0 && self.flights.is_empty() && checking == 0
    }

    /// Sleeps until the oldest batch has ended, the next request is due, or a moment has passed.
    fn pause(&mut self) {
        let until_due = self.due().map(|due| Duration::from_nanos(due.saturating_sub(self.now())));
        let nap = until_due.filter(|due| !due.is_zero()).map_or(NAP, |due| due.min(NAP));
        match self.flights.front() {
            Some(flight) => self.waiter.pause(&flight.batch, nap),
            None if self.checker.as_ref().is_some_and(|checker| checker.pending() > 0) => {
                self.take_back(nap);
            }
            // Nothing in flight: not due yet, or busy with somebody else's work.
            None => std::thread::sleep(nap),
        }
    }
}
