//! Cases: a half is lost (its worker panicked), and the pair is attached again.

use crate::conformance::closing::{BLOCK, COUNT, blocks, died, rig};
use crate::conformance::fixture::Fixture;
use crate::conformance::rig::Rig;
use crate::link::LinkId;
use crate::memory::Access;
use crate::wr::{Op, Outcome};

/// A post half that is lost at any moment takes its links along: the surviving reap half completes each of their
/// requests once and reports them closed. A new post half works with it on links dialled from then on.
pub fn lost_post_half_strands_nobody<F: Fixture>() {
    for steps in [0, 1, 4, 16] {
        let (mut rig, link, local, mut remote) = rig::<F>();
        let work = blocks(&mut rig, &local, &remote, COUNT);
        rig.post(link, &work);
        for _ in 0..steps {
            rig.step();
        }
        let again = rig.fixture.attach_again();
        rig.fixture.halves().post = again.post;
        rig.until("the link to close", |rig| rig.closed == [link]);
        rig.finish();
        died(&mut rig, link, &work, &local, &mut remote);
        works(&mut rig);
    }
}

/// A reap half that is lost at any moment leaves nothing that touches local memory, and its links take nothing more.
/// A new reap half knows none of their requests, and works with the surviving post half on links dialled from then on.
pub fn lost_reap_half_lets_go_of_memory<F: Fixture>() {
    for (op, steps) in [0, 1, 4, 16].into_iter().flat_map(|steps| [(Op::Write, steps), (Op::Read, steps)]) {
        let mut rig = Rig::<F>::new();
        let link = rig.fixture.connect();
        let mut local = rig.local(COUNT * BLOCK, 1);
        let remote = rig.remote(COUNT * BLOCK, 2, Access::ReadWrite);
        let span = |i: u64| (local.at(i * BLOCK), remote.at(i * BLOCK));
        let work: Vec<_> = (0..COUNT).map(|i| rig.request(op, span(i).0, span(i).1, BLOCK)).collect();
        rig.post(link, &work);
        for _ in 0..steps {
            rig.step();
        }
        let again = rig.fixture.attach_again();
        rig.fixture.halves().reap = again.reap;
        rig.forget_all();
        local.expect.fill(0xA5);
        rig.fixture.initiator().write_shared(local.region, 0, &local.expect).expect("the region is live");
        rig.linger();
        rig.check_local(&local);
        assert_eq!(rig.fixture.halves().post.room(link), 0, "a link without reaper takes nothing");
        drop(rig.fixture.remove_local(local.region).expect("nobody uses it any more"));
        works(&mut rig);
        assert!(rig.closed.is_empty(), "a new half reports no link of the old one");
    }
}

/// A serve half that is lost closes its links, as their diallers see, and a new one answers on links from then on.
pub fn lost_serve_half_closes_its_links<F: Fixture>() {
    for steps in [0, 1, 4, 16] {
        let (mut rig, link, local, mut remote) = rig::<F>();
        let work = blocks(&mut rig, &local, &remote, COUNT);
        rig.post(link, &work);
        for _ in 0..steps {
            rig.step();
        }
        if !rig.fixture.lose_serve() {
            rig.finish();
            return;
        }
        rig.until("the link to close", |rig| rig.closed == [link]);
        rig.finish();
        died(&mut rig, link, &work, &local, &mut remote);
        works(&mut rig);
    }
}

/// A link that is dialled now moves bytes.
#[track_caller]
fn works<F: Fixture>(rig: &mut Rig<F>) -> LinkId {
    let link = rig.fixture.connect();
    let (local, mut remote) = (rig.local(BLOCK, 5), rig.remote(BLOCK, 6, Access::Write));
    let work = rig.request(Op::Write, local.at(0), remote.at(0), BLOCK);
    rig.post(link, &[work]);
    rig.finish();
    rig.all_ended(&[work], Outcome::Done);
    remote.expect.copy_from_slice(&local.expect);
    rig.check_remote(&remote);
    link
}
