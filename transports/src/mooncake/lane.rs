//! A lane to a target's data port, on which requests stand one behind the other.
//! Deliberately no memory and no bytes of the protocol in here; how a lane dies, its [`Connection`] knows.

use std::sync::Arc;

use super::peers::Remote;
use super::ring::Ring;
use super::wire::Framing;
use crate::tcp::halves::{Connected, Connection, PostEnd, ReapEnd};

/// A lane, seen from its dialler.
pub(super) struct Lane {
    pub(super) connection: Connection,
    /// Of all its requests.
    pub(super) framing: Framing,
    /// Where the regions of its peer lie.
    pub(super) remote: Arc<Remote>,
    pub(super) ring: Ring,
}

impl Lane {
    /// Its two ends, for the halves.
    pub(super) fn ends(self) -> (PostEnd<Self>, ReapEnd<Self>) {
        let lane = Arc::new(self);
        (PostEnd(lane.clone()), ReapEnd(lane))
    }
}

impl Connected for Lane {
    const WHOSE: &'static str = "Mooncake";

    fn connection(&self) -> &Connection {
        &self.connection
    }
}
