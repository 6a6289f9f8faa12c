//! Transfers over TCP: one-way lanes that carry frames of up to 64 descriptors, bytes straight between socket
//! and registered memory. `docs/wire.md` is the specification.
//!
//! Deliberately no connection pool, no timers and no retry: lanes are opened by control, deadlines and
//! retries belong to the stages.

pub mod frame;
pub mod hello;
