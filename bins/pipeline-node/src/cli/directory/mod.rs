//! `directory`: the embedded directory as a program, and two small questions to any directory.
//! Deliberately thin: what is served and how is asked is `pipeline_transports::directory`.

mod client;
pub mod mend;
mod serve;

use clap::{Args as ClapArgs, Subcommand};

use super::exit::Outcome;

/// Serve a directory: where nodes, and real Mooncake engines, tell each other where they are.
///
/// It speaks Mooncake's HTTP metadata protocol, keeps everything in memory, and is empty after a restart: nodes that live
/// publish again by themselves. It knows no log-in, so it listens on loopback unless told otherwise. Prints one line when it
/// is ready; SIGTERM and SIGINT end it. `get` and `list` ask a directory instead of serving one.
#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  pipeline-node directory                                   # for this machine, at 127.0.0.1:7080
  pipeline-node directory --listen 0.0.0.0:7080             # for all who can reach it
  pipeline-node directory --listen '[::1]:0' --json | jq -r .url
  pipeline-node directory list --from http://10.0.0.1:7080 pipeline-node/nodes/
  pipeline-node directory get --from etcd://10.0.0.1:2379 mooncake/ram/decode-0
In a node's file: [directory] type = \"http\", endpoints = [\"http://10.0.0.1:7080\"]
For Mooncake:     initialize(name, \"http://10.0.0.1:7080/metadata\", \"tcp\", \"\")")]
pub struct Args {
    #[command(subcommand)]
    question: Option<Question>,
    #[command(flatten)]
    server: serve::ServeArgs,
}

#[derive(Debug, Subcommand)]
enum Question {
    Get(client::GetArgs),
    List(client::ListArgs),
}

/// Runs it.
///
/// # Errors
/// As the table of exit codes says.
pub fn run(args: &Args) -> Outcome {
    match &args.question {
        None => serve::run(&args.server),
        Some(Question::Get(args)) => client::get(args),
        Some(Question::List(args)) => client::list(args),
    }
}
