//! Bytes that can be registered: mapped by us, or lent by the application.
//! Deliberately untouched at allocation: terabytes cost nothing until somebody writes to them.

use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::error::Error;
use crate::memory::copy::copy;
use crate::memory::gpu::GpuPart;

const _: () = assert!(size_of::<usize>() == size_of::<u64>(), "offsets of regions are addresses of 64 bits");

/// What pages a mapping would like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// As the system sees fit.
    #[default]
    Normal,
    /// Transparent huge pages where the kernel has them; advice, so never an error.
    Huge,
}

/// Bytes that can be registered. While it is a value of its own nobody else touches it; once in
/// [`crate::Regions`] peers may.
#[derive(Debug)]
pub struct Memory {
    base: *mut u8,
    len: u64,
    mapped: bool,
    /// Of a GPU: no CPU may touch it.
    gpu: Option<Box<GpuPart>>,
}

// SAFETY: it is an address range, owned or lent for its life; nothing in it is bound to a thread.
unsafe impl Send for Memory {}
// SAFETY: shared references give out the address and copies only; see `copy` for racing accesses.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps `len` zeroed bytes, page-aligned, without reserving swap: sparse terabytes work.
    ///
    /// # Errors
    /// [`Error::BadArgument`] for a length of 0, [`Error::Io`] when the system refuses (naming the length).
    pub fn allocate(len: u64) -> Result<Self, Error> {
        Self::allocate_with(len, Pages::Normal)
    }

    /// As [`Self::allocate`], with advice on pages.
    ///
    /// # Errors
    /// As [`Self::allocate`].
    pub fn allocate_with(len: u64, pages: Pages) -> Result<Self, Error> {
        if len == 0 {
            return Err(Error::BadArgument("memory of 0 bytes: a length of at least 1 is needed".into()));
        }
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches nothing that exists.
        let base = unsafe {
            mmap_anonymous(std::ptr::null_mut(), len as usize, ProtFlags::READ | ProtFlags::WRITE, flags)
        };
        let base =
            base.map_err(|e| Error::Io { what: format!("mapping {len} bytes of memory"), source: e.into() })?;
        if pages == Pages::Huge {
            // SAFETY: the range was mapped above; this advice never changes content.
            // A kernel without huge pages says EINVAL: then the mapping stays as it is.
            let _ = unsafe { madvise(base, len as usize, Advice::LinuxHugepage) };
        }
        Ok(Self { base: base.cast(), len, mapped: true, gpu: None })
    }

    /// Memory of the application. Lengths of 0 and ranges that wrap are refused when it is registered.
    ///
    /// # Safety
    /// `[base, base + len)` must stay valid for reads and writes until this value is dropped: that is, until
    /// [`crate::Regions::remove`] gave it back and it was let go. Meanwhile peers and this process read
    /// and write it through raw pointers: no reference to those bytes may be live while they do.
    pub unsafe fn from_raw(base: *mut u8, len: u64) -> Self {
        Self { base, len, mapped: false, gpu: None }
    }

    /// Memory of a GPU, by its address there. Only NICs that reach the GPU take it; no CPU ever touches it here.
    ///
    /// # Safety
    /// `[base, base + len)` must stay allocated on that GPU until this value is dropped (see [`Self::from_raw`]), and what
    /// `part` says of it must be true.
    pub unsafe fn of_gpu(base: *mut u8, len: u64, part: GpuPart) -> Self {
        Self { base, len, mapped: false, gpu: Some(Box::new(part)) }
    }

    /// What is known of it if it is of a GPU.
    pub fn gpu(&self) -> Option<&GpuPart> {
        self.gpu.as_deref()
    }

    /// For transports whose CPUs touch the bytes.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for memory of a GPU.
    pub(crate) fn of_host(&self, transport: &'static str) -> Result<(), Error> {
        match self.gpu {
            None => Ok(()),
            Some(_) => Err(Error::Unsupported {
                transport,
                what: "reach memory of a GPU: declare a transport `rdma` for it, and no other",
            }),
        }
    }

    /// First byte. Dereferencing is the caller's business: see [`crate::memory::copy`].
    pub fn ptr(&self) -> *mut u8 {
        self.base
    }

    /// Bytes.
    #[allow(clippy::len_without_is_empty, reason = "0 is refused")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// [`Error::BadArgument`] past the end.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let from = self.at(offset, into.len() as u64)?;
        // SAFETY: `at` checked the source; the destination is a live slice, and not ours.
        unsafe { copy(from.as_ptr(), into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// [`Error::BadArgument`] past the end.
    pub fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), Error> {
        let to = self.at(offset, from.len() as u64)?;
        // SAFETY: `at` checked the destination; the source is a live slice, and not ours.
        unsafe { copy(from.as_ptr(), to.as_ptr(), from.len()) };
        Ok(())
    }

    /// Brings every page into memory and keeps it there until the answer is dropped, as registering with a device does. The
    /// memory must outlive it.
    ///
    /// # Errors
    /// The system's reason: the limit of locked memory, as a rule.
    #[cfg(feature = "faults")]
    pub(crate) fn lock_pages(&self) -> std::io::Result<LockedPages> {
        // SAFETY: the range is ours or lent to us; locking changes no byte of it.
        unsafe { rustix::mm::mlock(self.base.cast(), self.len as usize) }?;
        Ok(LockedPages { base: self.base as usize, len: self.len as usize })
    }

    /// First byte of a checked range.
    fn at(&self, offset: u64, len: u64) -> Result<NonNull<u8>, Error> {
        if let Some(part) = &self.gpu {
            return Err(part.not_by_the_cpu());
        }
        let base = NonNull::new(self.base).ok_or_else(|| Error::BadArgument("memory at address 0".into()))?;
        match offset.checked_add(len) {
            // SAFETY: within the range (its end does not wrap, or the range would not be valid memory).
            Some(end) if end <= self.len => Ok(unsafe { base.add(offset as usize) }),
            _ => Err(Error::BadArgument(format!(
                "{len} bytes at offset {offset} pass the end of memory of {} bytes",
                self.len
            ))),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.mapped {
            // SAFETY: mapped by `allocate` with this length; whoever had guards or pins kept it in the table.
            let unmapped = unsafe { munmap(self.base.cast(), self.len as usize) };
            debug_assert!(unmapped.is_ok(), "unmapping our own mapping: {unmapped:?}");
        }
    }
}

/// See [`Memory::lock_pages`].
#[cfg(feature = "faults")]
pub(crate) struct LockedPages {
    base: usize,
    len: usize,
}

#[cfg(feature = "faults")]
impl Drop for LockedPages {
    fn drop(&mut self) {
        // SAFETY: unlocking changes no byte; of a range that is mapped no more it is an error, which nobody needs.
        let _ = unsafe { rustix::mm::munlock(self.base as *mut _, self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sparse terabyte can be mapped, written at its last byte and read back; the rest reads as zero.
    #[test]
    fn sparse_terabyte() {
        let len = 1 << 40;
        let mut memory = Memory::allocate_with(len, Pages::Huge).unwrap();
        memory.write(len - 1, &[7]).unwrap();
        let mut got = [9; 2];
        memory.read(len - 2, &mut got).unwrap();
        assert_eq!(got, [0, 7]);
    }

    /// A length of 0 is refused, naming it; a length no machine has is the system's refusal, naming it too.
    #[test]
    fn impossible_lengths() {
        assert!(matches!(Memory::allocate(0), Err(Error::BadArgument(text)) if text.contains("0 bytes")));
        let error = Memory::allocate(u64::MAX / 2).unwrap_err();
        assert!(matches!(&error, Error::Io { what, .. } if what.contains("9223372036854775807")), "{error}");
    }

    /// Copies past the end, also with sums that wrap, are refused.
    #[test]
    fn copies_stay_inside() {
        let mut memory = Memory::allocate(4096).unwrap();
        assert!(memory.write(4095, &[1]).is_ok());
        assert!(memory.write(4096, &[1]).is_err());
        assert!(memory.write(u64::MAX, &[1]).is_err());
        assert!(memory.read(4000, &mut [0; 97]).is_err());
    }
}
