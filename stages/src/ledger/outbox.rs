//! Notices that the receiver has not taken yet: of batches that are under way, and of those whose requests have ended.
//! Deliberately keyed by a batch that is not done: its index means no other batch before the entry is gone.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use crossbeam_queue::ArrayQueue;
use pipeline_graph::Waker;
use pipeline_transports::{Nanos, clock};

use crate::peer::PeerId;

/// What control must know to send one.
#[derive(Clone)]
pub(crate) struct Parcel {
    /// To whom.
    pub(crate) peer: PeerId,
    /// The start of that node that the requests named.
    pub(crate) incarnation: u64,
    /// When it is too late.
    pub(crate) deadline: Nanos,
    /// Who is told.
    pub(crate) to: Told,
}

/// Whom control tells of a batch whose requests have ended.
#[derive(Clone)]
pub(crate) enum Told {
    /// The application of the peer, with these bytes.
    Peer(Arc<[u8]>),
    /// A task of control itself, which has submitted the batch.
    Here(Waker),
}

/// See the file's head. The lock is for submitters of notices and for control; whoever ends a batch takes none.
pub(crate) struct Outbox {
    limit: usize,
    parcels: Mutex<HashMap<u32, Parcel>>,
    /// Batches whose requests have ended: each has its parcel, so that there is always room.
    due: ArrayQueue<u32>,
    emptied: Condvar,
    /// Rings control.
    bell: OnceLock<Waker>,
}

impl Outbox {
    /// For up to `limit` notices at once.
    pub(crate) fn new(limit: u32) -> Self {
        let limit = limit.max(1) as usize;
        Self {
            limit,
            parcels: Mutex::default(),
            due: ArrayQueue::new(limit),
            emptied: Condvar::new(),
            bell: OnceLock::new(),
        }
    }

    fn parcels(&self) -> MutexGuard<'_, HashMap<u32, Parcel>> {
        self.parcels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who is rung when one is due. The first call counts.
    pub(crate) fn attend(&self, bell: Waker) {
        let _ = self.bell.set(bell);
    }

    /// Keeps the notice of a batch that is about to enter; `false` when there is no room.
    pub(crate) fn put(&self, batch: u32, parcel: Parcel) -> bool {
        let mut parcels = self.parcels();
        let room = parcels.len() < self.limit;
        if room {
            parcels.insert(batch, parcel);
        }
        room
    }

    /// The requests of a batch have ended: its notice may go.
    pub(crate) fn tell_due(&self, batch: u32) {
        let told = self.due.push(batch);
        debug_assert!(told.is_ok(), "a batch with a notice ends once, and has its parcel");
        self.ring();
    }

    /// Control shall look.
    pub(crate) fn ring(&self) {
        if let Some(bell) = self.bell.get() {
            bell.wake();
        }
    }

    /// The next batch whose notice may go.
    pub(crate) fn next_due(&self) -> Option<u32> {
        self.due.pop()
    }

    /// What to send for a batch.
    pub(crate) fn get(&self, batch: u32) -> Option<Parcel> {
        self.parcels().get(&batch).cloned()
    }

    /// Takes a notice out: `true` for the one who did.
    pub(crate) fn remove(&self, batch: u32) -> bool {
        let mut parcels = self.parcels();
        let removed = parcels.remove(&batch).is_some();
        if parcels.is_empty() {
            self.emptied.notify_all();
        }
        removed
    }

    /// How many are for one peer.
    pub(crate) fn count(&self, peer: PeerId) -> usize {
        self.parcels().values().filter(|parcel| parcel.peer == peer).count()
    }

    /// All batches that have one here.
    pub(crate) fn batches(&self) -> Vec<u32> {
        self.parcels().keys().copied().collect()
    }

    /// Waits until none is left, at most until `by`: how many there are.
    pub(crate) fn until_empty(&self, by: Nanos) -> usize {
        let (parcels, left) = (self.parcels(), clock::until(by));
        let waited = self.emptied.wait_timeout_while(parcels, left, |parcels| !parcels.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.len()
    }
}
