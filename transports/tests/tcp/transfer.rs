//! Transfers between two well-behaved sides.

use pipeline_transports::link::Flushed;
use pipeline_transports::tcp::Settings;
use pipeline_transports::wr::{Outcome, Refusal};
use pipeline_transports::{Access, Completions, LinkId, Op};

use crate::rig::{connected, drive, request, serve, until};

fn pattern(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(seed) >> 29) as u8).collect()
}

/// Reads and writes of many sizes, mixed on three lanes with tiny socket buffers, thousands outstanding:
/// every byte lands where it belongs and every work request completes exactly once, with `Done`.
#[test]
fn mixed_reads_and_writes_on_several_lanes() {
    const N: u64 = 3000;
    const SLOT: u64 = 4096;
    for small in [false, true] {
        let buffer = small.then_some(4096);
        let settings = Settings {
            send_buffer_bytes: buffer,
            receive_buffer_bytes: small.then_some(200_000),
            frame_bytes: 40_000,
            ..Settings::default()
        };
        let (mut a, mut b) = connected(&settings, 3);
        let (la, rb) = (a.region(N * SLOT, Access::Local), b.region(N * SLOT, Access::ReadWrite));
        let (ours, theirs) = (pattern((N * SLOT) as usize, 1), pattern((N * SLOT) as usize, 2));
        a.fill(la, 0, &ours);
        b.fill(rb, 0, &theirs);
        let len = |i: u64| 1 + (i * 7919) % SLOT;
        let op = |i: u64| if i.is_multiple_of(3) { Op::Read } else { Op::Write };
        let (mut posted, mut done, mut closed) = (0u64, Vec::new(), Vec::new());
        until("all transfers done", || {
            while posted < N {
                let at = posted * SLOT;
                let w = request(posted, op(posted), (la, at), (rb, at), len(posted));
                if a.halves.post.post(0, LinkId(1 + posted % 3), &[w]).taken == 0 {
                    break;
                }
                posted += 1;
            }
            drive(&mut a, &mut done, &mut closed);
            serve(&mut b);
            done.len() as u64 == N
        });
        assert!(closed.is_empty());
        assert_eq!(a.halves.reap.outstanding(), 0);
        let mut ids: Vec<u64> = done.iter().map(|c| c.id.0).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..N).collect::<Vec<_>>());
        assert!(done.iter().all(|c| c.outcome == Outcome::Done));
        for i in 0..N {
            let (at, n) = ((i * SLOT) as usize, len(i) as usize);
            let (source, got) = match op(i) {
                Op::Read => (&theirs, a.bytes(la, i * SLOT, n)),
                Op::Write => (&ours, b.bytes(rb, i * SLOT, n)),
            };
            assert!(got == source[at..at + n], "work request {i}");
        }
    }
}

/// Work requests larger than any socket buffer stream both ways, next to small ones on the same lane.
#[test]
fn large_work_requests_stream() {
    const BIG: u64 = 20 << 20;
    let (mut a, mut b) = connected(&Settings::default(), 1);
    let (la, rb) = (a.region(2 * BIG, Access::Local), b.region(2 * BIG, Access::ReadWrite));
    let (ours, theirs) = (pattern(BIG as usize, 3), pattern(BIG as usize, 4));
    a.fill(la, 0, &ours);
    b.fill(rb, BIG, &theirs);
    let work = [
        request(1, Op::Write, (la, 0), (rb, 0), BIG),
        request(2, Op::Read, (la, BIG), (rb, BIG), BIG - 1),
        request(3, Op::Read, (la, 2 * BIG - 1), (rb, 2 * BIG - 1), 1),
    ];
    assert_eq!(a.halves.post.post(0, LinkId(1), &work).taken, 3);
    let (mut done, mut closed) = (Vec::new(), Vec::new());
    until("three done", || {
        drive(&mut a, &mut done, &mut closed);
        serve(&mut b);
        done.len() == 3
    });
    assert!(done.iter().all(|c| c.outcome == Outcome::Done));
    assert!(b.bytes(rb, 0, BIG as usize) == ours && a.bytes(la, BIG, BIG as usize) == theirs);
}

