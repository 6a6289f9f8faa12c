//! What is done in a turn: one request at a time, batches of some sizes, a trace, or a record.
//! Deliberately fixed sizes: figures of two runs stand beside each other.

use std::path::Path;
use std::time::Duration;

use super::args::{Work, WorkArgs};
use super::session::WARM_UP;
use super::shape::{MEMORY, SUPPOSED, Shape};
use crate::cli::bench::record::form::Record;
use crate::cli::bench::record::{self, play::largest};
use crate::cli::bench::trace::form::Trace;
use crate::cli::bench::trace::refused;
use crate::cli::exit::Failure;
use crate::cli::generate_trace::{self, Parameters};
use crate::cli::load::Direction;
use crate::cli::load::layout::Layout;

/// The size of requests that go one at a time.
const SINGLE: u64 = 4 << 10;
/// The sizes of requests that go in batches.
const SIZES: [u64; 3] = [4 << 10, 64 << 10, 1 << 20];
/// Bytes of a block of a trace.
const BLOCK: u64 = 64 << 10;
/// Tokens of a block.
const BLOCK_TOKENS: u64 = 512;
/// Requests of a file that are replayed when nobody says.
const LIMIT: u64 = 500;

/// A trace, and the cache that its blocks come to.
pub struct Story {
    /// What is asked for.
    pub trace: Trace,
    /// The cache here.
    pub local: Layout,
    /// Requests that are open at a time.
    pub depth: u64,
    /// Blocks submitted together.
    pub batch: u64,
    /// Where it comes from.
    pub name: String,
}

/// A record of what was submitted.
pub struct Tale {
    /// It.
    pub record: Record,
    /// Batches in flight.
    pub depth: u64,
    /// Where it comes from.
    pub name: String,
}

/// All of it.
#[derive(Default)]
pub struct Course {
    /// One for each cell of a row. Of a trace or a record only the bare loop runs it.
    pub shapes: Vec<Shape>,
    /// Instead of the shapes.
    pub story: Option<Story>,
    /// Instead of the shapes.
    pub tale: Option<Tale>,
    /// Whether each cell is warmed for as long as threads take to settle, however short it is.
    pub is_settled: bool,
}

/// Before each cell of a course of latency. A wait that adapts has learnt its gaps by then; measured in its first 200 ms it looks
/// 8 % worse than it is (docs/tuning.md).
const SETTLED: Duration = Duration::from_millis(150);

impl Course {
    /// As the command line says.
    ///
    /// # Errors
    /// 2 for options that do not go together, 65 and 71 for a trace that makes no sense or cannot be read.
    pub fn new(args: &WorkArgs) -> Result<Self, Failure> {
        let (work, op) = (args.work(), args.op());
        if let Some(why) = args.without_meaning() {
            return Err(Failure::usage(why));
        }
        let shape = |bytes, batch, depth| Shape::new(op, bytes, batch, depth).map_err(Failure::usage);
        let single = || shape(SINGLE, 1, 1);
        let batches = || SIZES.into_iter().map(|bytes| shape(bytes, args.batch(), args.depth()));
        Ok(match work {
            Work::Latency => Self { shapes: vec![single()?], is_settled: true, ..Self::default() },
            Work::Sweep => {
                let shapes = std::iter::once(single()).chain(batches()).collect::<Result<_, _>>()?;
                Self { shapes, ..Self::default() }
            }
            Work::Trace(file) => Self {
                // What a replay does most: blocks that somebody waits for, a batch of them at a time.
                shapes: vec![Shape::new(Direction::Read, BLOCK, args.batch(), 4).map_err(Failure::usage)?],
                story: Some(Story::new(args, file.as_deref())?),
                ..Self::default()
            },
            Work::Record(file) => {
                let tale = Tale::read(&file, args.depth())?;
                Self { shapes: vec![tale.shape()?], tale: Some(tale), ..Self::default() }
            }
        })
    }

    /// Whether it is one cell that no shape describes.
    pub fn is_told(&self) -> bool {
        self.story.is_some() || self.tale.is_some()
    }

    /// Whether it is one request at a time and nothing else.
    pub fn is_latency(&self) -> bool {
        self.is_settled
    }

    /// How long each cell is warmed.
    pub fn warm_up(&self, cell: Duration) -> Duration {
        if self.is_settled { SETTLED } else { WARM_UP.min(cell) }
    }

