//! What this machine has for a transport, found out without making one: for `doctor`.
//! Deliberately read only: devices are opened and closed, nothing is registered.

use super::device::Device;
use super::domain::choose_nics;
use super::library::Verbs;
use super::port::{LinkLayer, PortState};
use super::settings::RdmaSettings;
use crate::error::Error;

/// A NIC of the transport that could be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicSeen {
    /// Its device.
    pub device: String,
    /// Port that is used.
    pub port: u8,
    /// Whether the port is up.
    pub is_up: bool,
    /// `"InfiniBand"` or `"Ethernet"`.
    pub link_layer: &'static str,
    /// Largest packet at present, bytes.
    pub mtu_bytes: u32,
    /// The GID that peers would be told, index and address; or why there is none.
    pub gid: Result<(u8, String), String>,
    /// Longest memory registration, bytes.
    pub register_max_bytes: u64,
    /// Whether dmabufs can be registered, as far as the library goes.
    pub has_dmabuf: bool,
}

/// The name of a NIC in the file, and what was found.
pub type Found = (String, Result<NicSeen, Error>);

/// Looks at each NIC of `settings` in turn: its name in the file, and what was found.
///
/// # Errors
/// [`Error::Missing`] where nothing can be looked at: no library, no verbs in the kernel, no device at all.
pub fn survey(transport: &str, settings: &RdmaSettings) -> Result<Vec<Found>, Error> {
    let verbs = Verbs::load()?;
    verbs.devices()?;
    let mut settings = settings.clone();
    choose_nics(&verbs, transport, &mut settings)?;
    let names = settings.nics.iter().map(|nic| nic.name.clone());
    Ok(names
        .map(|name| (name.clone(), Device::open(&verbs, &name, &settings).map(|device| seen(&device))))
        .collect())
}

fn seen(device: &Device) -> NicSeen {
    NicSeen {
        device: device.name().to_owned(),
        port: device.port(),
        is_up: device.state() == PortState::Up,
        link_layer: match device.link_layer() {
            LinkLayer::InfiniBand => "InfiniBand",
            LinkLayer::Ethernet => "Ethernet",
        },
        mtu_bytes: device.active_mtu().bytes(),
        gid: device.gid().map(|gid| (gid.index, gid.to_string())).map_err(|e| e.to_string()),
        register_max_bytes: device.attr().max_mr_size,
        has_dmabuf: device.verbs().reg_dmabuf_mr.is_some(),
    }
}
