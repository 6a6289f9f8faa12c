//! Submit, then poll: an end is a word that somebody looks at, and costs nobody a wake-up.

use pipeline_node::{Options, Request};

use crate::files::{engine, target};
use crate::rig::{PATIENCE, nothing_left, open, pattern, region_of};

/// Batches of one request and of many end without a single wake-up of whoever looks, also while four threads wait by
/// `Batch::wait`, which looks on its own; and every end is seen.
#[test]
fn an_end_wakes_nobody() {
    let (client, target) = (engine("submit_then_poll", &[]), target("4MiB"));
    let kv = open(&client, &target).segment("kv").unwrap();
    let local = region_of(&client, &pattern(1, 4 << 20));
    for round in 0..300 {
        let n = [1, 64][round % 2];
        let requests: Vec<_> =
            (0..n).map(|i| Request::write(&local, i << 16, kv.at(i << 16), 1 << 12)).collect();
        let batch = client.submit_wait(&requests, Options::default(), PATIENCE).unwrap();
        if round % 10 == 9 {
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| assert!(batch.wait(PATIENCE).unwrap().is_done()));
                }
            });
        }
        let summary = loop {
            match batch.poll() {
                Some(summary) => break summary,
                None => std::thread::yield_now(),
            }
        };
        assert!(summary.is_done());
    }
    assert_eq!(client.counts().wakes, 0);
    nothing_left(&client, [local]);
}
