//! A terabyte of addresses over 64 MiB of memory: what a request that large moves is real, and costs no more memory.

use std::os::fd::AsFd;
use std::ptr::null_mut;

use pipeline_node::Memory;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};

/// Bytes of addresses.
pub const LEN: u64 = 1 << 40;
const FOLD: u64 = 64 << 20;

/// One for the rest of the process.
pub fn terabyte() -> Memory {
    let file = memfd_create("folded", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, FOLD).unwrap();
    let all = ProtFlags::READ | ProtFlags::WRITE;
    let reserve = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing that exists.
    let base = unsafe { mmap_anonymous(null_mut(), LEN as usize, ProtFlags::empty(), reserve) }.unwrap();
    for at in (0..LEN).step_by(FOLD as usize) {
        let place = base.cast::<u8>().wrapping_add(at as usize);
        // SAFETY: replaces a part of the range that was reserved above and that nobody uses yet.
        unsafe {
            mmap(place.cast(), FOLD as usize, all, MapFlags::SHARED | MapFlags::FIXED, file.as_fd(), 0)
                .unwrap();
        }
    }
    // SAFETY: mapped above for the rest of the process; only transfers touch it.
    unsafe { Memory::from_raw(base.cast(), LEN) }
}
