//! The nodes of this process, by incarnation: how an in-process link finds the regions of its peer.
//! Deliberately weak: being found keeps nobody's memory alive.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::error::Error;
use crate::link::{LinkId, Waker};
use crate::memory::Regions;

/// A node of this process, as its peers hold it.
pub(crate) struct Node {
    regions: Weak<Regions>,
    gone: AtomicBool,
    /// Reapers of links to it; as many as there are links.
    watchers: Mutex<BTreeMap<LinkId, Waker>>,
}

struct Seat {
    node: Arc<Node>,
    members: usize,
}

static SEATS: Mutex<BTreeMap<u64, Seat>> = Mutex::new(BTreeMap::new());

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change under these locks is one insertion or removal: a panic leaves nothing half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Node {
    /// The node of this incarnation, if it lives in this process.
    pub(crate) fn find(incarnation: u64) -> Option<Arc<Node>> {
        locked(&SEATS).get(&incarnation).map(|seat| seat.node.clone())
    }

    /// Its regions, while it is there.
    pub(crate) fn regions(&self) -> Option<Arc<Regions>> {
        if self.is_gone() { None } else { self.regions.upgrade() }
    }

    /// Whether its last transport has gone: links to it are dead.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Wakes `waker` when the node goes, until the watch is dropped.
    pub(crate) fn watch(self: &Arc<Self>, link: LinkId, waker: Waker) -> Watch {
        locked(&self.watchers).insert(link, waker);
        Watch { node: self.clone(), link }
    }
}

/// A link's interest in its peer's life.
pub(crate) struct Watch {
    node: Arc<Node>,
    link: LinkId,
}

impl Watch {
    /// The peer.
    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        locked(&self.node.watchers).remove(&self.link);
    }
}

/// One transport's place in the hub. The node is gone when the last of its places is dropped.
pub(crate) struct Membership {
    incarnation: u64,
}

impl Membership {
    /// Makes `regions` known under `incarnation`; several transports of a node may.
    pub(crate) fn join(incarnation: u64, regions: &Arc<Regions>) -> Result<Self, Error> {
        let mut seats = locked(&SEATS);
        let seat = seats.entry(incarnation).or_insert_with(|| Seat {
            node: Arc::new(Node {
                regions: Arc::downgrade(regions),
                gone: AtomicBool::new(false),
                watchers: Mutex::default(),
            }),
            members: 0,
        });
        if !std::ptr::eq(seat.node.regions.as_ptr(), Arc::as_ptr(regions)) {
            return Err(Error::BadArgument(format!(
                "incarnation {incarnation:#x} is another node of this process; incarnations are random numbers"
            )));
        }
        seat.members += 1;
        Ok(Self { incarnation })
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut seats = locked(&SEATS);
        let Some(seat) = seats.get_mut(&self.incarnation) else { return };
        seat.members -= 1;
        if seat.members > 0 {
            return;
        }
        let seat = seats.remove(&self.incarnation);
        drop(seats);
        let Some(Seat { node, .. }) = seat else { return };
        node.gone.store(true, Ordering::Release);
        let watchers: Vec<Waker> = locked(&node.watchers).values().cloned().collect();
        for waker in watchers {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    /// A node is found while one of its transports lives; then its watchers are woken and it is gone.
    #[test]
    fn lives_as_long_as_its_last_transport() {
        let (regions, other) = (Arc::new(Regions::new(1)), Arc::new(Regions::new(1)));
        let first = Membership::join(0xA11CE, &regions).unwrap();
        let second = Membership::join(0xA11CE, &regions).unwrap();
        assert!(matches!(Membership::join(0xA11CE, &other), Err(Error::BadArgument(_))));
        let node = Node::find(0xA11CE).unwrap();
        let woken = Arc::new(AtomicUsize::new(0));
        let counter = woken.clone();
        let waker = Waker::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let watch = node.watch(LinkId(1), waker.clone());
        drop(node.watch(LinkId(2), waker));
        drop(first);
        assert!(node.regions().is_some() && woken.load(Ordering::Relaxed) == 0);
        drop(second);
        assert!(watch.node().is_gone() && node.regions().is_none() && Node::find(0xA11CE).is_none());
        assert_eq!(woken.load(Ordering::Relaxed), 1);
    }

    /// Being found keeps no memory alive.
    #[test]
    fn does_not_keep_regions() {
        let regions = Arc::new(Regions::new(1));
        let _member = Membership::join(0xB0B, &regions).unwrap();
        drop(regions);
        assert!(Node::find(0xB0B).unwrap().regions().is_none());
    }
}
