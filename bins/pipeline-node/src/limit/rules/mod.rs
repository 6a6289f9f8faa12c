//! The rules, one file each. What they have in common is only how they look ([`super::look::Look`]).

pub(super) mod application;
pub(super) mod busy;
pub(super) mod cpu;
pub(super) mod idle;
pub(super) mod lane;
pub(super) mod peer;
pub(super) mod queue;
pub(super) mod sleep;
pub(super) mod window;
