//! How fast lanes to a Mooncake target are without a pipeline: the halves of this side in one thread, as a worker has them,
//! against a target that runs already: a node of this engine, or Mooncake's own.
//!
//! `cargo bench -p pipeline-transports --bench mooncake_lane -- HOST:RPC_PORT SECONDS CASE …`, a case being
//! `write|read:BYTES:BATCH:LANES:DEPTH:SLICE[:v1]`. It writes into, and reads from, the target's first buffer. What was read
//! last is compared with what was written last. Before it sleeps it looks for `SPIN_US` microseconds (100), as a worker that
//! waits adaptively does.

#![allow(clippy::unwrap_used, reason = "a measurement: what fails shall end it")]

#[path = "../tests/mooncake/rig.rs"]
mod rig;

use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeline_transports::foreign::{Foreign, Found};
use pipeline_transports::mooncake::wire::Framing;
use pipeline_transports::mooncake::{MooncakeTcp, Settings};
use pipeline_transports::wr::{Outcome, Span};
use pipeline_transports::{
    Access, Arming, Completions, Halves, LinkId, Memory, Nanos, NicId, Op, PairId, RegionId, Regions,
    Transport, WorkRequest, WrId,
};

use rig::{NoControl, no_wakes, pattern, runtime, soon};

/// Parks in `poll(2)` on what the halves name, as a bell would.
#[derive(Default)]
struct Parking {
    fds: Vec<RawFd>,
    busy: bool,
}

impl Arming for Parking {
    fn fd(&mut self, fd: RawFd) {
        self.fds.push(fd);
    }
    fn deadline(&mut self, _at: Nanos) {}
    fn busy(&mut self) {
        self.busy = true;
    }
}

impl Parking {
    fn sleep(&mut self) {
        if !self.busy {
            let mut fds: Vec<_> =
                self.fds.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
            // SAFETY: a live array of its length; the timeout bounds a loss that would be a bug.
            unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as _, 1000) };
        }
        self.fds.clear();
        self.busy = false;
    }
}

/// What one run does.
#[derive(Clone, Debug)]
struct Case {
    op: Op,
    bytes: u64,
    batch: u64,
    lanes: u64,
    depth: u32,
    slice: u64,
    framing: Framing,
}

impl Case {
    fn parse(text: &str) -> Self {
        let words: Vec<&str> = text.split(':').collect();
        let number = |i: usize| words.get(i).and_then(|w| w.parse().ok()).expect("see the file's head");
        Self {
            op: if words[0] == "read" { Op::Read } else { Op::Write },
            bytes: number(1),
            batch: number(2),
            lanes: number(3),
            depth: number(4) as u32,
            slice: number(5),
            framing: if words.get(6) == Some(&"v1") { Framing::V1 } else { Framing::V2 },
        }
    }
}

/// An initiator with lanes to the target.
struct Rig {
    halves: Halves,
    out: Completions,
    parking: Parking,
    lanes: u64,
    local: RegionId,
    remote: RegionId,
}

fn connect(case: &Case, target: &str, regions: &Arc<Regions>, local: RegionId) -> (Rig, MooncakeTcp) {
    let settings = Settings { depth: case.depth, framing: case.framing, ..Settings::default() };
    let transport = MooncakeTcp::new("mooncake", settings, regions.clone()).unwrap();
    let mut halves = transport.attach(NicId(0), PairId(0), no_wakes()).unwrap();
    let run = runtime();
    let found: Found = run.block_on(transport.find(target, soon())).unwrap();
    let first = &found.segments[1].regions[0];
    assert!(first.len >= case.bytes * case.batch, "its first buffer has {} bytes", first.len);
    transport.learn(found.incarnation, first.id, first.len, &first.keys).unwrap();
    for lane in 1..=case.lanes {
        let path = rig::path(LinkId(lane), &found.addresses);
        let path = pipeline_transports::Path { incarnation: found.incarnation, ..path };
        let mut via = NoControl;
        let link = run.block_on(transport.dial(&path, &found.offer, &mut via, soon())).unwrap();
        halves.post.adopt(link.post.unwrap());
        halves.reap.adopt(link.reap.unwrap());
    }
    let (out, parking) = (Completions::with_capacity(256), Parking::default());
    (Rig { halves, out, parking, lanes: case.lanes, local, remote: first.id }, transport)
}

