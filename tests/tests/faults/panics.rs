//! A stage panics while it handles a transfer over real lanes (B31): what it held fails with its name, the other
//! stages go on, its links come back without a restart, and the next batch is done.

use std::time::{Duration, Instant};

use pipeline_node::faults::{Effect, Plan, Rule, Site, When};
use pipeline_node::{Engine, Options, Reason, Request, Status};

use crate::faulty;
use crate::rig::{PATIENCE, bytes_of, done, nothing_left, open, pattern, region_of, target, until};

const KIB: u64 = 1 << 10;
/// What the field case allows, and what a crowded machine may add.
const SOON: Duration = Duration::from_secs(3);

/// Both programs: all stages on one worker, and post, reap and serve each on its own.
const APART: [&str; 6] = [
    "edges.'*.retry -> retry'={ queue=64, dispatch='any' }",
    "pools.reaps={ per='nic', threads=1 }",
    "pools.serves={ per='nic', threads=1 }",
    "stages.reap.pool='reaps'",
    "stages.retry.pool='reaps'",
    "stages.serve.pool='serves'",
];

fn panics(engine: &Engine, stage: &str) -> u64 {
    engine.stats().stage(stage).map_or(0, |s| s.panics)
}

/// A hundred requests, half of them WRITEs, and a panic in the middle of them.
fn struck(set: &[&str], site: Site, stage: &str) {
    let plan = Plan::default();
    let (client, server) = (faulty(&plan, set), target("8MiB"));
    let kv = open(&client, &server).segment("kv").unwrap();
    let bytes = pattern(7, 6400 * KIB as usize);
    let region = region_of(&client, &bytes);
    done(&client, &[Request::write(&region, 0, kv.at(0), bytes.len() as u64)]);
    let requests: Vec<Request> = (0..100)
        .map(|i| match i % 2 {
            0 => Request::write(&region, i * 64 * KIB, kv.at(i * 64 * KIB), 64 * KIB),
            _ => Request::read(&region, i * 64 * KIB, kv.at(i * 64 * KIB), 64 * KIB),
        })
        .collect();
    for round in 1..=3 {
        plan.add(Rule::new(site, When::Nth(20), Effect::Panic));
        let begin = Instant::now();
        let batch = client.submit(&requests, Options::default()).unwrap();
        let summary = batch.wait(PATIENCE).unwrap();
        assert!(begin.elapsed() < SOON, "{stage}: {:?}", begin.elapsed());
        assert!(summary.failed > 0 && summary.failed <= 100, "{stage}: {summary:?}");
        for status in batch.results() {
            let Status::Failed(failure) = status else { continue };
            assert!(
                matches!(failure.reason, Reason::StagePanic | Reason::Undetermined),
                "{stage}: {failure}"
            );
            assert!(failure.reason != Reason::StagePanic || &*failure.stage == stage, "{stage}: {failure}");
        }
        assert_eq!(panics(&client, stage), round);
        // No restart: links are dialled again, and everything of the next batch is done.
        let again = client.submit(&requests, Options::default()).unwrap();
        assert!(again.wait(PATIENCE).unwrap().is_done(), "{:?}", again.results().collect::<Vec<_>>());
        assert!(begin.elapsed() < SOON, "{stage}: {:?}", begin.elapsed());
        assert_eq!(bytes_of(&region), bytes);
    }
    nothing_left(&client, [region]);
}

/// B31: a panic in the post stage.
#[test]
fn in_post() {
    struck(&[], Site::Slice, "post");
    struck(&APART, Site::Slice, "post");
}

/// B31: a panic in the reap stage.
#[test]
fn in_reap() {
    struck(&[], Site::Completion, "reap");
    struck(&APART, Site::Completion, "reap");
}

/// B31: a panic in the target's serve stage closes its lanes; its peers' links come back, what had not begun is sent
/// again, and what had ends `Undetermined` at most. The target itself goes on.
#[test]
fn in_serve() {
    for set in [&[][..], &APART] {
        let plan = Plan::default();
        let segment = ["segments.kv={ kind='dram', size='8MiB', access='read_write' }"];
        let server = faulty(&plan, &[&segment, set].concat());
        let client = crate::rig::engine(&[]);
        let kv = open(&client, &server).segment("kv").unwrap();
        let region = region_of(&client, &pattern(7, 6400 * KIB as usize));
        let requests: Vec<Request> =
            (0..100).map(|i| Request::write(&region, i * 64 * KIB, kv.at(i * 64 * KIB), 64 * KIB)).collect();
        for round in 1..=3 {
            plan.add(Rule::new(Site::Serve, When::Nth(1), Effect::Panic));
            let batch = client.submit(&requests, Options::default()).unwrap();
            let begin = Instant::now();
            batch.wait(PATIENCE).unwrap();
            for status in batch.results() {
                let Status::Failed(failure) = status else { continue };
                assert_eq!(failure.reason, Reason::Undetermined, "{failure}");
            }
            until("the panic is counted", || panics(&server, "serve") == round);
            let again = client.submit(&requests, Options::default()).unwrap();
            assert!(again.wait(PATIENCE).unwrap().is_done(), "{:?}", again.results().collect::<Vec<_>>());
            assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
        }
        nothing_left(&client, [region]);
    }
}
