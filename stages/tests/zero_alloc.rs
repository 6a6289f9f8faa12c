//! Nothing is allocated per slice, nor for telling its end: after a warm-up, a hundred times as many slices cost not one
//! allocation more, counted in every thread of the process. Deliberately alone in its process.

#![allow(clippy::unwrap_used, reason = "tests")]

mod rig;

use std::alloc::{GlobalAlloc, Layout, System};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use pipeline_stages::{Batch, Options, Request};
use pipeline_transports::Access;
use rig::{INLINE, QUEUES, Rig, file, target};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: hands every call on to the system's allocator, unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Wakes a thread that runs one task.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// As a task does, without a runtime that might allocate.
fn awaited(batch: &Batch, waker: &Waker) -> bool {
    let mut future = pin!(batch.into_future());
    loop {
        if let Poll::Ready(summary) = future.as_mut().poll(&mut Context::from_waker(waker)) {
            return summary.unwrap().is_done();
        }
        std::thread::park();
    }
}

/// Large requests, small ones, and batches of many: the second and all later rounds allocate nothing, not even a
/// submission or its handle, with every stage inline and with a queue at every hop; and nothing to tell a thread, a task
/// and a doorbell.
#[test]
fn nothing_per_slice() {
    const MIB: u64 = 1 << 20;
    let limits = "requests = 2048\nslices = 2048\nbatches = 16\npeers = 4\nbytes_in_flight = \"1MiB\"";
    for model in [INLINE, QUEUES] {
        let told = r#""completion_notify", via = ["event", "eventfd", "waker"]"#;
        let model = model.replace("\"completion_notify\"", told);
        let config = file("type = \"loopback\"", &model, limits, "1KiB");
        let there = target(&config, &[4 * MIB], Access::ReadWrite);
        let rig = Rig::start(&config);
        let peer = rig.meet("b", &there);
        rig.link(peer, &there);
        let source = rig.memory(4 * MIB, 1);
        let mut requests = vec![Request::write(source, 0, rig.remote(peer, &there, 0), 2 * MIB)];
        requests
            .extend((0..500).map(|i| Request::read(source, i * 64, rig.remote(peer, &there, i * 64), 64)));
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let doorbell = rig.client.doorbell().unwrap();
        let options = Options { notify: Some(doorbell.clone()), ..Options::default() };
        let mut rung = 0;
        let mut round = || {
            let submit =
                |options| rig.client.submit_wait(&requests, options, Duration::from_secs(5)).unwrap();
            assert!(submit(Options::default()).wait(Duration::from_secs(20)).unwrap().is_done());
            assert!(awaited(&submit(options.clone()), &waker));
            rung += doorbell.take();
        };
        for _ in 0..5 {
            round();
        }
        let before = ALLOCATIONS.load(Relaxed);
        for _ in 0..20 {
            round();
        }
        let slices = 40 * (2048 + 500);
        assert_eq!(ALLOCATIONS.load(Relaxed) - before, 0, "allocations while {slices} slices went by");
        assert!(rung >= 24, "{rung} rings of 25");
    }
}
