//! All devices of one transport, and what regions are to all of them. Deliberately nothing of links.

use std::sync::Arc;

use super::device::Device;
use super::gpu::{self, Reach, Reaches, Stretch};
use super::library::Verbs;
use super::local_keys::LocalKeys;
use super::missing::Missing;
use super::pieces::{Lengths, PIECES_MAX, Pieces};
use super::region_keys::KEYS;
use super::registration::{MemoryRegion, Registrations, Wanted, access_flags, not_taken};
use super::remote_keys::Learnt;
use super::settings::{Addresses, GpuMemory, RdmaNic, RdmaSettings};
use crate::error::Error;
use crate::memory::{Access, Memory};
use crate::spread::Spread;
use crate::transport::NicId;

/// See the file's head. Any thread.
pub(super) struct Domain {
    devices: Vec<Arc<Device>>,
    names: Vec<String>,
    lengths: Lengths,
    relaxed_ordering: bool,
    gpu_memory: GpuMemory,
    addresses: Addresses,
    reaches: Reaches,
    local: Arc<LocalKeys>,
    learnt: Learnt,
}

impl Domain {
    /// Opens the NICs of `settings`, in their order, for at most `regions` regions; see [`choose_nics`] for a file that
    /// names none.
    ///
    /// # Errors
    /// [`Error::Missing`] for what is not there, [`Error::LocalNic`] for a device that refuses.
    pub(super) fn open(transport: &str, settings: &mut RdmaSettings, regions: usize) -> Result<Self, Error> {
        let verbs = Verbs::load()?;
        choose_nics(&verbs, transport, settings)?;
        let names: Vec<String> = settings.nics.iter().map(|nic| nic.name.clone()).collect();
        let opened = names.iter().map(|name| Device::open(&verbs, name, settings));
        let devices = opened.collect::<Result<Vec<_>, _>>()?;
        let lengths = lengths(&devices, settings);
        let (local, learnt) = (Arc::new(LocalKeys::new(regions)), Learnt::default());
        let (relaxed_ordering, gpu_memory) = (settings.relaxed_ordering, settings.gpu_memory);
        let (addresses, reaches) = (settings.addresses, Reaches::default());
        Ok(Self { devices, names, lengths, relaxed_ordering, gpu_memory, addresses, reaches, local, learnt })
    }

    /// Its devices, by [`NicId`].
    pub(super) fn devices(&self) -> &[Arc<Device>] {
        &self.devices
    }

    /// One of them.
    pub(super) fn device(&self, nic: NicId) -> Option<&Arc<Device>> {
        self.devices.get(usize::from(nic.0))
    }

    /// Names of its NICs in the file, by [`NicId`].
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// The longest work request that every device sends, and that lies whole within a registration wherever it is.
    pub(super) fn max_bytes(&self) -> u64 {
        self.lengths.overlap
    }

    /// The keys of this node's regions.
    pub(super) fn local(&self) -> &Arc<LocalKeys> {
        &self.local
    }

    /// The keys of peers' regions.
    pub(super) fn learnt(&self) -> &Learnt {
        &self.learnt
    }

    /// Registers memory with every device, or with none; see [`crate::Transport::register`]. Several threads at once.
    ///
    /// # Errors
    /// [`Error::NotRegisterable`], [`Error::GpuUnreachable`], [`Error::BadArgument`] for a region that would take too many keys.
    pub(super) fn register(
        &self,
        memory: &Memory,
        access: Access,
        threads: &dyn Spread,
    ) -> Result<Registrations, Error> {
        let (base, len) = (memory.ptr() as u64, memory.len());
        let pieces = self.plan(base, len)?;
        let flags = access_flags(access, self.relaxed_ordering);
        let wanted = Wanted { base, access, pieces };
        Registrations::make(&self.devices, &self.local, wanted, threads, |device, from, bytes| {
            let (at, iova) = (base + from, pieces.address(from));
            if let Some(part) = memory.gpu() {
                let stretch = Stretch { base, from, len: bytes, iova, access: flags };
                // SAFETY: as below.
                return unsafe { gpu::register(device, part, self.gpu_memory, stretch, &self.reaches) };
            }
            // SAFETY: a transport's registration ends before its memory does (`Regions::remove` gives memory back after that).
            let made = unsafe { MemoryRegion::of_process(device, at, bytes, iova, flags) };
            made.map_err(|e| not_taken(device, bytes, len, e))
        })
    }

    /// How a NIC reaches memory of a GPU, once a region of it was registered.
    pub(super) fn reach(&self, nic: NicId, gpu: u16) -> Option<Reach> {
        self.reaches.get(self.device(nic)?.nic(), gpu)
    }

    fn plan(&self, base: u64, len: u64) -> Result<Pieces, Error> {
        let pieces = Pieces::plan(base, len, self.lengths, self.addresses);
        let fits = |pieces: &Pieces| usize::from(pieces.count()) * self.devices.len() <= KEYS;
        pieces.filter(fits).ok_or_else(|| {
            let most = (KEYS as u64 / self.devices.len() as u64).min(PIECES_MAX);
            Error::BadArgument(format!(
                "a region of {len} bytes takes more than {most} registrations of {} bytes with each of {} NICs: register it as several regions, or raise `register_max` of the transport if the devices take more",
                self.lengths.piece, self.devices.len()
            ))
        })
    }
}

/// What all devices take.
fn lengths(devices: &[Arc<Device>], settings: &RdmaSettings) -> Lengths {
    let least = |of: fn(&Arc<Device>) -> u64| devices.iter().map(of).min().unwrap_or(u64::MAX);
    let registration = least(|d| d.attr().max_mr_size).min(settings.register_max_bytes);
    let message = least(|d| u64::from(d.max_message())).min(settings.max_bytes);
    Lengths::new(registration, message)
}

/// A transport that names no NIC has one of its own name: the first device whose port is up, or the first.
///
/// # Errors
/// [`Error::Missing`] where there is none.
pub(super) fn choose_nics(
    verbs: &Arc<Verbs>,
    transport: &str,
    settings: &mut RdmaSettings,
) -> Result<(), Error> {
    if settings.nics.is_empty() {
        let device = any_device(verbs, settings)?;
        settings.nics.push(RdmaNic { name: transport.to_owned(), ..RdmaNic::named(&device) });
    }
    Ok(())
}

/// The device of a transport that names none.
fn any_device(verbs: &Arc<Verbs>, settings: &RdmaSettings) -> Result<String, Error> {
    let names: Vec<String> = verbs.devices()?.iter().map(|(name, _)| name).collect();
    let is_up = |name: &&String| {
        let opened = Device::open(verbs, name, settings);
        opened.is_ok_and(|device| device.state() == super::port::PortState::Up)
    };
    let first = names.iter().find(is_up).or(names.first());
    Ok(first.cloned().ok_or(Missing::AnyDevice)?)
}

impl std::fmt::Debug for Domain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Domain").field("devices", &self.devices).finish_non_exhaustive()
    }
}
