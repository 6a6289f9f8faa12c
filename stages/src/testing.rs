//! What the unit tests of this crate share: small worlds built by hand.
//! Deliberately without control: peers, views and links are what a test says.

use std::sync::Arc;

use pipeline_transports::Regions;

use crate::ledger::{Ledger, Sizes};

/// A ledger of these sizes, over an empty region table.
pub(crate) fn ledger(slices: u32, requests: u32) -> Ledger {
    let sizes = Sizes {
        requests,
        slices,
        batches: requests,
        peers: 4,
        notices: 4,
        bytes_in_flight: 1 << 20,
        peer_share_percent: 25,
        shards: 1,
        parts: 1,
        timed: true,
    };
    Ledger::new(sizes, Arc::new(Regions::new(8)))
}
