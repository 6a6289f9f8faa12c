//! Batches of any number of requests over a real wire: done whole, or answered at once with both numbers.

use std::time::{Duration, Instant};

use pipeline_node::{Engine, Options, Request, Segment, SubmitError};

use crate::rig::{PATIENCE, bytes_of, done, engine, nothing_left, open, pattern, region_of, target};

const LEN: u64 = 64;

/// `n` requests of 64 bytes, each to a place of its own, in no order that a cache would like.
fn scattered(region: &pipeline_node::Region, kv: &Segment, n: u64) -> Vec<Request> {
    let places = region.len() / LEN;
    let at = |i: u64| (i * 7_919 % places) * LEN;
    (0..n).map(|i| Request::write(region, at(i), kv.at(at(i)), LEN)).collect()
}

/// Batches of 1, 2 049 (one more than fails elsewhere), 16 000 and 150 000 requests are taken whole and done, with every
/// byte in its place.
#[test]
fn of_any_size() {
    let server = target("16MiB");
    let client = engine(&[]);
    let kv = open(&client, &server).segment("kv").unwrap();
    for n in [1, 2_049, 16_000, 150_000] {
        let bytes = pattern(n, 16 << 20);
        let source = region_of(&client, &bytes);
        let requests = scattered(&source, &kv, n);
        done(&client, &requests);
        let back = client.allocate(16 << 20).unwrap();
        done(&client, &[Request::read(&back, 0, kv.at(0), 16 << 20)]);
        let there = bytes_of(&back);
        for request in &requests {
            let range = request.local_offset as usize..(request.local_offset + LEN) as usize;
            assert!(there[range.clone()] == bytes[range], "{n}: {request:?}");
        }
        nothing_left(&client, [source, back]);
    }
}

fn submit(client: &Engine, requests: &[Request]) -> Result<pipeline_node::Batch, SubmitError> {
    let begin = Instant::now();
    let answer = client.submit(requests, Options::default());
    assert!(answer.is_ok() || begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    answer
}

/// A batch that can never fit is told so at once, with what was asked and what there is; one that does not fit now is
/// told how much is free, and fits when that is given back. Nothing of a refused batch is carried out.
#[test]
fn too_large_or_busy_with_both_numbers() {
    let server = target("1MiB");
    let client = engine(&["limits.requests=16000", "limits.batches=3"]);
    let kv = open(&client, &server).segment("kv").unwrap();
    let source = region_of(&client, &pattern(3, 1 << 20));
    let requests = scattered(&source, &kv, 16_001);
    let too_large = submit(&client, &requests).unwrap_err();
    assert_eq!(too_large, SubmitError::TooLarge { asked: 16_001, limit: 16_000 });
    assert!(
        too_large.to_string().contains("16001") && too_large.to_string().contains("16000"),
        "{too_large}"
    );

    let kept = submit(&client, &requests[..10_000]).unwrap();
    assert!(kept.wait(PATIENCE).unwrap().is_done());
    let busy = submit(&client, &requests[..6_001]).unwrap_err();
    assert_eq!(busy, SubmitError::Busy { what: "limits.requests", asked: 6_001, free: 6_000 });
    assert!(busy.to_string().contains("6001") && busy.to_string().contains("6000"), "{busy}");
    let more = [(); 2].map(|()| submit(&client, &requests[..1]).unwrap());
    let busy = submit(&client, &requests[..1]).unwrap_err();
    assert_eq!(busy, SubmitError::Busy { what: "limits.batches", asked: 1, free: 0 });
    drop((kept, more));
    done(&client, &requests[..16_000]);
    assert_eq!(client.usage().requests, 0);
    nothing_left(&client, [source]);
}

/// Sixteen threads that wait for room for hundreds of batches (in three tables and on the first edge) are each served,
/// and none is forgotten; a wait that is in vain ends when its time is up, with both numbers.
#[test]
fn whoever_waits_for_room_gets_it() {
    let server = target("1MiB");
    let client = engine(&[
        "limits.requests=4096",
        "limits.batches=8",
        "edges.'submit -> admit'={ queue=2, dispatch='hash' }",
    ]);
    let kv = open(&client, &server).segment("kv").unwrap();
    let source = region_of(&client, &pattern(4, 1 << 20));
    std::thread::scope(|scope| {
        for t in 0..16_u64 {
            let (client, kv, source) = (&client, &kv, &source);
            scope.spawn(move || {
                for i in 0..20 {
                    let n = 1 + (t * 977 + i * 131) % 4_000;
                    let requests = scattered(source, kv, n);
                    let batch = client.submit_wait(&requests, Options::default(), PATIENCE).unwrap();
                    assert!(batch.wait(PATIENCE).unwrap().is_done());
                }
            });
        }
    });
    let one = scattered(&source, &kv, 1);
    let full = [(); 8].map(|()| client.submit_wait(&one, Options::default(), PATIENCE).unwrap());
    let begin = Instant::now();
    let late = client.submit_wait(&one, Options::default(), Duration::from_millis(50));
    assert_eq!(late.unwrap_err(), SubmitError::Busy { what: "limits.batches", asked: 1, free: 0 });
    assert!(begin.elapsed() >= Duration::from_millis(50));
    drop(full);
    crate::rig::until("all have ended", || client.usage().requests == 0);
    nothing_left(&client, [source]);
}

/// Threads that wait for room learn at once that there will be none: the engine drains.
#[test]
fn waiting_ends_with_the_engine() {
    let server = target("1MiB");
    let client = engine(&["limits.batches=1"]);
    let kv = open(&client, &server).segment("kv").unwrap();
    let source = region_of(&client, &pattern(5, 1 << 20));
    let request = scattered(&source, &kv, 1);
    let kept = client.submit(&request, Options::default()).unwrap();
    std::thread::scope(|scope| {
        let waiters =
            [(); 4].map(|()| scope.spawn(|| client.submit_wait(&request, Options::default(), PATIENCE)));
        std::thread::sleep(Duration::from_millis(30));
        let begin = Instant::now();
        assert!(client.drain(PATIENCE).empty);
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap().unwrap_err(), SubmitError::Stopped);
        }
        assert!(begin.elapsed() < PATIENCE / 2, "{:?}", begin.elapsed());
    });
    drop(kept);
    nothing_left(&client, [source]);
}
