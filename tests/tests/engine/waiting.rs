//! What waiting costs the threads that wait, and how soon they go on: with threads of the engine's own, and without.

use std::time::{Duration, Instant};

use pipeline_node::{Batch, Engine, Options, Peer, Request, Source};

use crate::audience::{block_on, until_readable};
use crate::rig::{PATIENCE, nothing_left, open};

/// A slow network inside the process.
const SLOW: &str = r#"
version = 1
use = "tcp"
[transports]
tcp = false
sim = { type = "sim", delay_min = "1s", delay_max = "1s" }
[stages]
route = { prefer = ["sim"] }
[segments.kv]
kind = "dram"
size = "1MiB"
access = "read_write"
"#;

/// The same on the callers' threads.
const CALLERS: &str = r#"
[pools]
app = { kind = "caller" }
[stages.admit]
pool = "app"
[stages.split]
pool = "app"
[stages.select]
pool = "app"
[stages.post]
pool = "app"
[stages.reap]
pool = "app"
[stages.retry]
pool = "app"
[edges]
"select -> post" = "inline"
"#;

fn start(text: &str) -> Engine {
    Engine::from_source(&Source::text("slow", text)).unwrap_or_else(|e| panic!("{e}"))
}

/// CPU time of this thread.
fn cpu() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// How a thread waits.
type Way = fn(&Batch);

fn by_wait(batch: &Batch) {
    assert!(batch.wait(PATIENCE).unwrap().is_done());
}

fn by_descriptor(batch: &Batch) {
    until_readable(&batch.eventfd().unwrap());
}

fn by_task(batch: &Batch) {
    assert!(block_on(batch.into_future()).0.unwrap().is_done());
}

/// Eight threads wait for a transfer each. Answers the largest share of a core that one of them used, and how late the
/// median one went on after its batch was seen done.
fn eight_wait(client: &Engine, peer: &Peer, way: Way) -> (f64, Duration) {
    let kv = peer.segment("kv").unwrap();
    let local = client.allocate(1 << 16).unwrap();
    let batches: Vec<_> = (0..8_u64)
        .map(|i| {
            let request = Request::write(&local, i << 10, kv.at(i << 10), 1 << 10);
            client.submit(&[request], Options::default()).unwrap()
        })
        .collect();
    let (seen, ends) = std::thread::scope(|scope| {
        let waiters: Vec<_> = batches
            .iter()
            .map(|batch| {
                scope.spawn(|| {
                    let (begin, before) = (Instant::now(), cpu());
                    way(batch);
                    let end = Instant::now();
                    ((cpu() - before).as_secs_f64() / (end - begin).as_secs_f64(), end)
                })
            })
            .collect();
        // Looks often, and sleeps in between: the machine has few CPUs.
        let mut seen = vec![None; batches.len()];
        while seen.contains(&None) {
            for (seen, batch) in seen.iter_mut().zip(&batches) {
                *seen = seen.or_else(|| batch.poll().map(|_| Instant::now()));
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        let ends: Vec<_> = waiters.into_iter().map(|w| w.join().unwrap()).collect();
        (seen, ends)
    });
    let share = ends.iter().map(|(share, _)| *share).fold(0.0, f64::max);
    let mut late: Vec<_> =
        seen.iter().zip(&ends).map(|(seen, (_, end))| end.saturating_duration_since(seen.unwrap())).collect();
    late.sort_unstable();
    drop(batches);
    nothing_left(client, [local]);
    (share, late[late.len() / 2])
}

/// B33: who waits for a slow transfer, by a call, a descriptor or in a task, uses less than a twentieth of a core, and goes on within five milliseconds of
/// its end: one try of five, on a machine that may be busy with other things.
#[test]
fn waiters_sleep_and_wake_soon() {
    let target = start(SLOW);
    let tells = SLOW.replace("[stages]", "[stages]\nnotify = { via = [\"eventfd\", \"waker\"] }");
    let cases: [(&str, String, Way); 4] = [
        ("resident", SLOW.to_owned(), by_wait),
        ("caller", layout_of_callers(), by_wait),
        ("descriptor", tells.clone(), by_descriptor),
        ("task", tells, by_task),
    ];
    for (name, layout, way) in cases {
        let client = start(&layout);
        let peer = open(&client, &target);
        let mut tries = Vec::new();
        for _ in 0..5 {
            let (share, late) = eight_wait(&client, &peer, way);
            tries.push((share, late));
            if share < 0.05 && late < Duration::from_millis(5) {
                break;
            }
        }
        let (share, late) = tries[tries.len() - 1];
        println!("{name}: {:.2} % of a core, {late:?} late", share * 100.0);
        assert!(share < 0.05 && late < Duration::from_millis(5), "{name}: {tries:?}");
    }
}

fn layout_of_callers() -> String {
    let route = "route = { prefer = [\"sim\"] }";
    SLOW.replace(route, "route = { prefer = [\"sim\"], pool = \"app\" }") + CALLERS
}
