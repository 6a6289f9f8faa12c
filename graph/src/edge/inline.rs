//! The inline edge: the producer's staged batch *is* the neighbour's input. No queue, no copy, no recursion.

use crate::item::{Batch, Item};
use crate::outlet::Outlet;

/// Names the batch that an inline neighbour is run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    /// Index of the producer among its worker's nodes.
    pub from: usize,
    /// Its port.
    pub port: usize,
    /// Index of the neighbour among the same nodes; always behind the producer.
    pub to: usize,
    /// Which of the neighbour's inline inputs it is.
    pub slot: usize,
}

/// Something with an outlet that sits in a list: lets [`Hop::split`] borrow a producer's batch and its
/// neighbour at once.
pub(crate) trait HasOutlet<T: Item> {
    fn outlet(&mut self) -> &mut Outlet<T>;
}

impl Hop {
    /// The neighbour, and the batch that waits for it in the producer's outlet.
    #[inline]
    pub(crate) fn split<'a, T: Item, N: HasOutlet<T>>(
        &self,
        nodes: &'a mut [N],
    ) -> (&'a mut N, &'a mut Batch<T>) {
        // Nodes are in topological order, so a producer is always before its neighbour.
        let (before, after) = nodes.split_at_mut(self.to);
        (&mut after[0], before[self.from].outlet().inline(self.port))
    }
}
