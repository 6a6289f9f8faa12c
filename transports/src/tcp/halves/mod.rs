//! The halves of lanes that are TCP connections, whatever is spoken on them: which lanes there are, whose turn it is, which are
//! blocked, which stand still, which have died, and what becomes of what those held. This engine's own frames
//! ([`super::post`], [`super::reap`]) and Mooncake's requests (`crate::mooncake`) are what is put into them.
//!
//! Deliberately without a byte of a protocol. Generic, and not `dyn`: a turn through a lane costs no indirect call.

mod connection;
mod inbound;
mod outbound;
mod post;
mod reap;
mod reap_lane;

pub(crate) use connection::{Connected, Connection, Pair, PostEnd, ReapEnd};
pub(crate) use inbound::{Digested, Ends, Inbound, TakenBack};
pub(crate) use outbound::Outbound;
pub(crate) use post::StreamPost;
pub(crate) use reap::StreamReap;
