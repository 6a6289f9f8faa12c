//! Transports that speak to other engines, as control begins and ends with them: their listeners are bound under this node's
//! name, and what their peers want this program to know goes to its notices. Deliberately before anything looks after them,
//! so that nobody is answered by half a node.

use std::sync::Arc;

use pipeline_transports::foreign::{Foreign, Hear};
use pipeline_transports::{Nanos, clock};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::error::Error;
use super::shared::Shared;
use crate::world::World;

/// Those of a node, with their names in the file.
fn all(world: &World) -> impl Iterator<Item = (&str, &dyn Foreign)> {
    world.transports.iter().filter_map(|entry| Some((entry.name.as_str(), entry.transport.foreign()?)))
}

/// Binds their listeners, unless this node only looks at others.
///
/// # Errors
/// [`Error::Listen`]: of the first that cannot be had.
pub(super) async fn begin(shared: &Arc<Shared>) -> Result<(), Error> {
    for (name, foreign) in all(&shared.world) {
        let world = Arc::downgrade(&shared.world);
        let hear: Hear = Arc::new(move |notice| world.upgrade().is_some_and(|w| w.inbox.hear(notice)));
        foreign.hear(hear);
        if !shared.settings.serves {
            continue;
        }
        let bound = foreign.bind(&shared.world.name).await;
        bound.map_err(|error| Error::Listen { transport: name.to_owned(), reason: error.to_string() })?;
    }
    Ok(())
}

/// Takes back what they have published; nothing here waits for longer than until `by`.
pub(super) async fn end(shared: &Arc<Shared>, by: Nanos) {
    if !shared.settings.serves {
        return;
    }
    let mut ends = JoinSet::new();
    for at in 0..shared.world.transports.len() {
        let world = shared.world.clone();
        ends.spawn(async move {
            if let Some(foreign) = world.transports[at].transport.foreign() {
                foreign.unbind(by).await;
            }
        });
    }
    let _ = timeout(clock::until(by), ends.join_all()).await;
}

/// What each of them is called by peers: `TRANSPORT` and the name, in the order of the file.
pub(super) fn names(world: &World) -> Vec<(String, String)> {
    all(world).filter_map(|(name, foreign)| Some((name.to_owned(), foreign.own_name()?))).collect()
}
