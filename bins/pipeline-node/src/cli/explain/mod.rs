//! `explain`: which way a transfer to a peer would take, and why not another one. Contacts the peer and moves nothing.
//! Deliberately without any rule of its own: it prints what the engine says of its stages.

mod live;
mod matrix;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;
use pipeline_configs::Config;
use pipeline_node::explain::Explanation;
use pipeline_node::{Engine, Peer, explained};

use super::exit::{Failure, Outcome};
use super::{failures, file};

/// How long the peer may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// How long lanes are waited for, once the peer has answered.
const LANES: Duration = Duration::from_secs(2);

/// Show which transport, NIC and lanes a transfer to a peer would take, and why; contacts it, moves nothing.
///
/// Exit 0 when both directions have a way and a lane lives, 1 when one has none, no lane can be had, or the segment is not there
/// or does not allow what the file needs; 69 when the peer cannot be reached. With --node a running node is asked about a peer
/// that it has opened: nothing is contacted.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  pipeline-node explain 10.0.0.2:7001                # with the preset `tcp`
  pipeline-node explain decode-1 kv -c node.toml     # a peer of [peers], and what its segment `kv` allows
  pipeline-node explain decode-1 -c node.toml --set 'stages.route.prefer=[\"tcp\"]'
  pipeline-node explain decode-1 --node prefill-0    # what a running node would take now
  pipeline-node explain --matrix -c node.toml        # which NICs are near to which memory of this machine; no peer
  pipeline-node explain --matrix --json -c node.toml > matrix.json   # as Mooncake's priority matrix
  pipeline-node explain decode-1 -c node.toml --json | jq '.routes[].write.chosen.transport'")]
pub struct Args {
    /// `host:port`, or a name of [peers].
    #[arg(required_unless_present = "matrix", conflicts_with = "matrix")]
    peer: Option<String>,
    /// A segment of it: what it allows.
    #[arg(conflicts_with = "node")]
    segment: Option<String>,
    /// Ask this running node, by its name or its admin socket, in place of a node made from a file.
    #[arg(long, value_name = "NAME|SOCKET", conflicts_with_all = ["matrix", "config", "set"])]
    node: Option<String>,
    /// The file of this side; without it the preset `tcp`.
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Override a value of the file: 'stages.route.fallback=\"allow\"'. May be repeated; the last one wins.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Instead of a peer: which NICs are near to which memory of this machine, as the system and the file tell.
    #[arg(long)]
    matrix: bool,
    /// With --matrix: of this transport; without it, of the one with most NICs.
    #[arg(long, value_name = "NAME")]
    transport: Option<String>,
    /// With --matrix: look into this folder in place of /sys, such as a copy of another machine's.
    #[arg(long, value_name = "FOLDER")]
    sys: Option<PathBuf>,
    /// One object instead of text; with --matrix, Mooncake's priority matrix.
    #[arg(long)]
    json: bool,
}

/// Runs it.
///
/// # Errors
/// As the table of exit codes says.
pub fn run(args: &Args) -> Outcome {
    if let (Some(node), Some(peer)) = (&args.node, &args.peer) {
        return live::run(node, peer, args.json);
    }
    let loaded = file::load(&file::source(args.config.as_deref(), &args.set))?;
    let Some(peer) = &args.peer else {
        return matrix::run(&loaded.config, args.transport.as_deref(), args.sys.as_deref(), args.json);
    };
    loaded.runnable().map_err(|findings| file::refused(&findings))?;
    let node = Engine::start(bystander(loaded.config)).map_err(|e| failures::engine(&e))?;
    let peer = node.connect_within(peer, ANSWER).map_err(|e| failures::engine(&e))?;
    let segment = match &args.segment {
        Some(name) => Some(peer.segment(name).map_err(|e| failures::engine(&e))?),
        None => None,
    };
    let explained = with_lanes(&node, &peer);
    let text = match args.json {
        true => format!("{}\n", explained::json(&explained, segment.as_ref())),
        false => explained::plain(&explained, segment.as_ref()),
    };
    file::print(&text)?;
    explained::verdict(&explained, segment.as_ref()).map_or(Ok(()), |why| Err(Failure::failed(why)))
}

/// The same node, out of the way of the one that may run from this file: no segments, a port of its own, and nothing that
/// peers of other engines could find.
fn bystander(config: Config) -> Config {
    let mut config = file::unpublished(config);
    config.segments.clear();
    config.node.listen = "127.0.0.1:0".into();
    config.node.advertise.clear();
    config
}

/// Looks again until all lanes of what was chosen live, for a while: they are dialled when the peer has answered.
fn with_lanes(node: &Engine, peer: &Peer) -> Explanation {
    let begin = Instant::now();
    loop {
        let explained = node.explain(peer);
        if is_linked(&explained) || begin.elapsed() > LANES {
            return explained;
        }
        if !node.step() {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Whether all lanes of what was chosen live.
fn is_linked(explained: &Explanation) -> bool {
    let ways = explained.routes.iter().flat_map(|r| [&r.read, &r.write]);
    let mut nics = ways.filter_map(|way| way.chosen.as_ref()).flat_map(|chosen| &chosen.nics);
    nics.all(|nic| nic.live >= nic.wanted)
}
