//! Hand-made work requests on the real listener (B05, B39): nothing outside a region is touched.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pipeline_node::{Access, Engine, Memory, Region, Request};

use crate::process::{descriptors, resident};
use crate::rig::{done, engine, nothing_left, open, until};
use crate::wire::{READ, WRITE, answer, first_region, frame, is_closed, lane, session};

const SIZE: usize = 1 << 16;
const CANARY: u8 = 0xC3;

/// A node with one region in the middle of memory that shall stay as it is.
struct Guarded {
    node: Engine,
    region: Region,
    place: *mut u8,
}

impl Guarded {
    fn new() -> Self {
        let node = engine(&[]);
        node.add_segment("kv").unwrap();
        let place = Box::leak(vec![CANARY; 3 * SIZE].into_boxed_slice()).as_mut_ptr();
        // SAFETY: the bytes live for ever; only the region uses them while it is registered.
        let memory = unsafe { Memory::from_raw(place.add(SIZE), SIZE as u64) };
        let region = node.register(memory, Access::ReadWrite).unwrap();
        node.publish("kv", &region).unwrap();
        Self { node, region, place }
    }

    fn address(&self) -> String {
        self.node.local_address().to_string()
    }

    #[track_caller]
    fn intact(&self) {
        for at in (0..SIZE).chain(2 * SIZE..3 * SIZE) {
            // SAFETY: inside `place`, outside the region: nobody else uses these bytes.
            assert_eq!(unsafe { self.place.add(at).read_volatile() }, CANARY, "byte {at} was written");
        }
    }
}

/// B05 and B39: numbers that wrap, a byte beyond either end, an unknown and a just unregistered region, READ of
/// 2^40 bytes: each is refused by an answer or a close, the canaries stay, memory does not grow, and an honest client
/// on another connection is served all the while.
#[test]
fn nothing_outside_a_region_is_touched() {
    let guarded = Guarded::new();
    let address = guarded.address();
    let (mut control, id) = session(&address);
    let region = first_region(&mut control);
    let (size, high) = (SIZE as u64, 0xFFFF_FFFF_FFFF_F000);
    let (honest, stop) = (engine(&[]), AtomicBool::new(false));
    let kv = open(&honest, &guarded.node).segment("kv").unwrap();
    let local = honest.allocate(4096).unwrap();
    let before = resident(std::process::id());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                done(
                    &honest,
                    &[Request::write(&local, 0, kv.at(0), 4096), Request::read(&local, 0, kv.at(0), 4096)],
                );
            }
        });
        let cases = [
            (WRITE, region, high, 0x2000),
            (WRITE, region, u64::MAX, 8),
            (WRITE, region, size, 1),
            (WRITE, region, size - 7, 8),
            (READ, region, u64::MAX, 1),
            (READ, region, size, 1),
            (READ, region, 0, size + 1),
            (READ, region, 0, 1 << 40),
            (READ, region, 0, u64::MAX),
            (READ, region, high, 0x2000),
            (WRITE, 0, 0, 8),
            (WRITE, region + (1 << 32), 0, 8),
            (WRITE, u64::MAX, 0, 8),
            (WRITE, region, 0, 0),
        ];
        for (op, region, offset, length) in cases {
            let mut lane = lane(&address, id);
            let mut bytes = frame(op, region, offset, length);
            if op == WRITE {
                bytes.resize(bytes.len() + length as usize, 0xEE);
            }
            lane.write_all(&bytes).unwrap();
            match answer(&mut lane) {
                None => {}
                Some((length, status)) => {
                    assert!(length == 0 && status != 0, "{op} {region:x} {offset:x} {length:x}")
                }
            }
            guarded.intact();
        }
        stop.store(true, Relaxed);
    });
    let grown = resident(std::process::id()).saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
    nothing_left(&honest, [local]);
}

