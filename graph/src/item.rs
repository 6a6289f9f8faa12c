//! What flows along edges: a small `Copy` item, carried in batches of up to 32.
//! Deliberately no payload and no ownership: an item is a key into somebody else's table.

/// A value that flows along edges. Small (8 bytes in the transfer engine), `Copy`, and free of ownership,
/// so that dropping a batch never loses a resource.
pub trait Item: Copy + Default + Send + 'static {}

impl Item for u64 {}
impl Item for u32 {}

/// The most items a batch carries: the vector size at which queue cost per item has flattened out
/// (VPP uses 256 packets; 32 descriptors of 8 bytes are four cache lines).
pub const BATCH: usize = 32;

/// Up to [`BATCH`] items, first in first out, stored inline: no allocation.
///
/// Head and length are words of their own and not bytes side by side: a wide load of one right after a narrow
/// store of the other cannot be forwarded by the processor, which doubled the price of an inline edge.
#[derive(Clone, Copy, Debug)]
pub struct Batch<T: Item> {
    head: u32,
    len: u32,
    items: [T; BATCH],
}

impl<T: Item> Batch<T> {
    /// An empty batch.
    pub fn new() -> Self {
        Self { head: 0, len: 0, items: [T::default(); BATCH] }
    }

    /// How many items wait in it.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether nothing waits in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many more items fit.
    #[inline]
    pub fn room(&self) -> usize {
        BATCH - self.len()
    }

    /// Adds an item at the end; gives it back when the batch is full.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if self.room() == 0 {
            return Err(item);
        }
        let at = (self.head + self.len) as usize % BATCH;
        self.items[at] = item;
        self.len += 1;
        Ok(())
    }

    /// Takes the oldest item.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let item = self.peek()?;
        self.head = (self.head + 1) % BATCH as u32;
        self.len -= 1;
        Some(item)
    }

    /// The oldest item, left in place: for a stage that must first see whether a port has room for it.
    #[inline]
    pub fn peek(&self) -> Option<T> {
        (self.len > 0).then(|| self.items[self.head as usize % BATCH])
    }

    /// The items, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        (0..self.len()).map(|i| self.items[(self.head as usize + i) % BATCH])
    }

    /// Forgets every item.
    #[inline]
    pub fn clear(&mut self) {
        self.head = 0;
        self.len = 0;
    }
}

impl<T: Item> Default for Batch<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A batch gives back its items in order, refuses the 33rd, and wraps around its ring without loss.
    #[test]
    fn first_in_first_out_and_bounded() {
        let mut batch = Batch::<u64>::new();
        for round in 0..5u64 {
            for i in 0..BATCH as u64 {
                batch.push(round * 100 + i).unwrap();
            }
            assert_eq!(batch.push(999), Err(999));
            assert_eq!(batch.iter().next(), Some(round * 100));
            for i in 0..BATCH as u64 {
                assert_eq!(batch.pop(), Some(round * 100 + i));
                if i == 6 {
                    batch.push(7_777).unwrap();
                }
            }
            assert_eq!(batch.pop(), Some(7_777));
            assert!(batch.is_empty());
        }
    }
}
