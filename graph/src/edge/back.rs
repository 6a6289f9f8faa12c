//! The return edge: the one way back. A ring of items as long as all tokens that exist, hence never full.
//! Deliberately of items and not of batches: N batches of one item each must fit as well.

use crate::bell::Bell;
use crate::item::{Batch, Item};
use crate::sync::{Arc, AtomicU64, Channel, Ordering};

/// One return ring.
#[repr(align(128))]
pub struct Back<T: Item> {
    channel: Channel<T>,
    consumers: Box<[Arc<Bell>]>,
    overflows: AtomicU64,
}

impl<T: Item> Back<T> {
    /// A ring for `tokens` items that these workers serve.
    pub fn new(tokens: usize, consumers: Vec<Arc<Bell>>) -> Self {
        Self {
            channel: Channel::new(tokens.max(1)),
            consumers: consumers.into(),
            overflows: AtomicU64::new(0),
        }
    }

    /// Moves the whole batch and rings once. Answers how many went. Fewer than all means that more tokens
    /// exist than were declared: a bug, counted and told, and nothing is dropped.
    pub fn push(&self, batch: &mut Batch<T>) -> usize {
        let mut moved = 0;
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
        }
        moved
    }

    /// Moves items into `batch` while it has room. Answers how many came.
    pub fn pop(&self, batch: &mut Batch<T>) -> usize {
        let mut moved = 0;
        // A look at an empty channel costs less than a try.
        while batch.room() > 0 && !self.channel.is_empty() {
            let Some(item) = self.channel.try_recv() else { break };
            if batch.push(item).is_err() {
                break; // It had room, and it is ours alone.
            }
            moved += 1;
        }
        moved
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
