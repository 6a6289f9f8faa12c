//! Cases: links that die, and regions that go.

use crate::conformance::fixture::Fixture;
use crate::conformance::rig::{Buffer, Rig};
use crate::error::Error;
use crate::link::LinkId;
use crate::memory::Access;
use crate::wr::{Op, Outcome, Refusal, WorkRequest};

pub(super) const BLOCK: u64 = 32 << 10;
pub(super) const COUNT: u64 = 64;

/// Aborted at any moment, every request of a link completes once: done, not begun or begun; then the link is
/// reported closed, once, and has no room.
pub fn abort_completes_all_then_closes_once<F: Fixture>() {
    for steps in [0, 1, 2, 6, 16, 64] {
        let (mut rig, link, local, mut remote) = rig::<F>();
        let work = blocks(&mut rig, &local, &remote, COUNT);
        rig.post(link, &work);
        for _ in 0..steps {
            rig.step();
        }
        rig.fixture.halves().reap.abort(link);
        rig.until("the link to close", |rig| rig.closed == [link]);
        rig.finish();
        died(&mut rig, link, &work, &local, &mut remote);
    }
}

/// A link that the target kills completes all of its requests and is reported closed, as an aborted one.
pub fn severed_link_completes_all_then_closes_once<F: Fixture>() {
    for steps in [0, 1, 4, 16] {
        let (mut rig, link, local, mut remote) = rig::<F>();
        let mut work = blocks(&mut rig, &local, &remote, COUNT);
        rig.post(link, &work);
        for _ in 0..steps {
            rig.step();
        }
        if !rig.fixture.sever(link) {
            rig.finish();
            return;
        }
        if !rig.fixture.stands_still() {
            // A device misses its counterpart only when it has something to send, and all may have been done by then.
            let last = blocks(&mut rig, &local, &remote, 1);
            let taken = rig.offer(link, &last);
            work.extend(&last[..taken]);
        }
        rig.until("the link to close", |rig| rig.closed == [link]);
        rig.finish();
        died(&mut rig, link, &work, &local, &mut remote);
    }
}

/// A link is dead: all ended as they may, blocks of those done are right, of those not begun untouched.
#[track_caller]
pub(super) fn died<F: Fixture>(
    rig: &mut Rig<F>,
    link: LinkId,
    work: &[WorkRequest],
    local: &Buffer,
    remote: &mut Buffer,
) {
    assert_eq!(rig.fixture.halves().post.room(link), 0, "a dead link has no room");
    let mut got = vec![0; remote.expect.len()];
    rig.fixture.target().read_shared(remote.region, 0, &mut got).expect("the region is live");
    for request in work {
        let at = request.remote.offset as usize..(request.remote.offset + request.len) as usize;
        match rig.outcome(request) {
            Some(Outcome::Done) => remote.expect[at.clone()].copy_from_slice(&local.expect[at]),
            Some(Outcome::NotBegun) => {}
            // A begun WRITE's effect is undefined: taken as it is.
            Some(Outcome::Begun) => remote.expect[at.clone()].copy_from_slice(&got[at]),
            other => panic!("{request:?} ended {other:?} on a dying link"),
        }
    }
    rig.check_remote(remote);
}

/// After an abort was reported and its transport says that a dead link is fenced, nothing of it touches the
/// target any more; an unfenced one may be late, but a new link works at once.
pub fn abort_leaves_the_target_alone<F: Fixture>() {
    let (mut rig, link, local, remote) = rig::<F>();
    let work = blocks(&mut rig, &local, &remote, COUNT);
    rig.post(link, &work);
    rig.step();
    rig.fixture.halves().reap.abort(link);
    rig.until("the link to close", |rig| rig.closed == [link]);
    if rig.fixture.caps().fenced {
        let still = vec![0xA5; remote.expect.len()];
        rig.fixture.target().write_shared(remote.region, 0, &still).expect("the region is live");
        rig.linger();
        let mut got = vec![0; still.len()];
        rig.fixture.target().read_shared(remote.region, 0, &mut got).expect("the region is live");
        assert!(got == still, "a dead link wrote");
    }
    let fresh = rig.fixture.connect();
    let mut other = rig.remote(BLOCK, 9, Access::Write);
    let again = rig.request(Op::Write, local.at(0), other.at(0), BLOCK);
    rig.post(fresh, &[again]);
    rig.finish();
    rig.all_ended(&[again], Outcome::Done);
    other.expect.copy_from_slice(&local.expect[..BLOCK as usize]);
    rig.check_remote(&other);
}

