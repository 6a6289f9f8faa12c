//! A target for Mooncake initiators without the rest of a node: one region, one serve half on a thread of its own. Prints its
//! name, the address of the region and its length, as one JSON line; ends with its standard input.
//!
//!     cargo run --release -p pipeline-transports --example mooncake_target -- 512 0
//!
//! The first number is MiB of memory, the second how often it looks for work in vain before it sleeps: on a machine whose CPUs
//! the initiator needs as well, looking in vain takes from it more than a sleep costs.
//!
//! Deliberately no pipeline: what is measured here is the transport alone.
#![allow(clippy::unwrap_used, reason = "an example: what goes wrong ends it")]

use std::io::Read;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pipeline_transports::clock::now;
use pipeline_transports::mooncake::{MooncakeTcp, Settings};
use pipeline_transports::{
    Access, Arming, Memory, Nanos, NicId, PairId, Regions, Serve, Transport, Waker, Wakes,
};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

const BUDGET: usize = 64;

/// What the worker sleeps on.
#[derive(Default)]
struct Bed {
    fd: Option<RawFd>,
    deadline: Option<Nanos>,
    busy: bool,
}

impl Arming for Bed {
    fn fd(&mut self, fd: RawFd) {
        self.fd = Some(fd);
    }

    fn deadline(&mut self, at: Nanos) {
        self.deadline = Some(self.deadline.map_or(at, |other| other.min(at)));
    }

    fn busy(&mut self) {
        self.busy = true;
    }
}

fn work(mut half: Box<dyn Serve>, bell: &OwnedFd, turns: u32, stop: &AtomicBool) {
    let mut idle = 0;
    while !stop.load(Ordering::Relaxed) {
        let served = half.step(now(), BUDGET);
        if served.answered > 0 || served.bytes > 0 || served.more {
            idle = 0;
            continue;
        }
        idle += 1;
        if idle < turns {
            std::hint::spin_loop();
            continue;
        }
        idle = 0;
        let mut bed = Bed::default();
        half.arm(&mut bed);
        if !bed.busy {
            sleep(&bed, bell);
        }
    }
}

fn sleep(bed: &Bed, bell: &OwnedFd) {
    let mut fds = vec![PollFd::new(bell, PollFlags::IN)];
    // SAFETY: the half keeps its epoll set open for as long as it lives.
    let set = bed.fd.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) });
    fds.extend(set.as_ref().map(|set| PollFd::new(set, PollFlags::IN)));
    let limit = bed.deadline.map(|at| at.saturating_sub(now()) as i64);
    let limit = limit.map(|ns| Timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 });
    let _ = poll(&mut fds, limit.as_ref());
    if fds[0].revents().contains(PollFlags::IN) {
        let _ = rustix::io::read(bell, &mut [0; 8]);
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mebibytes: u64 = args.next().map_or(512, |text| text.parse().unwrap());
    let turns: u32 = args.next().map_or(0, |text| text.parse().unwrap());
    let regions = Arc::new(Regions::new(16));
    let transport = MooncakeTcp::new("mooncake", Settings::default(), regions.clone()).unwrap();
    let memory = Memory::allocate(mebibytes << 20).unwrap();
    let (addr, len) = (memory.ptr() as u64, memory.len());
    let registration = transport.register(&memory, Access::ReadWrite).unwrap();
    let region = regions.add(memory, Access::ReadWrite).unwrap();
    registration.bind(region);
    registration.publish("memory");

    let (bell, stop) =
        (Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap()), Arc::new(AtomicBool::new(false)));
    let ring = bell.clone();
    let serve = Waker::new(move || {
        let _ = rustix::io::write(&*ring, &1u64.to_ne_bytes());
    });
    let wakes = Wakes { post: Waker::none(), reap: Waker::none(), serve: serve.clone() };
    let half = transport.attach(NicId(0), PairId(0), wakes).unwrap().serve.unwrap();
    let worker = std::thread::spawn({
        let stop = stop.clone();
        move || work(half, &bell, turns, &stop)
    });

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let foreign = transport.foreign().unwrap();
        foreign.bind("example").await.unwrap();
        println!("{{\"session\": \"{}\", \"addr\": {addr}, \"len\": {len}}}", foreign.own_name().unwrap());
        let ends = tokio::task::spawn_blocking(|| std::io::stdin().lock().read_to_end(&mut Vec::new()));
        tokio::select! {
            never = transport.tend() => match never {},
            _ = ends => {}
        }
    });
    stop.store(true, Ordering::Relaxed);
    serve.wake();
    worker.join().unwrap();
}
