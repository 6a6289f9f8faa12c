//! Lists of descriptors as KV caches have them: rows with strides, neighbours, gaps, seams. Whatever the list, the bytes
//! that arrive are those of a model that copies them one by one.

use std::time::Duration;

use pipeline_node::{
    Access, Batch, Engine, Memory, Options, Reason, Region, Request, Segment, Source, SubmitError,
};

use crate::rig::{
    PATIENCE, bytes_of, carry_out, done, engine, nothing_left, open, pattern, reasons, region_of, target,
    until,
};

/// The first half of both sides is for WRITEs, the second for READs: so no list has an order that matters.
const HALF: u64 = 40_000;

/// Small numbers from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// One row as the model copies it.
struct Copy {
    is_read: bool,
    from: u64,
    to: u64,
    len: u64,
}

/// Neighbours, gaps and rows in both directions, and what they come to. Destinations never overlap; rows of a source do.
fn list(dice: &mut Dice, local: &Region, kv: &Segment) -> (Vec<Request>, Vec<Copy>) {
    let (mut requests, mut copies) = (Vec::new(), Vec::new());
    // Where the next one of each direction begins: source, destination.
    let mut next = [(0, 0), (HALF, HALF)];
    for _ in 0..1 + dice.roll(120) {
        let is_read = dice.roll(4) == 0;
        let (mut from, mut to) = next[usize::from(is_read)];
        if dice.roll(3) == 0 {
            (from, to) = (from + dice.roll(50), to + dice.roll(50));
        }
        let most = if dice.roll(9) == 0 { 3_000 } else { 64 };
        let len = 1 + dice.roll(most);
        let rows = if dice.roll(4) == 0 { 1 + dice.roll(6) } else { 1 };
        let wide = |dice: &mut Dice| len + if dice.roll(2) == 0 { 0 } else { dice.roll(90) };
        let (mut from_stride, to_stride) = (wide(dice), wide(dice));
        if dice.roll(8) == 0 {
            from_stride = dice.roll(len);
        }
        let end = |at, stride| at + (rows - 1) * stride + len;
        let ends = (end(from, from_stride), end(to, to_stride));
        if ends.0.max(ends.1) > HALF * (1 + u64::from(is_read)) {
            continue;
        }
        next[usize::from(is_read)] = ends;
        let copy = |r| Copy { is_read, from: from + r * from_stride, to: to + r * to_stride, len };
        copies.extend((0..rows).map(copy));
        let count = rows as u32;
        requests.push(match is_read {
            true => Request::read(local, to, kv.at(from), len).strided(count, to_stride, from_stride),
            false => Request::write(local, from, kv.at(to), len).strided(count, from_stride, to_stride),
        });
    }
    (requests, copies)
}

/// A node whose segment `kv` is regions of odd sizes, and those.
fn seams(node: &Engine) -> Vec<Region> {
    node.add_segment("kv").unwrap();
    let lens = [1, 4095, 3, 20_001, 512, 30_000, 1, 1, 40_000];
    let part = |len: u64| node.register(Memory::allocate(len).unwrap(), Access::ReadWrite).unwrap();
    let parts: Vec<Region> = lens.into_iter().map(part).collect();
    parts.iter().for_each(|part| _ = node.publish("kv", part).unwrap());
    parts
}

/// Writes bytes over the regions of a segment. The node that serves them may be a moment behind whoever was served.
fn fill(parts: &[Region], bytes: &[u8]) {
    let mut at = 0;
    for part in parts {
        let end = bytes.len().min(at + part.len() as usize);
        until("the peer lets go", || part.write(0, &bytes[at..end]).is_ok());
        at = end;
    }
}

/// The bytes of a segment.
fn stored(parts: &[Region], size: usize) -> Vec<u8> {
    parts.iter().for_each(|part| until("the peer lets go", || part.read(0, &mut [0]).is_ok()));
    parts.iter().flat_map(bytes_of).take(size).collect()
}

/// In how many ways a list is submitted: as it is; prepared, all of it; and prepared, in another order.
const WAYS: u64 = 3;

