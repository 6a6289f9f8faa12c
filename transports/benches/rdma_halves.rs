//! What the halves of an RDMA link cost: against the bare loop over the same queue pairs, in turns. Needs two devices:
//! `tests/rdma-vm/run -- TARGET/release/deps/rdma_halves-… ROUNDS`; `scripts/rdma-speed` compares with perftest.
//!
//! ```text
//! rdma_halves ROUNDS                                       a table of medians
//! rdma_halves bare|halves write|read BYTES DEPTH QPS LIST MESSAGES    one run: bytes a second
//! ```

#![allow(clippy::unwrap_used, reason = "a measurement: what fails shall end it")]

#[path = "../tests/rdma/rig.rs"]
#[allow(dead_code, reason = "shared with the tests, which use more of it")]
mod rig;

use std::time::{Duration, Instant};

use pipeline_transports::rdma::ceiling::{Bare, Load};
use pipeline_transports::wr::Span;
use pipeline_transports::{Access, Completions, LinkId, Op, Transport, WorkRequest, WrId};

use rig::{INCARNATION, Side, dial, now, settings};

const NEAR: &str = "rxe0";
const FAR: &str = "rxe1";

/// Each with the messages of one run.
const ROWS: [(Op, u32, u32, u32, u32, u64); 8] = [
    (Op::Write, 64 << 10, 32, 1, 1, 400),
    (Op::Write, 1 << 20, 32, 1, 1, 64),
    (Op::Read, 64 << 10, 32, 1, 1, 400),
    (Op::Read, 1 << 20, 32, 1, 1, 64),
    (Op::Write, 4096, 128, 1, 16, 6400),
    (Op::Write, 4096, 128, 1, 1, 6400),
    (Op::Write, 64, 1, 1, 1, 2000),
    (Op::Read, 64, 1, 1, 1, 2000),
];

/// Two sides and the links between them.
struct Halves {
    near: Side,
    _far: Side,
    load: Load,
    work: Vec<Vec<WorkRequest>>,
    out: Completions,
}

impl Halves {
    fn new(load: Load) -> Self {
        let (mut near, mut far) = (Side::new(&settings(&[NEAR])), Side::new(&settings(&[FAR])));
        let bytes = u64::from(load.bytes) * u64::from(load.depth);
        let (local, ..) = near.region(bytes, 1, Access::Local);
        let (remote, len, keys) = far.region(bytes, 2, Access::ReadWrite);
        near.transport.learn(INCARNATION, remote, len, &keys).unwrap();
        for link in 0..load.pairs {
            let link = dial(&near, &far.transport, LinkId(u64::from(link)), 0).unwrap();
            near.adopt(link);
        }
        let request = |i: u64| WorkRequest {
            id: WrId(i),
            op: load.op,
            local: Span { region: local, offset: i * u64::from(load.bytes) },
            remote: Span { region: remote, offset: i * u64::from(load.bytes) },
            len: u64::from(load.bytes),
        };
        let all: Vec<_> = (0..u64::from(load.depth)).map(request).collect();
        let work = all.chunks(load.list as usize).map(<[_]>::to_vec).collect();
        Self { near, _far: far, load, work, out: Completions::with_capacity(64) }
    }

    fn run(&mut self, messages: u64) -> Duration {
        let (load, halves) = (self.load, &mut self.near.halves);
        let (begin, mut left, mut done, mut next) = (Instant::now(), messages, 0, 0);
        let mut outstanding = vec![0; load.pairs as usize];
        while done < messages {
            for (link, outstanding) in outstanding.iter_mut().enumerate() {
                while left > 0 && *outstanding + load.list <= load.depth {
                    let work = &self.work[next % self.work.len()];
                    assert_eq!(halves.post.post(now(), LinkId(link as u64), work).taken, work.len());
                    halves.post.flush(now());
                    (next, *outstanding) = (next + 1, *outstanding + load.list);
                    left = left.saturating_sub(u64::from(load.list));
                }
            }
            self.out.clear();
            halves.reap.reap(now(), &mut self.out);
            assert!(self.out.closed().is_empty(), "a link failed");
            for completion in self.out.done() {
                outstanding[completion.link.0 as usize] -= 1;
                done += 1;
            }
        }
        begin.elapsed()
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let number = |i: usize| args.get(i).and_then(|a| a.parse::<u64>().ok());
    match (args.first().map(String::as_str), number(0)) {
        (_, Some(rounds)) => table(rounds as usize),
        (Some(who @ ("bare" | "halves")), _) => {
            let op = if args[1] == "read" { Op::Read } else { Op::Write };
            let n = |i| number(i).unwrap();
            let load =
                Load { op, bytes: n(2) as u32, depth: n(3) as u32, pairs: n(4) as u32, list: n(5) as u32 };
            let took = if who == "bare" {
                Bare::new(NEAR, FAR, load).unwrap().run(n(6)).unwrap()
            } else {
                Halves::new(load).run(n(6))
            };
            println!("{:.0}", (n(6) * n(2)) as f64 / took.as_secs_f64());
        }
        _ => println!("rdma_halves takes two devices and arguments, see its head"),
    }
}

/// Runs both in turns, `rounds` times after one that does not count, and prints medians with their range.
fn table(rounds: usize) {
    println!("| | bare | halves | halves / bare |\n|---|---|---|---|");
    for (op, bytes, depth, pairs, list, messages) in ROWS {
        let load = Load { op, bytes, depth, pairs, list };
        let (mut bare, mut halves) = (Bare::new(NEAR, FAR, load).unwrap(), Halves::new(load));
        let mut times: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
        for round in 0..=rounds {
            for turn in 0..2 {
                let who = (round + turn) % 2;
                let took = if who == 0 { bare.run(messages).unwrap() } else { halves.run(messages) };
                if round > 0 {
                    times[who].push(took.as_secs_f64() / messages as f64);
                }
            }
        }
        times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
        let at = |who: usize, place: usize| text(depth, bytes, times[who][place]);
        let shown = |who| format!("{} ({} … {})", at(who, rounds / 2), at(who, rounds - 1), at(who, 0));
        let ratio = times[0][rounds / 2] / times[1][rounds / 2];
        let ratio = if depth == 1 { 1.0 / ratio } else { ratio };
        println!(
            "| {op:?} {bytes} B, depth {depth}, lists of {list} | {} | {} | {ratio:.3} |",
            shown(0),
            shown(1)
        );
    }
}

/// Seconds a message, in the words of its row: latency where one is outstanding at a time, messages for small ones.
fn text(depth: u32, bytes: u32, seconds: f64) -> String {
    match (depth, bytes) {
        (1, _) => format!("{:.1} µs", seconds * 1e6),
        (_, ..=4096) => format!("{:.0} messages/s", 1.0 / seconds),
        _ => format!("{:.1} MB/s", f64::from(bytes) / seconds / 1e6),
    }
}
