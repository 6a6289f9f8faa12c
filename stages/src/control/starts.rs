//! Starts of peers that sessions or links of this node lead to, and what transports were told of their regions: as long as
//! one of those is left. Deliberately by start, not by name: two names of one node share what was learnt of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use pipeline_transports::{Offer, RegionId};

use super::shared::lock;
use crate::world::{TransportEntry, World};

/// Starts that are in use.
#[derive(Default)]
pub(super) struct Starts(Mutex<HashMap<u64, Weak<Start>>>);

/// Held by whoever uses what was learnt of a start: its sessions, its links until their last work request has ended, and of a
/// peer without sessions its view.
pub(super) struct Start {
    world: Arc<World>,
    incarnation: u64,
}

impl Starts {
    /// The one of this incarnation.
    pub(super) fn hold(&self, world: &Arc<World>, incarnation: u64) -> Arc<Start> {
        let mut starts = lock(&self.0);
        if let Some(start) = starts.get(&incarnation).and_then(Weak::upgrade) {
            return start;
        }
        starts.retain(|_, start| start.strong_count() > 0);
        let start = Arc::new(Start { world: world.clone(), incarnation });
        starts.insert(incarnation, Arc::downgrade(&start));
        start
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        for entry in &self.world.transports {
            entry.transport.forget(self.incarnation);
        }
    }
}

/// Which of a peer's offers a transport of ours dials: that of the same name, else the first of the kind. One that speaks to
/// another engine dials only whom it has found itself.
pub(super) fn counterpart(entry: &TransportEntry, offers: &[Offer]) -> Option<usize> {
    let of_kind = || offers.iter().enumerate().filter(|(_, o)| o.kind == entry.kind);
    let same = of_kind().find(|(_, o)| o.name == entry.name);
    let other = || of_kind().next().filter(|_| !entry.is_foreign());
    same.or_else(other).map(|(at, _)| at)
}

/// Tells transports what their counterparts at one start of a peer want known.
pub(super) struct Learning<'a> {
    peer: &'a str,
    incarnation: u64,
    /// With the counterpart's name.
    transports: Vec<(&'a TransportEntry, &'a str)>,
    /// Regions of which a transport made nothing, and the first reason.
    failed: usize,
    reason: String,
}

impl<'a> Learning<'a> {
    pub(super) fn new(world: &'a World, peer: &'a str, incarnation: u64, offers: &'a [Offer]) -> Self {
        let counterpart = |entry| Some((entry, offers[counterpart(entry, offers)?].name.as_str()));
        let transports = world.transports.iter().filter_map(counterpart).collect();
        Self { peer, incarnation, transports, failed: 0, reason: String::new() }
    }

    /// Keys of a region for the counterparts of one of its transports.
    pub(super) fn region(&mut self, transport: &str, region: RegionId, len: u64, keys: &[u8]) {
        for (entry, _) in self.transports.iter().filter(|(_, theirs)| *theirs == transport) {
            if let Err(error) = entry.transport.learn(self.incarnation, region, len, keys) {
                if self.failed == 0 {
                    self.reason = format!("transport `{}`, region {region:?}: {error}", entry.name);
                }
                self.failed += 1;
            }
        }
    }
}

impl Drop for Learning<'_> {
    /// Once a table, however many regions it is about.
    fn drop(&mut self) {
        if self.failed > 0 {
            let (peer, failed, why) = (self.peer, self.failed, &*self.reason);
            tracing::warn!(peer, failed, "regions cannot be reached by a transport: {why}");
        }
    }
}
