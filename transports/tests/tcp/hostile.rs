//! Hand-made peers that break the protocol, in either role. Nothing from the wire is trusted.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use pipeline_transports::tcp::Settings;
use pipeline_transports::tcp::frame::{
    self, ANSWER_BYTES, Answer, DESCRIPTOR_BYTES, Descriptor, HEAD_BYTES, Kind, Tag,
};
use pipeline_transports::wr::{Outcome, Refusal};
use pipeline_transports::{Access, LinkId, Op, RegionId};

use crate::rig::{Side, drive, raw_initiator, raw_target, request, serve, until};

fn frame_of(descriptors: &[Descriptor]) -> Vec<u8> {
    let mut b = vec![0; HEAD_BYTES + descriptors.len() * DESCRIPTOR_BYTES];
    frame::put_head(&mut b, Kind::Request, descriptors.len());
    for (i, d) in descriptors.iter().enumerate() {
        frame::put_descriptor(&mut b, i, d);
    }
    b
}

fn answers_of(answers: &[Answer]) -> Vec<u8> {
    let mut b = vec![0; HEAD_BYTES + answers.len() * ANSWER_BYTES];
    frame::put_head(&mut b, Kind::Answer, answers.len());
    for (i, a) in answers.iter().enumerate() {
        frame::put_answer(&mut b, i, a);
    }
    b
}

fn descriptor(op: Op, region: RegionId, offset: u64, length: u64) -> Descriptor {
    Descriptor { tag: Tag { slot: 77, sequence: 9 }, op, region, offset, length }
}

/// Whether the other side has closed: reads to the end, serving meanwhile.
fn closes(stream: &mut TcpStream, side: &mut Side) -> bool {
    stream.set_nonblocking(true).unwrap();
    let mut byte = [0; 4096];
    let mut closed = false;
    until("closed", || {
        serve(side);
        closed = match stream.read(&mut byte) {
            Ok(0) => true,
            Ok(_) => false,
            Err(e) => e.kind() != std::io::ErrorKind::WouldBlock,
        };
        closed
    });
    closed
}

fn read_answer(stream: &mut TcpStream, side: &mut Side) -> Answer {
    stream.set_nonblocking(true).unwrap();
    let mut b = [0; HEAD_BYTES + ANSWER_BYTES];
    let mut got = 0;
    until("an answer", || {
        serve(side);
        got += stream.read(&mut b[got..]).unwrap_or(0);
        got == b.len()
    });
    assert_eq!(frame::head(&b, Kind::Answer, 1), Ok(1));
    frame::answer(&b, 0).unwrap()
}

/// Each malformed frame closes its lane and is counted once; the bytes around are untouched, and the node
/// serves the next peer.
#[test]
fn malformed_request_frames_close_the_lane() {
    let mut count = frame_of(&[descriptor(Op::Read, RegionId(0), 0, 1)]);
    let (mut zero, mut many, mut kind, mut op) = (count.clone(), count.clone(), count.clone(), count.clone());
    zero[3] = 0;
    many[3] = 65;
    kind[2] = 2;
    op[HEAD_BYTES + 32] = 9;
    count[0] = b'G';
    let long = frame_of(&[descriptor(Op::Write, RegionId(0), 0, 1 << 40)]);
    for (i, bytes) in [zero, many, kind, op, count, long].iter().enumerate() {
        let (mut stream, mut side) = raw_initiator(&Settings::default());
        stream.write_all(bytes).unwrap();
        assert!(closes(&mut stream, &mut side), "frame {i}");
        assert_eq!(side.transport.counters().violations(), 1, "frame {i}");
    }
}

