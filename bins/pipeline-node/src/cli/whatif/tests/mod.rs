//! The whole of it but for measuring: a file, a machine and costs give a limit, and sizes that move it.

use pipeline_configs::Config;
use pipeline_node::Source;

use super::args::WhatIfArgs;
use super::calibration::Calibration;
use super::limit::Limit;
use super::lower::Given;
use super::model::Outcome;
use super::model::costs::{Caller, Connection, Costs, Read, Service, Sharing, Sleep, Variation};
use super::search::{Choice, Search};
use super::site::Site;
use super::trials::trials;
use crate::cli::load::{Direction, Waiting};
use crate::cli::work::args::Work;
use crate::cli::work::{Shape, WorkArgs};

/// About those of a 2 vCPU VM, where a gigabyte costs the sender a quarter of a second.
fn costs() -> Costs {
    let service = |call_ns, item_ns, byte_ns| Service { call_ns, item_ns, byte_ns };
    let stages = [
        ("admit", service(150.0, 10.0, 0.0)),
        ("request_split", service(100.0, 50.0, 0.0)),
        ("protocol_route", service(100.0, 10.0, 0.0)),
        ("nic_select", service(200.0, 20.0, 0.0)),
        ("wr_post", service(1_500.0, 800.0, 0.25)),
        ("cq_reap", service(1_500.0, 60.0, 0.0)),
        ("completion_notify", service(500.0, 20.0, 0.0)),
    ];
    Costs {
        stages: stages.map(|(kind, service)| (kind.to_owned(), service)).into(),
        target: service(1_500.0, 300.0, 0.2),
        turn_ns: 300.0,
        hop: service(500.0, 0.0, 0.0),
        sleep: Sleep { wake_ns: 10_000.0, sleeper_ns: 3_000.0, ringer_ns: 3_000.0, look_ns: 100.0 },
        socket_sleeper_ns: 4_000.0,
        caller: Caller { submit: service(2_000.0, 40.0, 0.0), collect_ns: 2_000.0 },
        connection: Connection { bytes: 3 << 20, segment: 64 << 10 },
        ..Costs::default()
    }
}

fn config(set: &[&str]) -> Config {
    let source = Source::text("test", "version = 1\nuse = \"tcp\"\n").set(set.to_vec());
    source.load().unwrap().config
}

fn ask(set: &[&str], site: &str, shape: &str, search: bool) -> Choice {
    ask_with(&costs(), set, site, Shape::parse(shape).unwrap(), search)
}

fn ask_with(costs: &Costs, set: &[&str], site: &str, shape: Shape, search: bool) -> Choice {
    let site = Site::parse(site).unwrap();
    let given = Given { site: &site, costs, waits: Waiting::Wait, callers: 1 };
    let all = Search { given, shapes: std::slice::from_ref(&shape), times: super::times(&site) };
    let as_it_is = all.run(&config(set)).unwrap();
    if search { all.best(&as_it_is).unwrap() } else { as_it_is }
}

fn only(choice: &Choice) -> (&Outcome, &Limit) {
    let [(outcome, limit)] = choice.outcomes.as_slice() else { panic!("one shape, one outcome") };
    (outcome, limit)
}

/// On two CPUs the poster's thread is what holds, at the price of its bytes; the words name pool and stage, and the knob is its
/// threads.
#[test]
fn here_the_poster_holds() {
    let here = ask(&["pools.nic.wait='park'"], "cores=2", "8x1MiBx4", false);
    let (outcome, limit) = only(&here);
    assert!((3.3..4.0).contains(&outcome.gb_per_s), "{}", outcome.gb_per_s);
    assert_eq!((limit.because, limit.stage.as_deref()), ("worker", Some("post")));
    assert_eq!(limit.knob.as_deref(), Some("pools.nic.threads"));
    assert!(limit.words.contains("pool `nic`"), "{}", limit.words);
}

/// What is scarce is named: memory that is slow, a NIC that is, a window that is small, CPUs that are few.
#[test]
fn what_is_scarce_is_named() {
    let because = |set: &[&str], site: &str| only(&ask(set, site, "16x256KiBx16", false)).1.because;
    let set = &["pools.nic.threads=8"];
    assert_eq!(because(set, "cores=32 nics=1x400Gbit/s peers=4 memory=6GB/s"), "memory");
    assert_eq!(because(set, "cores=32 nics=1x10Gbit/s peers=4"), "nics");
    assert_eq!(because(set, "cores=3 nics=1x400Gbit/s peers=4"), "cpus");
    let small = ["pools.nic.threads=8", "limits.bytes_in_flight='1MiB'", "stages.split.slice='256KiB'"];
    assert_eq!(because(&small, "cores=32 nics=1x400Gbit/s peers=4 rtt=1ms"), "window");
}

/// With CPUs to spare it takes threads until the NICs are full, and no more than that; where a NIC is full already it changes
/// nothing.
#[test]
fn sizes_that_are_chosen() {
    let chosen = ask(&[], "cores=32 nics=2x100Gbit/s peers=8", "16x256KiBx32", true);
    let threads = chosen.changes.iter().find(|(key, _)| key == "pools.nic.threads");
    let threads: usize = threads.map_or(1, |(_, value)| value.parse().unwrap());
    assert!((4..=8).contains(&threads), "{:?}", chosen.changes);
    let (outcome, limit) = only(&chosen);
    assert!(limit.because == "nics" && outcome.gb_per_s > 20.0, "{limit:?} {}", outcome.gb_per_s);
    let full = ask(&[], "cores=32 nics=1x10Gbit/s peers=8", "16x256KiBx4", true);
    assert_eq!(full.changes, []);
}

