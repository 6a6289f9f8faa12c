//! What the transports within one process share: finding the other node, and the ring between the halves
//! of a link. Deliberately no bytes moved here: how and when is what tells loopback and sim apart.

mod ends;
mod hub;
mod lane;
mod place;
mod ports;
mod post;

pub(crate) use ends::{ReapEnd, dial};
pub(crate) use hub::{Membership, Watch};
pub(crate) use lane::Lane;
pub(crate) use place::Place;
pub(crate) use ports::Ports;
pub(crate) use post::PostHalf;
