//! Targets that freeze, die or are aborted; and work requests that are taken back.

use std::io::{Read, Write};
use std::net::TcpListener;

use pipeline_transports::link::{Cancelled, Flushed};
use pipeline_transports::tcp::Settings;
use pipeline_transports::tcp::frame::{self, ANSWER_BYTES, Answer, HEAD_BYTES, Kind, Tag};
use pipeline_transports::tcp::hello::Hello;
use pipeline_transports::wr::Outcome;
use pipeline_transports::{Access, LinkId, Op, RegionId, WrId};

use crate::rig::{Side, connected, drive, raw_target, request, runtime, serve, until};

/// A frozen target: nothing completes while it stands still; an abort ends every work request exactly once:
/// those of which a byte may have left as `Begun`, all others as `NotBegun`; then the lane is reported closed.
#[test]
fn abort_of_a_lane_to_a_frozen_target() {
    const LEN: u64 = 1 << 20;
    let (mut a, _frozen) = connected(&Settings { frame_bytes: 1, ..Settings::default() }, 1);
    let local = a.region(LEN, Access::Local);
    let work: Vec<_> = (0..200).map(|i| request(i, Op::Write, (local, 0), (RegionId(1), 0), LEN)).collect();
    assert_eq!(a.halves.post.post(0, LinkId(1), &work).taken, 200);
    let (mut done, mut closed) = (Vec::new(), Vec::new());
    let mut flushes = 0;
    until("the socket is full", || {
        flushes = if a.halves.post.flush(0) != Flushed::All { flushes + 1 } else { 0 };
        flushes > 100
    });
    drive(&mut a, &mut done, &mut closed);
    assert!(done.is_empty());
    assert_eq!(a.halves.reap.cancel(LinkId(1), WrId(0)), Cancelled::MustAbort);
    assert_eq!(a.halves.reap.cancel(LinkId(1), WrId(199)), Cancelled::Dropped);
    assert_eq!(a.halves.reap.cancel(LinkId(1), WrId(199)), Cancelled::NotHere);
    a.halves.reap.abort(LinkId(1));
    until("closed", || {
        drive(&mut a, &mut done, &mut closed);
        !closed.is_empty()
    });
    done.sort_by_key(|c| c.id);
    assert!(done.iter().map(|c| c.id.0).eq(0..200), "each ends once");
    let begun = done.iter().take_while(|c| c.outcome == Outcome::Begun).count();
    assert!((1..200).contains(&begun), "{begun} begun");
    assert!(done[begun..].iter().all(|c| c.outcome == Outcome::NotBegun));
    assert_eq!((a.halves.reap.outstanding(), a.halves.post.room(LinkId(1))), (0, 0));
}

/// A READ taken back while its answer is on the way: its buffer is free at once, the payload is thrown
/// away even when it began to arrive, the lane goes on, and no completion follows.
#[test]
fn a_read_taken_back_never_writes_again() {
    const LEN: u64 = 300_000;
    let (mut side, mut stream) = raw_target(&Settings::default());
    let local = side.region(2 * LEN, Access::Local);
    let reads = [
        request(1, Op::Read, (local, 0), (RegionId(1), 0), LEN),
        request(2, Op::Read, (local, LEN), (RegionId(1), 0), LEN),
    ];
    side.halves.post.post(0, LinkId(1), &reads);
    let (mut done, mut closed) = (Vec::new(), Vec::new());
    drive(&mut side, &mut done, &mut closed);
    let mut head = [0; HEAD_BYTES + 2 * ANSWER_BYTES];
    frame::put_head(&mut head, Kind::Answer, 2);
    for slot in 0..2 {
        let tag = Tag { slot, sequence: 1 };
        frame::put_answer(&mut head, slot as usize, &Answer { tag, refusal: None, length: LEN });
    }
    stream.write_all(&head).unwrap();
    stream.write_all(&[7; 1000]).unwrap();
    until("a part has come", || {
        drive(&mut side, &mut done, &mut closed);
        side.bytes(local, 999, 1) == [7]
    });
    assert_eq!(side.halves.reap.cancel(LinkId(1), WrId(1)), Cancelled::Discarding);
    side.fill(local, 0, &[0xCC; LEN as usize]);
    let rest = vec![8; LEN as usize - 1000];
    let second = vec![9; LEN as usize];
    let writer = std::thread::spawn(move || {
        stream.write_all(&rest).unwrap();
        stream.write_all(&second).unwrap();
        stream
    });
    until("the other read", || {
        drive(&mut side, &mut done, &mut closed);
        done.len() == 1
    });
    assert_eq!((done[0].id, done[0].outcome), (WrId(2), Outcome::Done));
    assert!(side.bytes(local, 0, LEN as usize).iter().all(|&b| b == 0xCC), "written after it was taken back");
    assert!(side.bytes(local, LEN, LEN as usize).iter().all(|&b| b == 9));
    assert_eq!((side.halves.reap.outstanding(), side.halves.post.room(LinkId(1))), (0, 1024));
    drop(writer.join().unwrap());
    assert!(closed.is_empty());
}

