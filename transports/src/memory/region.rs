//! The user's handle of a registered region.
//! Deliberately without a destructor: memory that a peer may be writing to must not go away in passing.

use std::sync::Arc;

use crate::error::Error;
use crate::memory::access::RegionId;
use crate::memory::mapping::Memory;
use crate::memory::regions::Regions;

/// A registered region. Dropping it leaves the region registered until its table goes; to take the memory
/// back, [`Region::unregister`].
#[derive(Debug)]
pub struct Region {
    regions: Arc<Regions>,
    id: RegionId,
    ptr: *mut u8,
    len: u64,
}

// SAFETY: a name and an address; all safe access goes through the table.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl From<&Region> for RegionId {
    fn from(region: &Region) -> Self {
        region.id
    }
}

impl Region {
    /// The handle of a live region.
    ///
    /// # Errors
    /// [`Error::NotRegistered`], [`Error::Busy`] while it is being unregistered.
    pub fn new(regions: &Arc<Regions>, id: RegionId) -> Result<Self, Error> {
        let len = regions.facts(id).ok_or(Error::NotRegistered(id))?.len;
        regions.pin(id)?;
        let span = regions.local(id, 0, len);
        regions.unpin(id);
        Ok(Self { regions: regions.clone(), id, ptr: span?.ptr, len })
    }

    /// Its name, for requests.
    pub fn id(&self) -> RegionId {
        self.id
    }

    /// Bytes.
    #[allow(clippy::len_without_is_empty, reason = "0 is refused")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// First byte. Valid while the region is registered, whatever became of this handle.
    pub fn ptr(&self) -> *mut u8 {
        self.ptr
    }

    /// Copies bytes out; see [`Regions::read_into`].
    ///
    /// # Errors
    /// As there.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        self.regions.read_into(self.id, offset, into)
    }

    /// Copies bytes in; see [`Regions::write_from`].
    ///
    /// # Errors
    /// As there.
    pub fn write(&self, offset: u64, from: &[u8]) -> Result<(), Error> {
        self.regions.write_from(self.id, offset, from)
    }

    /// As [`Self::read`], for a region that is shared out in parts: others may use the rest of it meanwhile, and bytes
    /// that a transfer writes at the same time are undefined. See [`Regions::read_shared`].
    ///
    /// # Errors
    /// As there.
    pub fn read_shared(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        self.regions.read_shared(self.id, offset, into)
    }

    /// As [`Self::write`], for a region that is shared out in parts; see [`Regions::write_shared`].
    ///
    /// # Errors
    /// As there.
    pub fn write_shared(&self, offset: u64, from: &[u8]) -> Result<(), Error> {
        self.regions.write_shared(self.id, offset, from)
    }

    /// The bytes, without a copy.
    ///
    /// # Safety
    /// The region must stay registered, and no peer and no request may write to it, while the slice lives.
    pub unsafe fn as_slice(&self) -> &[u8] {
        // SAFETY: registered memory is valid for its whole length; the caller answers for the rest.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len as usize) }
    }

    /// The bytes to write to, without a copy.
    ///
    /// # Safety
    /// The region must stay registered, and no peer and no request may touch it, while the slice lives.
    pub unsafe fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above; `&mut self` keeps this handle from giving out another one.
        unsafe { std::slice::from_raw_parts_mut(self.ptr, self.len as usize) }
    }

    /// Gives the memory back, when nobody uses it.
    ///
    /// # Errors
    /// [`Error::Busy`], with the handle to try again; [`Error::NotRegistered`] if it went by its id before.
    pub fn unregister(self) -> Result<Memory, (Self, Error)> {
        self.regions.remove(self.id).map_err(|error| (self, error))
    }
}