/// Bytes of a work request that is not complete yet are work all the same, and each half says so while they move and no
/// longer: a worker that took them for idleness would sleep between the pieces of a stream.
#[test]
fn what_moves_in_part_is_told() {
    const BIG: u64 = 64 << 20;
    for op in [Op::Write, Op::Read] {
        let (mut a, mut b) = connected(&Settings::default(), 1);
        let (la, rb) = (a.region(BIG, Access::Local), b.region(BIG, Access::ReadWrite));
        let work = [request(1, op, (la, 0), (rb, 0), BIG)];
        assert_eq!(a.halves.post.post(0, LinkId(1), &work).taken, 1);
        let (post, reap) = (&mut a.halves.post, &mut a.halves.reap);
        let target = b.halves.serve.as_mut().unwrap();
        let mut out = Completions::with_capacity(4);
        let (mut sent, mut served, mut came, mut told) = (false, 0, 0, false);
        until("done", || {
            sent |= post.flush(0) == Flushed::Partly;
            let step = target.step(1, 64);
            served += u64::from(step.bytes > 0 && step.answered == 0);
            reap.reap(0, &mut out);
            came += u64::from(out.has_moved() && out.done().is_empty());
            told = !out.done().is_empty();
            out.clear();
            told
        });
        // Whoever has the payload to send or to take has had it in many pieces: a socket holds a few megabytes.
        assert!(op == Op::Read || (sent && served > 4), "sent {sent}, served {served}");
        assert!(op == Op::Write || (served > 4 && came > 4), "served {served}, came {came}");
        assert_eq!((post.flush(0), reap.reap(0, &mut out)), (Flushed::All, 0));
        assert!(!out.has_moved() && target.step(1, 64).bytes == 0, "nothing moves any more");
    }
}

/// A target that takes nothing leaves a poster stuck, which is not the same as one that gets on.
#[test]
fn stuck_is_not_partly() {
    let (mut a, b) = connected(&Settings::default(), 1);
    let (la, rb) = (a.region(64 << 20, Access::Local), b.region(64 << 20, Access::ReadWrite));
    let work = [request(1, Op::Write, (la, 0), (rb, 0), 64 << 20)];
    assert_eq!(a.halves.post.post(0, LinkId(1), &work).taken, 1);
    assert_eq!(a.halves.post.flush(0), Flushed::Partly);
    let mut stuck = 0;
    until("stuck", || {
        stuck = if a.halves.post.flush(0) == Flushed::Stuck { stuck + 1 } else { 0 };
        stuck > 100
    });
}

/// A lane takes exactly `depth` work requests, says so before and after, and takes more as they complete.
#[test]
fn room_is_the_depth() {
    let settings = Settings { depth: 5, ..Settings::default() };
    let (mut a, mut b) = connected(&settings, 1);
    let (la, rb) = (a.region(64, Access::Local), b.region(64, Access::ReadWrite));
    let work: Vec<_> = (0..9).map(|i| request(i, Op::Write, (la, i), (rb, i), 1)).collect();
    assert_eq!(a.halves.post.room(LinkId(1)), 5);
    assert_eq!(a.halves.post.room(LinkId(2)), 0);
    assert_eq!(a.halves.post.post(0, LinkId(1), &work).taken, 5);
    assert_eq!((a.halves.post.room(LinkId(1)), a.halves.reap.outstanding()), (0, 5));
    assert_eq!(a.halves.post.flush(0), Flushed::All);
    let (mut done, mut closed) = (Vec::new(), Vec::new());
    until("five done", || {
        drive(&mut a, &mut done, &mut closed);
        serve(&mut b);
        done.len() == 5
    });
    assert_eq!(a.halves.post.room(LinkId(1)), 5);
    assert_eq!(a.halves.post.post(0, LinkId(1), &work[5..]).taken, 4);
}