/// A killed target: answers that had come still count as done, the rest ends once, the lane is closed;
/// another lane of the same halves is not disturbed.
#[test]
fn a_killed_target_costs_only_its_lane() {
    let (mut a, mut b) = connected(&Settings::default(), 2);
    let (local, remote) = (a.region(4096, Access::Local), b.region(4096, Access::ReadWrite));
    let w = |id| request(id, Op::Write, (local, 0), (remote, 0), 4096);
    assert_eq!(a.halves.post.post(0, LinkId(1), &[w(1), w(2)]).taken, 2);
    a.halves.post.flush(0);
    let mut served = 0;
    until("both served", || {
        served += serve(&mut b);
        served == 2
    });
    assert_eq!(a.halves.post.post(0, LinkId(1), &[w(3)]).taken, 1);
    a.halves.post.flush(0);
    b.halves.serve.as_mut().unwrap().fence(LinkId(1));
    let (mut done, mut closed) = (Vec::new(), Vec::new());
    until("closed", || {
        drive(&mut a, &mut done, &mut closed);
        !closed.is_empty()
    });
    done.sort_by_key(|c| c.id);
    assert_eq!(closed, [LinkId(1)]);
    let outcomes: Vec<_> = done.iter().map(|c| c.outcome).collect();
    assert_eq!(outcomes, [Outcome::Done, Outcome::Done, Outcome::Begun]);
    assert_eq!(a.halves.post.post(0, LinkId(2), &[w(4)]).taken, 1);
    until("the other lane", || {
        drive(&mut a, &mut done, &mut closed);
        serve(&mut b);
        done.len() == 4
    });
    assert_eq!((done[3].id, done[3].outcome), (WrId(4), Outcome::Done));
}

/// A post half that is dropped, as by a panic of its stage, strands nothing: reap completes and reports all.
#[test]
fn dropping_the_post_half_ends_its_lanes() {
    let (mut a, b) = connected(&Settings::default(), 1);
    let (local, remote) = (a.region(4096, Access::Local), b.region(4096, Access::ReadWrite));
    let work: Vec<_> = (0..10).map(|i| request(i, Op::Write, (local, 0), (remote, 0), 8)).collect();
    assert_eq!(a.halves.post.post(0, LinkId(1), &work).taken, 10);
    let mut reap = a.halves.reap;
    drop(a.halves.post);
    let mut out = pipeline_transports::Completions::with_capacity(4);
    let mut ended = Vec::new();
    until("closed", || {
        out.clear();
        reap.reap(0, &mut out);
        ended.extend(out.done().iter().map(|c| (c.id.0, c.outcome)));
        !out.closed().is_empty()
    });
    assert_eq!(ended, (0..10).map(|i| (i, Outcome::NotBegun)).collect::<Vec<_>>());
}

/// A lane that dies while its post end is still in the mail is reported closed once that end arrives, or is
/// thrown away.
#[test]
fn a_lane_that_dies_in_the_mail_is_reported() {
    for adopted in [true, false] {
        let mut side = Side::new(&Settings::default());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let target = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 36 + 3 + 24]).unwrap();
            stream.write_all(&Hello::answer(Some(&Settings::default().hello()))).unwrap();
        });
        let link = runtime().block_on(side.open(address, LinkId(1))).unwrap();
        target.join().unwrap();
        side.halves.reap.adopt(link.reap.unwrap());
        let (mut done, mut closed) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            drive(&mut side, &mut done, &mut closed);
        }
        assert!(closed.is_empty(), "the post end may still be touching memory");
        match adopted {
            true => side.halves.post.adopt(link.post.unwrap()),
            false => drop(link.post),
        }
        until("closed", || {
            drive(&mut side, &mut done, &mut closed);
            !closed.is_empty()
        });
        assert!(done.is_empty());
    }
}

/// Lengths are 64 bits all the way: a READ of 5 GiB is asked for as such, and its buffer is untouched by an
/// answer of the same length modulo 2^32.
#[test]
fn lengths_are_64_bits() {
    const LEN: u64 = 5 << 30;
    let (mut side, mut stream) = raw_target(&Settings::default());
    let local = side.region(LEN, Access::Local);
    side.halves.post.post(0, LinkId(1), &[request(1, Op::Read, (local, 0), (RegionId(1), 1 << 33), LEN)]);
    let (mut done, mut closed) = (Vec::new(), Vec::new());
    drive(&mut side, &mut done, &mut closed);
    let mut bytes = [0; HEAD_BYTES + frame::DESCRIPTOR_BYTES];
    stream.read_exact(&mut bytes).unwrap();
    let d = frame::descriptor(&bytes, 0).unwrap();
    assert_eq!((d.length, d.offset), (LEN, 1 << 33));
    let mut answer = [0; HEAD_BYTES + ANSWER_BYTES];
    frame::put_head(&mut answer, Kind::Answer, 1);
    frame::put_answer(&mut answer, 0, &Answer { tag: d.tag, refusal: None, length: LEN & 0xFFFF_FFFF });
    stream.write_all(&answer).unwrap();
    until("closed", || {
        drive(&mut side, &mut done, &mut closed);
        !closed.is_empty()
    });
    assert_eq!(done[0].outcome, Outcome::Begun);
}
