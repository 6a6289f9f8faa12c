//! Everything at once, by a seed: transfers, cancels, deadlines and dropped handles, while targets are frozen, killed and
//! started again. What is promised holds whatever happens: every batch ends, what is done is right, nothing comes
//! after an end, nothing is left.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use pipeline_node::{Engine, Options, Region, Request};
use rustix::process::Signal;

use crate::node::Node;
use crate::rig::{bytes_of, carry_out, done, engine, nothing_left, pattern, until};

const SIZE: u64 = 256 << 10;
/// Places of that size between two programs.
const PLACES: u64 = 8;
/// No deadline below is longer; an end that comes much later was not caused by it.
const LATEST: Duration = Duration::from_secs(20);

/// xorshift.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

/// What has failed comes no more.
fn nothing_late(into: &Region, at: u64, len: usize, pause: Duration) {
    let (mark, mut there) = (vec![0xA7; len], vec![0; len]);
    into.write(at, &mark).unwrap();
    std::thread::sleep(pause);
    into.read(at, &mut there).unwrap();
    assert!(there == mark, "bytes of a READ came after its end");
}

/// A program that uses one peer: writes bytes of its own, reads them back, gives up now and then.
fn client(engine: &Engine, address: &str, lane: u64, seed: u64, stop: &AtomicBool, moved: &AtomicU64) {
    let mut dice = Dice(seed | 1);
    let [source, into, scrap] = [(); 3].map(|()| engine.allocate(SIZE).unwrap());
    while !stop.load(Relaxed) {
        let Ok(peer) = engine.open_within(address, Duration::from_secs(5)) else { continue };
        let kv = peer.segment("kv").unwrap();
        let base = lane * PLACES * SIZE;
        for _ in 0..dice.roll(50) {
            let (at, len) = (dice.roll(SIZE / 2), 1 + dice.roll(SIZE / 2));
            let options =
                Options { deadline: Some(Duration::from_micros(100 << dice.roll(13))), ..Options::default() };
            let write = Request::write(&source, at, kv.at(base + at), len);
            let read = Request::read(&into, at, kv.at(base + at), len);
            match dice.roll(4) {
                // Given up: the engine ends it by itself.
                0 => {
                    let scrapped = Request::read(&scrap, at, kv.at(base + at), len);
                    drop(engine.submit(&[write, scrapped], options));
                }
                1 => {
                    if let Ok(batch) = engine.submit(&[read, write, read], options) {
                        let _ = batch.wait(Duration::from_micros(dice.roll(2000)));
                        batch.cancel();
                        batch.wait(LATEST).expect("a cancelled batch ends");
                    }
                }
                _ => {
                    if let Ok(batch) = engine.submit(&[read], options) {
                        let summary = batch.wait(LATEST).expect("a batch ends by its deadline");
                        if !summary.is_done() {
                            nothing_late(&into, at, len as usize, Duration::from_millis(dice.roll(3)));
                        }
                        moved.fetch_add(summary.bytes, Relaxed);
                    }
                }
            }
        }
        // Now and then, the whole, over all that was given up before: done means there, and newer bytes win.
        let bytes = pattern(dice.roll(u64::MAX), SIZE as usize);
        let quiet = Instant::now();
        while source.write(0, &bytes).is_err() {
            assert!(quiet.elapsed() < LATEST, "a dropped batch still reads its source");
            std::thread::sleep(Duration::from_millis(1));
        }
        let there = kv.at(base);
        let (sent, _batch) = carry_out(engine, &[Request::write(&source, 0, there, SIZE)]);
        if !sent.is_done() {
            continue;
        }
        std::thread::sleep(Duration::from_millis(dice.roll(20)));
        let (back, _batch) = carry_out(engine, &[Request::read(&into, 0, there, SIZE)]);
        assert!(!back.is_done() || bytes_of(&into) == bytes, "done, and older bytes came over it");
    }
    for region in [source, into, scrap] {
        engine.unregister_within(region, LATEST).map_err(|(_, e)| e).unwrap();
    }
}

fn chaos(layout: &[&str], seed: u64, time: Duration) {
    let set = ["limits.bytes_in_flight='1MiB'", "limits.deadline='5s'", "stages.split.slice='16KiB'"];
    let engine = engine(&[&set[..], layout].concat());
    let mut nodes = [Node::target("8MiB", &[]), Node::target("8MiB", &[])];
    let addresses = [nodes[0].address.clone(), nodes[1].address.clone()];
    let (stop, moved) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut dice = Dice(seed | 1);
    std::thread::scope(|scope| {
        for i in 0..4_u64 {
            let (engine, address, stop, moved) = (&engine, &addresses[i as usize % 2], &stop, &moved);
            scope.spawn(move || client(engine, address, i, seed.wrapping_add(i * 77_777), stop, moved));
        }
        let begin = Instant::now();
        while begin.elapsed() < time {
            let node = &mut nodes[dice.roll(2) as usize];
            match dice.roll(3) {
                0 => {
                    let listen = format!("node.listen='{}'", node.address);
                    node.crash();
                    std::thread::sleep(Duration::from_millis(dice.roll(60)));
                    *node = Node::target("8MiB", &[&listen]);
                }
                1 => {
                    node.signal(Signal::STOP);
                    std::thread::sleep(Duration::from_millis(dice.roll(400)));
                    node.signal(Signal::CONT);
                }
                _ => std::thread::sleep(Duration::from_millis(dice.roll(200))),
            }
        }
        stop.store(true, Relaxed);
    });
    assert!(moved.load(Relaxed) > 0, "nothing was ever read");
    until("dropped batches have ended", || engine.usage().batches == 0);
    let region = engine.allocate(SIZE).unwrap();
    for address in &addresses {
        let kv = engine.open(address).unwrap().segment("kv").unwrap();
        done(&engine, &[Request::write(&region, 0, kv.at(0), SIZE)]);
    }
    nothing_left(&engine, [region]);
}

/// A seed from `CHAOS_SEED`, seconds from `CHAOS_SECONDS`, for whoever looks for something rare.
fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The preset, and a pool a stage, for some seconds each.
#[test]
fn whatever_happens() {
    let seed = variable("CHAOS_SEED", 0x5EED);
    let time = Duration::from_secs(variable("CHAOS_SECONDS", 3));
    chaos(&[], seed, time);
    chaos(super::frozen::POOL_A_STAGE, seed.rotate_left(17), time);
}