impl Rig {
    /// Carries out one batch, cut into slices and dealt to the lanes in turn.
    fn batch(&mut self, case: &Case, spin: Duration) {
        let mut idle_since = None;
        let (whole, slice) = (case.bytes * case.batch, case.slice.min(case.bytes));
        // Slices do not cross the ends of requests.
        let each = case.bytes.div_ceil(slice);
        let count = each * case.batch;
        let (mut given, mut ended) = (0, 0);
        let request = |i: u64| {
            let offset = (i / each) * case.bytes + (i % each) * slice;
            let len = slice.min((i / each + 1) * case.bytes - offset).min(whole - offset);
            let (local, remote) = (Span { region: self.local, offset }, Span { region: self.remote, offset });
            WorkRequest { id: WrId(i), op: case.op, local, remote, len }
        };
        let mut full = 0;
        while ended < count {
            while given < count && full < self.lanes {
                let link = LinkId(1 + given % self.lanes);
                match self.halves.post.post(0, link, &[request(given)]).taken {
                    0 => full = self.lanes,
                    _ => given += 1,
                }
            }
            full = 0;
            self.halves.post.flush(0);
            self.out.clear();
            self.halves.reap.reap(0, &mut self.out);
            assert!(self.out.closed().is_empty(), "a lane was closed");
            for completion in self.out.done() {
                assert_eq!(completion.outcome, Outcome::Done);
                ended += 1;
            }
            if self.out.has_moved() {
                idle_since = None;
            } else if ended < count && idle_since.get_or_insert_with(Instant::now).elapsed() >= spin {
                self.halves.post.arm(&mut self.parking);
                self.halves.reap.arm(&mut self.parking);
                self.parking.sleep();
                idle_since = None;
            }
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let [target, seconds, cases @ ..] = &args[..] else {
        println!("mooncake_lane wants a target that runs and cases, see its head");
        return;
    };
    let seconds: f64 = seconds.parse().unwrap();
    let spin = std::env::var("SPIN_US").ok().and_then(|us| us.parse().ok()).unwrap_or(100);
    let spin = Duration::from_micros(spin);
    let cases: Vec<Case> = cases.iter().map(|case| Case::parse(case)).collect();
    let whole = cases.iter().map(|case| case.bytes * case.batch).max().unwrap();
    let regions = Arc::new(Regions::new(8));
    let region = |fill: &[u8]| {
        let mut memory = Memory::allocate(whole).unwrap();
        memory.write(0, fill).unwrap();
        let id = regions.add(memory, Access::Local).unwrap();
        regions.pin(id).unwrap();
        id
    };
    let bytes = pattern(whole as usize, 42);
    let (from, into) = (region(&bytes), region(&vec![0; whole as usize]));
    println!("op     bytes      batch lanes depth slice     GB/s     p50 us    batches");
    for case in cases {
        let local = if case.op == Op::Write { from } else { into };
        let (mut rig, _transport) = connect(&case, target, &regions, local);
        rig.batch(&case, spin);
        let (start, mut took) = (Instant::now(), Vec::new());
        while start.elapsed() < Duration::from_secs_f64(seconds) || took.len() < 2 {
            let begin = Instant::now();
            rig.batch(&case, spin);
            took.push(begin.elapsed());
        }
        let rate = (case.bytes * case.batch * took.len() as u64) as f64 / start.elapsed().as_nanos() as f64;
        took.sort();
        let p50 = took[took.len() / 2].as_nanos() as f64 / 1e3;
        println!(
            "{:6} {:<10} {:<5} {:<5} {:<5} {:<8} {rate:>6.3} {p50:>10.1} {:>10}",
            format!("{:?}", case.op).to_lowercase(),
            case.bytes,
            case.batch,
            case.lanes,
            case.depth,
            case.slice,
            took.len()
        );
        if case.op == Op::Read {
            let mut got = vec![0; (case.bytes * case.batch) as usize];
            regions.read_shared(into, 0, &mut got).unwrap();
            if got != bytes[..got.len()] {
                println!("# what was read is not what this program writes: was it written first?");
            }
        }
    }
}
