//! Files of `dir` segments: control brings jobs, the stage `file_serve` carries them out.
//! Deliberately without payload on the control connection: bytes pass through the segment's bounce region.

pub mod client;
mod desk;
mod error;
mod listing;
mod path;
mod pull;
mod root;
mod session;
pub(crate) mod stage;
mod tokens;
mod upload;

pub use client::FileClient;
pub use desk::{Desk, Job};
pub use error::FileError;
pub(crate) use pull::Landing;
pub use root::Root;
pub use session::FileSession;
