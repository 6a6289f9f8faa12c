//! An adaptive worker on real threads: it loses no wake-up, whatever it has just learned, and uses no CPU while idle.

mod rig;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pipeline_graph::sim::Dice;
use pipeline_graph::{Engine, Wait};
use rig::{Rig, in_seconds, queue};

/// `wait = "adaptive"`, but nobody wakes it for nothing within the test: a lost wake-up is one for ever.
const ADAPTIVE: Wait = Wait {
    spin_ns: 20_000,
    yield_ns: 180_000,
    park_ns: 3_600_000_000_000,
    adaptive: true,
    price_percent: 25,
};

/// A worker with one sink, which counts.
fn counting(wait: Wait) -> (Engine<u64>, Arc<AtomicU64>) {
    let seen = Arc::new(AtomicU64::new(0));
    let counted = seen.clone();
    let mut rig = Rig::new()
        .pool("one", 1)
        .stage("end", Some("one"), &[], move |_, _| {
            counted.fetch_add(1, Ordering::Release);
            None
        })
        .edge("submit -> end", queue(16));
    rig.blueprint.pools[0].wait = wait;
    (rig.start(), seen)
}

/// Until it has been seen; a wake-up that is lost fails the test.
fn wait_for(seen: &AtomicU64, count: u64) {
    let mut looks = 0u32;
    let mut since = None;
    while seen.load(Ordering::Acquire) < count {
        looks += 1;
        if looks.is_multiple_of(64) {
            std::thread::yield_now();
            let since = *since.get_or_insert_with(Instant::now);
            assert!(since.elapsed() < Duration::from_secs(30), "submission {count} was slept through");
        }
        std::hint::spin_loop();
    }
}

/// A million items, submitted one at a time, each when the one before has arrived: by turns so soon that the worker
/// spins, so late that it parks at once, at the edge of its budget, and at random. None is slept through.
#[test]
fn a_million_single_submissions_lose_no_wake_up() {
    const ITEMS: u64 = 1_000_000;
    let (engine, seen) = counting(ADAPTIVE);
    let (inlet, mut dice) = (engine.inlet(), Dice::new(6));
    let mut pause = 0;
    for item in 0..ITEMS {
        if item.is_multiple_of(500) {
            // Most regimes are short, or it would take minutes; how long a worker dares to spin lies in between.
            pause = *dice.one_of(&[0, 0, 0, 1, 1, 3, 10, 30]);
        }
        let pause_ns = if dice.percent(1) { dice.below(100_000) } else { dice.below(2_000 * pause + 1) };
        let until = pipeline_graph::clock::now() + pause_ns;
        while pause_ns > 0 && pipeline_graph::clock::now() < until {
            std::hint::spin_loop();
        }
        inlet.push_all(&[item]).expect("one item at a time has room");
        wait_for(&seen, item + 1);
    }
    let worker = engine.snapshot().workers.remove(0);
    println!("{worker:?}");
    assert!(worker.parks > 1_000 && worker.spins > 10_000, "both were tried: {worker:?}");
    assert!(
        worker.decisions > 10 && worker.wake_ns > 0 && worker.wake_cpu_ns > 0,
        "it has adapted: {worker:?}"
    );
    assert!(worker.spin_budget_ns <= ADAPTIVE.spin_ns && worker.yield_budget_ns <= ADAPTIVE.yield_ns);
    assert!(engine.drain(in_seconds(30)).empty);
}

/// CPU time of the thread that bears a name, from the kernel's own account (`stat`, in ticks of 10 ms).
fn cpu_ticks(name: &str) -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux").flatten();
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    let stat =
        stats.into_iter().find(|stat| stat.contains(&format!("({name})"))).expect("the worker's thread");
    let fields = stat.rsplit(')').next().expect("fields follow the name").split_whitespace();
    fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
}

/// After its budget a worker is parked: idle for two seconds it does not wake, and uses no CPU time, whatever it was
/// used to before; and that it parks at once after long gaps, or after a spin that is nothing beside them, can be seen.
#[test]
fn parked_after_its_budget_and_without_cpu_while_idle() {
    let (engine, seen) = counting(ADAPTIVE);
    let inlet = engine.inlet();
    for item in 0..10_000 {
        inlet.push_all(&[item]).expect("one item at a time has room");
        wait_for(&seen, item + 1);
    }
    let parked = || {
        let before = engine.snapshot().workers.remove(0);
        std::thread::sleep(Duration::from_millis(20));
        engine.snapshot().workers.remove(0).turns == before.turns
    };
    rig::until("a park", parked);
    let (before, ticks) = (engine.snapshot(), cpu_ticks("one"));
    std::thread::sleep(Duration::from_secs(2));
    let idle = engine.snapshot().since(&before).workers.remove(0);
    assert_eq!((idle.turns, idle.parks, cpu_ticks("one") - ticks), (0, 0, 0), "{idle:?}");
    for item in 10_000..10_200 {
        std::thread::sleep(Duration::from_millis(2));
        inlet.push_all(&[item]).expect("one item at a time has room");
        wait_for(&seen, item + 1);
    }
    let worker = engine.snapshot().workers.remove(0);
    // What is left of the short gaps may be worth a microsecond, to a machine whose sleeps cost thirty.
    let spins_ns = worker.spin_budget_ns + worker.yield_budget_ns;
    assert!(spins_ns <= 10_000 && (spins_ns > 0 || worker.parks_at_once), "{worker:?}");
    assert!((1_500_000..20_000_000).contains(&worker.gap_ns), "{worker:?}");
    assert!(engine.drain(in_seconds(30)).empty);
}
