//! What is said of memory of a GPU by whoever allocated it, so that a NIC can reach it without the host.
//! Deliberately no allocation: that is the GPU's own library's business.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::error::Error;

/// Memory of a GPU, besides its address and length.
#[derive(Debug)]
pub struct GpuPart {
    gpu: u16,
    dmabuf: Option<(OwnedFd, u64)>,
}

impl GpuPart {
    /// Memory of the GPU with this number (`cuda:0` is 0), of which only the address is known: NICs reach it where the
    /// GPU's driver has told the kernel how (`nvidia_peermem`).
    pub fn new(gpu: u16) -> Self {
        Self { gpu, dmabuf: None }
    }

    /// As [`Self::new`], with a dmabuf that has the memory's first byte at `offset` (for CUDA:
    /// `cuMemGetHandleForAddressRange`): what a NIC prefers. It is closed with the memory.
    pub fn with_dmabuf(gpu: u16, dmabuf: OwnedFd, offset: u64) -> Self {
        Self { gpu, dmabuf: Some((dmabuf, offset)) }
    }

    /// Number of the GPU.
    pub fn gpu(&self) -> u16 {
        self.gpu
    }

    /// What a copy by the CPU is answered.
    pub(super) fn not_by_the_cpu(&self) -> Error {
        Error::BadArgument(format!(
            "memory of cuda:{} is copied by the GPU's own library, not by the CPU",
            self.gpu
        ))
    }

    /// The dmabuf, and where in it the memory begins.
    pub fn dmabuf(&self) -> Option<(BorrowedFd<'_>, u64)> {
        self.dmabuf.as_ref().map(|(fd, offset)| (fd.as_fd(), *offset))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::memory::{Access, Memory, Region, Regions};

    /// Memory of a GPU is a region like any other, but no copy by the CPU is made of it, before or after it is one, and
    /// transports whose CPUs touch bytes will not have it. Memory of the host beside it is copied as before.
    #[test]
    fn no_cpu_touches_it() {
        // SAFETY: nothing reads or writes it: that is what is tested. No GPU is asked for anything.
        let mut memory = unsafe { Memory::of_gpu(4096 as *mut u8, 4096, GpuPart::new(3)) };
        let refused = |e: Error| e.to_string().contains("cuda:3");
        assert!(
            refused(memory.read(0, &mut [0]).unwrap_err()) && refused(memory.write(0, &[0]).unwrap_err())
        );
        assert!(memory.of_host("tcp").unwrap_err().to_string().contains("`tcp`"));
        assert_eq!((memory.gpu().unwrap().gpu(), memory.gpu().unwrap().dmabuf().is_none()), (3, true));
        let regions = Arc::new(Regions::new(4));
        let host = regions.add(Memory::allocate(4096).unwrap(), Access::Local).unwrap();
        let id = regions.add(memory, Access::ReadWrite).unwrap();
        let region = Region::new(&regions, id).unwrap();
        assert!(
            refused(region.read(0, &mut [0]).unwrap_err()) && refused(region.write(0, &[0]).unwrap_err())
        );
        assert!(regions.write_from(host, 0, &[7]).is_ok());
        assert_eq!(regions.facts(id).unwrap().pins, 0, "a refused copy leaves no pin");
    }
}
