//! An opened device: its context, its protection domain, and what is known of the one port of it that is used.
//! Deliberately nothing of queue pairs and regions; what those are made of holds the device, so it is closed last.

use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ibverbs_sys as ffi;

use super::gid::{self, Gid, GidChoice, GidEntry, GidKind};
use super::library::{DEVICES, Verbs};
use super::missing::Missing;
use super::port::{LinkLayer, Mtu, PortFacts, PortState, StateCell};
use super::settings::RdmaSettings;
use crate::clock::{Nanos, now};
use crate::error::Error;
use crate::link::Waker;
use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// Most entries that fit into an answer of the kernel, whose length has 16 bits.
const GIDS_MAX: usize = u16::MAX as usize / size_of::<ffi::ibv_gid_entry>();

/// What a device can do, as far as somebody here asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceAttr {
    /// Queue pairs.
    pub(crate) max_qp: u32,
    /// Work requests in a queue.
    pub(crate) max_qp_wr: u32,
    /// Completions in a completion queue.
    pub(crate) max_cqe: u32,
    /// Pieces of memory in a work request.
    pub(crate) max_sge: u32,
    /// READs that a queue pair answers at a time.
    pub(crate) max_rd_atom: u8,
    /// READs that a queue pair asks for at a time.
    pub(crate) max_init_rd_atom: u8,
    /// Bytes of a memory region.
    pub(crate) max_mr_size: u64,
    /// Memory regions.
    pub(crate) max_mr: u32,
}

/// See the file's head. Any thread.
pub(crate) struct Device {
    verbs: Arc<Verbs>,
    /// Its name in the file.
    nic: String,
    /// Its name in the system.
    name: String,
    context: NonNull<ffi::ibv_context>,
    pd: NonNull<ffi::ibv_pd>,
    port: u8,
    ports: u8,
    attr: DeviceAttr,
    choice: GidChoice,
    facts: Mutex<PortFacts>,
    state: StateCell,
    lost: AtomicBool,
    /// How many events there have been.
    generation: AtomicU64,
    watchers: Mutex<Watchers>,
}

#[derive(Default)]
struct Watchers {
    next: u64,
    list: Vec<(u64, Waker)>,
}

// SAFETY: verbs objects may be used from any thread (libibverbs locks where its providers need it); what this type adds
// is behind locks and atomics.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// While it lives, a waker is rung after each event; see [`Device::on_change`].
pub(crate) struct Watch {
    device: Arc<Device>,
    key: u64,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.device.watchers().list.retain(|(key, _)| *key != self.key);
    }
}

impl Device {
    /// Opens the NIC that the file calls `nic`; without an entry for it, the device of that name.
    ///
    /// # Errors
    /// [`Error::Missing`] when it is not there, not driven or not permitted, [`Error::LocalNic`] when it refuses. A port
    /// that is down is no error: it may come up.
    pub(crate) fn open(verbs: &Arc<Verbs>, nic: &str, settings: &RdmaSettings) -> Result<Arc<Self>, Error> {
        let said = settings.nic(nic);
        let (name, port) = (said.device.as_str(), said.port);
        let (context, attr) = open_context(verbs, nic, name)?;
        let ports = attr.phys_port_cnt;
        // From here on the context is closed by its drop.
        let opened = Opened { verbs, context };
        if port == 0 || port > ports {
            return Err(Missing::Port { device: name.to_owned(), port, ports }.into());
        }
        let facts = query_port(verbs, context, port).map_err(|e| refused(nic, "say how its port is", &e))?;
        // SAFETY: the descriptor belongs to the context, which is open.
        let events = unsafe { std::os::fd::BorrowedFd::borrow_raw((*context.as_ptr()).async_fd) };
        rustix::io::ioctl_fionbio(events, true)
            .map_err(|e| refused(nic, "make its events not block", &e.into()))?;
        // SAFETY: an open context.
        let pd = unsafe { (verbs.alloc_pd)(context.as_ptr()) };
        let pd = NonNull::new(pd)
            .ok_or_else(|| refused(nic, "make a protection domain", &io::Error::last_os_error()))?;
        let context = opened.keep();
        let state = StateCell::default();
        state.note(facts.is_up, now());
        Ok(Arc::new(Self {
            verbs: verbs.clone(),
            nic: nic.to_owned(),
            name: name.to_owned(),
            context,
            pd,
            port,
            ports,
            attr: DeviceAttr::of(&attr),
            choice: said.gid,
            facts: Mutex::new(facts),
            state,
            lost: AtomicBool::new(false),
            generation: AtomicU64::new(0),
            watchers: Mutex::default(),
        }))
    }

