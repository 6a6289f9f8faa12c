//! What a target may answer, and what it may not: played byte by byte.

use std::io::{Read, Write};
use std::net::Shutdown;

use pipeline_transports::mooncake::Settings;
use pipeline_transports::mooncake::wire::Framing;
use pipeline_transports::wr::{Blame, Outcome, Refusal, Span};
use pipeline_transports::{LinkId, Op, RegionId, WorkRequest};

use crate::rig::{REMOTE, REMOTE_LEN, Side, pattern, request, until};
use crate::server::{OK, REJECTED, body, header};

/// Turns until the target has `len` bytes of us.
fn until_sent(side: &mut Side, stream: &std::net::TcpStream, len: usize) {
    until("sent", || {
        side.turn(0);
        stream.peek(&mut vec![0; len]).unwrap() == len
    });
}

/// Answers that come a byte at a time, or all at once, are the same answers.
#[test]
fn torn_at_every_byte() {
    for framing in [Framing::V1, Framing::V2] {
        for piece in [1, 3, 1000] {
            let (mut side, mut stream) = Side::raw_target(&Settings::default(), framing);
            let local = side.region(4096);
            let work = [
                request(1, Op::Read, local, 0, 0, 30),
                request(2, Op::Write, local, 100, 0, 1),
                request(3, Op::Read, local, 200, 0, 9),
                request(4, Op::Write, local, 300, 0, 2),
            ];
            side.post(&work);
            side.turn(0);
            let bytes = pattern(39, 5);
            let status = if framing == Framing::V2 { &OK[..] } else { &[] };
            let last = if framing == Framing::V2 { &OK[..] } else { &[0xEE] };
            let reply = [status, &bytes[..30], status, status, &bytes[30..], last].concat();
            stream.set_nodelay(true).unwrap();
            for part in reply.chunks(piece) {
                stream.write_all(part).unwrap();
                side.turn(0);
            }
            side.until_ended(4);
            assert_eq!(side.outcomes(), [Outcome::Done; 4], "{framing:?} in pieces of {piece}");
            assert_eq!(side.ended.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 2, 3, 4]);
            assert_eq!([side.bytes(local, 0, 30), side.bytes(local, 200, 9)].concat(), bytes);
            assert_eq!(side.bytes(local, 30, 70), [0; 70]);
        }
    }
}

/// A target that rejects a request has stopped there: that one is refused, those before it are done, those behind it have
/// not begun, also when their bytes have all been sent; and nobody is to blame.
#[test]
fn what_a_rejection_leaves() {
    for behind in [Op::Read, Op::Write] {
        let (mut side, mut stream) = Side::raw_target(&Settings::default(), Framing::V2);
        let local = side.region(1 << 20);
        side.post(&[
            request(1, Op::Read, local, 0, 0, 4),
            request(2, Op::Write, local, 0, 4096, 100),
            request(3, behind, local, 0, 8192, 5000),
            request(4, Op::Read, local, 0, 8192, 50),
        ]);
        side.turn(0);
        stream.write_all(&[&OK[..], &[7; 4], &REJECTED[..]].concat()).unwrap();
        drop(stream);
        assert_eq!(side.until_closed(), Blame::Nobody);
        let refused = Outcome::Refused(Refusal::Unsaid);
        assert_eq!(side.outcomes(), [Outcome::Done, refused, Outcome::NotBegun, Outcome::NotBegun]);
    }
}

/// A rejection that comes while the payload is still being sent waits until nothing of it is read any more.
#[test]
fn a_rejection_in_the_middle_of_a_payload() {
    let (mut side, mut stream) = Side::raw_target(&Settings::default(), Framing::V2);
    let len = 48 << 20;
    let local = side.region(len);
    side.post(&[request(1, Op::Write, local, 0, 0, len), request(2, Op::Write, local, 0, 0, 10)]);
    side.turn(0);
    header(&mut stream).unwrap();
    stream.write_all(&REJECTED).unwrap();
    drop(stream);
    side.until_closed();
    assert_eq!(side.outcomes(), [Outcome::Refused(Refusal::Unsaid), Outcome::NotBegun]);
}

/// In the first version a rejection is a closed connection, which says nothing of what was applied.
#[test]
fn the_first_version_cannot_say_why() {
    let (mut side, mut stream) = Side::raw_target(&Settings::default(), Framing::V1);
    let local = side.region(4096);
    side.post(&[request(1, Op::Write, local, 0, 0, 10), request(2, Op::Read, local, 0, 0, 10)]);
    side.turn(0);
    header(&mut stream).unwrap();
    drop(stream);
    assert_eq!(side.until_closed(), Blame::Peer);
    assert_eq!(side.outcomes(), [Outcome::Begun; 2]);
}

/// A WRITE of the first version is done when a byte of an answer behind it has come, not before.
#[test]
fn the_first_version_waits_for_its_question() {
    let (mut side, mut stream) = Side::raw_target(&Settings::default(), Framing::V1);
    let local = side.region(4096);
    side.post(&[request(1, Op::Write, local, 0, 0, 10), request(2, Op::Write, local, 0, 0, 10)]);
    side.turn(0);
    assert_eq!(body(&mut stream, 2 * 34 + 24).len(), 92);
    for _ in 0..100 {
        side.turn(0);
    }
    assert_eq!(side.ended, []);
    stream.write_all(&[1]).unwrap();
    side.until_ended(2);
    assert_eq!(side.outcomes(), [Outcome::Done; 2]);
}

