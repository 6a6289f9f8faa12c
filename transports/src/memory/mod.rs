//! Registered memory: owned or borrowed bytes, the table of regions, and who is touching them.
//! Deliberately no deref to a slice: a peer may write at any time.

mod access;
pub mod copy;
mod gate;
mod gpu;
mod guard;
mod local;
mod mapping;
mod numa;
mod origin;
mod region;
mod regions;

pub use access::{Access, RegionId};
pub use gpu::GpuPart;
pub use guard::{Guard, LocalSpan};
#[cfg(feature = "faults")]
pub(crate) use mapping::LockedPages;
pub use mapping::{Memory, Pages};
pub use origin::Origin;
pub use region::Region;
pub use regions::{RegionFacts, Regions};
