//! What the engine does not do: allocate while it runs, or burn a core while it idles.

mod rig;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pipeline_graph::{Dispatch, Mode, PortId};
use rig::{OUT, Rig, in_seconds, queue, queue_by, until};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

/// CPU time of this process.
fn cpu_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// One test, since the counters are the process's: over inline, queue and return edges, 100 000 items cost
/// no allocation after the start; and the idle engine then sleeps, with a handful of wake-ups a second.
#[test]
fn neither_allocates_nor_spins() {
    let count = Arc::new(AtomicU64::new(0));
    let counted = count.clone();
    let rig = Rig::new()
        .pool("front", 1)
        .pool("back", 2)
        .stage("select", Some("front"), &["out"], |_, i| Some((OUT, i)))
        .stage("same", Some("front"), &["out"], |_, i| Some((OUT, i)))
        .stage("try", Some("back"), &["out", "retry"], |_, i| {
            if i % 8 == 7 { Some((PortId(1), i + 1)) } else { Some((OUT, i)) }
        })
        .stage("end", None, &[], move |_, _| {
            counted.fetch_add(1, Ordering::Relaxed);
            None
        })
        .edge("submit -> select", queue(16))
        .edge("select -> same", Mode::Inline)
        .edge("same -> try", queue_by(4, Dispatch::Hash))
        .edge("try -> end", Mode::Inline)
        .edge("try.retry -> select", Mode::Return { dispatch: Dispatch::Any });
    let mut rig = rig;
    // More than the rings, outlets and hands of this graph can hold.
    rig.blueprint.tokens = 4096;
    let engine = rig.start();
    let inlet = engine.inlet();
    let mut next = 0;
    let mut send = |items: u64| {
        let (before, mut chunk) = (count.load(Ordering::Relaxed), [0u64; 32]);
        for sent in (0..items).step_by(32) {
            chunk.fill_with(|| {
                next += 1;
                next
            });
            // At most half of the tokens at once.
            until("room", || sent + before <= count.load(Ordering::Relaxed) + 2048);
            until("room", || inlet.push_all(&chunk).is_ok());
        }
        before
    };
    let _ = send(3200);
    until("the warm-up", || count.load(Ordering::Relaxed) >= 3200);
    let allocations = ALLOCATIONS.load(Ordering::Relaxed);
    let before = send(99_200);
    until("the items", || count.load(Ordering::Relaxed) >= before + 99_200);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - allocations, 0, "allocations while running");

    until("sleep", || engine.snapshot().workers.iter().all(|w| w.parks > 0));
    let (cpu, start) = (cpu_ns(), engine.snapshot());
    std::thread::sleep(std::time::Duration::from_secs(1));
    let (used, idle) = (cpu_ns() - cpu, engine.snapshot().since(&start));
    assert!(used < 10_000_000, "an idle engine used {used} ns of a second");
    assert!(idle.workers.iter().all(|w| w.turns < 100), "{:?}", idle.workers);
    assert!(engine.drain(in_seconds(30)).empty);
}
