//! Files of `dir` segments: control brings jobs, the stage `file_serve` carries them out.
//! Deliberately without payload on the control connection: bytes pass through the segment's bounce region.

mod beside;
pub mod client;
mod compare;
mod desk;
mod error;
mod generation;
mod listing;
mod made;
mod part;
mod path;
mod pull;
mod root;
mod runs;
mod session;
pub(crate) mod stage;
mod tokens;
mod tree;
mod unfinished;
mod upload;

pub use client::FileClient;
pub use desk::{Desk, Job};
pub use error::FileError;
pub use generation::Generation;
pub use made::Made;
pub use part::Part;
pub(crate) use pull::Landing;
pub use root::Root;
pub use session::FileSession;
pub use tree::{Seen, Tree};
pub use unfinished::UNFINISHED;
