//! One file's turn: its engine is started, reaches the target, is warmed, measured, left idle, and stopped.
//!
//! In this process, and only for its turn: then no other engine runs meanwhile, whatever it does when it is idle (one that
//! spins would take a CPU from the others), and the kernel's counters of this process are those of this file. A process for
//! each file, stopped between its turns, would keep its links: to the target it would be dead for as long as it stands
//! (`limits.silence`), and bytes that stay within a process could not be compared at all. What a start costs is not measured.

use std::time::{Duration, Instant};

use pipeline_node::{Config, Engine, Observation, Peer, Region, Segment};

use super::against::Against;
use super::course::{Course, Story, Tale};
use super::measured::{Done, Measured, Meter};
use super::memory::memory_of;
use super::shape::Shape;
use crate::cli::bench::record::play::{Pace, Play};
use crate::cli::bench::trace::{Bytes, Desk, Fill, Replay, Setting, Shares, Speed, Store};
use crate::cli::exit::Failure;
use crate::cli::failures::engine;
use crate::cli::file;
use crate::cli::load::timed::{Load, Until};
use crate::cli::load::usage::cpu_ns;
use crate::cli::load::{Direction, Waiting};

/// Before each cell: links open, thresholds settle.
pub const WARM_UP: Duration = Duration::from_millis(50);
/// How long the engine is left alone after the work, for its CPU time.
pub const IDLE: Duration = Duration::from_millis(300);
/// What an idle engine may take to fall asleep, at the longest that is customary; it is not counted.
pub const SETTLE: Duration = Duration::from_millis(150);
/// How long the target may take to be reached.
const OPEN: Duration = Duration::from_secs(10);
/// What blocks of a trace are filled from: the same in every turn, as they are filled once.
const SEED: u64 = 0x636F_6D70_6172_6521;

/// The same node, out of the way of the one that may run from this file, and with nothing that a target of ours lacks.
pub fn beside(mut config: Config, target_is_named: bool) -> Config {
    config.segments.clear();
    config.node.listen = "127.0.0.1:0".into();
    config.node.advertise.clear();
    (config.admin_socket, config.metrics_listen) = (None, None);
    if !target_is_named {
        config.auth_key_file = None;
    }
    config
}

/// A started engine that has reached the target.
pub struct Session<'a> {
    engine: Engine,
    peer: Peer,
    segment: Segment,
    region: Region,
    waits: Waiting,
    against: &'a Against,
}

impl<'a> Session<'a> {
    /// Starts it, with memory for all of the course.
    ///
    /// # Errors
    /// 71 when it cannot be started, 69 when the target cannot be reached, 1 when that lacks the segment.
    pub fn start(
        config: Config,
        waits: Waiting,
        against: &'a Against,
        segment: &str,
        course: &Course,
    ) -> Result<Self, Failure> {
        let node = Engine::start(file::unpublished(config)).map_err(|e| engine(&e))?;
        let region = node.allocate(course.local_bytes()).map_err(|e| engine(&e))?;
        let peer = node.open_within(&against.address, OPEN).map_err(|e| engine(&e))?;
        let segment = memory_of(&peer, segment)?;
        let needed = match course.story {
            // Blocks share places where there are fewer.
            Some(_) => 1,
            None => course.target_bytes(),
        };
        if segment.len() < needed {
            let (name, has) = (segment.name(), segment.len());
            return Err(Failure::failed(format!(
                "segment `{name}` of the target has {has} bytes and this work needs {needed}; enlarge it, or lower --batch or --depth"
            )));
        }
        Ok(Self { engine: node, peer, segment, region, waits, against })
    }

