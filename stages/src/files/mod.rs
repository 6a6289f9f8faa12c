//! Files of `dir` segments: control brings jobs, the stage `file_serve` carries them out.
//! Deliberately without payload on the control connection: bytes pass through the segment's bounce region.

mod desk;

pub use desk::Desk;
