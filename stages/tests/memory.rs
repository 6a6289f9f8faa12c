//! What a slice in flight costs in memory, counted where it is taken: in the allocator.
//! Deliberately alone in its process.

#![allow(clippy::unwrap_used, reason = "tests")]

mod rig;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use rig::{INLINE, Rig, file};

struct Counting;

static BYTES: AtomicI64 = AtomicI64::new(0);

// SAFETY: hands every call on to the system's allocator, unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as i64, Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as i64, Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes that a whole node of this many slices takes.
fn bytes(slices: u64) -> i64 {
    let limits = format!("requests = 1024\nslices = {slices}\nbatches = 16\npeers = 4");
    let config = file("type = \"loopback\"", INLINE, &limits, "4KiB");
    let before = BYTES.load(Relaxed);
    let rig = Rig::start(&config);
    let taken = BYTES.load(Relaxed) - before;
    drop(rig);
    taken
}

/// One slice more in `limits.slices` costs at most 128 bytes, all tables, rings, lists and edges of a node together.
#[test]
fn of_a_slice() {
    const MORE: u64 = 1 << 20;
    let each = (bytes(4096 + MORE) - bytes(4096)) as f64 / MORE as f64;
    println!("{each:.1} bytes a slice");
    assert!((64.0..=128.0).contains(&each), "{each:.1} bytes a slice");
}