/// What is no status, a status that nobody has defined, and bytes that nobody asked for end the lane, and the peer is to
/// blame. What was asked of it may have begun.
#[test]
fn violations() {
    let unknown = *b"\x02\0\0\0VTCM";
    for (answer, ended) in [
        (vec![0u8; 8], vec![Outcome::Begun]),
        (unknown.to_vec(), vec![Outcome::Begun]),
        ([OK, OK].concat(), vec![Outcome::Done]),
    ] {
        let (mut side, mut stream) = Side::raw_target(&Settings::default(), Framing::V2);
        let local = side.region(4096);
        side.post(&[request(1, Op::Write, local, 0, 0, 10)]);
        until_sent(&mut side, &stream, 34);
        stream.write_all(&answer).unwrap();
        assert_eq!(side.until_closed(), Blame::Peer, "{answer:?}");
        assert_eq!(side.outcomes(), ended, "{answer:?}");
    }
}

/// An answer that comes before the payload has left does not free the buffer that is being sent; it counts when that has
/// left.
#[test]
fn an_early_answer_waits() {
    let (mut side, mut stream) = Side::raw_target(&Settings::default(), Framing::V2);
    let len = 32 << 20;
    let local = side.region(len);
    let bytes = pattern(len as usize, 9);
    side.fill(local, 0, &bytes);
    side.post(&[request(1, Op::Write, local, 0, 0, len)]);
    stream.write_all(&OK).unwrap();
    until("the socket is full", || {
        side.turn(0);
        side.halves.post.flush(0) == pipeline_transports::Flushed::Stuck
    });
    for _ in 0..100 {
        side.turn(0);
    }
    assert_eq!(side.ended, [], "the payload is still being sent");
    let target = std::thread::spawn(move || {
        header(&mut stream).unwrap();
        (body(&mut stream, len as usize), stream)
    });
    side.until_ended(1);
    assert_eq!(side.outcomes(), [Outcome::Done]);
    assert!(target.join().unwrap().0 == bytes);
}

/// A target that dies leaves what it had read in part as begun, what had not left as not begun, and what it had answered
/// as done, also where it answered last of all.
#[test]
fn a_target_that_dies() {
    let (mut side, mut stream) = Side::raw_target(&Settings::default(), Framing::V2);
    let len = 32 << 20;
    let local = side.region(len);
    let small = |id| request(id, Op::Write, local, 0, 0, 100);
    side.post(&[
        small(1),
        request(2, Op::Write, local, 0, 0, len),
        small(3),
        request(4, Op::Read, local, 0, 0, 8),
    ]);
    for _ in 0..50 {
        side.turn(0);
    }
    header(&mut stream).unwrap();
    body(&mut stream, 100);
    stream.write_all(&OK).unwrap();
    // As when a process is killed: unread bytes make it a reset, and its last answer must not be lost by it.
    drop(stream);
    assert_eq!(side.until_closed(), Blame::Peer);
    assert_eq!(side.outcomes(), [Outcome::Done, Outcome::Begun, Outcome::NotBegun, Outcome::NotBegun]);
}

/// An idle lane that its target closes is reported, and nobody is to blame.
#[test]
fn an_idle_lane_may_be_closed() {
    for whole in [true, false] {
        let (mut side, stream) = Side::raw_target(&Settings::default(), Framing::V2);
        side.turn(0);
        if whole {
            drop(stream);
            assert_eq!(side.until_closed(), Blame::Nobody);
        } else {
            stream.shutdown(Shutdown::Write).unwrap();
            assert_eq!(side.until_closed(), Blame::Nobody);
            let mut rest = Vec::new();
            (&stream).read_to_end(&mut rest).unwrap();
            assert!(rest.is_empty(), "it was let go of, without a word");
        }
    }
}

/// What cannot be asked is not: regions that nobody knows, ranges beyond them, local bytes that are nowhere, and nothing at
/// all. Each ends in its turn, and its neighbours as if it were not there.
#[test]
fn what_is_never_sent() {
    let (mut side, mut stream) = Side::raw_target(&Settings::default(), Framing::V2);
    let local = side.region(4096);
    let good = |id| request(id, Op::Read, local, 0, 0, 8);
    let to = |region, offset| Span { region, offset };
    let nowhere = WorkRequest { remote: to(RegionId(9 << 32), 0), ..good(2) };
    let beyond = WorkRequest { remote: to(REMOTE, REMOTE_LEN - 7), ..good(3) };
    let unknown = WorkRequest { local: to(RegionId(u64::MAX), 0), ..good(4) };
    let empty = WorkRequest { len: 0, ..good(5) };
    side.post(&[good(1), nowhere, beyond, unknown, empty, good(6)]);
    side.turn(0);
    assert_eq!(side.ended, []);
    let answer = [&OK[..], &[1; 8]].concat();
    stream.write_all(&[&answer[..], &answer[..]].concat()).unwrap();
    side.until_ended(6);
    let refused = Outcome::Refused;
    assert_eq!(
        side.outcomes(),
        [
            Outcome::Done,
            refused(Refusal::UnknownRegion),
            refused(Refusal::OutOfBounds),
            Outcome::Failed,
            refused(Refusal::Malformed),
            Outcome::Done,
        ]
    );
    assert_eq!(body(&mut stream, 48).len(), 48);
    side.post(&[nowhere]);
    side.until_ended(7);
    assert!(side.halves.post.room(LinkId(1)) > 0);
}
