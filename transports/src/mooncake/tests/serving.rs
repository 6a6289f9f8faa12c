//! The serve half over real sockets, against peers that speak its wire by hand.
//! Deliberately without listeners and nodes: those have tests of their own.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use proptest::prelude::*;

use crate::clock::now;
use crate::link::{Serve, Waker};
use crate::memory::{Access, Memory, RegionId, Regions};
use crate::mooncake::buffers::{Buffers, Known};
use crate::mooncake::hall::{Guest, Hall, Halls, Seated};
use crate::mooncake::serve::{MooncakeServe, Serving};
use crate::mooncake::wire::{Framing, Header, STATUS_BYTES, Status};
use crate::transport::Registered;
use crate::wr::Op;

/// A half on a thread of its own, and what it serves.
struct Rig {
    regions: Arc<Regions>,
    buffers: Arc<Buffers>,
    halls: Halls,
    listener: TcpListener,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A published region.
struct Place {
    id: RegionId,
    addr: u64,
    _known: Known,
}

impl Rig {
    fn new(stall: Duration) -> Self {
        let (regions, buffers) = (Arc::new(Regions::new(64)), Arc::<Buffers>::default());
        let serving = Serving {
            regions: regions.clone(),
            buffers: buffers.clone(),
            refusals: Default::default(),
            stalls: Default::default(),
        };
        let (halls, hall) = (Halls::default(), Hall::new(Waker::none()));
        halls.open(&hall);
        let mut half = MooncakeServe::new(hall, Arc::new(serving), Some(stall)).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let stop = stop.clone();
            move || {
                while !stop.load(Ordering::Relaxed) {
                    let served = half.step(now(), 8);
                    if served.answered == 0 && served.bytes == 0 {
                        std::thread::yield_now();
                    }
                }
            }
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self { regions, buffers, halls, listener, stop, thread: Some(thread) }
    }

    fn patient() -> Self {
        Self::new(Duration::from_secs(60))
    }

    fn place(&self, memory: Memory, access: Access) -> Place {
        let (addr, len) = (memory.ptr() as u64, memory.len());
        let known = Known::new(self.buffers.clone(), addr, len);
        let id = self.regions.add(memory, access).unwrap();
        known.bind(id);
        known.publish("memory");
        Place { id, addr, _known: known }
    }

    fn fresh(&self, len: u64, access: Access) -> Place {
        self.place(Memory::allocate(len).unwrap(), access)
    }

    fn bytes(&self, place: &Place, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.regions.read_shared(place.id, offset, &mut bytes).unwrap();
        bytes
    }

    fn connect(&self) -> TcpStream {
        let far = TcpStream::connect(self.listener.local_addr().unwrap()).unwrap();
        far.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        far.set_nodelay(true).unwrap();
        let (near, peer) = self.listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        near.set_nodelay(true).unwrap();
        assert_eq!(self.halls.seat(Guest::new(near, peer, now()), 64), Seated::Yes);
        far
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the half panicked");
        }
    }
}

fn request(op: Op, framing: Framing, addr: u64, size: u64, payload: &[u8]) -> Vec<u8> {
    [&Header { size, addr, op, framing }.encode()[..], payload].concat()
}

fn write(framing: Framing, addr: u64, payload: &[u8]) -> Vec<u8> {
    request(Op::Write, framing, addr, payload.len() as u64, payload)
}

fn read(framing: Framing, addr: u64, size: u64) -> Vec<u8> {
    request(Op::Read, framing, addr, size, &[])
}

fn expect(peer: &mut TcpStream, len: usize) -> Vec<u8> {
    let mut got = vec![0; len];
    peer.read_exact(&mut got).unwrap();
    got
}

fn expect_status(peer: &mut TcpStream, status: Status) {
    assert_eq!(expect(peer, STATUS_BYTES), status.encode());
}

