//! What all stages of one node share: settings, tables, transports. Built once, before the graph starts.
//! Deliberately no behaviour: each table keeps its own rules.

use std::sync::{Arc, OnceLock};

use crossbeam_utils::CachePadded;
use pipeline_graph::{Callers, Time, Waker};
use pipeline_transports::{Regions, Transport};

use crate::files::Desk;
use crate::key::Key;
use crate::ledger::{Ledger, Usage};
use crate::mail::{Event, PostOffice};
use crate::notices::Inbox;
use crate::peer_events::Watchers;
use crate::peers::Peers;
use crate::seats::Seats;
use crate::segments::SegmentTable;
use crate::topology::Topology;

/// A declared transport.
pub struct TransportEntry {
    /// Its name in the file.
    pub name: String,
    /// Its type.
    pub kind: String,
    /// It.
    pub transport: Arc<dyn Transport>,
}

impl TransportEntry {
    /// Whether it speaks to peers that run another engine.
    pub(crate) fn is_foreign(&self) -> bool {
        self.transport.foreign().is_some()
    }
}

/// One stage instance's share of the world, with a count of its own: what a run clones, to work with the world and
/// itself at once, is then counted on a line that no other thread writes.
pub(crate) type Own = Arc<CachePadded<Arc<World>>>;

/// Shared by all stages, the client and control. Aligned, because each submission counts a handle in front of it:
/// without that, stages would miss the cache on every look at what never changes.
#[repr(align(128))]
pub struct World {
    /// `[node] name`.
    pub name: String,
    /// Random, new with every start.
    pub incarnation: u64,
    /// Where deadlines and wheels begin: the machine's time, or that of a simulation.
    pub time: Time,
    /// Registered regions.
    pub regions: Arc<Regions>,
    /// Our own segments: names for regions, told to peers.
    pub segments: SegmentTable,
    /// Where file jobs wait for the stage `file_serve`.
    pub files: Desk,
    /// Declared transports, in the order of the file.
    pub transports: Vec<TransportEntry>,
    /// What lies near to what.
    pub topology: Topology,
    /// Known peers.
    pub peers: Peers,
    /// Requests, slices, batches, windows.
    pub ledger: Arc<Ledger>,
    /// Boxes of the seats.
    pub mail: PostOffice,
    /// Which worker drives which half.
    pub seats: Seats,
    /// To control; bounded. A full channel is retried at the stage's next poll.
    pub events: crossbeam_channel::Sender<Event>,
    /// Notices of peers, for the program.
    pub inbox: Inbox,
    /// Who hears what becomes of peers.
    pub watchers: Watchers,
    /// Rings control after an event was sent.
    pub control: OnceLock<Waker>,
    /// Workers of `caller` pools; empty without such pools. Set by [`World::step_by`].
    pub callers: OnceLock<Callers<Key>>,
}

impl World {
    /// Whoever submits and waits steps these workers from now on. Once, before the first batch.
    pub fn step_by(&self, callers: Callers<Key>) {
        let leader = callers.clone();
        self.ledger.batches.led_by(Waker::new(move || leader.rouse()));
        let _ = self.callers.set(callers);
    }

    /// [`Callers::step`]; `false` in an engine whose own threads do all.
    pub fn step(&self) -> bool {
        self.callers.get().is_some_and(Callers::step)
    }

    /// What is taken of the tables.
    pub fn usage(&self) -> Usage {
        self.ledger.usage()
    }

    /// Tells control something; `false` when its channel is full and the teller must come again.
    pub(crate) fn tell(&self, event: Event) -> bool {
        let told = self.events.try_send(event).is_ok();
        if told && let Some(control) = self.control.get() {
            control.wake();
        }
        told
    }

    /// As [`Self::tell`], for a stage that goes and cannot come again: what the channel has no room for is left where
    /// control finds it.
    pub(crate) fn leave(&self, event: Event) {
        if !self.tell(event.clone()) {
            self.mail.leave(event);
            if let Some(control) = self.control.get() {
                control.wake();
            }
        }
    }
}
