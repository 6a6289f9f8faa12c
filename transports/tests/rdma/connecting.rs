//! Links come and go: who makes room, what a dialler leaves behind, which NICs may meet.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use pipeline_transports::control::Control;
use pipeline_transports::rdma::{Rails, RdmaSettings};
use pipeline_transports::transport::BoxFuture;
use pipeline_transports::{Blame, Error, LinkId, Nanos, Op, Outcome, Transport};

use crate::rig::{SESSION, Side, Two, Wire, dial, path, quiet_network, runtime, settings, soon};

fn small(device: &str, endpoints: u32) -> RdmaSettings {
    RdmaSettings { endpoints, ..settings(&[device]) }
}

/// Dials while the halves run, as they do beside control.
fn dial_beside(two: &mut Two, link: LinkId) -> Result<pipeline_transports::Link, Error> {
    let (near, far) = (two.near.transport.clone(), two.far.transport.clone());
    let (offer, path) = (far.offer(), path(link, 0));
    let mut wire = Wire(&far);
    runtime().block_on(async {
        let mut dial = pin!(near.dial(&path, &offer, &mut wire, soon()));
        poll_fn(|context| {
            two.step();
            dial.as_mut().poll(context)
        })
        .await
    })
}

/// A NIC that has all the queue pairs it may lets the link go that was not used for longest; it is reported closed, and
/// nobody is to blame. While all are busy none goes, and a further one is refused with what to do.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn the_unused_make_room() {
    let _network = quiet_network();
    let mut two = Two::new(&small("rxe0", 3), &small("rxe1", 16), 16 << 20);
    let links = [two.connect(), two.connect(), two.connect()];
    for used in [links[0], links[2]] {
        let work = two.blocks(Op::Write, 2, 64);
        two.post(used, &work);
        two.finish(&work);
    }
    let made = dial_beside(&mut two, LinkId(50)).unwrap();
    two.near.adopt(made);
    assert_eq!(two.closed, [(links[1], Blame::Nobody)]);
    let mut all = Vec::new();
    for link in [links[0], links[2], LinkId(50)] {
        let work = two.blocks(Op::Write, 4, 4096);
        two.post(link, &work);
        all.extend(work);
    }
    // Handed over, and nobody reaps.
    two.near.halves.post.flush(crate::rig::now());
    let refused = dial(&two.near, &two.far.transport, LinkId(51), 0).err().expect("all are busy");
    assert!(
        matches!(&refused, Error::Exhausted { .. }) && refused.to_string().contains("`endpoints`"),
        "{refused}"
    );
    two.finish(&all);
    assert_eq!(two.count(&all, Outcome::Done), all.len());
}

/// The other end of a link that is gone goes when its dialler asks for the next one, or lets go of all.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn the_other_end_goes_with_the_next_request() {
    let _network = quiet_network();
    let mut two = Two::new(&settings(&["rxe0"]), &settings(&["rxe1"]), 4096);
    let (one, _kept) = (two.connect(), two.connect());
    two.near.halves.reap.abort(one);
    two.until("the link to close", |two| two.closed == [(one, Blame::Nobody)]);
    assert_eq!(two.far.transport.accepted(), 2);
    two.connect();
    assert_eq!(two.far.transport.accepted(), 2, "two live ones; the dead one is gone");
    runtime().block_on(two.far.transport.let_go(SESSION, None));
    assert_eq!(two.far.transport.accepted(), 0);
    runtime().block_on(two.far.transport.let_go(SESSION, Some(LinkId(77))));
}

/// A control connection whose answers nobody receives.
struct Deaf<'a>(Wire<'a>);

impl Control for Deaf<'_> {
    fn exchange<'a>(&'a mut self, body: &'a [u8], by: Nanos) -> BoxFuture<'a, Result<Vec<u8>, Error>> {
        Box::pin(async move {
            self.0.exchange(body, by).await?;
            std::future::pending().await
        })
    }
}

/// A dialler that runs out of time, or is dropped, when its peer has made its end already: nothing is left of its own, and
/// the peer's end goes with its next request.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn a_dial_that_is_given_up_leaves_nothing() {
    let _network = quiet_network();
    let (near, far) = (Side::new(&small("rxe0", 2)), Side::new(&settings(&["rxe1"])));
    let offer = far.transport.offer();
    for round in 0..4 {
        let (path, by) = (path(LinkId(10 + round), 0), crate::rig::now() + 50_000_000);
        let mut deaf = Deaf(Wire(&far.transport));
        runtime().block_on(async {
            let mut dial = pin!(near.transport.dial(&path, &offer, &mut deaf, by));
            if round % 2 == 0 {
                assert!(matches!(dial.await, Err(Error::Deadline { .. })));
            } else {
                // Dropped in the middle.
                let pending = poll_fn(|context| Poll::Ready(dial.as_mut().poll(context).is_pending())).await;
                assert!(pending);
            }
        });
        assert_eq!(far.transport.accepted(), 1, "the one of the last round went");
    }
    // No place of the two was lost.
    let links: Vec<_> = (1..=2).map(|link| dial(&near, &far.transport, LinkId(link), 0).unwrap()).collect();
    assert_eq!((far.transport.accepted(), links.len()), (2, 2));
}

/// Rails that must not be crossed are not: neither by the dialler's word nor by the acceptor's.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn rails_are_not_crossed() {
    let _network = quiet_network();
    let on = |device: &str, rail, rails| {
        let mut settings = RdmaSettings { rails, ..settings(&[device]) };
        settings.nics[0].rail = rail;
        Side::new(&settings)
    };
    for (ours, theirs) in [(Rails::Same, Rails::Any), (Rails::Any, Rails::Same)] {
        let near = on("rxe0", Some(4), ours);
        for rail in [None, Some(3)] {
            let refused = dial(&near, &on("rxe1", rail, theirs).transport, LinkId(1), 0);
            assert!(matches!(refused, Err(Error::Refused { .. })));
        }
        dial(&near, &on("rxe1", Some(4), theirs).transport, LinkId(1), 0).unwrap();
    }
}

/// Lanes of a path are spread over the peer's NICs, and each knows which one it leads to.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn lanes_are_spread() {
    let _network = quiet_network();
    let (near, far) = (Side::new(&settings(&["rxe0"])), Side::new(&settings(&["rxe0", "rxe1"])));
    let remote = |lane| dial(&near, &far.transport, LinkId(1 + u64::from(lane)), lane).unwrap().remote_nic;
    assert_eq!([0, 1, 2, 3].map(remote), [0, 1, 0, 1]);
}

/// Bytes that are no request are refused, and make nothing.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn nonsense_is_refused() {
    let far = Side::new(&settings(&["rxe1"]));
    let mut wire = Wire(&far.transport);
    for body in [&[][..], &[1], &[0; 64], &[255; 300]] {
        let refused = runtime().block_on(wire.exchange(body, soon()));
        assert!(matches!(refused, Err(Error::Protocol { .. })));
    }
    assert_eq!(far.transport.accepted(), 0);
}
