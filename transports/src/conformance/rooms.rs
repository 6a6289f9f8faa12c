//! Cases: room, and what a half says before its worker sleeps.

use std::os::fd::RawFd;

use crate::clock::Nanos;
use crate::conformance::fixture::Fixture;
use crate::conformance::rig::Rig;
use crate::link::{Arming, LinkId};
use crate::memory::Access;
use crate::wr::{Op, Outcome, WorkRequest};

/// A link takes at least what it says it has room for, shows none when full, and shows room again after.
pub fn room_is_honoured<F: Fixture>() {
    let mut rig = Rig::<F>::new();
    let link = rig.fixture.connect();
    let (local, remote) = (rig.local(4096, 1), rig.remote(4096, 2, Access::ReadWrite));
    let empty = rig.fixture.halves().post.room(link);
    assert!(empty >= 8, "a fresh link has room for {empty}");
    let work: Vec<WorkRequest> =
        (0..empty + 5).map(|_| rig.request(Op::Read, local.at(0), remote.at(0), 64)).collect();
    let mut given = 0;
    while given < work.len() {
        let room = rig.fixture.halves().post.room(link);
        let taken = rig.offer(link, &work[given..]);
        assert!(taken >= room.min(work.len() - given), "room for {room}, took {taken}");
        given += taken;
        if taken == 0 {
            assert_eq!(room, 0);
            break;
        }
    }
    rig.post(link, &work[given..]);
    rig.finish();
    rig.all_ended(&work, Outcome::Done);
    assert_eq!(rig.fixture.halves().post.room(link), empty, "all room is back");
}

/// A link that nobody has adopted has no room and takes nothing.
pub fn unknown_link_has_no_room<F: Fixture>() {
    let mut rig = Rig::<F>::new();
    let link = rig.fixture.connect();
    let (local, remote) = (rig.local(4096, 1), rig.remote(4096, 2, Access::ReadWrite));
    let work = rig.request(Op::Write, local.at(0), remote.at(0), 64);
    for stranger in [LinkId(u64::MAX), LinkId(link.0 + 1_000_000)] {
        assert_eq!(rig.fixture.halves().post.room(stranger), 0);
        assert_eq!(rig.offer(stranger, &[work]), 0);
        rig.fixture.halves().reap.abort(stranger);
    }
    rig.finish();
    assert!(rig.closed.is_empty());
}

/// Two links complete their own work; the death of one leaves the other's as it was.
pub fn links_are_independent<F: Fixture>() {
    let mut rig = Rig::<F>::new();
    let (one, two) = (rig.fixture.connect(), rig.fixture.connect());
    assert_ne!(one, two);
    let whole = 64 << 10;
    let local = rig.local(whole, 1);
    let (first, mut second) = (rig.remote(whole, 2, Access::Write), rig.remote(whole, 3, Access::Write));
    let (mut of_one, mut of_two) = (Vec::new(), Vec::new());
    for at in (0..whole).step_by(8192) {
        of_one.push(rig.request(Op::Write, local.at(at), first.at(at), 8192));
        of_two.push(rig.request(Op::Write, local.at(at), second.at(at), 8192));
        rig.post(one, &of_one[of_one.len() - 1..]);
        rig.post(two, &of_two[of_two.len() - 1..]);
    }
    rig.fixture.halves().reap.abort(one);
    rig.until("the first link to close", |rig| rig.closed.contains(&one));
    rig.finish();
    assert_eq!(rig.closed, [one]);
    rig.all_ended(&of_two, Outcome::Done);
    second.expect.copy_from_slice(&local.expect);
    rig.check_remote(&second);
    let again = rig.request(Op::Write, local.at(0), second.at(0), 64);
    rig.post(two, &[again]);
    rig.finish();
    rig.all_ended(&[again], Outcome::Done);
}

/// While work is outstanding the halves name a descriptor or a time, or refuse to let their worker sleep;
/// when idle they do not refuse.
pub fn idle_names_what_it_waits_for<F: Fixture>() {
    let mut rig = Rig::<F>::new();
    let link = rig.fixture.connect();
    let (local, remote) = (rig.local(1 << 20, 1), rig.remote(1 << 20, 2, Access::ReadWrite));
    rig.linger();
    assert!(!armed(&mut rig).busy, "a half without work keeps its worker awake");
    let work: Vec<WorkRequest> =
        (0..8).map(|_| rig.request(Op::Write, local.at(0), remote.at(0), 1 << 20)).collect();
    rig.post(link, &work);
    rig.until("all completions", |rig| {
        let outstanding = rig.fixture.halves().reap.outstanding();
        let seen = armed(rig);
        assert!(
            outstanding == 0 || seen.busy || seen.fds > 0 || seen.deadlines > 0,
            "{outstanding} outstanding and nothing to wake the worker"
        );
        work.iter().all(|request| rig.outcome(request).is_some())
    });
    rig.finish();
    assert!(!armed(&mut rig).busy, "a half without work keeps its worker awake");
}

/// What the halves of the initiator named.
#[derive(Default)]
struct Armed {
    fds: usize,
    deadlines: usize,
    busy: bool,
}

impl Arming for Armed {
    fn fd(&mut self, fd: RawFd) {
        assert!(fd >= 0);
        self.fds += 1;
    }
    fn deadline(&mut self, _at: Nanos) {
        self.deadlines += 1;
    }
    fn busy(&mut self) {
        self.busy = true;
    }
}

fn armed<F: Fixture>(rig: &mut Rig<F>) -> Armed {
    let mut seen = Armed::default();
    let halves = rig.fixture.halves();
    halves.post.arm(&mut seen);
    halves.reap.arm(&mut seen);
    seen
}
