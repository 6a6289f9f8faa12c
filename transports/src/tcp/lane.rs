//! A lane of this engine's own frames, seen from its dialler, and the acceptor's share of one.
//! Deliberately no memory and no frames in here; how a lane dies, its [`Connection`] knows.

use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use super::counters::Counters;
use super::halves::{Connected, Connection};
use super::hello::Hello;
use super::nics::State;
use super::slots::Slots;
use crate::link::LinkId;
use crate::wr::Blame;

/// A lane, seen from its dialler.
pub(super) struct Lane {
    pub(super) connection: Connection,
    pub(super) agreed: Hello,
    pub(super) slots: Slots,
    pub(super) counters: Arc<Counters>,
    /// Its NIC.
    pub(super) nic: Arc<State>,
}

impl Connected for Lane {
    const WHOSE: &'static str = "TCP";

    fn connection(&self) -> &Connection {
        &self.connection
    }

    /// What looks like a fault of the way there is this side's while its NIC is ill.
    fn blame(&self) -> Blame {
        match self.connection.fault.get() {
            Blame::Path if self.nic.is_ill() => Blame::LocalNic,
            blame => blame,
        }
    }
}

/// The acceptor's share. Dropping it ends the connection, even if a child that the application forked has a copy of
/// its descriptor: the dialler would otherwise wait for as long as that child lives.
pub(super) struct ServeEnd {
    pub(super) id: LinkId,
    pub(super) peer: String,
    pub(super) stream: TcpStream,
    pub(super) agreed: Hello,
    pub(super) counters: Arc<Counters>,
}

impl Drop for ServeEnd {
    fn drop(&mut self) {
        // The dialler may have closed it first; then there is nothing left to shut.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
