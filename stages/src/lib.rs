//! The domain: what a slice is, how a request is cut, routed, posted, reaped and told about.
//!
//! It knows requests, slices, peers and transports. It deliberately does not know threads, queues or TOML:
//! the graph gives it batches of keys, the catalogue gives it typed values.

pub mod files;
pub mod key;
pub mod mail;
pub mod peer;
pub mod peers;
pub mod segments;
pub mod world;

pub use key::Key;
pub use world::World;
