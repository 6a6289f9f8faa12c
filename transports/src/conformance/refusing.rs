//! Cases: what a target must refuse, why, and that a refusal costs nobody else anything.

use crate::conformance::fixture::Fixture;
use crate::conformance::rig::{Buffer, Rig};
use crate::link::LinkId;
use crate::memory::{Access, RegionId};
use crate::wr::{Op, Outcome, Refusal, Span, WorkRequest};

const LEN: u64 = 64 << 10;

/// Regions that never were, are gone, or were replaced in their slot are refused as unknown, and the link
/// stays usable.
pub fn unknown_and_stale_regions_are_refused<F: Fixture>() {
    let (mut rig, mut link, mut local, mut remote) = rig::<F>();
    let gone = rig.remote(LEN, 3, Access::ReadWrite);
    drop(rig.fixture.remove_remote(gone.region).expect("nobody uses it"));
    let near = RegionId(remote.region.0 ^ 1 << 32);
    for region in
        [gone.region, near, RegionId(0), RegionId(u64::MAX), RegionId(remote.region.0 | 0xFFFF_FF00)]
    {
        for op in [Op::Read, Op::Write] {
            let span = Span { region, ..remote.at(0) };
            let work = rig.request(op, local.at(0), span, 4096);
            refused(&mut rig, &mut link, work, Refusal::UnknownRegion);
        }
    }
    usable(&mut rig, &mut link, &mut local, &mut remote);
}

/// One byte past the end, far past it, and sums that wrap are refused; the last byte is not.
pub fn out_of_bounds_is_refused<F: Fixture>() {
    let (mut rig, mut link, mut local, mut remote) = rig::<F>();
    for (offset, len) in [
        (LEN, 1),
        (LEN - 4095, 4096),
        (1, LEN),
        (1 << 40, 1),
        (u64::MAX, 1),
        (u64::MAX - 4094, 4096),
        (1 << 63, LEN),
    ] {
        for op in [Op::Read, Op::Write] {
            let work = rig.request(op, local.at(0), remote.at(offset), len);
            refused(&mut rig, &mut link, work, Refusal::OutOfBounds);
        }
    }
    let last = rig.request(Op::Write, local.at(9), remote.at(LEN - 1), 1);
    rig.post(link, &[last]);
    rig.finish();
    rig.all_ended(&[last], Outcome::Done);
    remote.expect[LEN as usize - 1] = local.expect[9];
    usable(&mut rig, &mut link, &mut local, &mut remote);
}

/// A region answers only to what its access allows, in both directions.
pub fn missing_rights_are_refused<F: Fixture>() {
    let (mut rig, mut link, mut local, mut remote) = rig::<F>();
    for (access, denied) in [
        (Access::Local, &[Op::Read, Op::Write][..]),
        (Access::Read, &[Op::Write]),
        (Access::Write, &[Op::Read]),
    ] {
        let guarded = rig.remote(LEN, 5, access);
        for &op in denied {
            let work = rig.request(op, local.at(0), guarded.at(0), 4096);
            refused(&mut rig, &mut link, work, Refusal::Denied);
        }
        rig.check_remote(&guarded);
    }
    usable(&mut rig, &mut link, &mut local, &mut remote);
}

/// A region that is being unregistered refuses as closing, where accesses ask for that, and serves again when that is
/// taken back.
pub fn closing_region_is_refused<F: Fixture>() {
    let (mut rig, mut link, mut local, mut remote) = rig::<F>();
    rig.fixture.target().shut(remote.region).expect("it is live");
    if rig.fixture.asks_the_table() {
        for op in [Op::Read, Op::Write] {
            let work = rig.request(op, local.at(0), remote.at(0), 4096);
            refused(&mut rig, &mut link, work, Refusal::Closing);
        }
    }
    rig.fixture.target().reopen(remote.region).expect("it is live");
    usable(&mut rig, &mut link, &mut local, &mut remote);
}

/// Refused requests in the middle of a batch leave those before and after them to end well, and their link open.
pub fn refusal_spares_its_neighbours<F: Fixture>() {
    let (mut rig, mut link, mut local, mut remote) = rig::<F>();
    let block = 1000;
    let work: Vec<WorkRequest> = (0..60)
        .map(|i| {
            let op = if i % 2 == 0 { Op::Write } else { Op::Read };
            let far = if i % 7 == 3 { LEN - block + 1 } else { i * block };
            rig.request(op, local.at(i * block), remote.at(far), block)
        })
        .collect();
    rig.post(link, &work);
    rig.finish();
    for (i, request) in work.iter().enumerate() {
        let refused = i % 7 == 3;
        let right = if refused { Outcome::Refused(Refusal::OutOfBounds) } else { Outcome::Done };
        assert_eq!(rig.outcome(request), Some(right), "request {i}");
        let at = request.local.offset as usize..(request.local.offset + block) as usize;
        match request.op {
            _ if refused => {}
            Op::Write => remote.expect[at.clone()].copy_from_slice(&local.expect[at]),
            Op::Read => local.expect[at.clone()].copy_from_slice(&remote.expect[at]),
        }
    }
    usable(&mut rig, &mut link, &mut local, &mut remote);
}

fn rig<F: Fixture>() -> (Rig<F>, LinkId, Buffer, Buffer) {
    let mut rig = Rig::<F>::new();
    let link = rig.fixture.connect();
    let (local, remote) = (rig.local(LEN, 1), rig.remote(LEN, 2, Access::ReadWrite));
    (rig, link, local, remote)
}

#[track_caller]
fn refused<F: Fixture>(rig: &mut Rig<F>, link: &mut LinkId, work: WorkRequest, why: Refusal) {
    rig.post(*link, &[work]);
    rig.finish();
    let outcome = rig.outcome(&work);
    let is_unsaid = !rig.fixture.says_why() && outcome == Some(Outcome::Refused(Refusal::Unsaid));
    assert!(is_unsaid || outcome == Some(Outcome::Refused(why)), "{work:?}: {outcome:?}, not {why:?}");
    rig.reopen(link);
}

/// Nothing was touched so far, and a good WRITE and READ still end well.
#[track_caller]
fn usable<F: Fixture>(rig: &mut Rig<F>, link: &mut LinkId, local: &mut Buffer, remote: &mut Buffer) {
    rig.check_local(local);
    rig.check_remote(remote);
    let write = rig.request(Op::Write, local.at(100), remote.at(200), 5000);
    rig.post(*link, &[write]);
    rig.finish();
    remote.expect[200..5200].copy_from_slice(&local.expect[100..5100]);
    let read = rig.request(Op::Read, local.at(30_000), remote.at(0), 5000);
    rig.post(*link, &[read]);
    rig.finish();
    local.expect[30_000..35_000].copy_from_slice(&remote.expect[..5000]);
    rig.all_ended(&[write, read], Outcome::Done);
    assert!(!rig.closed.contains(link), "a refusal closed the link");
    rig.check_local(local);
    rig.check_remote(remote);
}
