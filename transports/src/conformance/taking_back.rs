//! Cases: taking single work requests back.

use crate::conformance::fixture::Fixture;
use crate::conformance::rig::{Buffer, Rig};
use crate::link::{Cancelled, LinkId};
use crate::memory::Access;
use crate::wr::{Op, Outcome, WorkRequest, WrId};

const LEN: u64 = 16 << 10;

/// A request taken back before anything was driven keeps the word it was given: dropped ones complete as
/// not begun and touch nothing, discarded READs never complete, the others end as if nobody had asked.
pub fn cancel_before_begin<F: Fixture>() {
    let (mut rig, link, mut local, mut remote) = rig::<F>();
    let work: Vec<WorkRequest> = [Op::Write, Op::Read, Op::Write, Op::Read]
        .into_iter()
        .zip(0..)
        .map(|(op, i)| rig.request(op, local.at(i * 4096), remote.at(i * 4096), 4096))
        .collect();
    rig.post(link, &work);
    let answers: Vec<Cancelled> = work.iter().map(|w| rig.fixture.halves().reap.cancel(link, w.id)).collect();
    let mut discarded = Vec::new();
    for (request, answer) in work.iter().zip(&answers) {
        match answer {
            Cancelled::Discarding => {
                assert_eq!(request.op, Op::Read, "only a READ can be discarded");
                rig.forget(request);
                discarded.push(request.id);
            }
            Cancelled::NotHere => panic!("{request:?} was posted on this link and has not completed"),
            Cancelled::Dropped | Cancelled::MustAbort => {}
        }
    }
    rig.finish();
    for (request, answer) in work.iter().zip(&answers) {
        let at = request.local.offset as usize..(request.local.offset + request.len) as usize;
        match answer {
            Cancelled::Dropped => assert_eq!(rig.outcome(request), Some(Outcome::NotBegun)),
            Cancelled::Discarding => assert_eq!(rig.outcome(request), None),
            _ => {
                assert_eq!(rig.outcome(request), Some(Outcome::Done));
                match request.op {
                    Op::Write => remote.expect[at.clone()].copy_from_slice(&local.expect[at]),
                    Op::Read => local.expect[at.clone()].copy_from_slice(&remote.expect[at]),
                }
            }
        }
    }
    // (A READ that was discarded after it had begun may have left bytes: not before anything was driven.)
    rig.check_local(&local);
    rig.check_remote(&remote);
    assert!(rig.closed.is_empty());
}

/// Requests of nobody, of another link, and completed ones are not here, and nothing changes by asking.
pub fn cancel_knows_only_its_own<F: Fixture>() {
    let (mut rig, link, local, mut remote) = rig::<F>();
    let other = rig.fixture.connect();
    let work = rig.request(Op::Write, local.at(0), remote.at(0), LEN);
    rig.post(link, &[work]);
    for (link, id) in [(other, work.id), (link, WrId(1)), (LinkId(u64::MAX), work.id)] {
        assert_eq!(rig.fixture.halves().reap.cancel(link, id), Cancelled::NotHere);
    }
    rig.finish();
    rig.all_ended(&[work], Outcome::Done);
    remote.expect.copy_from_slice(&local.expect);
    rig.check_remote(&remote);
    assert_eq!(rig.fixture.halves().reap.cancel(link, work.id), Cancelled::NotHere);
    rig.finish();
}

/// The buffer of a discarded READ is free at once: what is put there stays, whatever still comes in.
pub fn discarded_read_leaves_the_buffer<F: Fixture>() {
    let mut rig = Rig::<F>::new();
    let link = rig.fixture.connect();
    let len = rig.longest(12 << 20);
    let remote = rig.remote(len, 2, Access::Read);
    let mut discards = 0;
    // Taken back after ever more steps: before it begins, in the middle, when it has ended.
    for steps in [0, 1, 2, 3, 8] {
        let mut local = rig.local(len, 1);
        let work = rig.request(Op::Read, local.at(0), remote.at(0), len);
        rig.post(link, &[work]);
        for _ in 0..steps {
            rig.step();
        }
        match rig.fixture.halves().reap.cancel(link, work.id) {
            Cancelled::Discarding => {
                discards += 1;
                rig.forget(&work);
                local.expect.fill(0xA5);
                let regions = rig.fixture.initiator();
                regions.write_from(local.region, 0, &local.expect).expect("nobody holds it any more");
                rig.finish();
                rig.check_local(&local);
            }
            Cancelled::Dropped => {
                rig.finish();
                rig.all_ended(&[work], Outcome::NotBegun);
                rig.check_local(&local);
            }
            Cancelled::MustAbort | Cancelled::NotHere => {
                rig.finish();
                rig.all_ended(&[work], Outcome::Done);
            }
        }
        drop(rig.fixture.remove_local(local.region).expect("nothing holds the buffer any more"));
    }
    assert!(rig.closed.is_empty());
    // Not a demand of the trait; said so that a run shows how far the case went.
    println!("{discards} of 5 READs were discarded");
    let (local, far) = (rig.local(LEN, 1), rig.remote(LEN, 3, Access::Write));
    let work = rig.request(Op::Write, local.at(0), far.at(0), LEN);
    rig.post(link, &[work]);
    rig.finish();
    rig.all_ended(&[work], Outcome::Done);
}

fn rig<F: Fixture>() -> (Rig<F>, LinkId, Buffer, Buffer) {
    let mut rig = Rig::<F>::new();
    let link = rig.fixture.connect();
    let (local, remote) = (rig.local(LEN, 1), rig.remote(LEN, 2, Access::ReadWrite));
    (rig, link, local, remote)
}