    /// The library.
    pub(crate) fn verbs(&self) -> &Arc<Verbs> {
        &self.verbs
    }

    /// Its name in the file, for messages.
    pub(crate) fn nic(&self) -> &str {
        &self.nic
    }

    /// Its name in the system.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Valid as long as the device.
    pub(crate) fn context(&self) -> *mut ffi::ibv_context {
        self.context.as_ptr()
    }

    /// The protection domain of all that is made on it. Valid as long as the device.
    pub(crate) fn pd(&self) -> *mut ffi::ibv_pd {
        self.pd.as_ptr()
    }

    /// The port that is used, from 1.
    pub(crate) fn port(&self) -> u8 {
        self.port
    }

    /// What it can do.
    pub(crate) fn attr(&self) -> &DeviceAttr {
        &self.attr
    }

    /// The address it is reached by, looked up now: the index of an address changes when others come and go.
    ///
    /// # Errors
    /// [`Error::LocalNic`]: it has none, or not the one that the file names; the text lists what there is.
    pub(crate) fn gid(&self) -> Result<Gid, Error> {
        let table = self.gids().map_err(|e| refused(&self.nic, "tell its GIDs", &e))?;
        gid::choose(&table, self.choice).map_err(|reason| Error::LocalNic {
            nic: self.nic.clone(),
            reason: format!("{}: {reason}", self.name),
        })
    }

    /// Largest packet at present.
    pub(crate) fn active_mtu(&self) -> Mtu {
        self.facts().active_mtu
    }

    /// InfiniBand or Ethernet.
    pub(crate) fn link_layer(&self) -> LinkLayer {
        self.facts().layer
    }

    /// Its LID; 0 on Ethernet.
    pub(crate) fn lid(&self) -> u16 {
        self.facts().lid
    }

    /// Longest message, bytes.
    pub(crate) fn max_message(&self) -> u32 {
        self.facts().max_message
    }

    /// Whether its port is up. One relaxed load, for the data path.
    pub(crate) fn state(&self) -> PortState {
        self.state.get()
    }

    /// Another number after each event (port, addresses, fatal error). One relaxed load, for the data path.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Rings `waker` after each event for as long as the answer lives.
    #[must_use = "dropping the watch ends it"]
    pub(crate) fn on_change(self: &Arc<Self>, waker: Waker) -> Watch {
        let mut watchers = self.watchers();
        watchers.next += 1;
        let key = watchers.next;
        watchers.list.push((key, waker));
        Watch { device: self.clone(), key }
    }

    /// Asks the device how its port is now. Whether it went up or down since it was asked last.
    pub(crate) fn refresh(&self, now: Nanos) -> bool {
        match query_port(&self.verbs, self.context, self.port) {
            Ok(facts) => {
                *self.facts.lock().unwrap_or_else(PoisonError::into_inner) = facts;
                self.state.note(facts.is_up && !self.is_lost(), now)
            }
            // A device that does not answer carries nothing.
            Err(_) => self.state.note(false, now),
        }
    }

    /// An event said that its port is down.
    pub(super) fn note_down(&self, now: Nanos) {
        self.state.note(false, now);
    }

