//! Memory that a transport does not take.

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
