//! `tune`: lets the machine find the sizes of a file.
#![allow(dead_code, reason = "its options come before its search, so that what shares them can be built")]

mod args;
mod bound;

pub use args::Args;

use super::exit::{Failure, Outcome};
use super::whatif;

/// Runs it.
///
/// # Errors
/// 2: it is not there yet.
pub fn run(args: &Args) -> Outcome {
    if args.what_if.what_if.is_some() {
        return whatif::run(args);
    }
    Err(Failure::usage("tune is not there yet"))
}
