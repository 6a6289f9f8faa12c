//! The command line: thin, one file a sub-command, everything else is the library's.

/// As that of `std`, but what others wrote steers no terminal, and what stderr does not take (a full disk, a terminal that went) is lost
/// and ends nothing: a command that did its work must not die of what it says beside it.
macro_rules! eprint {
    ($($text:tt)*) => { $crate::tell(format_args!($($text)*)) };
}

/// See `eprint`.
macro_rules! eprintln {
    ($($text:tt)*) => { eprint!("{}\n", format_args!($($text)*)) };
}

mod cli;

use std::fmt::Arguments;
use std::io::Write as _;
use std::process::ExitCode;

use pipeline_configs::plain;

fn tell(text: Arguments<'_>) {
    let _ = std::io::stderr().write_all(plain::lines(&text.to_string()).as_bytes());
}

fn main() -> ExitCode {
    cli::main()
}
