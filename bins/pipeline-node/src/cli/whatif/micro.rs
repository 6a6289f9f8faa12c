//! What a hand-over and a wake-up cost on this machine, each by itself. Deliberately short: some milliseconds each, and medians,
//! because others use the CPUs as well.

use std::hint::spin_loop;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::model::costs::{Service, Sleep};
use crate::cli::load::tally::median;

/// Sleeps that are measured.
const SLEEPS: usize = 400;
/// How long each lasts at least: as long as a gap between requests that somebody waits for.
const SLEEP: Duration = Duration::from_micros(50);
/// Batches that go through a ring.
const BATCHES: usize = 20_000;
/// A batch of the graph: its items, and how many.
type Batch = [u64; pipeline_graph::BATCH + 1];
/// What a line costs that comes from another CPU's cache, against one's own: a ring between two workers cost twice what one
/// within a worker costs (docs/performance.md, "Costs without I/O").
const ACROSS: f64 = 2.0;

/// What each comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Micro {
    /// To pass a batch through a ring.
    pub hop: Service,
    /// To sleep and to be woken.
    pub sleep: Sleep,
    /// A call that sends a few bytes over loopback TCP, and one that receives them, nanoseconds.
    pub calls_ns: (f64, f64),
}

/// A call on a socket, where it cannot be measured.
const CALL_NS: f64 = 1_500.0;

impl Micro {
    /// Measures all of it.
    pub fn take() -> Self {
        Self { hop: hop(), sleep: sleep(), calls_ns: socket_calls().unwrap_or((CALL_NS, CALL_NS)) }
    }

    /// The middle of each figure.
    pub fn middle(all: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| median(&mut all.iter().map(figure).collect::<Vec<_>>());
        Self {
            hop: Service { call_ns: of(|m| m.hop.call_ns), ..Service::default() },
            sleep: Sleep {
                wake_ns: of(|m| m.sleep.wake_ns),
                sleeper_ns: of(|m| m.sleep.sleeper_ns),
                ringer_ns: of(|m| m.sleep.ringer_ns),
                look_ns: of(|m| m.sleep.look_ns),
            },
            calls_ns: (of(|m| m.calls_ns.0), of(|m| m.calls_ns.1)),
        }
    }
}

/// What it costs to pass a batch through a ring.
fn hop() -> Service {
    let (tell, hear) = crossbeam_channel::bounded::<Batch>(64);
    let mut rounds: Vec<f64> = (0..9)
        .map(|_| {
            let begun = Instant::now();
            for i in 0..BATCHES {
                let sent = tell.try_send([i as u64; pipeline_graph::BATCH + 1]);
                let came = hear.try_recv();
                std::hint::black_box((sent.is_ok(), came.is_ok()));
            }
            begun.elapsed().as_nanos() as f64 / BATCHES as f64
        })
        .collect();
    Service { call_ns: ACROSS * median(&mut rounds), ..Service::default() }
}

/// What a call costs that sends a few bytes over loopback TCP, and one that receives them, nanoseconds; both warm. `None` where
/// there is no loopback.
fn socket_calls() -> Option<(f64, f64)> {
    const ROUNDS: usize = 2_000;
    let listener = TcpListener::bind("127.0.0.1:0").ok()?;
    let mut near = TcpStream::connect(listener.local_addr().ok()?).ok()?;
    let (mut far, _) = listener.accept().ok()?;
    near.set_nodelay(true).ok()?;
    let (mut sends, mut receives) = (Vec::with_capacity(ROUNDS), Vec::with_capacity(ROUNDS));
    let mut bytes = [0_u8; 16];
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        near.write_all(&bytes).ok()?;
        let sent = Instant::now();
        far.read_exact(&mut bytes).ok()?;
        sends.push((sent - begun).as_nanos() as f64);
        receives.push(sent.elapsed().as_nanos() as f64);
    }
    Some((median(&mut sends), median(&mut receives)))
}

/// What it costs to sleep and to be woken, as workers and waiters do it: by a futex.
fn sleep() -> Sleep {
    let state = Arc::new(AtomicU64::new(0));
    let born = Instant::now();
    let now = move || born.elapsed().as_nanos() as u64;
    let theirs = state.clone();
    let sleeper = thread::spawn(move || {
        let (mut woken, cpu) = (Vec::with_capacity(SLEEPS), thread_cpu_ns());
        for i in 1..=SLEEPS as u64 {
            while theirs.load(Ordering::Acquire) < i {
                thread::park();
            }
            woken.push(now());
        }
        (woken, (thread_cpu_ns() - cpu) / SLEEPS as f64)
    });
    let (mut rung, mut ringing) = (Vec::with_capacity(SLEEPS), Vec::with_capacity(SLEEPS));
    for i in 1..=SLEEPS as u64 {
        let until = Instant::now() + SLEEP;
        while Instant::now() < until {
            spin_loop();
        }
        rung.push(now());
        state.store(i, Ordering::Release);
        sleeper.thread().unpark();
        ringing.push((now() - rung[i as usize - 1]) as f64);
    }
    let Ok((woken, sleeper_ns)) = sleeper.join() else { return Sleep::default() };
    let mut late: Vec<f64> = woken.iter().zip(&rung).map(|(w, r)| w.saturating_sub(*r) as f64).collect();
    // A sleeper that waits for a CPU besides, and one that was not asleep yet, are not what is asked for.
    let (wake_ns, ringer_ns) = (quarter(&mut late, 1), quarter(&mut ringing, 3));
    Sleep { wake_ns, sleeper_ns, ringer_ns, look_ns: look() }
}

/// The so-manieth quarter of values.
fn quarter(values: &mut [f64], which: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() * which / 4).copied().unwrap_or(0.0)
}

/// From a store to another thread that looks: half a round between two that do nothing else.
fn look() -> f64 {
    const ROUNDS: u64 = 2_000;
    let ball = Arc::new(AtomicU64::new(0));
    let theirs = ball.clone();
    let wait_for = |ball: &AtomicU64, value: u64| {
        let mut looks = 0_u32;
        while ball.load(Ordering::Acquire) < value {
            looks += 1;
            // With fewer CPUs than threads the other one needs this one's.
            if looks.is_multiple_of(1024) { thread::yield_now() } else { spin_loop() }
        }
    };
    let other = thread::spawn(move || {
        for i in 0..ROUNDS {
            wait_for(&theirs, 2 * i + 1);
            theirs.store(2 * i + 2, Ordering::Release);
        }
    });
    let mut rounds = Vec::with_capacity(ROUNDS as usize);
    for i in 0..ROUNDS {
        let begun = Instant::now();
        ball.store(2 * i + 1, Ordering::Release);
        wait_for(&ball, 2 * i + 2);
        rounds.push(begun.elapsed().as_nanos() as f64 / 2.0);
    }
    // It has nothing left that could fail.
    let _ = other.join();
    median(&mut rounds)
}

fn thread_cpu_ns() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as f64 * 1e9 + t.tv_nsec as f64
}