fn submit(client: &Engine, requests: &[Request], dice: &mut Dice, way: u64) -> Batch {
    if way == 0 {
        return client.submit_wait(requests, Options::default(), PATIENCE).unwrap();
    }
    let prepared = client.prepare(requests).unwrap_or_else(|e| panic!("{e}"));
    if way == 1 {
        return client.submit_prepared_wait(&prepared, .., Options::default(), PATIENCE).unwrap();
    }
    let mut order: Vec<u32> = (0..requests.len() as u32).collect();
    for i in 1..order.len() {
        if dice.roll(3) == 0 {
            order.swap(i, dice.roll(i as u64 + 1) as usize);
        }
    }
    client.submit_prepared_wait(&prepared, &order, Options::default(), PATIENCE).unwrap()
}

/// Carries out random lists, and compares every byte of both sides.
fn as_the_model(client: &Engine, parts: &[Region], kv: &Segment, seeds: std::ops::Range<u64>) {
    let size = 2 * HALF as usize;
    for seed in seeds {
        let mut dice = Dice(seed);
        let (mut here, mut there) = (pattern(2 * seed, size), pattern(2 * seed + 1, size));
        let local = region_of(client, &here);
        fill(parts, &there);
        let (requests, copies) = list(&mut dice, &local, kv);
        if requests.is_empty() {
            continue;
        }
        let batch = submit(client, &requests, &mut dice, seed % WAYS);
        let summary = batch.wait(PATIENCE).expect("its deadline must have ended it");
        assert!(summary.is_done(), "seed {seed}: {:?}", reasons(&batch));
        assert_eq!(summary.bytes, copies.iter().map(|c| c.len).sum::<u64>(), "seed {seed}");
        for Copy { is_read, from, to, len } in copies {
            let (from, to, len) = (from as usize, to as usize, len as usize);
            let (source, sink) = if is_read { (&there, &mut here) } else { (&here, &mut there) };
            sink[to..to + len].copy_from_slice(&source[from..from + len]);
        }
        assert!(stored(parts, size) == there, "seed {seed}: the peer has other bytes than the model");
        assert!(bytes_of(&local) == here, "seed {seed}: other bytes than the model came back");
        drop(batch);
        nothing_left(client, [local]);
    }
}

/// Random lists over TCP, cut into slices that rows and seams do not fit: every byte is where the model puts it.
#[test]
fn random_lists_over_tcp() {
    let target = engine(&[]);
    let parts = seams(&target);
    for (slice, coalesce) in [("512B", "64KiB"), ("auto", "64KiB"), ("auto", "900B"), ("512B", "0B")] {
        let [slice, coalesce] =
            [format!("stages.split.slice='{slice}'"), format!("stages.admit.coalesce='{coalesce}'")];
        let client = engine(&[&slice, &coalesce]);
        let kv = open(&client, &target).segment("kv").unwrap();
        as_the_model(&client, &parts, &kv, 0..30);
    }
}

/// The same within a process.
#[test]
fn random_lists_in_process() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../configs/pipelines/loopback.toml");
    for coalesce in ["64KiB", "0B"] {
        let source = Source::file(file).set([format!("stages.admit.coalesce='{coalesce}'")]);
        let node = Engine::from_source(&source).unwrap_or_else(|e| panic!("{e}"));
        let parts = seams(&node);
        let kv = open(&node, &node).segment("kv").unwrap();
        as_the_model(&node, &parts, &kv, 100..190);
    }
}

/// Of a strided request with rows past the end of either side nothing moves; rows that would overlap where they arrive
/// are refused at once; and rows that touch on both sides are cut like one run of bytes.
#[test]
fn rows_at_the_edge() {
    let (target, client) = (target("64KiB"), engine(&["stages.split.slice='4KiB'"]));
    let kv = open(&client, &target).segment("kv").unwrap();
    let region = client.allocate(64 << 10).unwrap();
    let row = |at, offset| Request::write(&region, at, kv.at(offset), 1024);
    let outside = [
        (row(0, 0).strided(64, 1025, 1024), Reason::LocalBounds),
        (row(1, 0).strided(64, 1024, 1024), Reason::LocalBounds),
        (row(0, 0).strided(64, 1024, 1025), Reason::RemoteBounds),
        (row(0, 1).strided(64, 0, 1024), Reason::RemoteBounds),
    ];
    let (summary, batch) = carry_out(&client, &outside.map(|(request, _)| request));
    assert_eq!((summary.failed, summary.bytes), (4, 0));
    assert_eq!(reasons(&batch), outside.map(|(_, reason)| Some(reason)));
    drop(batch);
    for wrong in
        [row(0, 0).strided(2, 1024, 1023), row(0, 0).strided(0, 1, 1), row(0, 0).strided(3, 1 << 63, 1024)]
    {
        let refused = client.submit(&[row(0, 0), wrong], Options::default());
        assert!(matches!(refused, Err(SubmitError::BadRequest { index: 1, .. })), "{refused:?}");
    }
    let before = client.stats();
    done(&client, &[row(0, 0).strided(64, 1024, 1024)]);
    let stats = client.stats().since(&before);
    let posted = stats.stages.iter().find(|s| s.name == "post").unwrap().items;
    assert_eq!(posted, 16, "64 KiB in slices of 4 KiB, whatever the rows were");
    done(&client, &[row(0, 0).strided(64, 0, 1024)]);
    nothing_left(&client, [region]);
}

