//! Threads and edges are only TOML: whatever the layout, the outcomes are the same and nothing is left behind.

use pipeline_node::{Engine, Options, Peer, Reason, Request, Source};

use crate::rig::{PATIENCE, bytes_of, done, nothing_left, open, pattern, reasons, region_of, target};

/// All on one worker, every forward edge inline.
const ONE_POOL: &str = r#"
version = 1
use = "tcp"
pools = { nic = false, one = { threads = 1, wait = "park" }, files = { threads = 1 } }
[stages]
admit = { pool = "one" }
split = { pool = "one" }
route = { pool = "one" }
select = { pool = "one" }
post = { pool = "one" }
reap = { pool = "one" }
serve = { pool = "one" }
retry = { pool = "one" }
[edges]
"select -> post" = "inline"
"#;

/// A pool a stage, and room for one batch on every edge.
const POOL_A_STAGE: &str = r#"
version = 1
use = "tcp"
[pools]
a = { threads = 1 }
s = { threads = 1, wait = "park" }
r = { threads = 1, wait = "yield" }
l = { threads = 1 }
nic = { threads = 1, wait = "park" }
y = { threads = 1, wait = "park" }
n = { threads = 1, wait = "park" }
[stages]
admit = { pool = "a" }
split = { pool = "s" }
route = { pool = "r" }
select = { pool = "l" }
retry = { pool = "y" }
notify = { pool = "n" }
[edges]
"submit -> admit" = { queue = 1 }
"admit -> split -> route -> select" = { queue = 1 }
"select -> post" = { queue = 1, dispatch = "owner" }
"reap -> notify" = { queue = 1 }
"*.retry -> retry" = { queue = 1 }
"*.failed -> notify" = { queue = 1 }
"#;

/// Two workers a NIC: links belong to their worker.
const TWO_A_NIC: &str = r#"
version = 1
use = "tcp"
[pools]
nic = { threads = 2 }
[edges]
"select -> post" = { queue = 1, dispatch = "owner" }
"#;

/// Two front workers, work spread over them by hash at every hop.
const HASHED: &str = r#"
version = 1
use = "tcp"
[pools]
front = { threads = 2 }
[stages]
admit = { pool = "front" }
split = { pool = "front" }
route = { pool = "front" }
select = { pool = "front" }
[edges]
"submit -> admit" = { queue = 2, dispatch = "hash" }
"admit -> split" = { queue = 2, dispatch = "hash" }
"split -> route" = { queue = 2, dispatch = "hash" }
"#;

/// Next to no room anywhere: windows, slots and queues are all used up many times over.
const STARVED: &str = r#"
version = 1
use = "tcp"
[limits]
slices = 256
requests = 256
batches = 16
bytes_in_flight = "64KiB"
[stages]
split = { slice = "4KiB" }
[edges]
"submit -> admit" = { queue = 1 }
"select -> post" = { queue = 1, dispatch = "owner" }
"#;

fn start(text: &str) -> Engine {
    Engine::from_source(&Source::text("layout", text)).unwrap_or_else(|e| panic!("{e}"))
}

/// Writes, reads back, compares; then a batch of which some must fail, and a cancelled one.
pub fn exercise(client: &Engine, peer: &Peer, size: u64) {
    let kv = peer.segment("kv").unwrap();
    let bytes = pattern(size, size as usize);
    let (from, to) = (region_of(client, &bytes), client.allocate(size).unwrap());
    let pieces = 200;
    let span = |i: u64| (i * size / pieces, (i + 1) * size / pieces - i * size / pieces);
    let writes: Vec<_> =
        (0..pieces).map(|i| Request::write(&from, span(i).0, kv.at(span(i).0), span(i).1)).collect();
    let reads: Vec<_> =
        (0..pieces).map(|i| Request::read(&to, span(i).0, kv.at(span(i).0), span(i).1)).collect();
    for _ in 0..3 {
        to.write(0, &vec![0; size as usize]).unwrap();
        done(client, &writes);
        done(client, &reads);
        assert!(bytes_of(&to) == bytes, "bytes differ");
    }
    let mixed = [
        writes[0],
        Request::write(&from, 0, kv.at(kv.len()), 1),
        reads[1],
        Request::read(&to, size, kv.at(0), 1),
    ];
    let (_, batch) = crate::rig::carry_out(client, &mixed);
    assert_eq!(reasons(&batch), [None, Some(Reason::RemoteBounds), None, Some(Reason::LocalBounds)]);
    drop(batch);
    let batches: Vec<_> =
        (0..8).map(|_| client.submit_wait(&writes[..16], Options::default(), PATIENCE).unwrap()).collect();
    batches.iter().skip(4).for_each(pipeline_node::Batch::cancel);
    for (i, batch) in batches.iter().enumerate() {
        batch.wait(PATIENCE).expect("cancelled or done");
        // A target that is well answers what had begun: cancelling costs the others nothing.
        let allowed = |r: &Option<Reason>| r.is_none() || (i >= 4 && *r == Some(Reason::Cancelled));
        assert!(reasons(batch).iter().all(allowed), "{:?}", reasons(batch));
    }
    drop(batches);
    // What cancelling broke is repaired without anybody's help.
    done(client, &writes);
    nothing_left(client, [from, to]);
}

fn layout(text: &str) {
    let target = target("2MiB");
    let client = start(text);
    exercise(&client, &open(&client, &target), 2 << 20);
    assert_eq!(client.counts().stale, 0, "no key came twice or late");
}

/// Run to completion: one thread does everything, target side included.
#[test]
fn all_inline_in_one_pool() {
    layout(ONE_POOL);
}

/// Pipeline: a thread a stage, and room for a single batch between any two.
#[test]
fn a_pool_a_stage() {
    layout(POOL_A_STAGE);
}

/// Two post and two reap workers on one NIC.
#[test]
fn two_workers_a_nic() {
    layout(TWO_A_NIC);
}

/// Several front workers behind hashing edges.
#[test]
fn hashed_front_workers() {
    layout(HASHED);
}

/// Tables and windows a fraction of the work.
#[test]
fn next_to_no_room() {
    layout(STARVED);
}

/// Two nodes of one thread each write to each other at the same time: neither waits for the other.
#[test]
fn single_threaded_nodes_both_ways() {
    let text =
        format!("{ONE_POOL}\n[segments]\nkv = {{ kind = 'dram', size = '2MiB', access = 'read_write' }}\n");
    let (a, b) = (start(&text), start(&text));
    std::thread::scope(|scope| {
        for (from, to) in [(&a, &b), (&b, &a)] {
            scope.spawn(move || exercise(from, &open(from, to), 1 << 20));
        }
    });
}
