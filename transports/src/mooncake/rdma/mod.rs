//! Mooncake's RDMA protocol: queue pairs connected by an exchange at the handshake port, and work requests that name
//! addresses at the other node. Over the devices, rings and halves of [`crate::rdma`].
//!
//! [`transport`] puts it together; [`exchange`] is the words, [`dial`] and [`answer`] the two sides, [`told`] and
//! [`peer`] what nodes tell of themselves.
//!
//! Deliberately no fence, as over TCP: what a link that died had on its way may still land, and nobody can be asked.

mod answer;
mod dial;
mod exchange;
mod found;
mod keys;
mod node;
mod peer;
mod served;
mod told;
mod transport;

pub use transport::{KIND, MooncakeRdma};
