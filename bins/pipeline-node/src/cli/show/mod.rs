//! `show`: what a file comes to, and what a running node is doing. Deliberately thin: values come from the loader, figures over
//! the admin socket.

mod config;
mod diff;
pub mod live;
mod runtime;
mod table;
mod text;

use clap::{Args as ClapArgs, Subcommand};

use super::exit::Outcome;
use live::LiveArgs;

/// Show what a file comes to, and what a running node is doing.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  pipeline-node show config node.toml
  pipeline-node show config node.toml --diff --node decode-0   # what the running node has that the file has not
  pipeline-node show runtime --node decode-0                   # stages over a second, and what limits
  pipeline-node show runtime --watch                           # of the only node that runs here
  pipeline-node show peers --node /run/user/1000/pipeline-node/decode-0.sock --json")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Config(config::Args),
    /// Stages: how often each was run, what it costs, where slices wait, and what limits the node.
    Runtime(LiveArgs),
    /// Edges: how full each queue is, and how long it had no room.
    Edges(LiveArgs),
    /// Workers by pool: busy, looking for work, asleep, without a CPU.
    Pools(LiveArgs),
    /// Peers that were opened: where each stands, what moved, what failed.
    Peers(LiveArgs),
    /// NICs of all transports: what moved over each, and what failed because of it.
    Nics(LiveArgs),
    /// Registered memory, and the segments that list it.
    Regions(LiveArgs),
    /// Batches that have not ended, the oldest first.
    Batches(LiveArgs),
}

/// Runs it.
///
/// # Errors
/// 78 when the file has errors; 1 when file and node differ; 69 when there is no such node.
pub fn run(args: &Args) -> Outcome {
    match &args.what {
        What::Config(args) => config::run(args),
        What::Runtime(args) => live::run("runtime", args),
        What::Edges(args) => live::run("edges", args),
        What::Pools(args) => live::run("pools", args),
        What::Peers(args) => live::run("peers", args),
        What::Nics(args) => live::run("nics", args),
        What::Regions(args) => live::run("regions", args),
        What::Batches(args) => live::run("batches", args),
    }
}