/// Wrapped ranges, ranges a byte outside, a read of 2^40 bytes, unknown and just unregistered regions are
/// refused by an answer; the canary stays; the same lane serves the next good request (B05, B39).
#[test]
fn hostile_ranges_are_refused() {
    let (mut stream, mut side) = raw_initiator(&Settings::default());
    let region = side.region(8192, Access::ReadWrite);
    side.fill(region, 0, &[0x5A; 8192]);
    let gone = side.region(4096, Access::ReadWrite);
    side.regions.unpin(gone);
    side.regions.remove(gone).unwrap();
    let cases = [
        (descriptor(Op::Write, region, 0xFFFF_FFFF_FFFF_F000, 0x2000), Refusal::OutOfBounds),
        (descriptor(Op::Write, region, 8185, 8), Refusal::OutOfBounds),
        (descriptor(Op::Read, region, u64::MAX, 1), Refusal::OutOfBounds),
        (descriptor(Op::Read, region, 0, 1 << 40), Refusal::Malformed),
        (descriptor(Op::Read, region, 0, u64::MAX), Refusal::Malformed),
        (descriptor(Op::Write, gone, 0, 8), Refusal::UnknownRegion),
        (descriptor(Op::Write, RegionId(0), 0, 8), Refusal::UnknownRegion),
        (descriptor(Op::Write, RegionId(u64::MAX), 0, 8), Refusal::UnknownRegion),
        (descriptor(Op::Write, region, 0, 0), Refusal::Malformed),
    ];
    for (d, why) in cases {
        let mut bytes = frame_of(&[d]);
        if d.op == Op::Write {
            bytes.resize(bytes.len() + d.length as usize, 0xEE);
        }
        stream.set_nonblocking(false).unwrap();
        stream.write_all(&bytes).unwrap();
        let answer = read_answer(&mut stream, &mut side);
        assert_eq!((answer.tag, answer.refusal, answer.length), (d.tag, Some(why), 0), "{d:?}");
    }
    assert_eq!(side.bytes(region, 0, 8192), [0x5A; 8192]);
    let good = descriptor(Op::Write, region, 8191, 1);
    stream.set_nonblocking(false).unwrap();
    stream.write_all(&[&frame_of(&[good])[..], &[1]].concat()).unwrap();
    assert_eq!(read_answer(&mut stream, &mut side).refusal, None);
    assert_eq!(side.bytes(region, 8190, 2), [0x5A, 1]);
    let counters = side.transport.counters();
    assert_eq!((counters.refused(), counters.violations()), (9, 0));
}

/// A WRITE is answered only when its last byte is in place: one byte short there is no answer (B25), and the
/// region cannot be removed; after a fence it can, and nothing of the lane touches it any more.
#[test]
fn no_ack_before_the_last_byte_and_none_after_a_fence() {
    let (mut stream, mut side) = raw_initiator(&Settings::default());
    let region = side.region(4096, Access::ReadWrite);
    let bytes = [&frame_of(&[descriptor(Op::Write, region, 0, 4096)])[..], &[7; 4095]].concat();
    stream.write_all(&bytes).unwrap();
    until("the payload is in place", || {
        assert_eq!(serve(&mut side), 0, "answered before the end");
        side.bytes(region, 4094, 1) == [7]
    });
    side.regions.unpin(region);
    assert!(side.regions.remove(region).is_err(), "a peer is writing to it");
    side.halves.serve.as_mut().unwrap().fence(LinkId(1));
    side.regions.remove(region).expect("nobody touches it after the fence");
    assert!(closes(&mut stream, &mut side));
}

/// A frame of READs beyond what the peer reads: its lane stops being read, memory stays bounded, and other
/// work goes on; closing it lets go of the regions.
#[test]
fn a_peer_that_reads_no_answers_is_not_served_further() {
    let (mut stream, mut side) = raw_initiator(&Settings::default());
    let region = side.region(1 << 20, Access::Read);
    let frame = frame_of(&[descriptor(Op::Read, region, 0, 1 << 20); 64]);
    stream.set_nonblocking(true).unwrap();
    let (mut answered, mut idle) = (0, 0);
    until("no further progress", || {
        let _ = stream.write(&frame);
        let n = serve(&mut side);
        answered += n;
        idle = if n == 0 { idle + 1 } else { 0 };
        idle > 1000
    });
    assert!(answered < 1000, "{answered} answers queued for a peer that reads none");
    stream.shutdown(Shutdown::Both).unwrap();
    drop(stream);
    side.regions.unpin(region);
    until("the region is free", || {
        serve(&mut side);
        side.regions.remove(region).is_ok()
    });
}