/// What is read costs what reading was measured to cost, each end its own price: here as much as one CPU at 2 GB/s.
#[test]
fn reads_have_a_price_of_their_own() {
    let read = |initiator_ns, target_ns| {
        let costs = Costs { read: Read { initiator_ns, target_ns }, ..costs() };
        let shape = Shape::parse("8x1MiBx4").unwrap().towards(Direction::Read);
        let choice = ask_with(&costs, &["pools.nic.wait='park'"], "cores=2", shape, false);
        let (outcome, limit) = only(&choice);
        (outcome.gb_per_s, limit.because)
    };
    let (ours, because) = read(0.5, 0.1);
    assert!((1.7..2.05).contains(&ours) && because == "worker", "{ours} {because}");
    let (theirs, _) = read(0.1, 0.5);
    assert!((1.7..2.05).contains(&theirs), "{theirs}");
}

/// Threads that share a CPU pay for that as was measured, with CPU time or with time: three workers and the target on two CPUs are
/// slower by it, one worker and the target, with a CPU each, are not.
#[test]
fn sharing_a_cpu_has_a_price() {
    let speed = |sharing, threads: &str| {
        let costs = Costs { sharing, ..costs() };
        let set = ["pools.nic.wait='park'", threads];
        let shape = Shape::parse("8x1MiBx4").unwrap();
        only(&ask_with(&costs, &set, "cores=2", shape, false)).0.gb_per_s
    };
    for sharing in [Sharing { more: 0.3, lost: 0.0 }, Sharing { more: 0.0, lost: 0.2 }] {
        let ratio = |threads| speed(sharing, threads) / speed(Sharing::default(), threads);
        let (one, three) = (ratio("pools.nic.threads=1"), ratio("pools.nic.threads=3"));
        assert!(one > 0.97 && three < 0.93, "{sharing:?}: one {one}, three {three}");
    }
}

/// What costs are measured with is none of the files that the model is held against.
#[test]
fn the_calibration_is_none_of_the_files() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/whatif");
    let (site, costs, shape) = (Site::here(), costs(), Shape::parse("8x1MiBx4").unwrap());
    let given = Given { site: &site, costs: &costs, waits: Waiting::Wait, callers: 1 };
    let setup = |config: &Config| format!("{:?}", super::lower::lower(config, &given, &shape).unwrap());
    let ours: Vec<String> = trials().unwrap().iter().map(|trial| setup(&trial.config)).collect();
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 10);
    for file in files {
        let config = Source::file(&file).load().unwrap().config;
        assert!(!ours.contains(&setup(&config)), "{} is what costs are measured with", file.display());
    }
}

/// Of a record that is played the model is asked for what it does on average; of a sweep that is held against files, for large
/// requests, in the direction that is said.
#[test]
fn what_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.jsonl");
    let batch = |n: u64, bytes: u64| {
        format!(
            "{{\"gap_ns\":1,\"requests\":[{{\"op\":\"read\",\"peer\":\"a\",\"bytes\":{bytes},\"times\":{n}}}]}}\n"
        )
    };
    let text = format!("{{\"pipeline_node_record\":1}}\n{}{}", batch(3, 4096), batch(1, 65536));
    std::fs::write(&path, text).unwrap();
    let what_if = |against: &[&str]| WhatIfArgs {
        what_if: None,
        against: against.iter().map(std::path::PathBuf::from).collect(),
        shape: Vec::new(),
        calibration: None,
        save: None,
        rounds: 1,
    };
    let work = WorkArgs { work: Some(Work::Record(path)), ..WorkArgs::default() };
    let shapes = what_if(&[]).shapes(&work).unwrap();
    let [shape] = shapes.as_slice() else { panic!("one shape") };
    assert_eq!((shape.op, shape.batch, shape.bytes), (Direction::Read, 2, (3 * 4096 + 65536) / 4));
    let work = WorkArgs { op: Some(Direction::Read), ..WorkArgs::default() };
    let shapes = what_if(&["a.toml"]).shapes(&work).unwrap();
    assert!(shapes.len() == 1 && shapes[0].op == Direction::Read && shapes[0].bytes == 1 << 20);
    let nonsense = WorkArgs { limit: Some(3), ..WorkArgs::default() };
    assert!(what_if(&[]).shapes(&nonsense).is_err());
}

/// A calibration is the same after it was written and read; one of another version, and what is none, are refused with what
/// to do.
#[test]
fn calibrations_are_kept() {
    let kept = Calibration {
        schema_version: 2,
        machine: "a machine".into(),
        cores: 2.0,
        cells: Vec::new(),
        costs: Costs { target_variation: Variation::Factors(vec![0.5, 1.5]), ..costs() },
        stretch: 1.5,
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("costs.json");
    kept.save(&path).unwrap();
    assert_eq!(Calibration::load(&path).unwrap(), kept);
    Calibration { schema_version: 1, ..kept }.save(&path).unwrap();
    assert!(Calibration::load(&path).unwrap_err().to_string().contains("--save"));
    std::fs::write(&path, "{}").unwrap();
    assert!(Calibration::load(&path).unwrap_err().to_string().contains("no calibration"));
    let endless = Calibration::load(std::path::Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(endless.contains("1024 KiB"), "{endless}");
}
