//! Why the engine itself fails an item, and how it tells the items' owner.
//! Deliberately without stages' own errors: those travel inside what a key names.

use crate::item::Item;
use crate::sync::Arc;

/// Why the engine itself fails an item.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// An edge with `when_full = "reject"` was full.
    Rejected {
        /// The edge, as `from.port -> to`.
        edge: Arc<str>,
    },
    /// The stage that held it panicked, or its pool failed after too many panics.
    Panic {
        /// Name of the stage.
        stage: Arc<str>,
    },
    /// It was pushed to a port that has no wire: a bug of the stage.
    Unwired {
        /// The port, as `stage.port`.
        port: Arc<str>,
    },
    /// The engine was stopped by force while it was inside.
    Stopped,
}

/// How the engine tells the owner of the items that it fails one. Any worker thread; must not block.
pub trait Faults<T: Item>: Send + Sync {
    /// The item has met `fault`. With a wire from the stage's `failed` port the item travels there next and
    /// this only records the reason; without one (`travels == false`) the owner must end the item now.
    fn mark(&self, item: T, fault: &Fault, travels: bool);
}

/// For graphs whose items own nothing: a failed one is forgotten.
impl<T: Item> Faults<T> for () {
    fn mark(&self, _item: T, _fault: &Fault, _travels: bool) {}
}