    /// Bytes it needs on the side of the initiator.
    pub fn local_bytes(&self) -> u64 {
        if let Some(tale) = &self.tale {
            return tale.memory();
        }
        let loops = self.shapes.iter().map(|shape| shape.layout.bytes()).max().unwrap_or(1);
        self.story.as_ref().map_or(loops, |story| story.local.bytes())
    }

    /// Bytes it needs on the side of the target.
    pub fn target_bytes(&self) -> u64 {
        let stored = |story: &Story| u64::from(story.trace.distinct()) * BLOCK;
        self.story.as_ref().map_or_else(|| self.local_bytes(), stored)
    }

    /// About how long a file's cells take in a round, with so many requests in flight at most.
    pub fn about(&self, duration: Duration, requests_max: u64) -> Duration {
        match &self.story {
            Some(story) => Duration::from_secs_f64(story.trace.asked() as f64 * BLOCK as f64 / SUPPOSED),
            // Warmed by the same loop.
            None => self
                .shapes
                .iter()
                .map(|shape| duration + self.warm_up(duration) + 2 * shape.tail(requests_max))
                .sum(),
        }
    }

    /// What it is, in words.
    pub fn words(&self) -> String {
        if let Some(Story { trace, name, depth, batch, .. }) = &self.story {
            let (requests, asked) = (trace.entries.len(), trace.asked());
            return format!(
                "work trace: {name}, {requests} requests, {asked} blocks of 64KiB, {} different, {depth} requests open, \
                 {batch} blocks a batch, as fast as possible; latency is that of requests of the trace that waited for blocks",
                trace.distinct()
            );
        }
        if let Some(Tale { record, depth, name }) = &self.tale {
            return format!(
                "work record: {name}, {} batches with {} requests, as fast as possible with {depth} batches in flight, again \
                 from its beginning until the time is over; all of its {} peers are the target",
                record.batches.len(),
                record.requests(),
                record.peers.len()
            );
        }
        let Some(first) = self.shapes.first() else { return String::new() };
        let (op, single) = (first.op.name(), "one request of 4KiB at a time");
        match self.shapes.get(1) {
            None => format!("work latency: {op}, {single}"),
            Some(Shape { batch, depth, .. }) => {
                format!(
                    "work sweep: {op}, {single}; batches of {batch} x 4KiB, 64KiB, 1MiB, {depth} in flight"
                )
            }
        }
    }
}

impl Tale {
    fn read(path: &Path, depth: u64) -> Result<Self, Failure> {
        let record = Record::read(path).map_err(|e| record::refused(&e))?;
        Ok(Self { record, depth, name: path.display().to_string() })
    }

    /// Bytes that its requests lie in, on each side.
    fn memory(&self) -> u64 {
        MEMORY.max(largest(&self.record))
    }

    /// Requests of its mean size, in batches of its mean length.
    fn shape(&self) -> Result<Shape, Failure> {
        let (requests, batches) = (self.record.requests(), self.record.batches.len() as u64);
        let op = if self.record.op() == "read" { Direction::Read } else { Direction::Write };
        let (bytes, batch) = ((self.record.bytes() / requests).max(1), requests.div_ceil(batches));
        Shape::new(op, bytes, batch, self.depth).map_err(Failure::usage)
    }
}

impl Story {
    fn new(args: &WorkArgs, file: Option<&Path>) -> Result<Self, Failure> {
        let (trace, name) = match file {
            Some(path) => {
                let read = Trace::read(path, Some(args.limit.unwrap_or(LIMIT)), BLOCK_TOKENS);
                (read.map_err(|e| refused(&e))?, path.display().to_string())
            }
            None => {
                let text = generate_trace::text(&Parameters { conversations: 400, ..Parameters::USUAL });
                let parsed = Trace::parse(text.as_bytes(), "generated", args.limit, BLOCK_TOKENS);
                (parsed.map_err(|e| refused(&e))?, "generated (as by generate-trace)".into())
            }
        };
        if trace.asked() == 0 {
            let why = format!(
                "{name}: no request of it fills a block of {BLOCK_TOKENS} tokens, so nothing would move"
            );
            return Err(Failure::data(why));
        }
        let most = trace.entries.iter().map(|entry| u64::from(entry.distinct)).max().unwrap_or(1);
        // The largest request has to fit; otherwise the cache is far smaller than what is asked for.
        let memory = MEMORY.max(most.saturating_mul(BLOCK));
        let local = Layout::new(BLOCK, 1, u64::from(trace.distinct()), memory).map_err(Failure::usage)?;
        Ok(Self { trace, local, depth: args.depth(), batch: args.batch(), name })
    }
}