/// What is posted on a dead link is either not taken or completes as not begun, and touches nothing.
pub fn post_after_death<F: Fixture>() {
    for wait in [false, true] {
        let (mut rig, link, local, remote) = rig::<F>();
        rig.fixture.halves().reap.abort(link);
        if wait {
            rig.until("the link to close", |rig| rig.closed == [link]);
        }
        let work = blocks(&mut rig, &local, &remote, 4);
        let taken = rig.offer(link, &work);
        assert!(taken == 0 || !wait, "taken on a link that was reported closed");
        rig.until("the link to close", |rig| rig.closed == [link]);
        rig.finish();
        rig.all_ended(&work[..taken], Outcome::NotBegun);
        assert_eq!(rig.offer(link, &work[taken..]), 0, "a dead link takes nothing more");
        rig.check_remote(&remote);
    }
}

/// While a peer's access to a region is active its removal is Busy, and succeeds when the access has ended;
/// afterwards the old name is refused as unknown.
pub fn region_in_use_is_busy<F: Fixture>() {
    let mut rig = Rig::<F>::new();
    let link = rig.fixture.connect();
    let len = rig.longest(12 << 20);
    let (local, mut remote) = (rig.local(len, 1), rig.remote(len, 2, Access::ReadWrite));
    let work = rig.request(Op::Write, local.at(0), remote.at(0), len);
    rig.post(link, &[work]);
    rig.until("the write", |rig| {
        let busy_before = rig.fixture.initiator().remove(local.region);
        let ended = rig.outcome(&work).is_some();
        assert!(ended || matches!(busy_before, Err(Error::Busy(..))), "a posted source was removed");
        let active = rig.fixture.target().facts(remote.region).expect("it is live").accesses > 0;
        if active {
            // The target's halves run only when stepped: what was active stays so until the removal is judged.
            assert!(matches!(rig.fixture.target().remove(remote.region), Err(Error::Busy(..))));
        }
        ended
    });
    rig.all_ended(&[work], Outcome::Done);
    remote.expect.copy_from_slice(&local.expect);
    rig.check_remote(&remote);
    drop(rig.fixture.remove_remote(remote.region).expect("nobody uses it any more"));
    let spare = rig.local(4096, 3);
    let late = rig.request(Op::Write, spare.at(0), remote.at(0), 4096);
    rig.post(link, &[late]);
    rig.finish();
    let why = if rig.fixture.says_why() { Refusal::UnknownRegion } else { Refusal::Unsaid };
    rig.all_ended(&[late], Outcome::Refused(why));
}

/// A region taken away under a stream of WRITEs drains; once removed not one byte of its memory changes, and
/// the writes that came too late are refused.
pub fn removed_region_is_never_touched<F: Fixture>() {
    let mut rig = Rig::<F>::new();
    let link = rig.fixture.connect();
    let whole = COUNT * BLOCK;
    let (local, remote) = (rig.local(whole, 1), rig.remote(whole, 2, Access::Write));
    let work = blocks(&mut rig, &local, &remote, COUNT);
    rig.post(link, &work);
    rig.step();
    rig.fixture.target().shut(remote.region).expect("it is live");
    let mut memory = None;
    rig.until("the region to drain", |rig| {
        memory = rig.fixture.remove_remote(remote.region).ok();
        memory.is_some()
    });
    let mut memory = memory.expect("it drained");
    let still = vec![0xA5; whole as usize];
    memory.write(0, &still).expect("the whole is within the whole");
    rig.finish();
    let mut got = vec![0; whole as usize];
    memory.read(0, &mut got).expect("the whole is within the whole");
    assert!(got == still, "removed memory changed");
    for request in &work {
        let outcome = rig.outcome(request);
        let late = matches!(
            outcome,
            Some(Outcome::Refused(Refusal::Closing | Refusal::UnknownRegion | Refusal::Unsaid))
        );
        // What was posted behind a refusal that ended the link.
        let behind =
            matches!(outcome, Some(Outcome::NotBegun | Outcome::Begun)) && rig.closed.contains(&link);
        assert!(late || behind || outcome == Some(Outcome::Done), "{outcome:?}");
    }
    assert!(rig.closed.is_empty() || !rig.fixture.asks_the_table());
}

pub(super) fn rig<F: Fixture>() -> (Rig<F>, LinkId, Buffer, Buffer) {
    let mut rig = Rig::<F>::new();
    let link = rig.fixture.connect();
    let (local, remote) = (rig.local(COUNT * BLOCK, 1), rig.remote(COUNT * BLOCK, 2, Access::Write));
    (rig, link, local, remote)
}

/// WRITEs of whole blocks, side by side.
pub(super) fn blocks<F: Fixture>(
    rig: &mut Rig<F>,
    local: &Buffer,
    remote: &Buffer,
    count: u64,
) -> Vec<WorkRequest> {
    (0..count).map(|i| rig.request(Op::Write, local.at(i * BLOCK), remote.at(i * BLOCK), BLOCK)).collect()
}
