//! How fast lanes are without a pipeline: the halves stepped in two threads, against the bare loop.
//!
//! `cargo bench -p pipeline-transports --bench tcp_lane -- [write|read] BYTES BATCH DEPTH LANES CONGESTION [spin] [only]`

#![allow(clippy::unwrap_used, reason = "a measurement: what fails shall end it")]

#[path = "../tests/tcp/rig.rs"]
mod rig;

use std::net::TcpListener;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pipeline_transports::tcp::Settings;
use pipeline_transports::tcp::ceiling::{self, CeilingSettings, Wait};
use pipeline_transports::{Access, Arming, Completions, LinkId, Nanos, Op};

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
    fn sleep(&mut self, spin: bool) {
        if spin || self.busy {
            std::hint::spin_loop();
        } else {
            let mut fds: Vec<_> =
                self.fds.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
            // SAFETY: a live array of its length; the timeout bounds a stop that is not announced.
            unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as _, 50) };
        }
        self.fds.clear();
        self.busy = false;
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    if args.is_empty() {
        println!("tcp_lane measures for seconds; it wants arguments, see its head");
        return;
    }
    let arg = |i: usize, default: u64| args.get(i).and_then(|a| a.parse().ok()).unwrap_or(default);
    let op = if args.first().is_some_and(|a| a == "read") { Op::Read } else { Op::Write };
    let (bytes, batch, depth, lanes) = (arg(1, 4096), arg(2, 64), arg(3, 2), arg(4, 1));
    let congestion = args.get(5).cloned().or(Some("cubic".into()));
    let spin = args.iter().any(|a| a == "spin");
    let sockets = Settings { congestion, ..Settings::default() };
    let working_set = (bytes * batch * depth).clamp(64 << 20, 256 << 20);
    for _ in 0..arg(7, 3) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let target = std::thread::spawn(move || ceiling::serve(&listener).unwrap());
        let settings = CeilingSettings {
            op,
            bytes,
            batch: batch as u32,
            depth: depth as u32,
            lanes: lanes as u16,
            wait: if spin { Wait::Spin } else { Wait::Park },
            target_wait: if spin { Wait::Spin } else { Wait::Park },
            working_set,
            duration: Duration::from_secs(1),
            sockets: sockets.clone(),
        };
        if args.iter().any(|a| a == "only") {
            lane_run(op, bytes, batch * depth, lanes, working_set, &sockets, spin);
            continue;
        }
        let cpu = cpu_s();
        let report = ceiling::initiate(&settings, address).unwrap();
        target.join().unwrap();
        show("bare loop", report.bytes, report.requests, report.elapsed, cpu_s() - cpu);
        lane_run(op, bytes, batch * depth, lanes, working_set, &sockets, spin);
    }
}

/// CPU seconds of this process: what a comparison on a busy machine can still rely on.
fn cpu_s() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

fn show(what: &str, bytes: u64, requests: u64, elapsed: Duration, cpu_s: f64) {
    let s = elapsed.as_secs_f64();
    let (rate, each) = (requests as f64 / s / 1e3, cpu_s / requests as f64 * 1e6);
    println!(
        "{what:10} {:7.3} GB/s {rate:8.1} k/s {each:9.3} cpu-us each {:.3} cpu-s/GB",
        bytes as f64 / s / 1e9,
        cpu_s / bytes as f64 * 1e9
    );
}

fn lane_run(op: Op, bytes: u64, window: u64, lanes: u64, working_set: u64, sockets: &Settings, spin: bool) {
    let (mut a, mut b) = rig::connected(sockets, lanes);
    let (la, rb) = (a.region(working_set, Access::Local), b.region(working_set, Access::ReadWrite));
    for page in (0..working_set).step_by(4096) {
        a.fill(la, page, &[1]);
        b.fill(rb, page, &[2]);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let target = std::thread::spawn({
        let stop = stop.clone();
        move || {
            let (mut serve, mut park) = (b.halves.serve.take().unwrap(), Parking::default());
            while !stop.load(Ordering::Relaxed) {
                if serve.step(0, 256).answered == 0 {
                    serve.arm(&mut park);
                    park.sleep(spin);
                }
            }
        }
    });
    let (mut out, mut park) = (Completions::with_capacity(256), Parking::default());
    let (mut posted, mut done, mut offset) = (0u64, 0u64, 0u64);
    let (start, cpu) = (Instant::now(), cpu_s());
    let mut batch = Vec::with_capacity(32);
    while start.elapsed() < Duration::from_secs(1) {
        let mut progress = false;
        while posted - done < window {
            batch.clear();
            for i in 0..(window - (posted - done)).min(32) {
                offset = if offset + 2 * bytes > working_set { 0 } else { offset + bytes };
                batch.push(rig::request(posted + i, op, (la, offset), (rb, offset), bytes));
            }
            let link = LinkId(1 + (posted / 32) % lanes);
            let taken = a.halves.post.post(0, link, &batch).taken as u64;
            posted += taken;
            progress |= taken > 0;
            if taken == 0 {
                break;
            }
        }
        a.halves.post.flush(0);
        out.clear();
        done += a.halves.reap.reap(0, &mut out) as u64;
        progress |= !out.done().is_empty();
        if !progress {
            a.halves.post.arm(&mut park);
            a.halves.reap.arm(&mut park);
            park.sleep(spin);
        }
    }
    show("lane", done * bytes, done, start.elapsed(), cpu_s() - cpu);
    stop.store(true, Ordering::Relaxed);
    target.join().unwrap();
}
