//! Bytes to and from a target that speaks as Mooncake does, in both versions of its protocol.

use pipeline_transports::mooncake::Settings;
use pipeline_transports::mooncake::wire::Framing;
use pipeline_transports::wr::Outcome;
use pipeline_transports::{LinkId, Op};

use crate::rig::{BASE, Side, pattern, request, until};
use crate::server::Server;

const SIZES: [u64; 9] = [1, 7, 4095, 4096, 65_536, 65_537, (1 << 20) + 1, 3 << 20, 8 << 20];

fn connected(settings: &Settings, framing: Framing) -> (Side, Server) {
    let server = Server::start();
    let mut side = Side::new(settings);
    side.dial(LinkId(1), &[server.at], framing).unwrap();
    (side, server)
}

/// A WRITE and a READ of any size move exactly their bytes, in both versions; those around stay.
#[test]
fn exact_bytes() {
    for framing in [Framing::V1, Framing::V2] {
        let (mut side, server) = connected(&Settings::default(), framing);
        let whole = SIZES[SIZES.len() - 1] + 4096;
        let (out, back) = (side.region(whole), side.region(whole));
        let bytes = pattern(whole as usize, 3);
        side.fill(out, 0, &bytes);
        for (i, len) in SIZES.into_iter().enumerate() {
            let (near, far) = (i as u64 * 17, i as u64 * 31 + 5);
            server.memory.lock().unwrap().fill(0xA5);
            side.fill(back, 0, &vec![0x5A; whole as usize]);
            side.post(&[
                request(1, Op::Write, out, near, far, len),
                request(2, Op::Read, back, near, far, len),
            ]);
            side.until_ended(2);
            assert_eq!(side.outcomes(), [Outcome::Done; 2], "{len} bytes, {framing:?}");
            side.ended.clear();
            let sent = &bytes[near as usize..(near + len) as usize];
            let (first, end) = (far as usize, (far + len) as usize);
            let memory = server.memory.lock().unwrap();
            assert!(memory[first..end] == *sent, "{len} bytes written, {framing:?}");
            assert!(memory[..first].iter().chain(&memory[end..end + 4096]).all(|b| *b == 0xA5));
            let (first, end) = (near as usize, (near + len) as usize);
            let got = side.bytes(back, 0, whole as usize);
            assert!(got[first..end] == *sent, "{len} bytes read, {framing:?}");
            assert!(got[..first].iter().chain(&got[end..]).all(|b| *b == 0x5A));
        }
        assert_eq!(side.halves.reap.outstanding(), 0);
    }
}

/// Thousands of requests of random sizes, READs and WRITEs mixed, on a lane that is as deep as eight or as a thousand,
/// complete exactly once each, bytes exact.
#[test]
fn many_mixed() {
    for (framing, depth) in [(Framing::V1, 8), (Framing::V2, 8), (Framing::V1, 1000), (Framing::V2, 1000)] {
        let (mut side, server) = connected(&Settings { depth, ..Settings::default() }, framing);
        const COUNT: u64 = 3000;
        const BLOCK: u64 = 9000;
        let local = side.region(COUNT * BLOCK);
        let (near, far) = (pattern((COUNT * BLOCK) as usize, 1), pattern((COUNT * BLOCK) as usize, 2));
        side.fill(local, 0, &near);
        server.memory.lock().unwrap()[..far.len()].copy_from_slice(&far);
        let len = |i: u64| {
            1 + i.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (BLOCK - 1) * u64::from(!i.is_multiple_of(3))
        };
        let op = |i: u64| if i % 5 < 3 { Op::Write } else { Op::Read };
        let work: Vec<_> =
            (0..COUNT).map(|i| request(i, op(i), local, i * BLOCK, i * BLOCK, len(i))).collect();
        let mut left = &work[..];
        until("all have ended", || {
            left = &left[side.halves.post.post(0, LinkId(1), left).taken..];
            side.turn(0);
            side.ended.len() == work.len()
        });
        assert_eq!(side.outcomes(), vec![Outcome::Done; work.len()]);
        let (mut want_near, mut want_far) = (near.clone(), far.clone());
        for i in 0..COUNT {
            let at = (i * BLOCK) as usize..(i * BLOCK + len(i)) as usize;
            match op(i) {
                Op::Write => want_far[at.clone()].copy_from_slice(&near[at]),
                Op::Read => want_near[at.clone()].copy_from_slice(&far[at]),
            }
        }
        assert!(side.bytes(local, 0, want_near.len()) == want_near, "{framing:?} {depth}");
        assert!(server.memory.lock().unwrap()[..want_far.len()] == want_far, "{framing:?} {depth}");
    }
}

/// WRITEs of the first version are followed by one question a batch, a READ of one byte of the last of them, and those of
/// the second by none.
#[test]
fn one_question_a_batch() {
    for (framing, want) in [(Framing::V1, vec![1, 1, 1, 0]), (Framing::V2, vec![0x81, 0x81, 0x81])] {
        let (mut side, server) = connected(&Settings::default(), framing);
        let local = side.region(4096);
        let work: Vec<_> = (0..3).map(|i| request(i, Op::Write, local, 0, i * 100, 100)).collect();
        side.post(&work);
        side.until_ended(3);
        assert_eq!(side.outcomes(), [Outcome::Done; 3]);
        let seen = server.seen.lock().unwrap().clone();
        assert_eq!(seen.iter().map(|r| r.op).collect::<Vec<_>>(), want);
        if let Some(question) = seen.get(3) {
            assert_eq!((question.addr, question.size), (BASE + 200, 1));
        }
    }
}

/// A READ behind WRITEs of the first version is question enough.
#[test]
fn a_read_is_a_question() {
    let (mut side, server) = connected(&Settings::default(), Framing::V1);
    let local = side.region(4096);
    let write = request(1, Op::Write, local, 0, 0, 100);
    side.post(&[write, request(2, Op::Read, local, 200, 0, 50)]);
    side.until_ended(2);
    assert_eq!(side.outcomes(), [Outcome::Done; 2]);
    assert_eq!(server.seen.lock().unwrap().len(), 2);
}
