//! Where both ends of a work request lie, as the device wants it said, and whether they lie anywhere.
//! Deliberately with a memory of one region on each side: consecutive requests of a link are of the same two as a rule, and
//! the name of a region never comes to mean another one.

use std::sync::Arc;

use super::link::RdmaLink;
use super::local_keys::{LocalKey, LocalKeys, LocalRegion};
use super::remote_keys::{RemoteKey, RemoteKeys, RemoteRegion};
use crate::wr::{Outcome, Refusal, WorkRequest};

/// See the file's head. Belongs to one link.
pub(super) struct Lookup {
    local: Arc<LocalKeys>,
    nic: u16,
    last_local: Option<Arc<LocalRegion>>,
    remote: Arc<RemoteKeys>,
    remote_nic: u16,
    last_remote: Option<Arc<RemoteRegion>>,
}

impl Lookup {
    /// For a link of the NIC with this index.
    pub(super) fn new(link: &RdmaLink, local: &Arc<LocalKeys>, nic: u16) -> Self {
        Self {
            local: local.clone(),
            nic,
            last_local: None,
            remote: link.keys.clone(),
            remote_nic: link.remote_nic,
            last_remote: None,
        }
    }

    /// Where both ends lie, or how the request ends without ever being posted.
    #[inline]
    pub(super) fn ends(&mut self, w: &WorkRequest) -> Result<(LocalKey, RemoteKey), Outcome> {
        if self.last_local.as_ref().is_none_or(|last| last.id() != w.local.region) {
            self.last_local = self.local.region(w.local.region);
        }
        if self.last_remote.as_ref().is_none_or(|last| last.id() != w.remote.region) {
            self.last_remote = self.remote.region(w.remote.region);
        }
        let local = self.last_local.as_ref().and_then(|r| r.find(self.nic, w.local.offset, w.len));
        let local = local.ok_or(Outcome::Failed)?;
        let remote = self.last_remote.as_ref().ok_or(Outcome::Refused(Refusal::UnknownRegion))?;
        let remote = remote.find(self.remote_nic, w.op, w.remote.offset, w.len).map_err(Outcome::Refused)?;
        Ok((local, remote))
    }
}
