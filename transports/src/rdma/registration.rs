//! Memory made known to devices: registrations that undo themselves.
//!
//! A region is registered with every device of its transport, in as many pieces as `pieces` says, or with none: when one
//! device refuses, what was registered before is taken back. Deliberately no table of regions: keys go into `local_keys`
//! when the region has a name.

use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use ibverbs_sys as ffi;
use rustix::process::{Resource, getrlimit};

use super::device::Device;
use super::foreign::PieceKeys;
use super::local_keys::{LocalKeys, LocalRegion};
use super::pieces::Pieces;
use super::region_keys::RegionKeys;
use crate::error::Error;
use crate::memory::{Access, RegionId};
use crate::spread::Spread;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use crate::transport::Registered;
use crate::wr::Op;

/// One registration with one device.
pub(super) struct MemoryRegion {
    device: Arc<Device>,
    region: NonNull<ffi::ibv_mr>,
}

// SAFETY: verbs objects may be used from any thread.
unsafe impl Send for MemoryRegion {}
// SAFETY: as above.
unsafe impl Sync for MemoryRegion {}

impl MemoryRegion {
    /// Takes over what a device has just made.
    ///
    /// # Safety
    /// `region` is null, or a registration with `device` that nobody else takes back.
    pub(super) unsafe fn from_raw(device: &Arc<Device>, region: *mut ffi::ibv_mr) -> io::Result<Self> {
        let reason = io::Error::last_os_error();
        NonNull::new(region).map(|region| Self { device: device.clone(), region }).ok_or(reason)
    }

    /// Registers `len` bytes of this process's memory at `base`, called `iova` by the NIC.
    ///
    /// # Safety
    /// The memory stays valid until the answer is dropped.
    pub(super) unsafe fn of_process(
        device: &Arc<Device>,
        base: u64,
        len: u64,
        iova: u64,
        access: ffi::ibv_access_flags,
    ) -> io::Result<Self> {
        let base = base as *mut std::ffi::c_void;
        // SAFETY: an open domain; the kernel checks and pins the pages, and the caller keeps them mapped.
        unsafe {
            let made = (device.verbs().reg_mr_iova2)(device.pd(), base, len as usize, iova, access.0);
            Self::from_raw(device, made)
        }
    }

    /// The keys of this node's own work requests, and of those of peers.
    pub(super) fn keys(&self) -> (u32, u32) {
        // SAFETY: it lives as long as `self`, and its keys never change.
        let region = unsafe { self.region.as_ref() };
        (region.lkey, region.rkey)
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        let verbs = self.device.verbs();
        // In a forked child the registration is the parent's.
        if !verbs.is_here() {
            return;
        }
        // SAFETY: ours; work requests that use it are flushed by the NIC with an error, if there are any.
        let failed = unsafe { (verbs.dereg_mr)(self.region.as_ptr()) };
        if failed != 0 {
            let (nic, reason) = (self.device.nic(), io::Error::from_raw_os_error(failed));
            tracing::error!(%nic, %reason, "a registration could not be taken back: its memory stays pinned");
        }
    }
}

/// What the registrations of a region are to allow. The node's own NIC may always write to it: it is where READs arrive.
pub(super) fn access_flags(access: Access, relaxed_ordering: bool) -> ffi::ibv_access_flags {
    use ffi::ibv_access_flags as flags;
    let mut all = flags::IBV_ACCESS_LOCAL_WRITE;
    if access.allows(Op::Read) {
        all |= flags::IBV_ACCESS_REMOTE_READ;
    }
    if access.allows(Op::Write) {
        all |= flags::IBV_ACCESS_REMOTE_WRITE;
    }
    if relaxed_ordering {
        // Asked for; a kernel or device that does not know it registers without.
        all |= flags::IBV_ACCESS_RELAXED_ORDERING;
    }
    all
}

/// What is registered, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// First byte.
    pub(super) base: u64,
    /// What peers may do.
    pub(super) access: Access,
    /// How it is laid over registrations.
    pub(super) pieces: Pieces,
}

/// A region's registrations with all devices of its transport.
pub(crate) struct Registrations {
    wanted: Wanted,
    keys: Arc<LocalKeys>,
    /// The name it was given; 0 before that. Set once, by whoever registers, before anybody looks the region up.
    name: AtomicU64,
    /// All pieces with the first device, then with the next.
    regions: Vec<MemoryRegion>,
}