/// Answers nobody waits for, of a wrong sequence, of a wrong length, given twice, or not frames at all, close
/// the lane: what was posted ends once, and the next lane works.
#[test]
fn hostile_answers_close_the_lane() {
    let tag = Tag { slot: 0, sequence: 1 };
    let ok = Answer { tag, refusal: None, length: 0 };
    let cases: [(&str, Vec<u8>); 7] = [
        ("unknown slot", answers_of(&[Answer { tag: Tag { slot: 5000, sequence: 1 }, ..ok }])),
        ("free slot", answers_of(&[Answer { tag: Tag { slot: 1, sequence: 0 }, ..ok }])),
        ("old sequence", answers_of(&[Answer { tag: Tag { slot: 0, sequence: 0 }, ..ok }])),
        ("payload for a write", answers_of(&[Answer { length: 10, ..ok }])),
        ("twice", answers_of(&[ok, ok])),
        ("not a frame", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        ("a request", frame_of(&[descriptor(Op::Read, RegionId(0), 0, 1)])),
    ];
    for (what, bytes) in cases {
        let (mut side, mut stream) = raw_target(&Settings::default());
        let local = side.region(4096, Access::Local);
        let w = request(42, Op::Write, (local, 0), (RegionId(1), 0), 10);
        assert_eq!(side.halves.post.post(0, LinkId(1), &[w]).taken, 1);
        let (mut done, mut closed) = (Vec::new(), Vec::new());
        drive(&mut side, &mut done, &mut closed);
        stream.write_all(&bytes).unwrap();
        until(what, || {
            drive(&mut side, &mut done, &mut closed);
            !closed.is_empty()
        });
        assert_eq!((done.len(), closed.as_slice()), (1, &[LinkId(1)][..]), "{what}");
        assert_eq!(done[0].outcome, if what == "twice" { Outcome::Done } else { Outcome::Begun }, "{what}");
        assert_eq!(side.transport.counters().violations(), 1, "{what}");
        assert_eq!(side.halves.post.post(0, LinkId(1), &[w]).taken, 0, "{what}");
    }
}

/// A target that acknowledges a WRITE it has not received does not get the buffer handed back while it is
/// still being sent.
#[test]
fn an_early_ack_waits_for_the_payload() {
    let small = Settings { send_buffer_bytes: Some(64 << 10), ..Settings::default() };
    let (mut side, mut stream) = raw_target(&small);
    const LEN: u64 = 16 << 20;
    let local = side.region(LEN, Access::Local);
    let w = request(1, Op::Write, (local, 0), (RegionId(1), 0), LEN);
    side.halves.post.post(0, LinkId(1), &[w]);
    let (mut done, mut closed) = (Vec::new(), Vec::new());
    drive(&mut side, &mut done, &mut closed);
    let ack = answers_of(&[Answer { tag: Tag { slot: 0, sequence: 1 }, refusal: None, length: 0 }]);
    stream.write_all(&ack).unwrap();
    for _ in 0..1000 {
        drive(&mut side, &mut done, &mut closed);
    }
    assert!(done.is_empty() && closed.is_empty());
    let reader = std::thread::spawn(move || {
        let mut sink = vec![0; 1 << 20];
        let mut total = 0;
        while total < LEN as usize + HEAD_BYTES + DESCRIPTOR_BYTES {
            total += stream.read(&mut sink).unwrap();
        }
        stream
    });
    until("done after the last byte", || {
        drive(&mut side, &mut done, &mut closed);
        done.len() == 1
    });
    assert_eq!(done[0].outcome, Outcome::Done);
    drop(reader.join().unwrap());
}
