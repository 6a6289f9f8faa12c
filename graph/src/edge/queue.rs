//! A bounded ring of batches between workers, and who is rung when.
//! Deliberately never blocking: a full ring leaves the batch with the producer, which then may sleep.

use crate::bell::Bell;
use crate::clock::Nanos;
use crate::item::{Batch, Item};
use crate::sync::{Arc, AtomicBool, Channel, Ordering, fence};

/// A batch on its way, with the time it was pushed, so that wait is told from service.
#[derive(Clone, Copy)]
pub struct Parcel<T: Item> {
    /// When the producer pushed it.
    pub pushed_at: Nanos,
    /// What it brings.
    pub batch: Batch<T>,
}

/// One ring. With `dispatch = "any"` all workers of the target's pool serve one; else each has its own.
#[repr(align(128))]
pub struct Ring<M> {
    channel: Channel<M>,
    capacity: usize,
    /// A producer found it full and may sleep: the next pop rings the producers.
    starved: AtomicBool,
    consumers: Box<[Arc<Bell>]>,
    producers: Box<[Arc<Bell>]>,
}

impl<M> Ring<M> {
    /// A ring of `capacity` messages (at least 1) between these workers.
    pub fn new(capacity: usize, consumers: Vec<Arc<Bell>>, producers: Vec<Arc<Bell>>) -> Self {
        let capacity = capacity.max(1);
        Self {
            channel: Channel::new(capacity),
            capacity,
            starved: AtomicBool::new(false),
            consumers: consumers.into(),
            producers: producers.into(),
        }
    }

    /// Pushes and rings a sleeping consumer.
    ///
    /// # Errors
    /// Gives the message back when the ring is full; the next pop rings the producers' bells then.
    pub fn push(&self, message: M) -> Result<(), M> {
        self.put(message)?;
        Bell::ring_one(&self.consumers);
        Ok(())
    }

    /// As [`Ring::push`], but wakes nobody: for a producer that steps the consumer itself.
    ///
    /// # Errors
    /// As there.
    pub fn put(&self, message: M) -> Result<(), M> {
        if let Err(message) = self.channel.try_send(message) {
            // The pair of the fence in `pop`: either the retry sees the room, or the pop sees the flag.
            self.starved.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            self.channel.try_send(message)?;
        }
        Ok(())
    }

    /// Pops, and rings the producers if one of them found the ring full.
    pub fn pop(&self) -> Option<M> {
        let message = self.channel.try_recv()?;
        fence(Ordering::SeqCst);
        if self.starved.load(Ordering::Relaxed) && self.starved.swap(false, Ordering::AcqRel) {
            Bell::ring_all(&self.producers);
        }
        Some(message)
    }

    /// Whether a push would fail now, without the copy it takes to find out. Leaves the flag that makes the
    /// next pop ring the producers.
    pub fn is_full(&self) -> bool {
        if !self.channel.is_full() {
            return false;
        }
        self.starved.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.channel.is_full()
    }

    /// Whether nothing waits in it.
    pub fn is_empty(&self) -> bool {
        self.channel.is_empty()
    }

    /// How many workers serve it; at least 1.
    pub fn consumers(&self) -> usize {
        self.consumers.len().max(1)
    }

    /// Messages that wait.
    pub fn len(&self) -> usize {
        self.channel.len()
    }

    /// Messages it holds.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}
