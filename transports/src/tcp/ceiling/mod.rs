//! The bare loop: what TCP gives on this machine with our frames, acks, working set, lanes, congestion control
//! and wait, and nothing else. `bench` runs it beside the pipeline to say how near the pipeline comes.
//!
//! Deliberately no regions, slots, guards or bells: one thread a side, one loop, two working sets. Each side
//! belongs in a process of its own, as in a bench. It trusts its other half no further than its memory:
//! offsets are checked against the working set.

mod initiate;
mod target;

pub use initiate::initiate;
pub use target::serve;

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::settings::Settings;
use crate::memory::RegionId;
use crate::wr::Op;

/// How a side waits when its sockets have nothing for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// In `poll(2)`.
    Park,
    /// Trying again, with a `sched_yield` every 16th time.
    Spin,
    /// The same for so many microseconds, then in `poll(2)`.
    SpinThenPark(u16),
}

impl Wait {
    /// As a lane's first bytes carry it.
    fn to_wire(self) -> u16 {
        match self {
            Self::Park => 0,
            Self::Spin => u16::MAX,
            Self::SpinThenPark(us) => us.clamp(1, u16::MAX - 1),
        }
    }

    fn from_wire(word: u16) -> Self {
        match word {
            0 => Self::Park,
            u16::MAX => Self::Spin,
            us => Self::SpinThenPark(us),
        }
    }
}

/// A side's waiting: since when it has found nothing, and how often it has looked.
#[derive(Default)]
struct Idle {
    since: Option<Instant>,
    looks: u32,
}

/// What to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CeilingSettings {
    /// Direction.
    pub op: Op,
    /// Bytes a request.
    pub bytes: u64,
    /// Requests a batch.
    pub batch: u32,
    /// Batches in flight.
    pub depth: u32,
    /// Connections; a batch is dealt out over all of them.
    pub lanes: u16,
    /// How this side waits.
    pub wait: Wait,
    /// How the target waits.
    pub target_wait: Wait,
    /// Bytes each side cycles through; at least one request.
    pub working_set: u64,
    /// For how long batches are started, after a warm-up that does not count.
    pub duration: Duration,
    /// Sockets and frames, as the pipeline under comparison has them.
    pub sockets: Settings,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct CeilingReport {
    /// Payload bytes acknowledged (WRITE) or received (READ).
    pub bytes: u64,
    /// Requests answered.
    pub requests: u64,
    /// From the first byte sent to the last answer.
    pub elapsed: Duration,
    /// CPU time of this side meanwhile: its loop is one thread.
    pub cpu: Duration,
    /// CPU time of the target meanwhile.
    pub target_cpu: Duration,
    /// From a batch's start to its last answer, ns; at most [`LATENCIES`] of them.
    pub batch_ns: Vec<u64>,
}

/// The most batch latencies a run keeps.
pub const LATENCIES: usize = 1 << 20;

/// First bytes of a ceiling lane: 8 magic, lanes u16, wait u16, name length u32, working set u64.
const HELLO_BYTES: usize = 24;
const MAGIC: [u8; 8] = *b"PNCEIL\0\x01";
const NAME_MAX: usize = 32;
/// A READ of [`CPU_TIME_BYTES`] from this region is answered with the CPU time of the target, nanoseconds.
const CPU_TIME: RegionId = RegionId(u64::MAX);
const CPU_TIME_BYTES: u64 = 8;

/// CPU time of the calling thread so far.
fn cpu_time() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// Waits until a socket can be read, or, of those in `blocked`, written.
fn wait<'a>(
    how: Wait,
    idle: &mut Idle,
    lanes: impl Iterator<Item = (&'a TcpStream, bool)>,
) -> io::Result<()> {
    let since = *idle.since.get_or_insert_with(Instant::now);
    let spins = match how {
        Wait::Park => false,
        Wait::Spin => true,
        Wait::SpinThenPark(us) => since.elapsed() < Duration::from_micros(us.into()),
    };
    if spins {
        idle.looks = idle.looks.wrapping_add(1);
        match idle.looks.is_multiple_of(16) {
            true => std::thread::yield_now(),
            false => std::hint::spin_loop(),
        }
        return Ok(());
    }
    let flags = |blocked| if blocked { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    let mut fds: Vec<_> =
        lanes.map(|(s, blocked)| PollFd::from_borrowed_fd(s.as_fd(), flags(blocked))).collect();
    rustix::event::poll(&mut fds, None)?;
    Ok(())
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("ceiling: {what}"))
}

fn refused(error: crate::error::Error) -> io::Error {
    io::Error::other(error)
}

#[cfg(all(test, not(pipeline_loom)))]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Reads and writes, parked and spinning, one lane and two: every request is answered, and the bytes
    /// counted are those of the requests answered.
    #[test]
    fn every_request_is_answered() {
        for (op, wait, lanes) in
            [(Op::Write, Wait::Park, 1), (Op::Read, Wait::SpinThenPark(20), 2), (Op::Write, Wait::Spin, 2)]
        {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let target = std::thread::spawn(move || serve(&listener));
            let settings = CeilingSettings {
                op,
                bytes: 5000,
                batch: 100,
                depth: 2,
                lanes,
                wait,
                target_wait: wait,
                working_set: 1 << 20,
                duration: Duration::from_millis(20),
                sockets: Settings::default(),
            };
            let report = initiate(&settings, address).unwrap();
            // The target counts the warm-up as well.
            assert!(target.join().unwrap().unwrap() > report.bytes);
            assert_eq!(report.bytes, report.requests * 5000);
            assert_eq!(report.requests, report.batch_ns.len() as u64 * 100);
            assert!(report.requests > 0 && report.elapsed >= settings.duration);
            // Both move bytes, and neither can have worked for longer than it took.
            for cpu in [report.cpu, report.target_cpu] {
                assert!(!cpu.is_zero() && cpu <= report.elapsed + settings.duration, "{report:?}");
            }
        }
    }
}
