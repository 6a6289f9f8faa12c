//! Memory of GPUs made known to a NIC: as a dmabuf, by the driver's peer memory, or not at all, which is said.
//!
//! Which of them works depends on the kernel, both drivers and where the two sit, so it is found by trying, for each pair
//! of NIC and GPU, and remembered. Deliberately no copy through memory of the host: that would be another transport.

use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};

use ibverbs_sys as ffi;

use super::device::Device;
use super::registration::MemoryRegion;
use super::settings::GpuMemory;
use crate::error::Error;
use crate::memory::GpuPart;

/// How a NIC reaches memory of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// As a dmabuf.
    Dmabuf,
    /// By the driver's peer memory.
    PeerMemory,
    /// Not at all.
    No,
}

/// What was found for pairs of NIC and GPU: as many entries as there are pairs, at most.
#[derive(Debug, Default)]
pub(super) struct Reaches(Mutex<BTreeMap<(String, u16), Reach>>);

impl Reaches {
    /// What is known of a NIC and a GPU.
    pub(super) fn get(&self, nic: &str, gpu: u16) -> Option<Reach> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&(nic.to_owned(), gpu)).copied()
    }

    fn note(&self, nic: &str, gpu: u16, reach: Reach) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.insert((nic.to_owned(), gpu), reach) != Some(reach) {
            tracing::info!(nic, gpu, ?reach, "how the NIC reaches the GPU's memory");
        }
    }
}

/// A stretch of a region of a GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    /// Address of the region on the GPU.
    pub(super) base: u64,
    /// Where in the region it begins.
    pub(super) from: u64,
    /// Bytes.
    pub(super) len: u64,
    /// What the NIC calls its first byte.
    pub(super) iova: u64,
    /// What is allowed.
    pub(super) access: ffi::ibv_access_flags,
}

/// Registers a stretch of memory of a GPU in the way that works, of those that the file allows.
///
/// # Errors
/// [`Error::GpuUnreachable`], with the reason for each way that was tried.
///
/// # Safety
/// The memory stays allocated until the answer is dropped.
pub(super) unsafe fn register(
    device: &Arc<Device>,
    part: &GpuPart,
    allowed: GpuMemory,
    stretch: Stretch,
    reaches: &Reaches,
) -> Result<MemoryRegion, Error> {
    let mut why = Vec::new();
    if allowed != GpuMemory::PeerMemory {
        match by_dmabuf(device, part, stretch) {
            Ok(region) => {
                reaches.note(device.nic(), part.gpu(), Reach::Dmabuf);
                return Ok(region);
            }
            Err(reason) => why.push(format!("as a dmabuf: {reason}")),
        }
    }
    if allowed != GpuMemory::Dmabuf {
        let Stretch { base, from, len, iova, access } = stretch;
        // SAFETY: the caller's promise; an address that is none of this process's is refused by the kernel, unless the GPU's
        // driver says that it knows it.
        match unsafe { MemoryRegion::of_process(device, base + from, len, iova, access) } {
            Ok(region) => {
                reaches.note(device.nic(), part.gpu(), Reach::PeerMemory);
                return Ok(region);
            }
            Err(reason) => why.push(format!("by peer memory: {reason}")),
        }
    }
    reaches.note(device.nic(), part.gpu(), Reach::No);
    Err(Error::GpuUnreachable { nic: device.nic().to_owned(), gpu: part.gpu(), why: why.join("; ") })
}

fn by_dmabuf(device: &Arc<Device>, part: &GpuPart, stretch: Stretch) -> Result<MemoryRegion, String> {
    let (dmabuf, offset) = part.dmabuf().ok_or("its owner gave none")?;
    let register =
        device.verbs().reg_dmabuf_mr.ok_or("this machine's libibverbs is older than rdma-core 34")?;
    let at = offset.checked_add(stretch.from).ok_or("its offset passes the end of numbers")?;
    let access = (stretch.access.0 as i32, stretch.len as usize);
    // SAFETY: an open domain and an open descriptor; the kernel keeps the buffer for as long as the registration.
    let made = unsafe {
        let made = register(device.pd(), at, access.1, stretch.iova, dmabuf.as_raw_fd(), access.0);
        MemoryRegion::from_raw(device, made)
    };
    made.map_err(|reason| match reason.raw_os_error() {
        Some(libc::EOPNOTSUPP) => format!("the NIC's driver does not know how ({reason})"),
        _ => reason.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was found last for a NIC and a GPU is what is known of them, and of no other pair.
    #[test]
    fn remembered_by_pair() {
        let reaches = Reaches::default();
        reaches.note("a", 0, Reach::No);
        reaches.note("a", 0, Reach::Dmabuf);
        reaches.note("b", 1, Reach::PeerMemory);
        assert_eq!(reaches.get("a", 0), Some(Reach::Dmabuf));
        assert_eq!((reaches.get("a", 1), reaches.get("b", 1)), (None, Some(Reach::PeerMemory)));
    }
}
