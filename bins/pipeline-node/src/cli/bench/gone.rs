//! What a measurement failed of: the target's going, where it has gone. Then the command ends as one whose peer is not there.

use pipeline_node::{Peer, PeerState};

use crate::cli::exit::Failure;

/// What it ends with where one of the targets has gone or is about to; `None` while all are there.
pub fn gone<'a>(targets: impl IntoIterator<Item = &'a Peer>, what: &str) -> Option<Failure> {
    let has_gone = |peer: &&Peer| matches!(peer.state(), PeerState::Down | PeerState::Leaving);
    let peer = targets.into_iter().find(has_gone)?;
    let label = peer.label();
    Some(Failure::peer(format!("the target {label} has gone: {what}; run this again when it is back")))
}

/// The same, and a failure of its own where all are there.
pub fn trouble<'a>(targets: impl IntoIterator<Item = &'a Peer>, what: &str) -> Failure {
    gone(targets, what).unwrap_or_else(|| Failure::failed(what))
}
