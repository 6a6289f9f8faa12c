//! Lets transports look after their devices beside the data path, for as long as the node runs.
//! Deliberately a task each, so that one that panics costs what it would have heard, and nobody else anything.

use std::convert::Infallible;
use std::sync::Arc;

use super::shared::Shared;

/// Begins it for all transports. On the runtime of control.
pub(super) fn start(shared: &Arc<Shared>) {
    for (at, entry) in shared.world.transports.iter().enumerate() {
        let (world, name) = (shared.world.clone(), entry.name.clone());
        let tending = tokio::spawn(async move { world.transports[at].transport.tend().await });
        tokio::spawn(async move {
            let ended: Result<Infallible, _> = tending.await;
            if let Err(error) = ended
                && error.is_panic()
            {
                tracing::error!(
                    transport = name,
                    "looking after its devices panicked: what they report from now on is not heard; restart the node"
                );
            }
        });
    }
}
