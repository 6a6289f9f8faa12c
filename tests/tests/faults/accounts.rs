//! The books of a node: what peers, NICs and requests say of the same bytes is the same, whatever went wrong on the way.

use std::time::Duration;

use pipeline_node::faults::{self, Effect, Plan, Rule, Site, When};
use pipeline_node::{Engine, Observation, Options, Request, Source};

use crate::rig::{PATIENCE, open, until};

const MIB: u64 = 1 << 20;

/// A node of the preset `tcp` with a segment of 8 MiB, whose slices go over this transport, with faults.
#[track_caller]
fn node(plan: &Plan, transport: &str, set: &[&str]) -> Engine {
    let segment = "segments.kv={ kind='dram', size='8MiB', access='read_write' }";
    let over = format!("stages.route.prefer=['{transport}']");
    let all = [segment, "transports.loopback={ type='loopback' }", &over];
    let source = Source::text("test", "version = 1\nuse = \"tcp\"\n").set(all).set(set.iter().copied());
    faults::start(&source, plan).unwrap_or_else(|e| panic!("{e}"))
}

/// Slices moved, and attempts that failed, over all NICs.
fn attempts(seen: &Observation) -> u64 {
    seen.nics.iter().map(|nic| nic.slices + nic.errors).sum()
}

/// Sums that must agree while nothing is under way.
#[track_caller]
fn balanced(seen: &Observation) {
    let counts = &seen.counts;
    let nics = seen.nics.iter().fold((0, 0, 0, 0), |(s, r, w, e), nic| {
        assert_eq!(nic.bytes, nic.bytes_read + nic.bytes_written);
        (s + nic.slices, r + nic.bytes_read, w + nic.bytes_written, e + nic.errors)
    });
    let peers = seen.peers.iter().fold((0, 0, 0, 0), |(s, r, w, e), peer| {
        (s + peer.slices, r + peer.bytes_read, w + peer.bytes_written, e + peer.errors)
    });
    assert_eq!(peers, nics, "peers and NICs");
    assert_eq!(nics.1 + nics.2, counts.bytes, "NICs and requests");
    assert_eq!(counts.submitted, counts.done + counts.failed_all(), "{counts:?}");
    assert_eq!(counts.under_way(), 0);
    assert_eq!(counts.retries, seen.peers.iter().map(|peer| peer.retries).sum::<u64>(), "retries");
    assert_eq!(counts.took.count(), counts.submitted - counts.refused, "all that entered were timed");
}

/// A mixed load in which slices fail and go again, some fail for good, some are refused at once and some come too late: bytes
/// are counted once, by peer, by NIC, by direction and by request; reasons add up; and an interval is what was between.
#[test]
fn every_byte_is_counted_once() {
    for transport in ["tcp", "loopback"] {
        let plan = Plan::seeded(9);
        let set = ["stages.split.slice='16KiB'", "stages.retry.attempts=2", "stages.retry.backoff='2ms'"];
        let (client, server) = (node(&plan, transport, &set), node(&Plan::default(), transport, &[]));
        let peer = open(&client, &server);
        let kv = peer.segment("kv").unwrap();
        let region = client.allocate(4 * MIB).unwrap();
        let rule = plan.add(Rule::new(Site::Completion, When::Every(5), Effect::Fail));
        let before = client.observe();
        let (mut done, mut bytes) = (0, 0);
        for round in 0..12 {
            let mut requests: Vec<_> = (0..8)
                .map(|i| match (i + round) % 2 {
                    0 => Request::write(&region, i * MIB / 2, kv.at(i * MIB / 2), MIB / 8),
                    _ => Request::read(&region, i * MIB / 2, kv.at(i * MIB / 2), MIB / 8),
                })
                .collect();
            // Past the end of the segment: it fails at once.
            requests.push(Request::write(&region, 0, kv.at(8 * MIB - 1), 4096));
            let summary = client.submit(&requests, Options::default()).unwrap().wait(PATIENCE).unwrap();
            done += u64::from(summary.requests - summary.failed);
            bytes += summary.bytes;
        }
        plan.remove(rule);
        let late = Options { deadline: Some(Duration::ZERO), ..Options::default() };
        let late = client.submit(&[Request::write(&region, 0, kv.at(0), 4096)], late).unwrap();
        assert_eq!(late.wait(PATIENCE).unwrap().failed, 1);
        let seen = client.observe().since(&before);
        balanced(&seen);
        let counts = &seen.counts;
        assert_eq!((counts.done, counts.bytes, counts.refused), (done, bytes, 12), "{transport}");
        assert_eq!((counts.failed_of("remote_bounds"), counts.failed_of("deadline")), (12, 1));
        assert!(counts.retries > 10 && seen.peers[0].errors >= counts.retries, "{counts:?}");
        assert!(counts.slices > 8 * counts.entered / 2 && counts.entered <= 12 * 8 + 1, "{counts:?}");
        let retry = seen.graph.stage("retry").unwrap();
        assert_eq!(retry.held.count(), counts.retries);
        assert!(retry.held.quantile(0.0) >= 1_000_000, "a rest of {} ns", retry.held.quantile(0.0));
        let wire = &seen.graph.stage("reap").unwrap().held;
        let posted = attempts(&seen);
        assert!(
            wire.count() > posted / 2 && wire.count() < posted * 2,
            "{} stand for {posted}",
            wire.count()
        );
        if transport == "tcp" {
            // What is said here to have failed was carried out there all the same.
            let (served, peer) = (&server.observe().nics[0], &seen.peers[0]);
            let (into, out) = (served.served_bytes_in.unwrap(), served.served_bytes_out.unwrap());
            assert!(into >= peer.bytes_written && peer.bytes_written > 0, "{served:?}");
            assert!(out >= peer.bytes_read && peer.bytes_read > 0, "{served:?}");
            let all = into + out;
            assert!(all <= attempts(&seen) * 16 * 1024 + 4096, "{all} bytes for {} slices", attempts(&seen));
        }
        let quiet = client.observe();
        let quiet = quiet.since(&quiet);
        assert_eq!(quiet.counts, pipeline_node::Counts::default(), "nothing since");
    }
}

