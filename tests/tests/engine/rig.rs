//! Engines for tests, and the checks that every test ends with. Deliberately without sleeps: all waits are for a
//! condition, with a bound that only a hang reaches.

use std::time::{Duration, Instant};

use pipeline_node::{Batch, Engine, Options, Peer, Reason, Region, Request, Source, Status, Summary};

/// Long enough for any machine; only a hang takes longer.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// An engine of the preset `tcp` with overrides.
#[track_caller]
pub fn engine(set: &[&str]) -> Engine {
    let source = Source::text("test", "version = 1\nuse = \"tcp\"\n").set(set.iter().copied());
    Engine::from_source(&source).unwrap_or_else(|e| panic!("{e}"))
}

/// An engine with a segment `kv` of `size`, which peers may read and write.
#[track_caller]
pub fn target(size: &str) -> Engine {
    let size = format!("segments.kv={{ kind='dram', size='{size}', access='read_write' }}");
    engine(&[&size])
}

/// The peer that another engine is.
#[track_caller]
pub fn open(from: &Engine, to: &Engine) -> Peer {
    from.open(&to.local_address().to_string()).unwrap_or_else(|e| panic!("{e}"))
}

/// Submits and waits.
#[track_caller]
pub fn carry_out(engine: &Engine, requests: &[Request]) -> (Summary, Batch) {
    let batch = engine.submit_wait(requests, Options::default(), PATIENCE).unwrap_or_else(|e| panic!("{e}"));
    let summary = batch.wait(PATIENCE).expect("its deadline must have ended it");
    (summary, batch)
}

/// As [`carry_out`], and everything must have been done.
#[track_caller]
pub fn done(engine: &Engine, requests: &[Request]) {
    let (summary, batch) = carry_out(engine, requests);
    assert!(summary.is_done(), "{:?}", batch.results().collect::<Vec<_>>());
    assert_eq!(summary.bytes, requests.iter().filter_map(Request::bytes).sum::<u64>());
}

/// Why each request of a batch failed; `None` for those that were done.
#[track_caller]
pub fn reasons(batch: &Batch) -> Vec<Option<Reason>> {
    let reason = |status| match status {
        Status::Done => None,
        Status::Failed(failure) => Some(failure.reason),
        Status::Pending => panic!("still pending in a batch that is done"),
    };
    batch.results().map(reason).collect()
}

/// Bytes that differ from place to place and from seed to seed.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// A region with these bytes.
#[track_caller]
pub fn region_of(engine: &Engine, bytes: &[u8]) -> Region {
    let region = engine.allocate(bytes.len() as u64).unwrap();
    region.write(0, bytes).unwrap();
    region
}

/// What a region holds.
#[track_caller]
pub fn bytes_of(region: &Region) -> Vec<u8> {
    let mut bytes = vec![0; region.len() as usize];
    region.read(0, &mut bytes).unwrap();
    bytes
}

/// Waits for a condition.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// When all batches are gone nothing may be left: no slice, request, batch, byte of window, nor pin of a region.
#[track_caller]
pub fn nothing_left(engine: &Engine, regions: impl IntoIterator<Item = Region>) {
    let usage = engine.usage();
    assert_eq!(
        (usage.slices, usage.requests, usage.batches, usage.bytes),
        (0, 0, 0, 0),
        "left behind: {usage:?}"
    );
    for region in regions {
        engine.unregister(region).map_err(|(_, e)| e).expect("a pin was left");
    }
}