    /// It is lost: its port is down from now on, whatever it says.
    pub(super) fn note_fatal(&self, now: Nanos) {
        self.lost.store(true, Ordering::Relaxed);
        self.state.note(false, now);
    }

    /// Whether it is lost until the program starts again.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Something changed: everybody who watches looks again.
    pub(super) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
        // Rung outside of the lock: a waker may do whatever it likes, dropping its watch included.
        let wakers: Vec<Waker> = self.watchers().list.iter().map(|(_, waker)| waker.clone()).collect();
        wakers.iter().for_each(Waker::wake);
    }

    /// Whether its port still has this address, at this place.
    pub(crate) fn has_gid(&self, gid: Gid) -> bool {
        self.gids().is_ok_and(|table| table.iter().any(|entry| entry.gid == gid))
    }

    /// The GIDs of its port.
    fn gids(&self) -> io::Result<Vec<GidEntry>> {
        let room = self.facts().gids.saturating_mul(usize::from(self.ports)).clamp(1, GIDS_MAX);
        let mut entries = vec![ffi::ibv_gid_entry::default(); room];
        let bytes = size_of::<ffi::ibv_gid_entry>();
        // SAFETY: an open context, and room for as many entries of that size as it is told.
        let found = unsafe {
            (self.verbs.query_gid_table)(self.context.as_ptr(), entries.as_mut_ptr(), entries.len(), 0, bytes)
        };
        // Negative answers are error numbers.
        let found = usize::try_from(found).map_err(|_| io::Error::from_raw_os_error(-found as i32))?;
        let of_port = entries.iter().take(found).filter(|e| e.port_num == u32::from(self.port));
        Ok(of_port.filter_map(entry).collect())
    }

    fn facts(&self) -> PortFacts {
        *self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watchers(&self) -> MutexGuard<'_, Watchers> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // In a forked child the kernel's objects are the parent's.
        if !self.verbs.is_here() {
            return;
        }
        // SAFETY: both are ours and open, and what was made of them held `self` and is gone.
        let (domain, device) = unsafe {
            ((self.verbs.dealloc_pd)(self.pd.as_ptr()), (self.verbs.close_device)(self.context.as_ptr()))
        };
        if domain != 0 || device != 0 {
            tracing::warn!(nic = %self.nic, "closing the device failed: something of it is still in use, a bug");
        }
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("nic", &self.nic).field("name", &self.name).finish_non_exhaustive()
    }
}

impl DeviceAttr {
    fn of(attr: &ffi::ibv_device_attr) -> Self {
        let count = |n: i32| u32::try_from(n).unwrap_or(0);
        let depth = |n: i32| u8::try_from(n.max(0)).unwrap_or(u8::MAX);
        Self {
            max_qp: count(attr.max_qp),
            max_qp_wr: count(attr.max_qp_wr),
            max_cqe: count(attr.max_cqe),
            max_sge: count(attr.max_sge),
            max_rd_atom: depth(attr.max_qp_rd_atom),
            max_init_rd_atom: depth(attr.max_qp_init_rd_atom),
            max_mr_size: attr.max_mr_size,
            max_mr: count(attr.max_mr),
        }
    }
}

/// A context on its way into a [`Device`]: closed if it does not get there.
struct Opened<'a> {
    verbs: &'a Arc<Verbs>,
    context: NonNull<ffi::ibv_context>,
}

impl Opened<'_> {
    fn keep(self) -> NonNull<ffi::ibv_context> {
        let context = self.context;
        std::mem::forget(self);
        context
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        // SAFETY: ours, and nothing was made of it.
        unsafe { (self.verbs.close_device)(self.context.as_ptr()) };
    }
}