/// All that still comes before the end; a reset ends it too.
fn rest(peer: &mut TcpStream) -> Vec<u8> {
    let mut got = Vec::new();
    let ended = peer.read_to_end(&mut got);
    assert!(!matches!(&ended, Err(e) if e.kind() == std::io::ErrorKind::WouldBlock), "it was not hung up on");
    got
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add((i >> 8) as u8) ^ seed).collect()
}

/// Bytes written come back, in both versions, from one byte to more than a turn moves; a status comes when they are there.
#[test]
fn what_is_written_is_read() {
    let rig = Rig::patient();
    let place = rig.fresh(4 << 20, Access::ReadWrite);
    let mut peer = rig.connect();
    for (seed, len) in [1, 4096, (64 << 10) + 1, (3 << 20) + 5].into_iter().enumerate() {
        for framing in [Framing::V2, Framing::V1] {
            let (addr, payload) = (place.addr + 3, pattern(len, seed as u8 * 2 + framing as u8));
            peer.write_all(&write(framing, addr, &payload)).unwrap();
            if framing == Framing::V2 {
                expect_status(&mut peer, Status::Done);
                assert_eq!(rig.bytes(&place, 3, len), payload);
            }
            peer.write_all(&read(framing, addr, len as u64)).unwrap();
            if framing == Framing::V2 {
                expect_status(&mut peer, Status::Done);
            }
            assert!(expect(&mut peer, len) == payload, "{len} {framing:?}");
        }
    }
}

/// Thousands of requests in one breath are answered in order, READs seeing the WRITEs before them, and a peer that has ended
/// its direction gets all of its answers.
#[test]
fn pipelined_requests_are_answered_in_order() {
    let rig = Rig::patient();
    let place = rig.fresh(1 << 20, Access::ReadWrite);
    let mut peer = rig.connect();
    let mut sender = peer.try_clone().unwrap();
    let addr = place.addr;
    let sending = std::thread::spawn(move || {
        for i in 0..3000u64 {
            let payload = pattern(1000, i as u8);
            let both = [write(Framing::V2, addr + i, &payload), read(Framing::V2, addr + i, 1000)].concat();
            sender.write_all(&both).unwrap();
        }
        sender.shutdown(Shutdown::Write).unwrap();
    });
    for i in 0..3000u64 {
        expect_status(&mut peer, Status::Done);
        expect_status(&mut peer, Status::Done);
        assert_eq!(expect(&mut peer, 1000), pattern(1000, i as u8), "{i}");
    }
    assert_eq!(rest(&mut peer), b"");
    sending.join().unwrap();
}

/// Requests that are torn at any byte mean the same.
#[test]
fn torn_at_every_byte() {
    let rig = Rig::patient();
    let place = rig.fresh(4096, Access::ReadWrite);
    let addr = place.addr;
    let script = [
        write(Framing::V2, addr, b"hello"),
        read(Framing::V2, addr + 1, 3),
        write(Framing::V1, addr + 2, b"XY"),
        read(Framing::V1, addr, 5),
    ]
    .concat();
    let done = Status::Done.encode();
    let want = [&done[..], &done, b"ell", b"heXYo"].concat();
    for cut in 0..=script.len() {
        let mut peer = rig.connect();
        peer.write_all(&script[..cut]).unwrap();
        // So that the two parts are seen apart, as far as a machine can be made to.
        std::thread::yield_now();
        peer.write_all(&script[cut..]).unwrap();
        assert_eq!(expect(&mut peer, want.len()), want, "cut at {cut}");
    }
}

