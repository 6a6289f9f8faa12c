//! How control hands finished links to the workers that will own their ends, and how the data path tells
//! control what it saw. Deliberately bounded on both ways, and never blocking for the data path.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, RwLock};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use pipeline_graph::Waker;
use pipeline_transports::{Blame, LinkEnd, LinkId};

use crate::peer::LinkLife;
use crate::reason::Code;

/// Which half of a transport a seat drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Half {
    /// `wr_post`.
    Post,
    /// `cq_reap`.
    Reap,
    /// `serve`.
    Serve,
}

/// A seat: half, transport index, NIC index, pair index.
pub type SeatId = (Half, u16, u16, u16);

/// What control tells a seat.
pub enum Mail {
    /// Take over this end.
    Adopt {
        /// The end.
        end: LinkEnd,
        /// What the threads share about the link: the one that is in its [`crate::peer::LinkRef`].
        life: Arc<LinkLife>,
    },
    /// Kill this link: its session ended.
    Abort(LinkId),
    /// The poster of this link panicked: kill it, and when it is closed end whatever its transport did not know of.
    Bereaved {
        /// The link.
        link: LinkId,
        /// How the poster's slices end.
        code: Code,
    },
}

/// What the data path tells control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A link we dialled is dead and all of its work requests have ended. Whose fault that was; `None`: this side killed it.
    LinkClosed(LinkId, Option<Blame>),
    /// A lane that a peer dialled is gone: nothing of it touches memory any more.
    LaneClosed(LinkId),
    /// Slices wait for a link to this peer over this transport.
    Want {
        /// The peer.
        peer: crate::peer::PeerId,
        /// The transport's index.
        transport: u16,
    },
}

struct Letterbox {
    worker: u32,
    sender: Sender<Mail>,
    waker: Waker,
}

/// The boxes of all seats. Seats open theirs while the graph starts; control posts. The lock is taken by
/// control and at start only.
#[derive(Default)]
pub struct PostOffice {
    boxes: RwLock<HashMap<SeatId, Letterbox>>,
    /// What stages that panicked could not tell control in the usual way, because its channel was full: at most an
    /// event a link.
    left: Mutex<Vec<Event>>,
}

impl PostOffice {
    /// Opens the box of a seat with room for `capacity` letters (`limits.links` each way and more).
    /// `worker` is the seat's index among the workers of its pool: what `dispatch = "owner"` needs to know
    /// of a post seat.
    pub fn open(&self, seat: SeatId, worker: u32, capacity: usize, waker: Waker) -> Receiver<Mail> {
        let (sender, receiver) = bounded(capacity);
        let mut boxes = self.boxes.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        boxes.insert(seat, Letterbox { worker, sender, waker });
        receiver
    }

    /// Index of a seat among the workers of its pool, as it said when it opened its box.
    pub fn worker(&self, seat: SeatId) -> Option<u32> {
        let boxes = self.boxes.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        boxes.get(&seat).map(|b| b.worker)
    }

    /// Posts a letter and rings the owner's bell; gives the letter back when the box is full, or when
    /// there is no such seat.
    pub fn post(&self, seat: SeatId, mail: Mail) -> Result<(), Mail> {
        let boxes = self.boxes.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(Letterbox { sender, waker, .. }) = boxes.get(&seat) else { return Err(mail) };
        sender.try_send(mail).map_err(|e| match e {
            TrySendError::Full(m) | TrySendError::Disconnected(m) => m,
        })?;
        waker.wake();
        Ok(())
    }

    /// Rings the bell of a seat: something it waits for has changed.
    pub fn ring(&self, seat: SeatId) {
        let boxes = self.boxes.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(letterbox) = boxes.get(&seat) {
            letterbox.waker.wake();
        }
    }

    /// Closes the box of a stage that goes: nobody posts there any more, so that it may empty it for the last time.
    pub fn close(&self, seat: SeatId) {
        let mut boxes = self.boxes.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(letterbox) = boxes.get_mut(&seat) {
            // Its place stays: a seat keeps its number.
            letterbox.sender = bounded(0).0;
        }
    }

    /// A stage that panics leaves an event behind which the channel had no room for.
    pub(crate) fn leave(&self, event: Event) {
        self.left.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(event);
    }

    /// What was left behind.
    pub(crate) fn take_left(&self) -> Vec<Event> {
        std::mem::take(&mut *self.left.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// How many pairs serve `half` on a NIC of a transport: what control spreads links over.
    pub fn pairs(&self, half: Half, transport: u16, nic: u16) -> u16 {
        let boxes = self.boxes.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        boxes.keys().filter(|(h, t, n, _)| (*h, *t, *n) == (half, transport, nic)).count() as u16
    }
}
