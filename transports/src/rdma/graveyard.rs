//! Where queue pairs wait that are out of use and need only be destroyed.
//!
//! Destroying one waits until the system holds no packet of it any more. In soft-RoCE that is seconds after a cable was cut,
//! because packets wait for a neighbour that does not answer; too long for a reaper, whose other links wait as well, and for
//! control. Taking it out of use ([`super::endpoint::QueuePair::reset`]) waits for nothing. So whoever is done with a queue
//! pair resets it and leaves it here, and it is destroyed on a thread of the control pool that may block: those that
//! look up names. Deliberately one at a time, so that one of those is left to names.
//!
//! Each holds its place ([`super::places`]) until it is destroyed, so there are never more than those. Where nobody tends a
//! transport, queue pairs are destroyed by whoever leaves them.

use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Sender, channel};

/// A queue pair that is out of use, with what it holds until it is destroyed: dropping it destroys it.
pub(super) type Remains = Box<dyn Send>;

/// See the file's head. Any thread.
pub(super) struct Graveyard {
    /// To whoever tends.
    way: Mutex<Option<Sender<Remains>>>,
    /// Queue pairs at a time, of all NICs.
    limit: usize,
}

impl Graveyard {
    /// For at most `limit` queue pairs, at least 1.
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { way: Mutex::default(), limit })
    }

    /// Takes one over. Does not block, unless nobody tends.
    pub(super) fn take(&self, remains: Remains) {
        let way = self.way.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let left = match way {
            Some(way) => way.try_send(remains).err().map(TrySendError::into_inner),
            None => Some(remains),
        };
        drop(left);
    }

    /// Destroys what comes, for ever. What has come by the time this is dropped is destroyed then.
    pub(super) async fn tend(&self) -> Infallible {
        let (way, mut coming) = channel(self.limit);
        *self.way.lock().unwrap_or_else(PoisonError::into_inner) = Some(way);
        while let Some(remains) = coming.recv().await {
            let destroyed = tokio::task::spawn_blocking(move || drop(remains)).await;
            if let Err(error) = destroyed {
                tracing::error!(%error, "a queue pair may not have been destroyed");
            }
        }
        // Somebody else tends now.
        pending().await
    }
}