    fn load<'s>(&'s self, shape: &Shape, duration: Duration) -> Load<'s> {
        Load {
            engine: &self.engine,
            region: &self.region,
            segment: &self.segment,
            op: shape.op,
            layout: shape.layout,
            size: shape.bytes,
            batch: shape.batch,
            depth: shape.depth,
            threads: 1,
            rate: None,
            until: Until::Time(duration),
            waits: self.waits,
        }
    }

    /// Gives every page of all shapes memory of its own: here, and at a target that is `new`.
    ///
    /// # Errors
    /// When the target cannot be written to.
    pub fn touch(&self, shapes: &[Shape], new: bool) -> Result<(), String> {
        let largest = shapes.iter().max_by_key(|shape| shape.layout.bytes());
        largest.map_or(Ok(()), |shape| self.load(shape, Duration::ZERO).touch(new))
    }

    /// All of the course: a cell for each shape, or the trace from its beginning to its end. What the target needs to hold is sent
    /// to it first, unless it `is_filled`.
    ///
    /// # Errors
    /// The first request that failed.
    pub fn run(&self, course: &Course, duration: Duration, is_filled: bool) -> Result<Vec<Measured>, String> {
        if let Some(story) = &course.story {
            return self.replay(story, is_filled).map(|measured| vec![measured]);
        }
        if let Some(tale) = &course.tale {
            return self.play(tale, duration, is_filled).map(|measured| vec![measured]);
        }
        self.touch(&course.shapes, !is_filled)?;
        course.shapes.iter().map(|shape| self.cell(shape, course.warm_up(duration), duration)).collect()
    }

    /// One cell.
    ///
    /// # Errors
    /// The first request that failed.
    fn cell(&self, shape: &Shape, warm_up: Duration, duration: Duration) -> Result<Measured, String> {
        self.load(shape, warm_up).run().trouble.map_or(Ok(()), Err)?;
        self.timed(shape, duration).map(|(measured, _)| measured)
    }

    /// What a cell begins with, and does not count.
    ///
    /// # Errors
    /// The first request that failed.
    pub fn warm(&self, shape: &Shape, duration: Duration) -> Result<(), String> {
        self.load(shape, WARM_UP.min(duration)).run().trouble.map_or(Ok(()), Err)
    }

    /// What counts of a cell.
    ///
    /// # Errors
    /// The first request that failed.
    pub fn timed(&self, shape: &Shape, duration: Duration) -> Result<(Measured, Done), String> {
        let load = self.load(shape, duration);
        let meter = Meter::start(&self.engine, &self.peer, self.against);
        let round = load.run();
        let tally = &round.tally;
        let done = Done {
            requests: tally.requests,
            bytes: tally.bytes,
            elapsed_ns: tally.elapsed_ns,
            latency_us: [50.0, 99.0, 99.9].map(|percent| tally.latency_us(percent)),
        };
        let measured = meter.stop(&done);
        round.trouble.map_or(Ok((measured, done)), Err)
    }

    /// A record, again and again until the time is over.
    ///
    /// # Errors
    /// The first request that failed.
    fn play(&self, tale: &Tale, duration: Duration, is_filled: bool) -> Result<Measured, String> {
        const MIB: u64 = 1 << 20;
        let all = Shape::new(Direction::Write, MIB, self.region.len() / MIB, 1)?;
        self.touch(&[all], !is_filled)?;
        let over = |time| Play {
            engine: &self.engine,
            region: &self.region,
            segments: std::slice::from_ref(&self.segment),
            record: &tale.record,
            pace: Pace::Asap(tale.depth),
            time: Some(time),
            waits: self.waits,
        };
        if let Some(trouble) = over(WARM_UP.min(duration)).run().trouble {
            return Err(trouble);
        }
        let meter = Meter::start(&self.engine, &self.peer, self.against);
        let played = over(duration).run();
        let tally = &played.tally;
        let measured = meter.stop(&Done {
            requests: tally.requests,
            bytes: tally.bytes,
            elapsed_ns: tally.elapsed_ns,
            latency_us: [50.0, 99.0, 99.9].map(|percent| tally.latency_us(percent)),
        });
        played.trouble.map_or(Ok(measured), Err)
    }

    /// A trace from its beginning to its end. Its blocks are sent to the target first, if they are not there.
    ///
    /// # Errors
    /// The first request that failed.
    fn replay(&self, story: &Story, is_filled: bool) -> Result<Measured, String> {
        let shares = Shares::new(&story.trace.ids, 1);
        let store = Store::new(shares, story.local.size(), 1, &[self.segment.len()]);
        let store = store.map_err(|e| e.to_string())?;
        let bytes = Bytes { region: &self.region, local: story.local, store: &store, seed: SEED };
        let segments = std::slice::from_ref(&self.segment);
        // Pages of ours have memory of their own from here on.
        bytes.clear()?;
        if !is_filled {
            bytes.fill_peers(&self.engine, segments)?;
        }
        let setting = Setting {
            engine: &self.engine,
            segments,
            bytes,
            trace: &story.trace,
            speed: Speed::Max,
            depth: story.depth as usize,
            batch: story.batch as usize,
            waits: self.waits,
            is_shown: false,
        };
        let desk = Desk::new(&story.trace, story.local.slots as u32, Fill::Warm);
        let meter = Meter::start(&self.engine, &self.peer, self.against);
        let outcome = Replay::new(&setting, desk, None)?.run();
        let moved = &outcome.moved;
        let measured = meter.stop(&Done {
            requests: outcome.counts.read,
            bytes: moved.bytes,
            elapsed_ns: moved.elapsed_ns,
            latency_us: [50.0, 99.0, 99.9].map(|percent| moved.latency_us(percent)),
        });
        outcome.trouble.map_or(Ok(measured), Err)
    }

    /// Everything that the engine measures of itself, now.
    pub fn observe(&self) -> Observation {
        self.engine.observe()
    }

    /// CPU of the engine while nothing is asked of it, percent of a core.
    pub fn idle_cpu_pct(&self) -> f64 {
        std::thread::sleep(SETTLE);
        let (begin, before) = (Instant::now(), self.against.own_cpu_ns(cpu_ns()));
        std::thread::sleep(IDLE);
        let used = self.against.own_cpu_ns(cpu_ns()).saturating_sub(before);
        100.0 * used as f64 / begin.elapsed().as_nanos() as f64
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // Before the next one starts: the last handle may live on in a peer.
        self.engine.stop();
    }
}
