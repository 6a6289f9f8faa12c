//! The command line: thin, one file a sub-command, everything else is the library's.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
