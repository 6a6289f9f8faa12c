//! Memory that a transport does not take.

use std::time::{Duration, Instant};

use pipeline_node::faults::{self, Effect, Plan, Rule, Site, When};
use pipeline_node::{Access, Source};

use crate::faulty;

/// The third of five registrations fails: it says so with length and transport, leaves nothing behind (its place in
/// the table is free), and the four others are as good as ever.
#[test]
fn a_failed_registration_is_rolled_back() {
    let plan = Plan::default();
    let client = faulty(&plan, &["limits.regions=4"]);
    plan.add(Rule::new(Site::Registration, When::Nth(3), Effect::Fail));
    let (mut regions, mut errors) = (Vec::new(), Vec::new());
    for i in 1..=5 {
        match client.allocate(i * 4096) {
            Ok(region) => regions.push(region),
            Err(error) => errors.push((i, error.to_string())),
        }
    }
    let [(3, error)] = &errors[..] else { panic!("{errors:?}") };
    assert!(error.contains("12288 bytes") && error.contains("transport `tcp`"), "{error}");
    for (i, region) in regions.iter().enumerate() {
        region.write(0, &[i as u8; 4096]).unwrap();
    }
    for region in regions {
        client.unregister(region).map_err(|(_, e)| e).unwrap();
    }
}

/// With two transports of which the second does not take it, the first lets go of the memory again: the same memory
/// can be registered afterwards.
#[test]
fn all_transports_or_none() {
    let plan = Plan::default();
    let client = faulty(&plan, &["transports.near={ type='loopback' }"]);
    plan.add(Rule::new(Site::Registration, When::Nth(1), Effect::Fail).transport("tcp"));
    let memory = pipeline_node::Memory::allocate(1 << 16).unwrap();
    assert!(client.register(memory, Access::ReadWrite).is_err());
    let again = client.allocate(1 << 16).unwrap();
    client.unregister(again).map_err(|(_, e)| e).unwrap();
}

/// Five declared segments of which the third cannot be registered: the node does not start, names that segment, and
/// leaves its address free for the next attempt.
#[test]
fn a_node_names_the_segment_that_failed() {
    let plan = Plan::default();
    let rule = plan.add(Rule::new(Site::Registration, When::Nth(3), Effect::Fail));
    let segments =
        ["a", "b", "c", "d", "e"].map(|name| format!("segments.{name}={{ kind='dram', size='64KiB' }}"));
    let source =
        Source::text("test", "version = 1\nuse = \"tcp\"\n").set(segments.iter().map(String::as_str));
    let error = faults::start(&source, &plan).unwrap_err().to_string();
    assert!(error.contains("segment `c`") && error.contains("65536 bytes"), "{error}");
    plan.remove(rule);
    assert_eq!(faults::start(&source, &plan).unwrap().segments(), ["a", "b", "c", "d", "e"]);
}

const CREW: [&str; 2] = ["pools.register={ kind='stealing', threads=8 }", "limits.register='register'"];

fn memories(count: u64) -> Vec<(pipeline_node::Memory, Access)> {
    (0..count).map(|_| (pipeline_node::Memory::allocate(1 << 16).unwrap(), Access::ReadWrite)).collect()
}

/// 64 regions, each of which takes a transport five milliseconds: with eight threads of a pool that `[limits] register` names
/// they take less than half of what they take one after the other (an eighth, as a rule), at run time; and less at the start,
/// which is more than that (in the best of three: on a busy machine all the rest of it may take as long).
#[test]
fn many_are_registered_at_once() {
    let slow = Rule::new(Site::Registration, When::Every(1), Effect::Delay(Duration::from_millis(5)));
    let took = |set: &[&str]| {
        let plan = Plan::default();
        plan.add(slow.clone());
        let segments: Vec<_> =
            (0..16).map(|i| format!("segments.s{i}={{ kind='dram', size='64KiB' }}")).collect();
        let set: Vec<&str> = set.iter().copied().chain(segments.iter().map(String::as_str)).collect();
        let began = Instant::now();
        let node = faulty(&plan, &set);
        let started = began.elapsed();
        assert_eq!(node.segments().len(), 16);
        let began = Instant::now();
        let regions = node.register_all(memories(64)).unwrap();
        let registered = began.elapsed();
        for (i, region) in regions.iter().enumerate() {
            region.write(0, &[i as u8; 64]).unwrap();
        }
        (started, registered)
    };
    let best = |set: &[&str]| {
        (0..3).map(|_| took(set)).reduce(|a, b| (a.0.min(b.0), a.1.min(b.1))).expect("three of them")
    };
    let (alone, together) = (best(&[]), best(&CREW));
    assert!(alone.1 >= Duration::from_millis(320), "{alone:?}");
    assert!(together.1 < alone.1 / 2, "{together:?} of {alone:?}");
    assert!(alone.0 >= Duration::from_millis(80) && together.0 < alone.0, "{together:?} of {alone:?}");
}

/// Of 64 regions that are registered at once the 40th fails, with the second of two transports: none stays registered, not
/// with the first transport either, none of the threads is lost, and the next 64 go well.
#[test]
fn many_are_registered_or_none() {
    for set in [&[][..], &CREW] {
        let plan = Plan::default();
        let set: Vec<&str> =
            set.iter().copied().chain(["transports.near={ type='loopback' }", "limits.regions=64"]).collect();
        let node = faulty(&plan, &set);
        plan.add(Rule::new(Site::Registration, When::Every(1), Effect::Lock));
        let rule = plan.add(Rule::new(Site::Registration, When::Nth(40), Effect::Fail).transport("tcp"));
        let before = locked_bytes();
        let error = node.register_all(memories(64)).unwrap_err().to_string();
        assert!(error.contains("transport `tcp`") && plan.struck(rule) == 1, "{error}");
        assert_eq!(locked_bytes(), before, "something stayed registered");
        let regions = node.register_all(memories(64)).unwrap();
        assert_eq!((regions.len(), locked_bytes()), (64, before + 64 * (1 << 16)));
        // The table is full now: what the transports had taken is given back.
        assert!(node.register_all(memories(3)).is_err());
        assert_eq!(locked_bytes(), before + 64 * (1 << 16));
        for region in regions {
            node.unregister(region).map_err(|(_, e)| e).unwrap();
        }
        assert_eq!(locked_bytes(), before);
    }
}

/// Bytes of this process that are kept in memory.
fn locked_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}
