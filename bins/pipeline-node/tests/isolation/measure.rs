//! What others cost whoever shares an engine with them: a frozen peer, and a request of a terabyte. Each figure is a ratio
//! to the same work alone, taken in turns, so that what else the machine does weighs on both.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use pipeline_node::{Access, Engine, Options, Region, Request, Segment};
use rustix::process::Signal;

use crate::folded;
use crate::node::Node;
use crate::rig::{PATIENCE, done, engine, open, until};

/// Work alone, the same beside something else, and the second by the first: medians, and the quotient's extremes.
pub struct Beside {
    pub alone_us: f64,
    pub beside_us: f64,
    pub ratio: f64,
    pub least: f64,
    pub most: f64,
    /// The least of the second by the least of the first: what else the machine does only ever adds.
    pub floor: f64,
}

impl fmt::Display for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { alone_us, beside_us, ratio, least, most, floor } = self;
        write!(f, "{alone_us:.0} | {beside_us:.0} | {ratio:.2} ({least:.2}–{most:.2}), floor {floor:.2}")
    }
}

impl Beside {
    fn of(mut rounds: Vec<(Duration, Duration)>) -> Self {
        let least =
            |by: fn(&(Duration, Duration)) -> Duration| rounds.iter().map(by).min().unwrap_or_default();
        let floor = least(|r| r.1).as_secs_f64() / least(|r| r.0).as_secs_f64();
        let mut median = |by: fn(&(Duration, Duration)) -> f64| {
            rounds.sort_by(|a, b| by(a).total_cmp(&by(b)));
            (by(&rounds[rounds.len() / 2]), by(&rounds[0]), by(&rounds[rounds.len() - 1]))
        };
        let (alone_us, ..) = median(|r| r.0.as_secs_f64() * 1e6);
        let (beside_us, ..) = median(|r| r.1.as_secs_f64() * 1e6);
        let (ratio, least, most) = median(|r| r.1.as_secs_f64() / r.0.as_secs_f64());
        Self { alone_us, beside_us, ratio, least, most, floor }
    }
}

/// How long 1 000 writes of 64 KiB to one peer take: alone, and while another peer, which was given as much, is frozen.
pub fn frozen_neighbour(rounds: usize) -> Beside {
    let (frozen, well) = (Node::target("64MiB", &[]), Node::target("64MiB", &[]));
    let client = engine(&["limits.deadline='60s'"]);
    let [stuck, fine] = [&frozen, &well].map(|n| client.open(&n.address).unwrap().segment("kv").unwrap());
    let from = client.allocate(64 << 20).unwrap();
    let to = |segment: &Segment| -> Vec<_> {
        (0..1000).map(|i| Request::write(&from, i << 16, segment.at(i << 16), 1 << 16)).collect()
    };
    let (to_stuck, to_fine) = (to(&stuck), to(&fine));
    let timed = || {
        let begin = Instant::now();
        done(&client, &to_fine);
        begin.elapsed()
    };
    let round = |_| {
        done(&client, &to_stuck);
        let alone = timed();
        frozen.freeze();
        let lost = client.submit(&to_stuck, Options::default()).unwrap();
        // It has taken what it can when nothing moves any more.
        std::thread::sleep(Duration::from_millis(20));
        let beside = timed();
        assert!(lost.poll().is_none(), "the frozen peer has answered");
        frozen.signal(Signal::CONT);
        assert!(lost.wait(PATIENCE).unwrap().is_done());
        (alone, beside)
    };
    timed();
    Beside::of((0..rounds).map(round).collect())
}

/// CPU time of this thread: `submit` makes no system call, so what else the machine does hardly counts.
fn cpu_time() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// What submitting 10 000 and 150 000 requests of 64 bytes costs the caller, and that of one of the latter in ns.
pub fn submission(rounds: usize) -> (Beside, f64) {
    let node = Node::target("16MiB", &[]);
    let client = engine(&[]);
    let kv = client.open(&node.address).unwrap().segment("kv").unwrap();
    let from = client.allocate(16 << 20).unwrap();
    let place = |i: u64| (i * 7_919 * 64) % (16 << 20);
    let requests: Vec<_> =
        (0..150_000).map(|i| Request::write(&from, place(i), kv.at(place(i)), 64)).collect();
    let timed = |n: usize| {
        let begin = cpu_time();
        let batch = client.submit(&requests[..n], Options::default()).unwrap();
        let took = cpu_time() - begin;
        assert!(batch.wait(PATIENCE).unwrap().is_done());
        took
    };
    timed(150_000);
    let beside = Beside::of((0..rounds).map(|_| (timed(10_000), timed(150_000))).collect());
    let ns = beside.beside_us * 1e3 / 150_000.0;
    (beside, ns)
}

