//! Where a stage puts what it made: one set of ports, each behind it an inline neighbour or a queue.
//! Deliberately mute about which: a stage only sees room.
//! (Contract; the engine fills it in.)

use crate::item::Item;
use crate::stage::PortId;

/// The output side of one stage instance.
pub struct Outlet<T: Item> {
    _todo: std::marker::PhantomData<T>,
}

impl<T: Item> Outlet<T> {
    /// How many more items that go where `item` would go fit now. With `dispatch = "owner" | "hash"` this
    /// answers for that item's own worker, so that one stopped worker starves nobody.
    pub fn room(&self, _port: PortId, _item: T) -> usize {
        0
    }

    /// Puts `item` on `port`.
    ///
    /// # Errors
    /// Gives the item back when there is no room.
    pub fn push(&mut self, _port: PortId, item: T) -> Result<(), T> {
        Err(item)
    }
}
