//! The command line: thin, one file a sub-command, everything else is the library's.

/// As that of `std`, but what stderr does not take (a full disk, a terminal that went) is lost and ends nothing: a command that
/// did its work must not die of what it says beside it.
macro_rules! eprint {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = std::io::stderr().write_fmt(format_args!($($text)*));
    }};
}

/// See `eprint`.
macro_rules! eprintln {
    ($($text:tt)*) => { eprint!("{}\n", format_args!($($text)*)) };
}

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
