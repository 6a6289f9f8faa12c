//! The return edge: the one way back. A ring of items as long as all tokens that exist, hence never full.
//! Deliberately of items and not of batches: N batches of one item each must fit as well.

use crate::bell::Bell;
use crate::clock::Nanos;
use crate::edge::probe::Probe;
use crate::item::{Batch, Item};
use crate::sync::{Arc, AtomicU64, Channel, Ordering};

/// One return ring.
#[repr(align(128))]
pub struct Back<T: Item> {
    channel: Channel<T>,
    /// Items have no room for their times.
    probe: Probe,
    consumers: Box<[Arc<Bell>]>,
    overflows: AtomicU64,
}

impl<T: Item> Back<T> {
    /// A ring for `tokens` items that these workers serve.
    pub fn new(tokens: usize, consumers: Vec<Arc<Bell>>) -> Self {
        Self {
            channel: Channel::new(tokens.max(1)),
            probe: Probe::default(),
            consumers: consumers.into(),
            overflows: AtomicU64::new(0),
        }
    }

    /// Moves the whole batch, as pushed at `now`, and rings once. Answers how many went. Fewer than all means that more tokens
    /// exist than were declared: a bug, counted and told, and nothing is dropped.
    pub fn push(&self, batch: &mut Batch<T>, now: Nanos) -> usize {
        let mut moved = 0;
        // Before it is there: whoever pops it finds that it is followed.
        let followed = self.probe.follow(now, self.channel.len());
        while let Some(item) = batch.peek() {
            if self.channel.try_send(item).is_err() {
                self.overflow();
                break;
            }
            batch.pop();
            moved += 1;
        }
        if moved > 0 {
            Bell::ring_one(&self.consumers);
        } else if followed {
            self.probe.forget();
        }
        moved
    }

    /// Moves items into `batch` while it has room. Answers how many came, and of one of those that came since it last did so
    /// when it was pushed.
    pub fn pop(&self, batch: &mut Batch<T>) -> (usize, Option<Nanos>) {
        let mut moved = 0;
        // A look at an empty channel costs less than a try.
        while batch.room() > 0 && !self.channel.is_empty() {
            let Some(item) = self.channel.try_recv() else { break };
            if batch.push(item).is_err() {
                break; // It had room, and it is ours alone.
            }
            moved += 1;
        }
        (moved, self.probe.popped(moved, self.channel.is_empty()))
    }

    /// Items that wait.
    pub fn len(&self) -> usize {
        self.channel.len()
    }

    /// Whether nothing waits in it.
    pub fn is_empty(&self) -> bool {
        self.channel.is_empty()
    }

    /// How often it was found full: 0, or there is a bug.
    pub fn overflows(&self) -> u64 {
        self.overflows.load(Ordering::Relaxed)
    }

    #[cold]
    fn overflow(&self) {
        if self.overflows.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::error!("a return edge is full: more tokens exist than Blueprint::tokens declares");
        }
    }
}
