//! What the machine gives without a pipeline, in the same rounds: a bare loop over TCP against a process of its own, or
//! plain copies where bytes stay in this process. One thread, asleep where it waits.

use std::hint::black_box;
use std::time::{Duration, Instant};

use pipeline_transports::Op;
use pipeline_transports::tcp::ceiling::{CeilingSettings, Wait};

use super::args::Args;
use crate::cli::bench::ceiling::{Bare, Ceiling};
use crate::cli::exit::Failure;
use crate::cli::load::Direction;
use crate::cli::load::tally::{Tally, ratio};
use crate::cli::work::{Over, Shape};

/// Bytes of a page.
const PAGE: usize = 4096;

/// The loop.
pub enum BareLoop {
    /// With our frames and acknowledgements, two lanes.
    Tcp(Box<(Ceiling, CeilingSettings)>),
    /// `memcpy`.
    Copy,
    /// None: the target is elsewhere, and a loop on this machine would say nothing about it; or nobody wants one.
    None,
}

impl BareLoop {
    /// That of the comparison.
    ///
    /// # Errors
    /// When its target cannot be started.
    pub fn start(args: &Args) -> Result<Self, Failure> {
        if args.target.is_some() || args.no_ceiling {
            return Ok(Self::None);
        }
        if args.over() != Over::Tcp {
            return Ok(Self::Copy);
        }
        let settings = CeilingSettings {
            op: match args.work.op() {
                Direction::Read => Op::Read,
                Direction::Write => Op::Write,
            },
            bytes: 0,
            batch: 1,
            depth: 1,
            lanes: 2,
            wait: Wait::Park,
            target_wait: Wait::Park,
            working_set: 0,
            duration: Duration::from_secs_f64(args.seconds),
            sockets: pipeline_transports::tcp::Settings::default(),
        };
        Ok(Self::Tcp(Box::new((Ceiling::of(settings.clone())?, settings))))
    }

    /// As the table calls it.
    pub fn title(&self) -> &'static str {
        match self {
            Self::Tcp(_) => "(bare loop)",
            Self::Copy => "(bare copy)",
            Self::None => "",
        }
    }

    /// What it is, in words.
    pub fn words(&self) -> &'static str {
        match self {
            Self::Tcp(_) => {
                "bare loop: the same frames without a pipeline, one thread a side that sleeps where it waits"
            }
            Self::Copy => "bare copy: memcpy of the same sizes by one thread, without a pipeline",
            Self::None => "no bare loop (the target is not ours, or --no-ceiling), so no round is left out",
        }
    }

    /// One round of a shape.
    ///
    /// # Errors
    /// The system's reason.
    pub fn round(&self, shape: &Shape, duration: Duration) -> Result<Option<Bare>, Failure> {
        match self {
            Self::Tcp(tcp) => {
                let (ceiling, settings) = &**tcp;
                let settings = CeilingSettings {
                    op: match shape.op {
                        Direction::Read => Op::Read,
                        Direction::Write => Op::Write,
                    },
                    bytes: shape.bytes,
                    batch: shape.batch as u32,
                    depth: shape.depth as u32,
                    working_set: shape.layout.bytes(),
                    duration,
                    ..settings.clone()
                };
                ceiling.run(&settings).map(Some)
            }
            Self::Copy => Ok(Some(copy(shape, duration))),
            Self::None => Ok(None),
        }
    }
}

/// Batches of copies, one after the other.
fn copy(shape: &Shape, duration: Duration) -> Bare {
    let bytes = shape.layout.bytes() as usize;
    let (from, mut to) = (vec![1_u8; bytes + PAGE], vec![2_u8; bytes + PAGE]);
    // Where regions begin too: to copy to elsewhere takes twice the time on some processors.
    let (first, second) = (from.as_ptr().align_offset(PAGE), to.as_ptr().align_offset(PAGE));
    let (from, to) = (&from[first..], &mut to[second..]);
    let mut tally = Tally::new();
    let (begin, mut next) = (Instant::now(), 0);
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    while begin.elapsed() < duration {
        let since = Instant::now();
        for _ in 0..shape.batch {
            for (offset, len) in shape.layout.pieces(next % shape.layout.slots) {
                let place = offset as usize..(offset + len) as usize;
                black_box(&mut *to)[place.clone()].copy_from_slice(&black_box(from)[place]);
            }
            next += 1;
        }
        tally.done(shape.batch, shape.batch * shape.bytes, nanos(begin.elapsed()), nanos(since.elapsed()));
    }
    tally.elapsed_ns = nanos(begin.elapsed());
    Bare {
        gb_per_s: tally.gb_per_s(),
        p50_us: tally.latency_us(50.0),
        p99_us: tally.latency_us(99.0),
        // One thread that never waits.
        cpu_s_per_gb_initiator: ratio(1.0, tally.gb_per_s()),
        cpu_s_per_gb_target: 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies are counted: a rate, and a latency that is no longer than the run.
    #[test]
    fn copies_are_timed() {
        let shape = Shape::new(Direction::Write, 4096, 4, 2).unwrap();
        let bare = copy(&shape, Duration::from_millis(5));
        assert!(bare.gb_per_s > 0.0 && bare.p50_us > 0.0 && bare.p50_us <= bare.p99_us);
        assert!((bare.cpu_s_per_gb_initiator * bare.gb_per_s - 1.0).abs() < 1e-9);
    }
}