impl Registrations {
    /// Registers every piece with every device, by `register` and on all threads there are, or none.
    ///
    /// # Errors
    /// Which device refused, which piece, and why. What had been registered is taken back by then.
    pub(super) fn make(
        devices: &[Arc<Device>],
        keys: &Arc<LocalKeys>,
        wanted: Wanted,
        threads: &dyn Spread,
        register: impl Fn(&Arc<Device>, u64, u64) -> Result<MemoryRegion, Error> + Sync,
    ) -> Result<Self, Error> {
        let (pieces, failed) = (wanted.pieces.count(), AtomicBool::new(false));
        let each = devices.iter().flat_map(|device| (0..pieces).map(move |at| (device, at)));
        let answers: Vec<_> = each.map(|(device, at)| (device, at, OnceLock::new())).collect();
        threads.each(answers.len(), &|i| {
            let (device, at, answer) = &answers[i];
            // After a failure no more are begun.
            if !failed.load(Ordering::Relaxed) {
                let (from, len) = wanted.pieces.span(*at);
                let made = register(device, from, len);
                failed.fetch_or(made.is_err(), Ordering::Relaxed);
                let _ = answer.set(made); // Each is set once.
            }
        });
        let made = answers.into_iter().filter_map(|(_, _, answer)| answer.into_inner());
        let regions = made.collect::<Result<Vec<_>, Error>>()?;
        Ok(Self { wanted, keys: keys.clone(), name: AtomicU64::new(0), regions })
    }
}

impl Registrations {
    /// What another engine is told of each piece.
    pub(crate) fn told(&self) -> Vec<PieceKeys> {
        let Wanted { base, pieces, .. } = self.wanted;
        let of = |at: u16| {
            let (from, len) = pieces.span(at);
            let keys = self.regions.iter().skip(usize::from(at)).step_by(usize::from(pieces.count()));
            let (lkeys, rkeys) = keys.map(MemoryRegion::keys).unzip();
            PieceKeys { address: base + from, len, lkeys, rkeys }
        };
        (0..pieces.count()).map(of).collect()
    }
}

impl Registered for Registrations {
    fn keys(&self) -> Vec<u8> {
        let rkeys = self.regions.iter().map(|region| region.keys().1).collect();
        RegionKeys { access: self.wanted.access, pieces: self.wanted.pieces, rkeys }.encode()
    }

    fn bind(&self, region: RegionId) {
        self.name.store(region.0, Ordering::Relaxed);
        let lkeys = self.regions.iter().map(|region| region.keys().0).collect();
        self.keys.enter(LocalRegion::new(region, self.wanted.base, self.wanted.pieces, lkeys));
    }
}

impl Drop for Registrations {
    fn drop(&mut self) {
        // First nobody finds its keys, then they end.
        match self.name.load(Ordering::Relaxed) {
            0 => {}
            name => self.keys.leave(RegionId(name)),
        }
    }
}

/// The error for a piece that a device would not take.
pub(super) fn not_taken(device: &Device, len: u64, region_len: u64, source: io::Error) -> Error {
    let help = help(&source, getrlimit(Resource::Memlock).current, region_len, device);
    Error::NotRegisterable { nic: device.nic().to_owned(), len, region_len, help, source }
}

/// What to do about it.
fn help(why: &io::Error, memlock: Option<u64>, region_len: u64, device: &Device) -> String {
    let attr = device.attr();
    match (why.raw_os_error(), memlock) {
        (Some(libc::ENOMEM | libc::EAGAIN | libc::EPERM), Some(limit)) if limit < region_len => format!(
            "this process may lock {limit} bytes: ulimit -l unlimited (systemd: LimitMEMLOCK=infinity; container: --ulimit memlock=-1)"
        ),
        (Some(libc::ENOMEM | libc::EAGAIN | libc::EPERM), Some(limit)) => format!(
            "this process may lock {limit} bytes in all, and each NIC counts by itself: ulimit -l unlimited (systemd: LimitMEMLOCK=infinity; container: --ulimit memlock=-1); and the device holds at most {} registrations",
            attr.max_mr
        ),
        (Some(libc::ENOMEM | libc::ENOSPC), None) => format!(
            "the machine has no memory for it, part of it is not mapped, or the device has no room: it holds at most {} registrations",
            attr.max_mr
        ),
        (Some(libc::EFAULT), _) => "not all of it is memory that this process may read and write".to_owned(),
        (Some(libc::EINVAL), _) => format!(
            "the device takes at most {} bytes in one registration: set `register_max` of the transport lower",
            attr.max_mr_size
        ),
        _ => "see the kernel's log (dmesg) for what the driver says".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Peers may do what the region's access says and no more; the node's own NIC may always write; relaxed ordering is
    /// asked for unless the file forbids it.
    #[test]
    fn what_is_allowed() {
        let bits = |access, relaxed| access_flags(access, relaxed).0;
        assert_eq!(bits(Access::Local, false), 1);
        assert_eq!(bits(Access::Write, false), 1 | 2);
        assert_eq!(bits(Access::Read, false), 1 | 4);
        assert_eq!(bits(Access::ReadWrite, true), 1 | 2 | 4 | 1 << 20);
    }
}
