//! Which way bytes go, as an option spells it.

use clap::ValueEnum;

/// Direction of the transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Direction {
    /// The target's bytes to here.
    Read,
    /// Bytes from here to the target.
    Write,
}

impl Direction {
    /// As in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}
