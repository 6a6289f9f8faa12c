//! The command line. Results go to stdout, everything else to stderr; exit codes are in `docs/exit-codes.md`.

mod belongs;
mod bench;
mod compare;
mod copy;
mod directory;
mod doctor;
mod draw;
mod exit;
mod explain;
mod failures;
mod file;
mod footprint;
mod generate_trace;
mod graph;
mod idle;
mod import_mooncake;
mod init;
mod interval;
mod load;
mod logs;
mod nics_here;
mod put;
mod quantity;
mod run;
mod schema;
mod show;
mod tune;
mod validate;
mod whatif;
mod work;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

/// Moves bytes between registered memory of processes, hosts and files, through a pipeline that a TOML file
/// declares.
#[derive(Debug, Parser)]
#[command(name = "pipeline-node", version = VERSION, propagate_version = true, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed, 2 usage, 3 threshold missed, 65 input makes no sense, 69 peer
unreachable, 71 system refused or does not suit, 75 not drained, 78 the file has findings."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("BUILD_COMMIT"), ")");

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Init(init::Args),
    #[command(alias = "check")]
    Validate(validate::Args),
    Doctor(doctor::Args),
    Show(show::Args),
    Schema(schema::Args),
    Graph(graph::Args),
    Explain(explain::Args),
    Bench(Box<bench::Args>),
    Compare(compare::Args),
    Copy(copy::Args),
    Directory(directory::Args),
    Tune(Box<tune::Args>),
    GenerateTrace(generate_trace::Args),
    ImportMooncake(import_mooncake::Args),
    /// The other half of the bare loop that `bench` compares with.
    #[command(hide = true)]
    CeilingTarget,
}

/// Parses, runs, and tells the system how it ended.
pub fn main() -> ExitCode {
    let mut matches = Cli::command().get_matches();
    if let Err(failure) = belongs::check(&matches) {
        return failure.report();
    }
    let cli = Cli::from_arg_matches_mut(&mut matches);
    let outcome = match cli.unwrap_or_else(|e| e.format(&mut Cli::command()).exit()).command {
        Command::Run(args) => run::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Validate(args) => validate::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Show(args) => show::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Graph(args) => graph::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Copy(args) => copy::run(&args),
        Command::Directory(args) => directory::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::GenerateTrace(args) => generate_trace::run(&args),
        Command::ImportMooncake(args) => import_mooncake::run(&args),
        Command::CeilingTarget => bench::ceiling::target(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition of the command line is sound, and every command shows examples in its help.
    #[test]
    fn help_has_examples() {
        let mut cli = Cli::command();
        cli.build();
        cli.clone().debug_assert();
        for command in cli.get_subcommands_mut().filter(|c| !c.is_hide_set() && c.get_name() != "help") {
            let help = command.render_long_help().to_string();
            assert!(help.contains("Examples:"), "{} has no examples", command.get_name());
        }
    }
}
