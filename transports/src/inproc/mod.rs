//! What the transports within one process share: finding the other node, and the ring between the halves
//! of a link. Deliberately no bytes moved here: how and when is what tells loopback and sim apart.

mod hub;
mod lane;
mod place;
mod ports;
mod post;
mod station;

pub(crate) use hub::Watch;
pub(crate) use lane::{Share, Ticket};
pub(crate) use post::PostHalf;
pub(crate) use station::{ReapEnd, Station, Unregistered};
