//! The RDMA transport over real devices: soft-RoCE in the test bed. Ignored elsewhere; `tests/rdma-vm` runs them, with two
//! devices or more (`rxe0`, `rxe1`).

#![allow(clippy::unwrap_used, reason = "tests")]

mod conformance;
mod connecting;
mod failing;
mod mooncake;
mod mooncake_wheel;
mod posting;
mod rig;
