//! The loop that made the deadlock rule: post → reap → retry → post.

#[path = "actors/mod.rs"]
mod actors;

use std::time::Duration;

use actors::{Bare, Gate, Rig, Tally, back, queue};
use pipeline_graph::{Mode, Rule, check};

const ITEMS: u64 = 1_000_000;
/// Items that exist at once; the queues hold far fewer.
const TOKENS: u64 = ITEMS;

/// Every item is sent round twice before it may end.
fn retry_loop(way_back: Mode, tally: &std::sync::Arc<Tally>) -> Rig {
    Rig::default()
        .pool("front", 1)
        .pool("nic", 1)
        .stage("make", Some("front"), Bare::Feed(Gate::open(ITEMS), 2).spec())
        .stage("post", Some("front"), Bare::Relay.spec())
        .stage("reap", Some("nic"), Bare::Laps.spec())
        .stage("retry", Some("nic"), Bare::Relay.spec())
        .stage("end", Some("nic"), Bare::Tally(tally.clone()).spec())
        .edge("make -> post", Mode::Inline)
        .edge("post -> reap", queue(8))
        .edge("reap -> end", Mode::Inline)
        .edge("reap.1 -> retry", Mode::Inline)
        .edge("retry -> post", way_back)
        .tokens(TOKENS as usize)
}

/// The naive loop of two bounded queues, which locked up after 324 items when it was built, is refused with
/// its cycle as a path; and the engine refuses to start what the check refuses.
#[test]
fn naive_loop_is_refused() {
    let rig = retry_loop(queue(64), &Tally::new(ITEMS));
    let found = check(&rig.blueprint);
    assert_eq!(found.iter().map(|c| c.rule).collect::<Vec<_>>(), [Rule::Deadlock]);
    assert!(found[0].text.ends_with(": post -> reap -> retry -> post"), "{}", found[0].text);
    assert!(rig.start().is_err());
}

/// The same loop with a return edge moves a million items three times over the forward queue, and stops
/// clean.
#[test]
fn return_edge_runs_a_million_items() {
    let tally = Tally::new(ITEMS);
    let engine = retry_loop(back(), &tally).start().unwrap();
    assert!(tally.wait(Duration::from_secs(60)).is_some(), "stopped after {} of {ITEMS} items", tally.seen());
    assert_eq!(tally.seen(), ITEMS);
    actors::stop(engine);
}
