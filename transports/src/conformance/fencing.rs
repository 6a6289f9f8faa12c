//! Cases: what a dead link may still do. Its target stands still while the link dies, so that its wires hold as many
//! bytes as they can.

use crate::conformance::fixture::Fixture;
use crate::conformance::rig::{Buffer, Rig};
use crate::link::{Cancelled, LinkId};
use crate::memory::Access;
use crate::wr::{Op, Outcome, WorkRequest};

const BLOCK: u64 = 32 << 10;
const COUNT: u64 = 64;
/// Enough for a socket to be full.
const NEAR_STEPS: usize = 200;

/// WRITEs of whole blocks on a link whose target stands still after some steps, until the wires take no more.
fn stuffed<F: Fixture>(
    rig: &mut Rig<F>,
    link: LinkId,
    local: &Buffer,
    remote: &Buffer,
    steps: usize,
) -> Vec<WorkRequest> {
    let block = |i| (local.at(i * BLOCK), remote.at(i * BLOCK));
    let work: Vec<WorkRequest> = (0..COUNT)
        .map(|i| {
            let (near, far) = block(i);
            rig.request(Op::Write, near, far, BLOCK)
        })
        .collect();
    let mut left = &work[..];
    // Where the target's device does not stand still, waiting would only let it finish.
    let near_steps = if rig.fixture.stands_still() { NEAR_STEPS } else { 1 };
    for step in 0..steps + near_steps {
        left = &left[rig.offer(link, left)..];
        if step < steps {
            rig.step()
        } else {
            rig.step_near()
        };
    }
    let posted = work.len() - left.len();
    work[..posted].to_vec()
}

/// How many WRITEs had begun when their link died: without any, a case about late bytes proves nothing. Only a device may
/// have been faster than we were.
fn begun<F: Fixture>(rig: &Rig<F>, work: &[WorkRequest]) {
    let count = |outcome| work.iter().filter(|w| rig.outcome(w) == Some(outcome)).count();
    let (begun, done) = (count(Outcome::Begun), count(Outcome::Done));
    let was_faster = !rig.fixture.stands_still() && done == work.len();
    assert!(begun > 0 || was_faster || rig.fixture.caps().fenced, "nothing of {} was under way", work.len());
    println!("{begun} of {} were under way", work.len());
}

/// A link that dies with bytes under way, in the middle of a frame or before the target has seen any: once it is fenced
/// nothing of it changes the target any more, and what the owner puts there stays.
pub fn fenced_link_changes_nothing<F: Fixture>() {
    for steps in [0, 1, 3] {
        let mut rig = Rig::<F>::new();
        let link = rig.fixture.connect();
        let local = rig.local(COUNT * BLOCK, 1);
        let mut remote = rig.remote(COUNT * BLOCK, 2, Access::Write);
        let work = stuffed(&mut rig, link, &local, &remote, steps);
        rig.kill(link);
        begun(&rig, &work);
        rig.fixture.fence(link);
        remote.expect.fill(0xA5);
        rig.fixture.target().write_shared(remote.region, 0, &remote.expect).expect("the region is live");
        rig.finish();
        rig.check_remote(&remote);
        drop(rig.fixture.remove_remote(remote.region).expect("nothing of the link holds it any more"));
    }
}

/// What is sent again on another link after the fence wins over what the first one still had on the wire.
pub fn retry_on_another_link_wins<F: Fixture>() {
    let mut rig = Rig::<F>::new();
    let (link, other) = (rig.fixture.connect(), rig.fixture.connect());
    let (old, new) = (rig.local(COUNT * BLOCK, 1), rig.local(COUNT * BLOCK, 3));
    let mut remote = rig.remote(COUNT * BLOCK, 2, Access::Write);
    let work = stuffed(&mut rig, link, &old, &remote, 0);
    rig.kill(link);
    begun(&rig, &work);
    rig.fixture.fence(link);
    let again: Vec<WorkRequest> =
        (0..COUNT).map(|i| rig.request(Op::Write, new.at(i * BLOCK), remote.at(i * BLOCK), BLOCK)).collect();
    rig.post(other, &again);
    rig.finish();
    rig.all_ended(&again, Outcome::Done);
    remote.expect.copy_from_slice(&new.expect);
    rig.check_remote(&remote);
}

/// Done means applied: what the owner of the target writes after that stays, whatever becomes of the link.
pub fn owner_may_overwrite_what_is_done<F: Fixture>() {
    let mut rig = Rig::<F>::new();
    let link = rig.fixture.connect();
    let local = rig.local(COUNT * BLOCK, 1);
    let mut remote = rig.remote(COUNT * BLOCK, 2, Access::Write);
    for i in 0..COUNT {
        let work = rig.request(Op::Write, local.at(i * BLOCK), remote.at(i * BLOCK), BLOCK);
        rig.post(link, &[work]);
        rig.until("the write", |rig| rig.outcome(&work).is_some());
        rig.all_ended(&[work], Outcome::Done);
        let at = (i * BLOCK) as usize..((i + 1) * BLOCK) as usize;
        remote.expect[at.clone()].fill(i as u8);
        let target = rig.fixture.target();
        target.write_shared(remote.region, i * BLOCK, &remote.expect[at]).expect("the region is live");
    }
    rig.check_remote(&remote);
    rig.kill(link);
    rig.finish();
    rig.check_remote(&remote);
}

/// A READ that is given up while its target stands still, by taking it back or with its link, never writes into its
/// buffer afterwards, nor beside it, when the target goes on.
pub fn late_read_leaves_the_buffer<F: Fixture>() {
    const LEN: u64 = 3 << 20;
    for (steps, abort) in [(0, false), (1, false), (3, false), (0, true), (1, true), (3, true)] {
        let mut rig = Rig::<F>::new();
        let link = rig.fixture.connect();
        let remote = rig.remote(LEN, 2, Access::Read);
        let mut local = rig.local(LEN + 2 * BLOCK, 1);
        let read = rig.request(Op::Read, local.at(BLOCK), remote.at(0), LEN);
        rig.post(link, &[read]);
        let near_steps = if rig.fixture.stands_still() { NEAR_STEPS } else { 1 };
        for step in 0..steps + near_steps {
            if step < steps {
                rig.step()
            } else {
                rig.step_near()
            };
        }
        let taken_back = (!abort).then(|| rig.fixture.halves().reap.cancel(link, read.id));
        match taken_back {
            Some(Cancelled::Discarding) => rig.forget(&read),
            Some(Cancelled::Dropped) => rig.until("its end", |rig| rig.outcome(&read).is_some()),
            _ => rig.kill(link),
        }
        if rig.outcome(&read) == Some(Outcome::Done) {
            local.expect[BLOCK as usize..(BLOCK + LEN) as usize].copy_from_slice(&remote.expect);
            rig.check_local(&local);
        }
        local.expect[BLOCK as usize..(BLOCK + LEN) as usize].fill(0xA5);
        let regions = rig.fixture.initiator();
        let buffer = &local.expect[BLOCK as usize..(BLOCK + LEN) as usize];
        regions.write_shared(local.region, BLOCK, buffer).expect("it is live");
        rig.finish();
        rig.check_local(&local);
        drop(rig.fixture.remove_local(local.region).expect("nothing holds the buffer any more"));
    }
}
