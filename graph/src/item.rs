//! What flows along edges: a small `Copy` item, carried in batches of up to 32.
//! Deliberately no payload and no ownership: an item is a key into somebody else's table.

/// A value that flows along edges. Small (8 bytes in the transfer engine), `Copy`, and free of ownership,
/// so that dropping a batch never loses a resource. Two equal items in flight are the same thing twice: after a
/// panic the engine tells by equality which items of a batch had gone on.
pub trait Item: Copy + Default + PartialEq + Send + 'static {}

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

    /// Adds items at the end, as many as fit: how many.
    #[inline]
    pub fn extend(&mut self, items: &[T]) -> usize {
        let n = items.len().min(self.room());
        if self.len == 0 && self.head as usize + n > BATCH {
            // Nothing is lost: what was popped is remembered only of a batch that nothing is pushed to.
            self.head = 0;
        }
        let at = (self.head + self.len) as usize % BATCH;
        match self.items.get_mut(at..at + n) {
            Some(place) => place.copy_from_slice(&items[..n]),
            None => {
                let ahead = BATCH - at;
                self.items[at..].copy_from_slice(&items[..ahead]);
                self.items[..n - ahead].copy_from_slice(&items[ahead..n]);
            }
        }
        self.len += n as u32;
        n
    }

    /// Forgets the `n` oldest items, or all if there are fewer.
    #[inline]
    pub fn skip(&mut self, n: usize) {
        let n = n.min(self.len()) as u32;
        self.head = (self.head + n) % BATCH as u32;
        self.len -= n;
    }

    /// The items, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        (0..self.len()).map(|i| self.items[(self.head as usize + i) % BATCH])
    }

    /// What waits in it now, to be compared with later: see [`Batch::popped_since`].
    #[inline]
    pub(crate) fn mark(&self) -> Mark {
        Mark { head: self.head, len: self.len }
    }

    /// The items that waited at `mark` and do not any more. They cost nobody a copy: an item that is popped stays
    /// where it was until a push takes its place, and nothing is pushed to a batch that a stage is run on.
    pub(crate) fn popped_since(&self, mark: Mark) -> impl Iterator<Item = T> + '_ {
        let then = (0..mark.len).map(move |i| self.items[(mark.head + i) as usize % BATCH]);
        then.filter(|item| !self.contains(*item))
    }

    /// Whether `item` waits in it.
    pub(crate) fn contains(&self, item: T) -> bool {
        self.iter().any(|waits| waits == item)
    }

    /// Forgets every item.
    #[inline]
    pub fn clear(&mut self) {
        self.head = 0;
        self.len = 0;
    }
}

/// See [`Batch::mark`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    head: u32,
    len: u32,
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

    /// Many at once are the same as one after the other, wherever in its ring the batch begins and however full it is.
    #[test]
    fn many_at_once() {
        let items: Vec<u64> = (0..BATCH as u64 + 5).collect();
        for (before, kept, n) in
            (0..BATCH).flat_map(|b| (0..4).flat_map(move |k| [0, 1, 30, 37].map(|n| (b, k * 9, n))))
        {
            let (mut one, mut many) = (Batch::<u64>::new(), Batch::<u64>::new());
            for batch in [&mut one, &mut many] {
                (0..before + kept).for_each(|i| {
                    batch.push(1_000 + i as u64).unwrap();
                    if i < before {
                        batch.pop();
                    }
                });
            }
            let fit = items[..n].iter().take_while(|i| one.push(**i).is_ok()).count();
            assert_eq!(many.extend(&items[..n]), fit);
            assert!(one.iter().eq(many.iter()));
            many.skip(3);
            (0..3).for_each(|_| assert!(one.pop().is_some() || one.is_empty()));
            assert!(one.iter().eq(many.iter()));
        }
    }

    /// What was popped or forgotten since a mark is still known, in order, wherever in its ring the batch began.
    #[test]
    fn remembers_what_was_popped() {
        for before in 0..BATCH as u64 {
            let mut batch = Batch::<u64>::new();
            for i in 0..before {
                batch.push(1_000 + i).unwrap();
                batch.pop();
            }
            for i in 0..BATCH as u64 {
                batch.push(i).unwrap();
            }
            let mark = batch.mark();
            assert_eq!(batch.popped_since(mark).count(), 0);
            for _ in 0..5 {
                batch.pop();
            }
            assert_eq!(batch.popped_since(mark).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
            batch.clear();
            assert!(batch.popped_since(mark).eq(0..BATCH as u64));
        }
    }
}
