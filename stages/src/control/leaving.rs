//! Leaving in good order. A node that drains tells the peers that opened a session here; each of them begins nothing
//! new with it, and answers how many of its requests to it have not ended, until there are none.
//! Deliberately asked again and again instead of promised once: a peer that falls silent is told from one that works.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use pipeline_transports::control::Message;
use pipeline_transports::{Nanos, clock};
use tokio::time::{Instant, sleep};

use super::accepted::Accepted;
use super::dialled::Dialled;
use super::error::Error;
use super::shared::{Shared, lock};
use super::until::until;

/// How long a peer is waited for that has not answered even once: its own work, if it has any, is seen at the lanes.
const GRACE: Duration = Duration::from_secs(2);
/// How long one answer may take.
const ANSWER_NS: Nanos = 1_000_000_000;
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// From when a submitter may not have seen that the peer leaves to when its requests are surely in the ledger.
const SETTLE: Duration = Duration::from_millis(5);

/// What a peer that opened a session here has said since this node began to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stay {
    /// It has not answered yet.
    Unknown,
    /// So many of its requests to us have not ended.
    Working(u64),
    /// It does not answer, and has nothing under way that we know of.
    Mute,
    /// It needs us no more.
    Done,
}

/// A peer that still needs this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remaining {
    /// Its name and address.
    pub peer: String,
    /// Its requests to this node that have not ended; `None` while it has not said.
    pub requests: Option<u64>,
}

/// Peers that are waited for.
pub(super) fn remaining(shared: &Shared) -> Vec<Remaining> {
    let accepted: Vec<Arc<Accepted>> = lock(&shared.accepted).values().cloned().collect();
    let still = |accepted: &Arc<Accepted>| {
        let requests = match *lock(&accepted.stay) {
            _ if accepted.session.has_ended() => return None,
            Stay::Unknown => None,
            Stay::Working(n) => Some(n),
            Stay::Mute | Stay::Done => return None,
        };
        Some(Remaining { peer: accepted.session.peer.clone(), requests })
    };
    accepted.iter().filter_map(still).collect()
}

/// Tells one peer, once this node leaves, and asks until it has nothing under way here. Runs beside its session.
pub(super) async fn tell(shared: &Shared, accepted: &Accepted) -> Infallible {
    // An error would mean that the node is gone.
    until(&mut shared.leaving.subscribe(), |leaving| *leaving).await;
    let (since, mut pause) = (Instant::now(), PAUSE_MIN);
    loop {
        let question = Message::Leaving { requests: 0 };
        let answer = accepted.session.request(&question, clock::now() + ANSWER_NS).await;
        let before = *lock(&accepted.stay);
        let now = match answer {
            Ok(Message::Leaving { requests: 0 }) => Stay::Done,
            Ok(Message::Leaving { requests }) => Stay::Working(requests),
            Err(Error::Deadline { .. }) if before != Stay::Unknown || since.elapsed() < GRACE => before,
            Err(Error::Deadline { .. }) => Stay::Mute,
            // It knows no leaving, or is gone: there is nothing to wait for.
            _ => Stay::Done,
        };
        *lock(&accepted.stay) = now;
        if matches!(now, Stay::Mute | Stay::Done) {
            return pending().await;
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// A peer that we opened says that it leaves. Answers how many of our requests to it have not ended.
pub(super) async fn hear(shared: &Shared, dialled: &Dialled) -> u64 {
    if dialled.leaves(shared) {
        sleep(SETTLE).await;
    }
    shared.world.ledger.unfinished(Some(dialled.id))
}
