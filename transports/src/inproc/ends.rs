//! Makes the two ends of an in-process link, the same way for every such transport.
//! Deliberately no third end: the target's CPU takes no part.

use std::sync::Arc;

use crate::error::Error;
use crate::inproc::hub::Watch;
use crate::inproc::lane::Lane;
use crate::inproc::place::Place;
use crate::inproc::ports::Ports;
use crate::link::{Link, LinkEnd};
use crate::transport::{Offer, Path};

/// What the reap half gets of a link.
pub(crate) struct ReapEnd {
    pub(crate) lane: Arc<Lane>,
    /// The peer, and our interest in its life.
    pub(crate) watch: Watch,
    /// How many links this transport had dialled before.
    #[expect(dead_code, reason = "the simulator seeds a link by it")]
    pub(crate) ordinal: u64,
}

/// Dials: finds the peer in this process and makes a lane for `queue` work requests.
pub(crate) fn dial(
    path: &Path,
    peer: &Offer,
    (kind, incarnation): (&'static str, u64),
    ports: &Ports,
    (queue, ordinal): (usize, u64),
) -> Result<Link, Error> {
    if peer.kind != kind {
        let reason = format!("its transport `{}` is of type {}, not {kind}", peer.name, peer.kind);
        return Err(Error::Refused { peer: path.peer.clone(), reason });
    }
    let wakes = ports.wakes(path.nic, path.pair)?;
    let node = Place::here(incarnation)?.find(kind, &path.peer, &peer.body)?;
    let lane = Arc::new(Lane::new(queue));
    let reap = ReapEnd { lane: lane.clone(), watch: node.watch(path.link, wakes.reap), ordinal };
    Ok(Link {
        id: path.link,
        post: Some(LinkEnd { id: path.link, body: Box::new(lane) }),
        reap: Some(LinkEnd { id: path.link, body: Box::new(reap) }),
        serve: None,
    })
}
