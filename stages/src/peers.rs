//! The table of peers: fixed capacity, append-only, readable without a lock.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use pipeline_graph::Waker;

use crate::fence::Unfenced;
use crate::peer::{Peer, PeerId};

/// All peers a node has met; `limits.peers` at most.
pub struct Peers {
    slots: Box<[OnceLock<Arc<Peer>>]>,
    used: AtomicUsize,
    /// Bells of the workers whose stages wait for links: rung when a peer changes. Filled at start.
    watchers: std::sync::RwLock<Vec<Waker>>,
}

impl Peers {
    /// A table for `capacity` peers.
    pub fn new(capacity: usize) -> Self {
        Self {
            slots: (0..capacity).map(|_| OnceLock::new()).collect(),
            used: AtomicUsize::new(0),
            watchers: std::sync::RwLock::default(),
        }
    }

    /// How many peers fit.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// The peer in slot `id`.
    #[inline]
    pub fn get(&self, id: PeerId) -> Option<&Arc<Peer>> {
        self.slots.get(id.0 as usize)?.get()
    }

    /// The peer known by `label`, added when new; `None` when the table is full. Control and `open` only.
    pub fn intern(&self, label: &str) -> Option<PeerId> {
        loop {
            let used = self.used.load(Ordering::Acquire);
            for i in 0..used.min(self.slots.len()) {
                if self.slots[i].get().is_some_and(|p| &*p.label == label) {
                    return Some(PeerId(i as u32));
                }
            }
            if used >= self.slots.len() {
                return None;
            }
            let won = self.slots[used].set(Arc::new(Peer::new(label))).is_ok();
            let _ = self.used.compare_exchange(used, used + 1, Ordering::AcqRel, Ordering::Acquire);
            if won {
                return Some(PeerId(used as u32));
            }
        }
    }

    /// Peers so far.
    pub fn iter(&self) -> impl Iterator<Item = (PeerId, &Arc<Peer>)> {
        self.slots.iter().enumerate().map_while(|(i, s)| Some((PeerId(i as u32), s.get()?)))
    }

    /// What is counted of dead links to one start of a peer: the same for all names it was opened by.
    pub(crate) fn unfenced(&self, incarnation: u64) -> Arc<Unfenced> {
        let of = |peer: &Arc<Peer>| {
            let view = peer.view.load();
            (view.incarnation == incarnation).then(|| view.unfenced.clone())
        };
        self.iter().find_map(|(_, peer)| of(peer)).unwrap_or_default()
    }

    /// Links were fenced: waiting stages look again. Rare, so it may concern everybody.
    pub(crate) fn fenced(&self) {
        for (_, peer) in self.iter() {
            peer.version.fetch_add(1, Ordering::Release);
        }
        self.changed();
    }

    /// Adds a bell to ring when a peer changes; once, also for a stage that is built anew after a panic.
    pub fn watch(&self, waker: Waker) {
        let mut watchers = self.watchers.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !watchers.iter().any(|known| known.is(&waker)) {
            watchers.push(waker);
        }
    }

    /// Rings all watchers: a peer's links, view or state changed.
    pub fn changed(&self) {
        for waker in &*self.watchers.read().unwrap_or_else(std::sync::PoisonError::into_inner) {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One label has one slot however many threads ask at once, and a full table answers so.
    #[test]
    fn interning_is_idempotent_and_bounded() {
        let peers = Peers::new(2);
        std::thread::scope(|s| {
            let ids: Vec<_> = (0..4).map(|_| s.spawn(|| peers.intern("a"))).collect();
            for id in ids {
                assert_eq!(id.join().unwrap(), Some(PeerId(0)));
            }
        });
        assert_eq!(peers.intern("b"), Some(PeerId(1)));
        assert_eq!(peers.intern("c"), None);
        assert_eq!(peers.iter().count(), 2);
    }
}