/// B39: a write to memory whose owner has just taken it back is refused, and what the owner puts there stays.
#[test]
fn memory_that_was_taken_back_is_not_written() {
    let guarded = Guarded::new();
    let address = guarded.address();
    let (mut control, id) = session(&address);
    let region = first_region(&mut control);
    let mut lane = lane(&address, id);
    let write = [&frame(WRITE, region, 0, 8)[..], &[1; 8]].concat();
    lane.write_all(&write).unwrap();
    assert_eq!(answer(&mut lane), Some((0, 0)));
    let Guarded { node, region, place } = guarded;
    let mut memory = node.unregister(region).map_err(|(_, e)| e).unwrap();
    memory.write(0, &[9; 8]).unwrap();
    lane.write_all(&write).unwrap();
    assert!(matches!(answer(&mut lane), None | Some((0, 1..))));
    let mut there = [0; 8];
    memory.read(0, &mut there).unwrap();
    assert_eq!(there, [9; 8]);
    // SAFETY: a byte of the canary.
    assert_eq!(unsafe { place.read_volatile() }, CANARY);
}

/// A WRITE that announces far more than it sends holds its region only as long as its connection: unregistering is
/// busy, then works, and nothing is written afterwards.
#[test]
fn half_a_write_holds_a_region_no_longer_than_its_lane() {
    let guarded = Guarded::new();
    let address = guarded.address();
    let (mut control, id) = session(&address);
    let region = first_region(&mut control);
    let mut half = lane(&address, id);
    half.write_all(&[&frame(WRITE, region, 0, SIZE as u64)[..], &[7; 100]].concat()).unwrap();
    let Guarded { node, region, .. } = guarded;
    until("the first bytes are there", || {
        // SAFETY: a racing read of one byte in a test.
        unsafe { region.ptr().add(99).read_volatile() == 7 }
    });
    let (region, error) = node.unregister(region).map(drop).expect_err("a peer is writing to it");
    assert!(error.to_string().len() > 10, "{error}");
    // The session ends, and its lanes with it.
    drop(control);
    let mut region = Some(region);
    until("it is free", || match node.unregister(region.take().unwrap()) {
        Ok(_) => true,
        Err((back, _)) => {
            region = Some(back);
            false
        }
    });
    assert!(is_closed(&mut half));
}

/// Frames that break the protocol close their lane and nothing else; the session stays, and so does its other lane.
#[test]
fn broken_frames_close_only_their_lane() {
    let guarded = Guarded::new();
    let address = guarded.address();
    let (mut control, id) = session(&address);
    let region = first_region(&mut control);
    let mut good = lane(&address, id);
    let base = descriptors(std::process::id());
    let frame_of = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = frame(READ, region, 0, 1);
        change(&mut bytes);
        bytes
    };
    let broken = [
        frame_of(&|b| b[0] = b'G'),
        frame_of(&|b| b[2] = 2),
        frame_of(&|b| b[2] = 7),
        frame_of(&|b| b[3] = 0),
        frame_of(&|b| b[3] = 65),
        frame_of(&|b| b[3] = 255),
        frame_of(&|b| b[5] = 1),
        frame_of(&|b| b[8 + 32] = 3),
        frame_of(&|b| b[8 + 32] = 0),
        frame_of(&|b| b[8 + 39] = 1),
        b"GET / HTTP/1.1\r\nHost: there\r\n\r\n".to_vec(),
        vec![0; 4096],
        vec![0xFF; 4096],
    ];
    for (i, bytes) in broken.iter().enumerate() {
        let mut bad = lane(&address, id);
        bad.write_all(bytes).unwrap();
        assert!(is_closed(&mut bad), "frame {i}");
        good.write_all(&frame(READ, region, 0, 1)).unwrap();
        assert_eq!(answer(&mut good), Some((1, 0)), "after frame {i}");
        good.read_exact(&mut [0]).unwrap();
    }
    until("their descriptors are closed", || descriptors(std::process::id()) <= base);
    guarded.intact();
}
