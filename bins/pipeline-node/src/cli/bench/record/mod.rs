//! `bench --record` and `bench --replay`: the stream of requests that was submitted, kept and played again (docs/records.md).

pub mod args;
pub mod form;
pub mod play;
mod replay;

pub use args::RecordArgs;
pub use replay::{refused, run};

use pipeline_node::Engine;
use pipeline_node::recording::Recording;

use crate::cli::exit::{Failure, Outcome};
use crate::cli::failures::engine;

/// What `--record` asked for. Only the timed loops are in it, not what prepares and checks them.
#[derive(Default)]
pub struct Kept(Option<Recording>);

impl Kept {
    /// A record that waits for the first loop, if one is wanted.
    ///
    /// # Errors
    /// 71 when the file cannot be made.
    pub fn start(args: &RecordArgs, node: &Engine) -> Result<Self, Failure> {
        let Some(path) = &args.record else { return Ok(Self(None)) };
        let recording = node.record_to_file(path).map_err(|e| engine(&e))?;
        recording.pause();
        Ok(Self(Some(recording)))
    }

    /// Runs a timed loop, which is recorded.
    pub fn over<T>(&self, timed: impl FnOnce() -> T) -> T {
        let Some(recording) = &self.0 else { return timed() };
        recording.resume();
        let done = timed();
        recording.pause();
        done
    }

    /// Ends it, and says on stderr what it has.
    ///
    /// # Errors
    /// 71 when it could not be written.
    pub fn finish(self, args: &RecordArgs) -> Outcome {
        let (Some(recording), Some(path)) = (self.0, &args.record) else { return Ok(()) };
        let path = path.display();
        let recorded = recording.finish().map_err(|e| Failure::system(format!("{path}: {e}")))?;
        let lost = match recorded.dropped {
            0 => String::new(),
            n => format!("; {n} batches are not in it: there was no room for them"),
        };
        eprintln!(
            "# recorded {} batches with {} requests in {path}{lost}",
            recorded.batches, recorded.requests
        );
        Ok(())
    }
}