fn open_context(
    verbs: &Arc<Verbs>,
    nic: &str,
    name: &str,
) -> Result<(NonNull<ffi::ibv_context>, ffi::ibv_device_attr), Error> {
    let devices = verbs.devices()?;
    let Some((_, device)) = devices.iter().find(|(device, _)| device == name) else {
        return Err(absent(name, &devices.iter().map(|(name, _)| name).collect::<Vec<_>>()).into());
    };
    // SAFETY: a device of a list that is still there.
    let context = unsafe { (verbs.open_device)(device) };
    let reason = io::Error::last_os_error();
    let Some(context) = NonNull::new(context) else {
        return Err(match reason.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound => {
                Missing::Permission { device: name.to_owned(), reason: reason.to_string() }.into()
            }
            _ => refused(nic, "be opened", &reason),
        });
    };
    let mut attr = ffi::ibv_device_attr::default();
    // SAFETY: an open context, and a live place for the answer.
    let failed = unsafe { (verbs.query_device)(context.as_ptr(), &mut attr) };
    if failed != 0 {
        drop(Opened { verbs, context });
        return Err(refused(nic, "say what it can do", &io::Error::from_raw_os_error(failed)));
    }
    Ok((context, attr))
}

/// Why there is no such device.
fn absent(name: &str, found: &[String]) -> Missing {
    let device = name.to_owned();
    if std::path::Path::new(DEVICES).join(name).exists() {
        Missing::Provider { device }
    } else if found.is_empty() {
        Missing::AnyDevice
    } else {
        Missing::Device { device, found: found.join(", ") }
    }
}

fn query_port(verbs: &Verbs, context: NonNull<ffi::ibv_context>, port: u8) -> io::Result<PortFacts> {
    let mut attr = ffi::ibv_port_attr::default();
    // SAFETY: an open context. The function fills what `ibv_port_attr` had when its interface was frozen, the first part
    // of today's; the rest stays zero.
    let failed = unsafe { (verbs.query_port)(context.as_ptr(), port, (&raw mut attr).cast()) };
    match failed {
        0 => Ok(PortFacts::of(&attr)),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

fn entry(of: &ffi::ibv_gid_entry) -> Option<GidEntry> {
    let kind = match of.gid_type {
        ffi::IBV_GID_TYPE_IB => GidKind::InfiniBand,
        ffi::IBV_GID_TYPE_ROCE_V1 => GidKind::RoceV1,
        ffi::IBV_GID_TYPE_ROCE_V2 => GidKind::RoceV2,
        _ => return None,
    };
    // Queue pairs take an index of 8 bits.
    let index = u8::try_from(of.gid_index).ok()?;
    // SAFETY: all 16 bytes of the union are initialised, and any bytes are a GID.
    let raw = unsafe { of.gid.raw };
    Some(GidEntry { gid: Gid { index, raw }, kind })
}

/// What a device would not do.
pub(super) fn refused(nic: &str, what: &str, why: &io::Error) -> Error {
    Error::LocalNic { nic: nic.to_owned(), reason: format!("its device would not {what}: {why}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a device says is brought into the types used here: counts that are negative are none, depths that do not fit
    /// are the most that fits.
    #[test]
    fn attributes() {
        let said = ffi::ibv_device_attr {
            max_qp: -1,
            max_qp_wr: 16_351,
            max_cqe: 32_767,
            max_qp_rd_atom: 128,
            max_qp_init_rd_atom: 4096,
            max_mr_size: u64::MAX,
            ..Default::default()
        };
        let attr = DeviceAttr::of(&said);
        assert_eq!((attr.max_qp, attr.max_qp_wr, attr.max_cqe), (0, 16_351, 32_767));
        assert_eq!((attr.max_rd_atom, attr.max_init_rd_atom, attr.max_mr_size), (128, 255, u64::MAX));
    }

    /// An absent device is told apart: none at all, or another one, with those that are there.
    #[test]
    fn why_a_device_is_absent() {
        assert_eq!(absent("no_such_device", &[]), Missing::AnyDevice);
        let other = absent("no_such_device", &["rxe0".into(), "rxe1".into()]);
        assert!(matches!(other, Missing::Device { found, .. } if found == "rxe0, rxe1"));
    }
}
