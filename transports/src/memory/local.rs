//! How the node itself reads and writes registered bytes without `unsafe`: by copying.
//! Deliberately no view of them: a peer may write at any time.

use crate::error::Error;
use crate::memory::access::RegionId;
use crate::memory::copy::copy;
use crate::memory::regions::Regions;

impl Regions {
    /// Copies bytes of a region that nobody is using out of it.
    ///
    /// # Errors
    /// [`Error::Busy`] while requests hold it or a peer accesses it (one that begins *during* the copy
    /// leaves the bytes it touches undefined), [`Error::NotRegistered`], [`Error::BadArgument`] out of bounds.
    pub fn read_into(&self, id: RegionId, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        self.idle(id)?;
        self.read_shared(id, offset, into)
    }

    /// Copies bytes into a region that nobody is using.
    ///
    /// # Errors
    /// As [`Self::read_into`].
    pub fn write_from(&self, id: RegionId, offset: u64, from: &[u8]) -> Result<(), Error> {
        self.idle(id)?;
        self.write_shared(id, offset, from)
    }

    /// Copies bytes out, whoever else uses the region: bytes that a transfer writes meanwhile are undefined.
    /// For a region that is shared out in parts, such as a bounce buffer.
    ///
    /// # Errors
    /// [`Error::Busy`] while it is being unregistered, [`Error::NotRegistered`], [`Error::BadArgument`].
    pub fn read_shared(&self, id: RegionId, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let held = Pinned::new(self, id)?;
        self.of_host(id)?;
        let span = self.local(id, offset, into.len() as u64)?;
        // SAFETY: `local` checked the range and the pin holds it; `into` is a live slice, not registered memory.
        unsafe { copy(span.ptr, into.as_mut_ptr(), into.len()) };
        drop(held);
        Ok(())
    }

    /// As [`Self::read_shared`], of a region that somebody holds already ([`Self::pin`]): also while it is being unregistered,
    /// which waits for that holder.
    ///
    /// # Errors
    /// [`Error::NotRegistered`] when nobody holds it, [`Error::BadArgument`] out of bounds.
    pub fn read_held(&self, id: RegionId, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let held = Pinned::again(self, id)?;
        let span = self.local(id, offset, into.len() as u64)?;
        // SAFETY: `local` checked the range and the pin holds it; `into` is a live slice, not registered memory.
        unsafe { copy(span.ptr, into.as_mut_ptr(), into.len()) };
        drop(held);
        Ok(())
    }

    /// Copies bytes in, whoever else uses the region: bytes that a transfer touches meanwhile are undefined.
    ///
    /// # Errors
    /// As [`Self::read_shared`].
    pub fn write_shared(&self, id: RegionId, offset: u64, from: &[u8]) -> Result<(), Error> {
        let held = Pinned::new(self, id)?;
        self.of_host(id)?;
        let span = self.local(id, offset, from.len() as u64)?;
        // SAFETY: `local` checked the range and the pin holds it; `from` is a live slice, not registered memory.
        unsafe { copy(from.as_ptr(), span.ptr, from.len()) };
        drop(held);
        Ok(())
    }

    fn idle(&self, id: RegionId) -> Result<(), Error> {
        match self.users(id).ok_or(Error::NotRegistered(id))? {
            (0, 0) => Ok(()),
            (0, _) => Err(Error::Busy(id, "a peer is accessing it")),
            _ => Err(Error::Busy(id, "requests of this node hold it")),
        }
    }
}

/// A pin for the time of a copy.
struct Pinned<'r>(&'r Regions, RegionId);

impl<'r> Pinned<'r> {
    fn new(regions: &'r Regions, id: RegionId) -> Result<Self, Error> {
        regions.pin(id)?;
        Ok(Self(regions, id))
    }

    fn again(regions: &'r Regions, id: RegionId) -> Result<Self, Error> {
        regions.pin_again(id)?;
        Ok(Self(regions, id))
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        self.0.unpin(self.1);
    }
}