/// A slice that waits for a link is held by the stage that looks for one, as long as that takes; those that go at once are not.
#[test]
fn a_slice_without_a_link_is_held() {
    let plan = Plan::default();
    let (client, server) = (node(&plan, "tcp", &[]), node(&Plan::default(), "tcp", &[]));
    let peer = open(&client, &server);
    let kv = peer.segment("kv").unwrap();
    let region = client.allocate(MIB).unwrap();
    let write = [Request::write(&region, 0, kv.at(0), 4096)];
    for _ in 0..40 {
        client.submit(&write, Options::default()).unwrap().wait(PATIENCE).unwrap();
    }
    let before = client.observe();
    let held = &before.graph.stage("select").unwrap().held;
    assert!(
        held.count() >= 40 && held.quantile(0.5) == 0,
        "{} held, {} ns",
        held.count(),
        held.quantile(0.5)
    );
    let late = plan.add(Rule::new(Site::Dial, When::Every(1), Effect::Delay(Duration::from_millis(50))));
    let panic = plan.add(Rule::new(Site::Slice, When::Nth(1), Effect::Panic));
    let lost = client.submit(&write, Options::default()).unwrap().wait(PATIENCE).unwrap();
    assert_eq!(lost.failed, 1, "its poster panics, and takes its links along");
    plan.remove(panic);
    assert!(client.submit(&write, Options::default()).unwrap().wait(PATIENCE).unwrap().is_done());
    plan.remove(late);
    let seen = client.observe().since(&before);
    let select = &seen.graph.stage("select").unwrap().held;
    assert!(select.quantile(1.0) >= 20_000_000, "{} ns", select.quantile(1.0));
    balanced(&seen);
}

/// What was counted before a stage panicked is counted after it, and what its panic failed has its reason.
#[test]
fn counts_outlast_panics() {
    let plan = Plan::default();
    let (client, server) = (node(&plan, "tcp", &[]), node(&Plan::default(), "tcp", &[]));
    let kv = open(&client, &server).segment("kv").unwrap();
    let region = client.allocate(MIB).unwrap();
    let write = [Request::write(&region, 0, kv.at(0), MIB)];
    let run = || client.submit(&write, Options::default()).unwrap().wait(PATIENCE).unwrap();
    for site in [Site::Completion, Site::Slice] {
        assert!(run().is_done());
        let before = client.observe();
        let rule = plan.add(Rule::new(site, When::Nth(1), Effect::Panic));
        run();
        plan.remove(rule);
        until("it is linked again", || run().is_done());
        let now = client.observe();
        balanced(&now);
        let (old, new) = (&before.counts, &now.counts);
        assert!(new.done > old.done && new.bytes >= old.bytes + MIB && new.slices > old.slices);
        let of = |seen: &Observation, stage: &str| seen.graph.stage(stage).unwrap().held.count();
        assert!(of(&now, "reap") >= of(&before, "reap") && now.nics[0].bytes > before.nics[0].bytes);
    }
}

/// Without `stats` nothing is timed, and everything is counted.
#[test]
fn untimed_nodes_still_count() {
    let client = node(&Plan::default(), "tcp", &["stats.enabled=false"]);
    let server = node(&Plan::default(), "tcp", &[]);
    let kv = open(&client, &server).segment("kv").unwrap();
    let region = client.allocate(MIB).unwrap();
    for _ in 0..20 {
        let write = [Request::write(&region, 0, kv.at(0), MIB)];
        assert!(client.submit(&write, Options::default()).unwrap().wait(PATIENCE).unwrap().is_done());
    }
    let seen = client.observe();
    assert_eq!((seen.counts.done, seen.counts.bytes, seen.peers[0].bytes_written), (20, 20 * MIB, 20 * MIB));
    assert_eq!(seen.counts.took.count(), 0);
    for stage in &seen.graph.stages {
        let counts = [&stage.wait, &stage.service, &stage.held].map(|times| times.count());
        assert_eq!(counts, [0; 3], "{}", stage.name);
    }
}