/// Ranges outside of every region, across the seam of two, wrapping, empty or huge cost the connection, after a status that says
/// so in the second version; nothing is touched, and others are served.
#[test]
fn wrong_ranges_are_refused() {
    let rig = Rig::patient();
    let mut both = Memory::allocate(8192).unwrap();
    both.write(0, &[7; 8192]).unwrap();
    let base = both.ptr();
    // SAFETY: two halves of one mapping that outlives the rig's regions.
    let (low, high) =
        unsafe { (Memory::from_raw(base, 4096), Memory::from_raw(base.wrapping_add(4096), 4096)) };
    let (low, high) = (rig.place(low, Access::ReadWrite), rig.place(high, Access::ReadWrite));
    let (addr, end) = (low.addr, high.addr + 4096);
    for (at, size) in [
        (addr - 1, 2),
        (end - 1, 2),
        (end, 1),
        (addr + 4095, 2),
        (addr, 4097),
        (0, 1),
        (addr, 0),
        (addr, u64::MAX),
        (u64::MAX, 1),
        (u64::MAX - 1, 1 << 40),
    ] {
        for op in [Op::Read, Op::Write] {
            let mut peer = rig.connect();
            peer.write_all(&request(op, Framing::V2, at, size, &[1; 2])).unwrap();
            expect_status(&mut peer, Status::Rejected);
            assert_eq!(rest(&mut peer), b"", "{at:#x}+{size}");
            let mut peer = rig.connect();
            peer.write_all(&request(op, Framing::V1, at, size, &[1; 2])).unwrap();
            assert_eq!(rest(&mut peer), b"", "{at:#x}+{size}");
        }
    }
    assert_eq!(rig.bytes(&low, 0, 4096), [7; 4096]);
    assert_eq!(rig.bytes(&high, 0, 4096), [7; 4096]);
    drop(rig);
    drop(both);
}

/// What a region does not allow is refused, and earlier requests on the connection are answered all the same.
#[test]
fn access_is_enforced() {
    let rig = Rig::patient();
    let (readable, writable) = (rig.fresh(64, Access::Read), rig.fresh(64, Access::Write));
    for (good, bad) in [
        (read(Framing::V2, readable.addr, 4), write(Framing::V2, readable.addr, b"no")),
        (write(Framing::V2, writable.addr, b"yes"), read(Framing::V2, writable.addr, 4)),
    ] {
        let mut peer = rig.connect();
        peer.write_all(&[good.clone(), bad].concat()).unwrap();
        let payload = if good[16] & 1 == 0 { 4 } else { 0 };
        expect_status(&mut peer, Status::Done);
        expect(&mut peer, payload);
        expect_status(&mut peer, Status::Rejected);
        assert_eq!(rest(&mut peer), b"");
    }
    assert_eq!((rig.bytes(&readable, 0, 2), rig.bytes(&writable, 0, 3)), (vec![0; 2], b"yes".to_vec()));
}

/// A peer whose long WRITE is refused learns why, although it was still sending.
#[test]
fn a_refused_peer_that_still_sends_learns_why() {
    let rig = Rig::patient();
    let mut peer = rig.connect();
    peer.write_all(&request(Op::Write, Framing::V2, 4096, 8 << 20, &[])).unwrap();
    // As far as it goes: at some time it is hung up on.
    for _ in 0..64 {
        if peer.write_all(&[1; 64 << 10]).is_err() {
            break;
        }
    }
    expect_status(&mut peer, Status::Rejected);
}

/// A region that was registered after the first request is found, one that went is not, and a new one at the same address is
/// itself.
#[test]
fn regions_come_and_go() {
    let rig = Rig::patient();
    let first = rig.fresh(4096, Access::ReadWrite);
    let mut peer = rig.connect();
    let mut ask = |addr: u64, payload: &[u8]| {
        peer.write_all(&write(Framing::V2, addr, payload)).unwrap();
        expect_status(&mut peer, Status::Done);
    };
    ask(first.addr, b"a");
    let second = rig.fresh(4096, Access::ReadWrite);
    ask(second.addr, b"b");
    let Place { id, addr, _known: known } = first;
    drop(known);
    let memory = rig.regions.remove(id).unwrap();
    let mut late = rig.connect();
    late.write_all(&read(Framing::V2, addr, 1)).unwrap();
    expect_status(&mut late, Status::Rejected);
    let again = rig.place(memory, Access::ReadWrite);
    ask(again.addr, b"c");
    assert_eq!(rig.bytes(&again, 0, 1), b"c");
}

