//! The way from a client into the graph. Deliberately a trait: a test may have its own.

use pipeline_graph::Waker;

use super::SubmitError;
use crate::key::Key;

/// The way into the graph. Implemented for the engine's inlet; a test may have its own.
pub trait Inlet: Send + Sync {
    /// Workers of the first stage.
    fn workers(&self) -> usize;
    /// The worker that an item goes to.
    fn worker_of(&self, key: Key) -> usize;
    /// Pushes all or none, one entry an item.
    ///
    /// # Errors
    /// [`SubmitError::Busy`] or [`SubmitError::Stopped`].
    fn push_all(&self, keys: &[Key]) -> Result<(), SubmitError>;
    /// Whether it will never take anything any more.
    fn is_closed(&self) -> bool;
    /// Says whom to ring when there is room again after a push found none, or it was closed.
    fn ring_for_room(&self, waker: &Waker);
}

impl Inlet for pipeline_graph::Inlet<Key> {
    fn workers(&self) -> usize {
        pipeline_graph::Inlet::workers(self)
    }

    fn worker_of(&self, key: Key) -> usize {
        pipeline_graph::Inlet::worker_of(self, key)
    }

    fn push_all(&self, keys: &[Key]) -> Result<(), SubmitError> {
        Ok(pipeline_graph::Inlet::push_all(self, keys)?)
    }

    fn is_closed(&self) -> bool {
        pipeline_graph::Inlet::is_closed(self)
    }

    fn ring_for_room(&self, waker: &Waker) {
        pipeline_graph::Inlet::ring_for_room(self, waker);
    }
}
