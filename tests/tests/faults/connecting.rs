//! Links that cannot be dialled or are not taken for a while.

use std::time::{Duration, Instant};

use pipeline_node::Request;
use pipeline_node::faults::{Effect, Plan, Rule, Site, When};

use crate::faulty;
use crate::rig::{PATIENCE, done, nothing_left, open, target, until};

/// Every dial fails for six rounds: control tries again with pauses that double, and does not give up: transfers that
/// waited for a link are done when one comes.
#[test]
fn failing_dials_are_tried_again_with_pauses() {
    let (plan, server) = (Plan::default(), target("1MiB"));
    let client = faulty(&plan, &["transports.tcp.lanes=1"]);
    let rule = plan.add(Rule::new(Site::Dial, When::First(6), Effect::Fail));
    let begin = Instant::now();
    let address = server.local_address().to_string();
    // Each call waits for one round in vain at most.
    let mut refused = Vec::new();
    let peer = loop {
        match client.open_within(&address, PATIENCE) {
            Ok(peer) => break peer,
            Err(error) => refused.push(error.to_string()),
        }
        assert!(begin.elapsed() < PATIENCE, "{refused:?}");
    };
    assert_eq!(plan.struck(rule), 6);
    assert!(!refused.is_empty() && refused.iter().all(|e| e.contains(&address)), "{refused:?}");
    // Whoever asks again hurries it to the shortest pause: six of 20 ms at the least.
    assert!(begin.elapsed() >= Duration::from_millis(6 * 20), "{:?}", begin.elapsed());
    assert!(refused.len() <= 6, "a caller was turned away more often than it was tried: {refused:?}");
    let region = client.allocate(4096).unwrap();
    done(&client, &[Request::write(&region, 0, peer.segment("kv").unwrap().at(0), 4096)]);
    nothing_left(&client, [region]);
}

/// An acceptor that never answers one lane, and refuses the next: the other lane carries everything meanwhile, and the
/// missing one comes when its time is over.
#[test]
fn a_lane_that_is_not_taken_costs_only_itself() {
    let (near, far) = (Plan::default(), Plan::default());
    let server = faulty(&far, &["segments.kv={ kind='dram', size='1MiB', access='read_write' }"]);
    let client = faulty(&near, &["transports.tcp.lanes=2"]);
    let mute = far.add(Rule::new(Site::Accept, When::Nth(1), Effect::Drop));
    let refusal = far.add(Rule::new(Site::Accept, When::Nth(3), Effect::Fail));
    let dials = near.add(Rule::new(Site::Dial, When::Every(1), Effect::Delay(Duration::ZERO)));
    let kv = open(&client, &server).segment("kv").unwrap();
    let region = client.allocate(1 << 20).unwrap();
    let begin = Instant::now();
    until("the missing lane was taken", || {
        done(&client, &[Request::write(&region, 0, kv.at(0), 1 << 20)]);
        near.struck(dials) >= 4
    });
    assert!(begin.elapsed() < PATIENCE);
    assert_eq!((far.struck(mute), far.struck(refusal)), (1, 1));
    nothing_left(&client, [region]);
}
