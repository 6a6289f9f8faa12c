//! The passive side: answers nodes that want to connect their queue pairs, and keeps what serves them.
//!
//! What it makes only serves. A node that is also written to by us has other queue pairs for that ([`super::dial`]), so whoever
//! asks first and whoever asks last connect as if they were alone. Deliberately no sockets: a port heard the question.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::exchange::{self, NicPath};
use super::served::Table;
use crate::clock::Nanos;
use crate::error::Error;
use crate::mooncake::bodies::Connection;
use crate::mooncake::descriptor::{Descriptor, Device};
use crate::rdma::RdmaTransport;
use crate::rdma::foreign::Served;
use crate::rdma::opening::Ends;
use crate::transport::{NicId, Transport};

/// Queue pairs that serve others.
#[derive(Default)]
pub(super) struct Serving(Mutex<Table<Served>>);

/// Who is asked.
pub(super) struct Asked<'a> {
    pub(super) wire: &'a RdmaTransport,
    pub(super) serving: &'a Serving,
    /// What others call this node.
    pub(super) own: &'a str,
}

impl Serving {
    /// Sets of queue pairs that peers have connected to.
    pub(super) fn len(&self) -> usize {
        self.table().len()
    }

    fn table(&self) -> MutexGuard<'_, Table<Served>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Asked<'_> {
    /// Answers. `find` gets a node's descriptor by its name, for those that tell no GID.
    pub(super) async fn answer(
        &self,
        said: &Connection,
        find: impl AsyncFnOnce(&str) -> Result<Descriptor, Error>,
        by: Nanos,
    ) -> Connection {
        let answered = match said.ready_ack {
            Some(true) => self.acknowledged(said),
            _ => self.connected(said, find, by).await,
        };
        answered.unwrap_or_else(|reason| {
            tracing::debug!(from = said.local_nic_path, reason, "no queue pairs for a Mooncake node");
            Connection { reply_msg: reason, ..Connection::default() }
        })
    }

    /// It may post from now on, and does not: there is nothing to do but to say whether its peer is the one it thinks.
    fn acknowledged(&self, said: &Connection) -> Result<Connection, String> {
        let nic = self.nic(said)?;
        match self.serving.table().of(nic, &said.local_nic_path, &said.qp_num) {
            Some(_) => Ok(Connection::default()),
            None => Err("Received RDMA ready ACK for unconnected endpoint".to_owned()),
        }
    }

    async fn connected(
        &self,
        said: &Connection,
        find: impl AsyncFnOnce(&str) -> Result<Descriptor, Error>,
        by: Nanos,
    ) -> Result<Connection, String> {
        let nic = self.nic(said)?;
        if let Some(known) = self.serving.table().of(nic, &said.local_nic_path, &said.qp_num) {
            return Ok(self.told(known.ends(), said));
        }
        let device = match said.local_gid.is_empty() {
            true => Some(self.device_of(said, find).await?),
            false => None,
        };
        let theirs = exchange::ends(said, device.as_ref())?;
        // It has connected anew: what it had before is of no use to it, and nothing late of it may land.
        let before = self.serving.table().take(nic, &said.local_nic_path);
        before.into_iter().for_each(|served| self.wire.retire(served));
        let served = self.serve(nic, &theirs, said, by).await.map_err(|error| error.to_string())?;
        let answer = self.told(served.ends(), said);
        let before = self.serving.table().keep(nic, &said.local_nic_path, theirs.numbers, served);
        before.into_iter().for_each(|served| self.wire.retire(served));
        Ok(answer)
    }

    /// Makes queue pairs; where there are as many as there may be, the oldest make room.
    async fn serve(&self, nic: NicId, theirs: &Ends, said: &Connection, by: Nanos) -> Result<Served, Error> {
        loop {
            match self.wire.serve(nic, theirs, &said.local_nic_path, by).await {
                Err(Error::Exhausted { .. }) => {}
                made => return made,
            }
            let oldest = self.serving.table().take_oldest(nic);
            match oldest {
                Some(oldest) => self.wire.retire(oldest),
                None => return self.wire.serve(nic, theirs, &said.local_nic_path, by).await,
            }
        }
    }

    /// What its descriptor says of its NIC: for releases before 0.3.11.
    async fn device_of(
        &self,
        said: &Connection,
        find: impl AsyncFnOnce(&str) -> Result<Descriptor, Error>,
    ) -> Result<Device, String> {
        let absent = || format!("Peer nic not found in that server: {}", said.local_nic_path);
        let path = NicPath::parse(&said.local_nic_path).ok_or_else(absent)?;
        let descriptor = find(path.server).await.map_err(|error| error.to_string())?;
        let device = descriptor.devices.into_iter().find(|device| device.name == path.nic);
        device.ok_or_else(absent)
    }

    /// Which NIC of ours is meant.
    fn nic(&self, said: &Connection) -> Result<NicId, String> {
        let path = NicPath::parse(&said.peer_nic_path).filter(|path| path.server == self.own);
        let path = path.ok_or_else(|| {
            format!(
                "Invalid argument: peer nic path inconsistency, {} is not of {}",
                said.peer_nic_path, self.own
            )
        })?;
        let at = self.wire.nics().iter().position(|nic| nic == path.nic);
        at.map(|at| NicId(at as u16))
            .ok_or_else(|| format!("Local RDMA context not found for handshake NIC: {}", path.nic))
    }

    fn told(&self, ours: &Ends, said: &Connection) -> Connection {
        let from = NicPath { server: self.own, nic: &ours.nic }.to_string();
        exchange::told(ours, from, said.local_nic_path.clone())
    }
}
