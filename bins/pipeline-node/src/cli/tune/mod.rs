//! `tune`: lets the machine find the sizes of a file.
#![allow(dead_code, reason = "its options come before its search, so that what shares them can be built")]

mod args;
mod bound;

pub use args::Args;

use super::exit::{Failure, Outcome};

/// Runs it.
///
/// # Errors
/// 2: it is not there yet.
pub fn run(_args: &Args) -> Outcome {
    Err(Failure::usage("tune is not there yet"))
}