/// A WRITE that never comes to its end holds its region only for as long as a connection may stand still.
#[test]
fn what_stands_still_is_closed() {
    let rig = Rig::new(Duration::from_millis(200));
    let place = rig.fresh(4096, Access::ReadWrite);
    let mut peer = rig.connect();
    peer.write_all(&request(Op::Write, Framing::V2, place.addr, 4096, &[5; 100])).unwrap();
    assert_eq!(rest(&mut peer), b"");
    let Place { id, _known: known, .. } = place;
    drop(known);
    // The half hangs up and lets go in one step: whoever has seen the one need not wait for the other for long.
    while rig.regions.remove(id).is_err() {
        std::thread::yield_now();
    }
    // One that is idle stays.
    let (place, mut idle) = (rig.fresh(4096, Access::ReadWrite), rig.connect());
    std::thread::sleep(Duration::from_millis(500));
    idle.write_all(&write(Framing::V2, place.addr, b"x")).unwrap();
    expect_status(&mut idle, Status::Done);
}

/// A peer that asks for much and reads none of it delays nobody.
#[test]
fn a_peer_that_reads_nothing_delays_nobody() {
    let rig = Rig::patient();
    let place = rig.fresh(64 << 20, Access::ReadWrite);
    let mut deaf = rig.connect();
    for _ in 0..100 {
        deaf.write_all(&read(Framing::V2, place.addr, 64 << 20)).unwrap();
    }
    let mut peer = rig.connect();
    for _ in 0..100 {
        peer.write_all(&write(Framing::V2, place.addr, b"x")).unwrap();
        expect_status(&mut peer, Status::Done);
    }
    // And it still gets what it asked for, when it reads: all that was there before, and the one byte that was written.
    expect_status(&mut deaf, Status::Done);
    assert!(expect(&mut deaf, 64 << 20)[1..].iter().all(|byte| *byte == 0));
    expect_status(&mut deaf, Status::Done);
    assert_eq!(expect(&mut deaf, 1), b"x");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Any program of requests, sent in pieces of any size, leaves memory and answers as if each had been carried out when the one
    /// before it was over.
    #[test]
    fn any_program_in_any_pieces(
        program in prop::collection::vec((any::<bool>(), any::<bool>(), 0..9000u64, 1..20_000u64), 1..40),
        pieces in prop::collection::vec(1..30_000usize, 1..8),
    ) {
        const LEN: usize = 32 << 10;
        let rig = Rig::patient();
        let place = rig.fresh(LEN as u64, Access::ReadWrite);
        let (mut model, mut bytes, mut want) = (vec![0; LEN], Vec::new(), Vec::new());
        for (i, (is_write, v2, offset, len)) in program.into_iter().enumerate() {
            let framing = if v2 { Framing::V2 } else { Framing::V1 };
            let range = offset as usize..(offset + len) as usize;
            if v2 {
                want.extend(Status::Done.encode());
            }
            if is_write {
                let payload = pattern(len as usize, i as u8);
                bytes.extend(write(framing, place.addr + offset, &payload));
                model[range].copy_from_slice(&payload);
            } else {
                bytes.extend(read(framing, place.addr + offset, len));
                want.extend(&model[range]);
            }
        }
        let mut peer = rig.connect();
        let mut sender = peer.try_clone().unwrap();
        let sending = std::thread::spawn(move || {
            let mut left = &bytes[..];
            for piece in pieces.iter().cycle() {
                let (now, later) = left.split_at(left.len().min(*piece));
                sender.write_all(now).unwrap();
                left = later;
                if left.is_empty() {
                    break;
                }
            }
            sender.shutdown(Shutdown::Write).unwrap();
        });
        prop_assert!(rest(&mut peer) == want);
        sending.join().unwrap();
        prop_assert!(rig.bytes(&place, 0, LEN) == model);
    }
}
