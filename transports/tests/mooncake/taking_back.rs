//! Work requests that are taken back, and lanes that are aborted, while a target that the test plays stands still.

use std::io::Write;

use pipeline_transports::mooncake::Settings;
use pipeline_transports::mooncake::wire::Framing;
use pipeline_transports::wr::Outcome;
use pipeline_transports::{Cancelled, LinkId, Op, WrId};

use crate::rig::{Side, pattern, request, until};
use crate::server::OK;

/// The buffer of a READ that was taken back in the middle of its payload keeps what its owner puts there; what follows on
/// the lane is right.
#[test]
fn late_bytes_land_nowhere() {
    for framing in [Framing::V1, Framing::V2] {
        let (mut side, mut stream) = Side::raw_target(&Settings::default(), framing);
        let len = 300_000usize;
        let local = side.region(1 << 20);
        let read = |id, near| request(id, Op::Read, local, near, 0, len as u64);
        side.post(&[read(1, 0), read(2, 400_000)]);
        side.turn(0);
        let (first, second) = (pattern(len, 1), pattern(len, 2));
        let status = if framing == Framing::V2 { &OK[..] } else { &[] };
        stream.write_all(&[status, &first[..100_000]].concat()).unwrap();
        until("some has come", || {
            side.turn(0);
            side.bytes(local, 99_999, 1)[0] == first[99_999]
        });
        assert_eq!(side.halves.reap.cancel(LinkId(1), WrId(1)), Cancelled::Discarding);
        assert_eq!(side.halves.reap.cancel(LinkId(1), WrId(1)), Cancelled::NotHere);
        assert_eq!(side.halves.reap.outstanding(), 1);
        let owner = vec![0xA5; len];
        side.fill(local, 0, &owner);
        let rest = [&first[100_000..], status, &second].concat();
        let sending = std::thread::spawn(move || {
            stream.write_all(&rest).unwrap();
            stream
        });
        side.until_ended(1);
        assert_eq!(side.ended, [(2, Outcome::Done)]);
        assert!(side.bytes(local, 0, len) == owner, "late bytes landed");
        assert!(side.bytes(local, 400_000, len) == second);
        drop(sending.join().unwrap());
    }
}

/// What is taken back before it began is not sent, whatever stands before and behind it, and gives its room back.
#[test]
fn what_has_not_begun_is_not_sent() {
    let (mut side, mut stream) = Side::raw_target(&Settings { depth: 4, ..Settings::default() }, Framing::V2);
    let local = side.region(4096);
    let work: Vec<_> = (1..=4).map(|id| request(id, Op::Write, local, 0, 0, id * 10)).collect();
    side.post(&work);
    assert_eq!(side.halves.post.room(LinkId(1)), 0);
    for id in [2, 3] {
        assert_eq!(side.halves.reap.cancel(LinkId(1), WrId(id)), Cancelled::Dropped);
    }
    side.turn(0);
    assert_eq!(side.outcomes(), [Outcome::NotBegun; 2]);
    assert_eq!(side.halves.reap.cancel(LinkId(1), WrId(4)), Cancelled::MustAbort);
    let sent = crate::server::body(&mut stream, 2 * 24 + 50);
    assert_eq!((sent[0], sent[34]), (10, 40));
    stream.write_all(&[OK, OK].concat()).unwrap();
    side.until_ended(4);
    assert_eq!(side.ended[2..], [(1, Outcome::Done), (4, Outcome::Done)]);
    assert_eq!(side.halves.post.room(LinkId(1)), 4);
}

/// An aborted lane ends all that was posted on it: what has left as begun, what has not as not begun; then it is closed,
/// and its target sees the end.
#[test]
fn an_aborted_lane() {
    let (mut side, stream) = Side::raw_target(&Settings::default(), Framing::V2);
    let local = side.region(32 << 20);
    side.post(&[
        request(1, Op::Read, local, 0, 0, 100),
        request(2, Op::Write, local, 0, 0, 32 << 20),
        request(3, Op::Read, local, 0, 0, 100),
    ]);
    for _ in 0..50 {
        side.turn(0);
    }
    side.halves.reap.abort(LinkId(1));
    side.until_closed();
    assert_eq!(side.outcomes(), [Outcome::Begun, Outcome::Begun, Outcome::NotBegun]);
    std::io::copy(&mut &stream, &mut std::io::sink()).unwrap();
}
