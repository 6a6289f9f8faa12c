//! The data path of in-process transports allocates nothing: counted, thread by thread.

#![allow(clippy::unwrap_used, reason = "a test file")]

#[path = "inproc/pair.rs"]
mod pair;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use pipeline_transports::loopback::{Loopback, LoopbackSettings};
use pipeline_transports::sim::{Sim, SimSettings};
use pipeline_transports::{
    Access, Arming, Completions, LinkId, Memory, Nanos, Op, Outcome, RegionId, Span, Transport, WorkRequest,
    WrId,
};

use pair::Pair;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: passes everything on to the system's allocator; the count is a plain cell of the calling thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

struct Asleep;

impl Arming for Asleep {
    fn fd(&mut self, _: i32) {}
    fn deadline(&mut self, _: Nanos) {}
    fn busy(&mut self) {}
}

/// Sixteen thousand requests through a link: how many ended well.
fn drive<T: Transport>(pair: &mut Pair<T>, link: LinkId, (near, far): (RegionId, RegionId)) -> u64 {
    let span = |region| Span { region, offset: 0 };
    let mut out = Completions::with_capacity(64);
    pair.initiator.pin(near).unwrap();
    let before = ALLOCATIONS.with(Cell::get);
    let mut done = 0;
    for round in 0..2000 {
        let op = if round % 2 == 0 { Op::Write } else { Op::Read };
        let work = WorkRequest { id: WrId(round), op, local: span(near), remote: span(far), len: 4096 };
        let taken = pair.halves.post.post(pair.now, link, &[work; 8]).taken;
        if taken == 8 {
            // The last of them is taken back, if it has not begun.
            pair.halves.reap.cancel(link, WrId(round));
        }
        pair.halves.post.flush(pair.now);
        pair.now += 20_000;
        out.clear();
        pair.halves.reap.reap(pair.now, &mut out);
        pair.halves.reap.arm(&mut Asleep);
        done += out.done().iter().filter(|c| c.outcome == Outcome::Done).count() as u64;
    }
    assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0, "allocations on the data path");
    done
}

fn run<T: Transport>(mut pair: Pair<T>) {
    let link = pair.link();
    let near = pair.initiator.add(Memory::allocate(4096).unwrap(), Access::Local).unwrap();
    let far = pair.target.add(Memory::allocate(4096).unwrap(), Access::ReadWrite).unwrap();
    assert!(drive(&mut pair, link, (near, far)) > 10_000);
}

/// Posting, copying, cancelling, arming and reaping over loopback allocate nothing.
#[test]
fn loopback_allocates_nothing() {
    run(Pair::with(|incarnation, regions| {
        Loopback::new(LoopbackSettings::default(), incarnation, regions).unwrap()
    }));
}

/// Nor does the simulator, with every fault there is but loss.
#[test]
fn sim_allocates_nothing() {
    let settings = SimSettings {
        reorder_ppm: 100_000,
        error_ppm: 10_000,
        refuse_ppm: 10_000,
        duplicate_ppm: 100_000,
        ..SimSettings::default()
    };
    run(Pair::with(|incarnation, regions| Sim::new(settings.clone(), incarnation, regions).unwrap()));
}