/// Refusals, one of each kind, come back as such and hurt neither the good requests in the same frame nor
/// a byte outside the region; refused payload larger than the scratch is drained without placing it (B05,
/// B25, B39).
#[test]
fn refusals_are_answers() {
    let (mut a, mut b) = connected(&Settings::default(), 1);
    let la = a.region(1 << 20, Access::Local);
    a.fill(la, 0, &[0xAB; 1 << 20]);
    let both = b.region(4096, Access::ReadWrite);
    let (readable, writable) = (b.region(4096, Access::Read), b.region(4096, Access::Write));
    let gone = b.region(4096, Access::ReadWrite);
    b.regions.unpin(gone);
    b.regions.remove(gone).unwrap();
    let closing = b.region(4096, Access::ReadWrite);
    b.regions.shut(closing).unwrap();
    use Refusal::{Closing, Denied, OutOfBounds, UnknownRegion};
    let cases = [
        (Op::Write, both, 0, 4096, None),
        (Op::Write, both, 1, 4096, Some(OutOfBounds)),
        (Op::Write, both, 0, 1 << 20, Some(OutOfBounds)),
        (Op::Write, both, u64::MAX - 4095, 8192, Some(OutOfBounds)),
        (Op::Read, both, u64::MAX, 1, Some(OutOfBounds)),
        (Op::Write, readable, 0, 1, Some(Denied)),
        (Op::Read, writable, 0, 1, Some(Denied)),
        (Op::Write, gone, 0, 4096, Some(UnknownRegion)),
        (Op::Read, closing, 0, 1, Some(Closing)),
        (Op::Read, both, 4095, 1, None),
    ];
    let work: Vec<_> = cases
        .iter()
        .enumerate()
        .map(|(i, &(op, region, offset, len, _))| request(i as u64, op, (la, 0), (region, offset), len))
        .collect();
    assert_eq!(a.halves.post.post(0, LinkId(1), &work).taken, cases.len());
    let (mut done, mut closed) = (Vec::new(), Vec::new());
    until("all answered", || {
        drive(&mut a, &mut done, &mut closed);
        serve(&mut b);
        done.len() == cases.len()
    });
    done.sort_by_key(|c| c.id);
    for (case, completion) in cases.iter().zip(&done) {
        let want = case.4.map_or(Outcome::Done, Outcome::Refused);
        assert_eq!(completion.outcome, want, "{case:?}");
    }
    assert!(closed.is_empty());
    assert_eq!(b.bytes(both, 0, 4096), [0xAB; 4096]);
    assert_eq!(b.bytes(readable, 0, 4096), [0; 4096]);
    assert_eq!((b.transport.counters().refused(), b.transport.counters().violations()), (8, 0));
}

/// What cannot be posted (local range out of bounds, length 0, longer than agreed) fails alone.
#[test]
fn local_mistakes_fail_alone() {
    let settings = Settings { max_bytes: 1000, ..Settings::default() };
    let (mut a, mut b) = connected(&settings, 1);
    let (la, rb) = (a.region(4096, Access::Local), b.region(4096, Access::ReadWrite));
    let work = [
        request(0, Op::Write, (la, 4000), (rb, 0), 100),
        request(1, Op::Write, (la, 0), (rb, 0), 0),
        request(2, Op::Read, (la, 0), (rb, 0), 1001),
        request(3, Op::Write, (la, 0), (rb, 0), 1000),
    ];
    assert_eq!(a.halves.post.post(0, LinkId(1), &work).taken, 4);
    let (mut done, mut closed) = (Vec::new(), Vec::new());
    until("four ends", || {
        drive(&mut a, &mut done, &mut closed);
        serve(&mut b);
        done.len() == 4
    });
    done.sort_by_key(|c| c.id);
    let outcomes: Vec<_> = done.iter().map(|c| c.outcome).collect();
    assert_eq!(outcomes, [Outcome::Failed, Outcome::Failed, Outcome::Failed, Outcome::Done]);
    assert_eq!((a.halves.reap.outstanding(), a.halves.post.room(LinkId(1))), (0, 1024));
}
