//! Lanes that their dialler has closed, with bytes that the target has not read: what the target still does with them,
//! and that a fence ends it. From hand-made initiators, over real sockets.

use std::io::Write;
use std::net::{Shutdown, TcpStream};

use pipeline_transports::tcp::Settings;
use pipeline_transports::tcp::frame::{self, DESCRIPTOR_BYTES, Descriptor, HEAD_BYTES, Kind, Tag};
use pipeline_transports::{Access, LinkId, Op, RegionId};

use crate::rig::{Side, raw_initiator, serve, until};

const LEN: usize = 256 << 10;

/// How a dialler leaves.
#[derive(Clone, Copy, Debug)]
enum Leaves {
    /// It closes its direction.
    Fin,
    /// It resets the connection.
    Rst,
    /// It only stops: its machine hangs.
    Stays,
}

fn leave(stream: TcpStream, how: Leaves) -> Option<TcpStream> {
    match how {
        Leaves::Fin => {
            stream.shutdown(Shutdown::Write).unwrap();
            Some(stream)
        }
        Leaves::Rst => {
            socket2::SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
            None
        }
        Leaves::Stays => Some(stream),
    }
}

/// A request frame of one WRITE over the whole region, with its payload.
fn write_of(region: RegionId) -> Vec<u8> {
    let mut bytes = vec![0; HEAD_BYTES + DESCRIPTOR_BYTES];
    frame::put_head(&mut bytes, Kind::Request, 1);
    let tag = Tag { slot: 1, sequence: 1 };
    frame::put_descriptor(
        &mut bytes,
        0,
        &Descriptor { tag, op: Op::Write, region, offset: 0, length: LEN as u64 },
    );
    bytes.resize(bytes.len() + LEN, 7);
    bytes
}

/// A target with the whole of a WRITE in its socket, of which it has placed the first `seen` bytes.
fn target(seen: usize, how: Leaves) -> (Side, RegionId, Option<TcpStream>) {
    let (mut stream, mut side) = raw_initiator(&Settings::default());
    let region = side.region(LEN as u64, Access::Write);
    let bytes = write_of(region);
    let (first, rest) = bytes.split_at(HEAD_BYTES + DESCRIPTOR_BYTES + seen);
    if seen > 0 {
        stream.write_all(first).unwrap();
        until("the first bytes are there", || {
            serve(&mut side);
            side.bytes(region, seen as u64 - 1, 1) == [7]
        });
        stream.write_all(rest).unwrap();
    } else {
        stream.write_all(&bytes).unwrap();
    }
    let stream = leave(stream, how);
    (side, region, stream)
}

fn step(side: &mut Side) {
    for _ in 0..1000 {
        serve(side);
    }
}

/// However its dialler has left, and wherever in a frame the target stood: after a fence not a byte of what its socket
/// held is applied, the lane is reported closed once, and the region is free.
#[test]
fn nothing_is_applied_after_a_fence() {
    for how in [Leaves::Fin, Leaves::Rst, Leaves::Stays] {
        for seen in [0, 1, 1000, LEN - 1] {
            let (mut side, region, _stream) = target(seen, how);
            let half = side.halves.serve.as_mut().unwrap();
            half.fence(LinkId(1));
            assert_eq!((half.closed(), half.closed()), (Some(LinkId(1)), None), "{how:?} {seen}");
            half.fence(LinkId(1));
            assert_eq!(half.closed(), None, "once");
            side.fill(region, 0, &vec![0xA5; LEN]);
            step(&mut side);
            assert!(side.bytes(region, 0, LEN).iter().all(|b| *b == 0xA5), "{how:?} {seen}: late bytes");
            side.regions.unpin(region);
            assert!(side.regions.remove(region).is_ok(), "{how:?} {seen}: a guard was left");
        }
    }
}

/// What the fence is for: without one a target applies what its socket holds, though the dialler closed it long since,
/// over whatever was put there meanwhile.
#[test]
fn without_a_fence_bytes_come_late() {
    let (mut side, region, stream) = target(1000, Leaves::Fin);
    side.fill(region, 0, &vec![0xA5; LEN]);
    step(&mut side);
    assert!(side.bytes(region, 1000, LEN - 1000).iter().all(|b| *b == 7));
    drop(stream);
}

/// A lane is reported closed once when its dialler closes it, and when it breaks the protocol; one that goes on is not.
#[test]
fn closed_lanes_are_reported_once() {
    let ends: [fn(&mut TcpStream); 2] =
        [|stream| stream.shutdown(Shutdown::Both).unwrap(), |stream| stream.write_all(&[0xEE; 64]).unwrap()];
    for end in ends {
        let (mut stream, mut side) = raw_initiator(&Settings::default());
        step(&mut side);
        assert_eq!(side.halves.serve.as_mut().unwrap().closed(), None);
        end(&mut stream);
        let mut closed = Vec::new();
        until("reported", || {
            serve(&mut side);
            closed.extend(side.halves.serve.as_mut().unwrap().closed());
            !closed.is_empty()
        });
        step(&mut side);
        assert_eq!((closed, side.halves.serve.as_mut().unwrap().closed()), (vec![LinkId(1)], None));
    }
}