/// A client and two peers, each with a terabyte.
pub struct Giant {
    client: Engine,
    near: Segment,
    far: Segment,
    _peers: [Engine; 2],
    whole: Region,
    small: Region,
}

/// The p99 of small requests, alone and beside.
#[derive(Clone, Copy, Debug)]
pub enum To {
    SamePeer,
    OtherPeer,
}

impl Giant {
    pub fn new(set: &[&str]) -> Self {
        let peers = [(); 2].map(|()| {
            let peer = engine(&[]);
            let region = peer.register(folded::terabyte(), Access::ReadWrite).unwrap();
            peer.add_segment("all").unwrap();
            peer.publish("all", &region).unwrap();
            peer
        });
        let client = engine(&[&["limits.deadline='120s'"], set].concat());
        let [near, far] = [&peers[0], &peers[1]].map(|p| open(&client, p).segment("all").unwrap());
        let whole = client.register(folded::terabyte(), Access::Local).unwrap();
        let small = client.allocate(4096).unwrap();
        Self { client, near, far, _peers: peers, whole, small }
    }

    /// The p99 of `n` requests of 4 KiB, one at a time.
    fn p99(&self, n: usize, to: &Segment, write: bool) -> Duration {
        let request = match write {
            true => Request::write(&self.small, 0, to.at(4096), 4096),
            false => Request::read(&self.small, 0, to.at(4096), 4096),
        };
        let one = |_| {
            let begin = Instant::now();
            done(&self.client, &[request]);
            begin.elapsed()
        };
        (0..n / 10).for_each(|i| {
            one(i);
        });
        let mut all: Vec<_> = (0..n).map(one).collect();
        all.sort();
        all[n * 99 / 100]
    }

    /// In each round: alone, then beside one request of a terabyte.
    pub fn beside(&self, rounds: usize, n: usize, to: To, write: bool) -> (Beside, f64) {
        let there = if matches!(to, To::SamePeer) { &self.near } else { &self.far };
        let whole = match write {
            true => Request::write(&self.whole, 0, self.near.at(0), folded::LEN),
            false => Request::read(&self.whole, 0, self.near.at(0), folded::LEN),
        };
        let (mut bytes, mut time) = (0, Duration::ZERO);
        let moved = || self.client.stats().stages.iter().find(|s| s.name == "post").map_or(0, |s| s.items);
        let round = |_| {
            let alone = self.p99(n, there, write);
            let giant = self.client.submit(&[whole], Options::default()).unwrap();
            let before = moved();
            until("it runs", || moved() > before + 100);
            let (before, begin) = (moved(), Instant::now());
            let beside = self.p99(n, there, write);
            time += begin.elapsed();
            bytes += (moved() - before - n as u64) << 20;
            assert!(giant.poll().is_none(), "a terabyte is not moved so fast");
            giant.cancel();
            giant.wait(PATIENCE).unwrap();
            (alone, beside)
        };
        let beside = Beside::of((0..rounds).map(round).collect());
        (beside, bytes as f64 / 1e9 / time.as_secs_f64())
    }

    /// In each round: alone, then beside as many threads that only count as there are CPUs: what the scheduler makes of
    /// a machine without an idle CPU, whatever the engine does.
    pub fn beside_counting(&self, rounds: usize, n: usize) -> Beside {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let round = |_| {
            let (alone, stop) = (self.p99(n, &self.near, true), &AtomicBool::new(false));
            let beside = std::thread::scope(|scope| {
                (0..cpus).for_each(|_| {
                    scope.spawn(|| {
                        while !stop.load(Relaxed) {
                            std::hint::spin_loop();
                        }
                    });
                });
                let beside = self.p99(n, &self.near, true);
                stop.store(true, Relaxed);
                beside
            });
            (alone, beside)
        };
        Beside::of((0..rounds).map(round).collect())
    }
}
