//! After start nothing is allocated for an item, whatever the edges are made of. One test, alone in its
//! process, because the counter counts every thread.
#![allow(clippy::unwrap_used)] // Whatever is missing here is a failed test.

#[path = "actors/mod.rs"]
mod actors;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use actors::{Bare, Gate, Rig, Tally, back, queue, queue_to};
use pipeline_graph::{Dispatch, Mode};

/// The system's allocator with a counter in front.
struct Counting;

static COUNTING: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

fn count() {
    if COUNTING.load(Ordering::Relaxed) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to `System` unchanged, which keeps `GlobalAlloc`'s contract; counting touches atomics only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise about `layout` is handed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: `ptr` came from `System` with this `layout`, by `alloc` or `realloc` here.
        unsafe { System.dealloc(ptr, layout) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: as for `dealloc`, and the caller's promise about `new_size` is handed on.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const BURST: u64 = 10_000;
const BURSTS: u64 = 20;

/// Make → relay → end over `first` and `second`.
fn line(first: Mode, second: Mode, pools: [&'static str; 3], gate: &Arc<Gate>, tally: &Arc<Tally>) -> Rig {
    let mut rig = Rig::default();
    for pool in ["p", "q", "r"].into_iter().filter(|p| pools.contains(p)) {
        rig = rig.pool(pool, if pool == "r" { 2 } else { 1 });
    }
    rig.stage("make", Some(pools[0]), Bare::Feed(gate.clone(), 0).spec())
        .stage("relay", Some(pools[1]), Bare::Relay.spec())
        .stage("end", Some(pools[2]), Bare::Tally(tally.clone()).spec())
        .edge("make -> relay", first)
        .edge("relay -> end", second)
}

/// Three laps an item over a return edge.
fn laps(gate: &Arc<Gate>, tally: &Arc<Tally>) -> Rig {
    Rig::default()
        .pool("p", 1)
        .pool("q", 1)
        .stage("make", Some("p"), Bare::Feed(gate.clone(), 3).spec())
        .stage("work", Some("q"), Bare::Laps.spec())
        .stage("again", Some("q"), Bare::Relay.spec())
        .stage("end", Some("q"), Bare::Tally(tally.clone()).spec())
        .edge("make -> work", queue(8))
        .edge("work -> end", Mode::Inline)
        .edge("work.1 -> again", Mode::Inline)
        .edge("again -> work", back())
        .tokens(BURST as usize)
}

/// Allocations by all threads while a started graph moves bursts of items, falls asleep and wakes again.
fn allocations(graph: impl Fn(&Arc<Gate>, &Arc<Tally>) -> Rig) -> u64 {
    let (gate, tally) = (Gate::open(0), Tally::new(u64::MAX));
    let engine = graph(&gate, &tally).start().unwrap();
    let burst = |so_far: u64| {
        gate.release(BURST);
        let until = Instant::now() + Duration::from_secs(30);
        while tally.seen() < so_far + BURST {
            assert!(Instant::now() < until, "stopped after {} items", tally.seen());
            std::thread::yield_now();
        }
    };
    // The first burst may touch what is made on first use: thread-locals, the TSC's calibration.
    burst(0);
    ALLOCATIONS.store(0, Ordering::Relaxed);
    COUNTING.store(true, Ordering::SeqCst);
    (1..=BURSTS).for_each(|n| burst(n * BURST));
    COUNTING.store(false, Ordering::SeqCst);
    actors::stop(engine);
    ALLOCATIONS.load(Ordering::Relaxed)
}

/// Inline, queue (all three dispatches, across pools and within one) and return edges allocate nothing for an
/// item, nor for a sleep between bursts; and the counter does count.
#[test]
fn nothing_is_allocated_for_an_item() {
    COUNTING.store(true, Ordering::SeqCst);
    drop(std::hint::black_box(Box::new(7)));
    COUNTING.store(false, Ordering::SeqCst);
    assert!(ALLOCATIONS.load(Ordering::Relaxed) > 0, "the counter is blind");

    let inline = Mode::Inline;
    let to = |dispatch| queue_to(4, dispatch);
    assert_eq!(allocations(|g, t| line(inline, inline, ["p", "p", "p"], g, t)), 0, "inline");
    assert_eq!(allocations(|g, t| line(queue(4), queue(4), ["p", "q", "r"], g, t)), 0, "queues across pools");
    assert_eq!(allocations(|g, t| line(queue(4), inline, ["p", "p", "p"], g, t)), 0, "a queue within a pool");
    for dispatch in [Dispatch::Owner, Dispatch::Hash] {
        assert_eq!(allocations(|g, t| line(inline, to(dispatch), ["p", "p", "r"], g, t)), 0, "{dispatch:?}");
    }
    assert_eq!(allocations(laps), 0, "return edge");
}
