//! Files become setups as they are meant.

use pipeline_node::Source;

use super::*;

const PARK: &str = "pools.nic.wait='park'";

fn setup(file: &str, set: &[&str], site: &str) -> Setup {
    let source = Source::text("test", format!("version = 1\nuse = \"{file}\"\n")).set(set.to_vec());
    let config = source.load().unwrap().config;
    let (site, costs) = (Site::parse(site).unwrap(), Costs::default());
    let shape = Shape::parse("8x1MiBx4").unwrap();
    lower(&config, &Given { site: &site, costs: &costs, waits: Waiting::Wait, callers: 1 }, &shape).unwrap()
}

fn stage<'a>(setup: &'a Setup, name: &str) -> &'a Stage {
    setup.stages.iter().find(|stage| stage.name == name).unwrap()
}

/// The preset is one worker with everything inline but two rings; its way leads from `submit` to the poster, and from the
/// reaper to the end.
#[test]
fn the_preset() {
    let setup = setup("tcp", &[PARK, "stages.split.slice='64KiB'", "transports.tcp.lanes=3"], "here");
    let names: Vec<&str> = setup.stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(names, ["admit", "split", "route", "select", "post", "reap", "notify"]);
    let inputs: Vec<Edge> = setup.stages.iter().map(|stage| stage.input).collect();
    use Edge::{Hash, Inline, Owner};
    assert_eq!(inputs, [Hash(1024), Inline, Inline, Inline, Owner(64), Inline, Inline]);
    assert_eq!((setup.workers.len(), setup.lanes, setup.slice_bytes), (1, 3, 64 << 10));
    assert!(setup.peers.are_here && setup.nics[0].bytes_per_s.is_none());
    let nexts: Vec<Option<usize>> = setup.stages.iter().map(|stage| stage.next).collect();
    assert_eq!(nexts, [Some(1), Some(2), Some(3), Some(4), None, Some(6), None]);
}

/// A pool a stage has a worker for each and a ring before each; a caller's pool has no thread of its own.
#[test]
fn pools_and_callers() {
    let each = setup("pipeline", &["pools.notify.threads=2"], "here");
    assert_eq!(each.workers.len(), 8);
    assert_eq!(stage(&each, "notify").workers.len(), 2);
    assert!(each.stages.iter().all(|stage| stage.input != Edge::Inline || stage.name == "reap"));
    let caller = setup("run_to_completion", &[], "here");
    assert!(caller.workers.iter().all(|worker| worker.is_caller));
}

/// On a machine with several NICs a pool for each NIC has its threads for each, and lanes belong to the workers of theirs.
#[test]
fn a_group_for_each_nic() {
    let set = ["pools.nic.threads=2"];
    let setup = setup("tcp", &set, "cores=64 nics=8x400Gbit/s peers=10");
    assert_eq!((setup.workers.len(), setup.nics.len(), setup.peers.count), (16, 8, 10));
    let post = &stage(&setup, "post").workers;
    assert_eq!((setup.pair(post, 3, 0), setup.pair(post, 3, 1), setup.pair(post, 3, 2)), (6, 7, 6));
}
