//! What it costs a batch that its end is told, by each way of delivery: a batch of one request and one of a thousand, one at
//! a time and sixteen under way, over a transport that moves nothing. Medians of interleaved rounds.
//! Deliberately no harness: `cargo bench -p pipeline-stages --bench delivery` prints one line a case; `ROUNDS=31` more of them.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on has nothing to clean up")]

#[path = "../tests/rig/mod.rs"]
mod rig;

use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use pipeline_stages::{Batch, Doorbell, Options, Request, WhenDone};
use pipeline_transports::{Access, Transport};
use rig::null::Null;
use rig::{INLINE, Rig, file, target};
use rustix::event::{PollFd, PollFlags, poll};

/// How a program learns of an end; in this order in the table.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Status,
    Event,
    Eventfd,
    Doorbell,
    Waker,
    Callback,
}

const WAYS: [(Way, &str); 6] = [
    (Way::Status, "status: polled"),
    (Way::Event, "event: a thread waits"),
    (Way::Eventfd, "eventfd: one a batch"),
    (Way::Doorbell, "eventfd: one doorbell"),
    (Way::Waker, "waker: a task awaits"),
    (Way::Callback, "callback"),
];

/// Wakes the thread whose task it is.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

struct Bed {
    rig: Rig,
    requests: Vec<Request>,
    doorbell: Doorbell,
    waker: Waker,
    send: crossbeam_channel::Sender<()>,
    hear: crossbeam_channel::Receiver<()>,
}

impl Bed {
    fn new(requests: u64) -> Self {
        let told = "\"completion_notify\", via = [\"event\", \"eventfd\", \"waker\", \"callback\"]";
        let calls = "[stages]\ncalls = { type = \"callbacks\", pool = \"calls\" }\n";
        let pool = "[pools]\ncalls = { threads = 1, wait = \"park\" }\n";
        let model = INLINE
            .replace("[stages]\n", calls)
            .replace("[pools]\n", pool)
            .replace("\"completion_notify\"", told)
            .replace("wait = { spin = \"10us\", yield = \"50us\", park = \"1s\" }", "wait = \"park\"");
        let limits = "requests = 65536\nslices = 65536\nbatches = 64\npeers = 4\nbytes_in_flight = \"64MiB\"";
        let config = file("type = \"loopback\"", &model, limits, "4KiB");
        let mut there = target(&config, &[1 << 20], Access::ReadWrite);
        let null: Arc<dyn Transport> = Arc::new(Null::default());
        there.view.offers = vec![null.offer()];
        let rig = Rig::start_over(&config, |_, _, _| null.clone());
        let peer = rig.meet("b", &there);
        rig.link(peer, &there);
        let source = rig.memory(1 << 20, 1);
        // They do not touch each other, or they would travel as one.
        let request = |i| Request::write(source, i * 128, rig.remote(peer, &there, i * 128), 64);
        let (send, hear) = crossbeam_channel::bounded(64);
        let requests = (0..requests).map(request).collect();
        let doorbell = rig.client.doorbell().unwrap();
        Self { rig, requests, doorbell, waker: Arc::new(Unpark(std::thread::current())).into(), send, hear }
    }

    fn submit(&self, way: Way) -> Batch {
        let notify = (way == Way::Doorbell).then(|| self.doorbell.clone());
        let options = Options { notify, ..Options::default() };
        let batch = self.rig.client.submit_wait(&self.requests, options, Duration::from_secs(5)).unwrap();
        match way {
            Way::Eventfd => _ = batch.eventfd().unwrap(),
            Way::Callback => {
                let send = self.send.clone();
                batch.on_done(move |_| send.send(()).unwrap()).unwrap();
            }
            Way::Status | Way::Event | Way::Doorbell | Way::Waker => {}
        }
        batch
    }

    fn wait(&self, way: Way, batch: Batch) {
        match way {
            Way::Status => {
                while batch.poll().is_none() {
                    std::thread::yield_now();
                }
            }
            Way::Event => assert!(batch.wait(Duration::from_secs(20)).is_ok()),
            Way::Eventfd => until_readable(&batch.eventfd().unwrap()),
            Way::Doorbell => {
                while batch.poll().is_none() {
                    until_readable(&self.doorbell);
                    self.doorbell.take();
                }
            }
            Way::Waker => {
                let mut task: WhenDone<Batch> = batch.into_future();
                while Pin::new(&mut task).poll(&mut Context::from_waker(&self.waker)).is_pending() {
                    std::thread::park();
                }
            }
            Way::Callback => self.hear.recv().unwrap(),
        }
    }

    /// So many batches, `depth` under way.
    fn round(&self, way: Way, batches: usize, depth: usize) {
        let mut open = std::collections::VecDeque::with_capacity(depth);
        for _ in 0..batches {
            if open.len() == depth {
                self.wait(way, open.pop_front().unwrap());
            }
            open.push_back(self.submit(way));
        }
        open.into_iter().for_each(|batch| self.wait(way, batch));
    }
}

fn until_readable(fd: &impl AsFd) {
    poll(&mut [PollFd::new(fd, PollFlags::IN)], None).unwrap();
}

/// CPU time of this process: unlike the wall's, it says the same on a busy machine.
fn cpu_time() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn main() {
    let smoke = std::env::args().any(|a| a == "--test");
    let rounds =
        std::env::var("ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(if smoke { 1 } else { 11 });
    for (requests, batches) in [(1, if smoke { 20 } else { 2_000 }), (1_000, if smoke { 2 } else { 40 })] {
        let bed = Bed::new(requests);
        for depth in [1, 16] {
            let mut prices = vec![(Vec::new(), Vec::new()); WAYS.len()];
            for round in 0..=rounds {
                for ((way, _), (cpu, wall)) in WAYS.iter().zip(&mut prices) {
                    let (start, before) = (Instant::now(), cpu_time());
                    bed.round(*way, batches, depth);
                    let ns = |t: Duration| t.as_secs_f64() * 1e9 / batches as f64;
                    // The first round touches all tables.
                    if round > 0 {
                        cpu.push(ns(cpu_time() - before));
                        wall.push(ns(start.elapsed()));
                    }
                }
            }
            for ((_, name), (cpu, wall)) in WAYS.iter().zip(prices) {
                println!(
                    "{requests:4} a batch, {depth:2} under way, {name:22} CPU ns/batch {:9.0}   wall {:9.0}",
                    median(cpu),
                    median(wall)
                );
            }
        }
    }
}
