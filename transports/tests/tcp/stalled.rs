//! Lanes that stand still with work outstanding, under a clock that the test moves.

use std::time::Duration;

use pipeline_transports::tcp::Settings;
use pipeline_transports::wr::{Completion, Outcome};
use pipeline_transports::{Access, Completions, LinkId, Nanos, Op};

use crate::rig::{Side, connected, request, serve, until};

const STALL: Nanos = 1_000_000_000;

fn settings() -> Settings {
    Settings { stall: Some(Duration::from_nanos(STALL)), ..Settings::default() }
}

/// Turns of the halves at `now`: what completed, and which lanes were closed.
fn turns(side: &mut Side, now: Nanos) -> (Vec<Completion>, Vec<LinkId>) {
    let mut out = Completions::with_capacity(256);
    for _ in 0..3 {
        side.halves.post.flush(now);
        side.halves.reap.reap(now, &mut out);
    }
    (out.done().to_vec(), out.closed().to_vec())
}

/// A target that takes a WRITE and never answers: nothing happens for the allowed time, then the lane is closed and the
/// WRITE ends as begun. An idle lane beside it lives on.
#[test]
fn a_lane_that_stands_still_is_closed() {
    let (mut a, _mute) = connected(&settings(), 2);
    let local = a.region(4096, Access::Local);
    turns(&mut a, 0);
    let write = request(1, Op::Write, (local, 0), (pipeline_transports::RegionId(1), 0), 4096);
    assert_eq!(a.halves.post.post(STALL, LinkId(1), &[write]).taken, 1);
    for quarter in 4..=7 {
        assert_eq!(turns(&mut a, quarter * STALL / 4), (vec![], vec![]), "after {quarter} quarters");
    }
    let (mut done, mut closed) = turns(&mut a, 2 * STALL);
    until("closed", || {
        let more = turns(&mut a, 2 * STALL);
        done.extend(more.0);
        closed.extend(more.1);
        !closed.is_empty()
    });
    assert_eq!(done.iter().map(|c| (c.id.0, c.outcome)).collect::<Vec<_>>(), [(1, Outcome::Begun)]);
    assert_eq!(closed, [LinkId(1)]);
    assert!(a.halves.post.room(LinkId(2)) > 0, "the idle lane was closed too");
}

/// A lane on which something moves now and then is never closed, however long the whole takes.
#[test]
fn a_slow_lane_lives() {
    let (mut a, mut b) = connected(&settings(), 1);
    let (local, remote) = (a.region(4096, Access::Local), b.region(4096, Access::ReadWrite));
    let mut ended = 0;
    for step in 0..20_u64 {
        let now = step * STALL * 9 / 10;
        // The one before has been answered by then, and this one is outstanding while the clock moves, or has just been.
        let write = request(step, Op::Write, (local, 0), (remote, 0), 4096);
        a.halves.post.post(now, LinkId(1), &[write]);
        until("one has ended", || {
            let (done, closed) = turns(&mut a, now);
            assert!(closed.is_empty(), "closed at step {step}");
            ended += done.len() as u64;
            serve(&mut b);
            ended >= step
        });
    }
}
