//! Runs of neighbouring requests of which a part fails.

use pipeline_node::faults::{Effect, Plan, Rule, Site, When};
use pipeline_node::{Reason, Request};

use crate::faulty;
use crate::rig::{bytes_of, carry_out, nothing_left, open, pattern, reasons, region_of, target, until};

/// Sixteen requests travel as one run, cut into four slices, of which the second fails: exactly the requests whose bytes
/// it had have failed, in their places, and the others are done and counted. As rows of one strided request the same
/// failure fails that request, and the bytes of the rows that arrived are counted.
#[test]
fn a_slice_of_a_run_fails() {
    let plan = Plan::default();
    let set = ["transports.tcp.lanes=1", "stages.split.slice='4KiB'", "stages.retry.attempts=1"];
    let (client, server) = (faulty(&plan, &set), target("64KiB"));
    let kv = open(&client, &server).segment("kv").unwrap();
    let bytes = pattern(3, 16_384);
    let (from, to) = (region_of(&client, &bytes), client.allocate(16_384).unwrap());
    let requests: Vec<_> = (0..16).map(|i| Request::write(&from, i * 1024, kv.at(i * 1024), 1024)).collect();
    let rule = plan.add(Rule::new(Site::Slice, When::Nth(2), Effect::Fail));
    let (summary, batch) = carry_out(&client, &requests);
    until("it strikes", || plan.struck(rule) == 1);
    plan.remove(rule);
    assert_eq!((summary.requests, summary.failed, summary.bytes), (16, 4, 12_288));
    let failed = |i: usize| matches!(reasons(&batch)[i], Some(Reason::Transport(_)));
    assert_eq!((0..16).filter(|i| failed(*i)).collect::<Vec<_>>(), [4, 5, 6, 7]);
    assert_eq!(client.counts().entered, 1, "one run");
    drop(batch);
    let (summary, _) = carry_out(&client, &[Request::read(&to, 0, kv.at(0), 16_384)]);
    assert!(summary.is_done());
    let there = bytes_of(&to);
    assert!(there[..4096] == bytes[..4096] && there[8192..] == bytes[8192..]);
    assert!(there[4096..8192].iter().all(|b| *b == 0), "what failed was never posted");

    let rule = plan.add(Rule::new(Site::Slice, When::Nth(4), Effect::Fail));
    let rows = Request::write(&from, 0, kv.at(0), 1024).strided(4, 2048, 4096);
    let (summary, batch) = carry_out(&client, &[rows]);
    assert_eq!((summary.failed, summary.bytes), (1, 3072), "{:?}", reasons(&batch));
    plan.remove(rule);
    drop(batch);
    nothing_left(&client, [from, to]);
}