fn posted(client: &Engine, what: impl FnOnce()) -> u64 {
    let before = client.stats();
    what();
    client.stats().since(&before).stages.iter().find(|s| s.name == "post").unwrap().items
}

/// Neighbours of one submission travel as one, up to `coalesce`; each has its own result, in its own place; and both
/// counts are told.
#[test]
fn neighbours_travel_as_one() {
    let target = target("1MiB");
    for (coalesce, slices) in [("64KiB", 4), ("16KiB", 16), ("0B", 256), ("100B", 256)] {
        let client = engine(&[&format!("stages.admit.coalesce='{coalesce}'")]);
        let kv = open(&client, &target).segment("kv").unwrap();
        let region = region_of(&client, &pattern(slices, 1 << 20));
        let one = |i: u64| Request::write(&region, i * 1024, kv.at(i * 1024), 1024);
        let requests: Vec<_> = (0..256).map(one).collect();
        assert_eq!(posted(&client, || done(&client, &requests)), slices, "{coalesce}");
        let counts = client.counts();
        assert_eq!((counts.submitted, counts.entered), (256, slices));
        // Turned round none goes on where the last one ended.
        let turned: Vec<_> = requests.iter().rev().copied().collect();
        assert_eq!(posted(&client, || done(&client, &turned)), 256);
        // The sixth is out of bounds, and splits the others into two runs.
        let mut broken = requests[..10].to_vec();
        broken[5].remote = kv.at(1 << 20);
        let (summary, batch) = carry_out(&client, &broken);
        assert_eq!((summary.failed, summary.bytes), (1, 9 * 1024));
        let expected: Vec<_> = (0..10).map(|i| (i == 5).then_some(Reason::RemoteBounds)).collect();
        assert_eq!(reasons(&batch), expected);
        drop(batch);
        nothing_left(&client, [region]);
    }
}

/// A request of many rows that is cancelled, or whose time is over, ends whole and at once: rows that arrived are counted,
/// the others are not sent, windows and slots are back, and the next one is done. All the time it is one request.
#[test]
fn rows_end_with_their_request() {
    const ROWS: u32 = 20_000;
    let target = target("2MiB");
    // A window of a few rows: most of them wait.
    let client = engine(&["limits.bytes_in_flight='16KiB'", "limits.requests=4", "limits.batches=16"]);
    let kv = open(&client, &target).segment("kv").unwrap();
    let region = client.allocate(2 << 20).unwrap();
    let rows = Request::read(&region, 0, kv.at(0), 64).strided(ROWS, 100, 96);
    for (deadline, expected) in [(None, Reason::Cancelled), (Some(Duration::ZERO), Reason::Deadline)] {
        let batch = client.submit(&[rows], Options { deadline, ..Options::default() }).unwrap();
        assert_eq!(client.usage().requests, 1);
        if deadline.is_none() {
            batch.cancel();
        }
        let summary = batch.wait(PATIENCE).expect("cancelled, or late");
        // On a machine that lets this thread wait it may be faster than the cancel; a deadline that is over is not.
        let all = summary.bytes == u64::from(ROWS) * 64;
        let end = if all && deadline.is_none() { None } else { Some(expected) };
        assert_eq!(reasons(&batch), [end]);
        assert!(
            summary.bytes.is_multiple_of(64) && (deadline.is_none() || summary.bytes == 0),
            "{summary:?}"
        );
        drop(batch);
        until("windows and slots are back", || client.usage().is_idle());
    }
    done(&client, &[rows]);
    nothing_left(&client, [region]);
}
