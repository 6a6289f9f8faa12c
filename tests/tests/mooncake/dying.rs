//! Mooncake peers that go, come back, or are somebody else by then.

use std::time::{Duration, Instant};

use pipeline_node::{Options, PeerEvent, Reason, Request};

use crate::rig::{PATIENCE, carry_out, done, nothing_left, reasons, region_of, until};
use crate::{find, name, node};

/// A name whose port stays the same when the node is started anew.
fn fixed_port() -> String {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    format!("transports.mooncake.listen='{free}'")
}

/// B13: a peer that is gone fails each request with a reason and in time. Started anew under the same name it is another one:
/// whoever listens hears of it, old requests are stale, and the next transfers are done.
#[test]
fn gone_and_another() {
    let (client, port) = (node(&[]), fixed_port());
    let events = client.peer_events();
    let server = node(&[&port]);
    let (label, first) = (name(&server), find(&client, &server));
    let old = first.segment("buffer-0").unwrap();
    let local = region_of(&client, &[1; 4096]);
    done(&client, &[Request::write(&local, 0, old.at(0), 4096)]);
    drop(server);
    let down = |event: &PeerEvent| matches!(event, PeerEvent::Down { .. });
    assert!(matches!(events.next(PATIENCE), Ok(PeerEvent::Up { .. })));
    // Its links have ended while nothing was under way: that is asked about, once, and so heard of.
    assert!(down(&events.next(PATIENCE).unwrap()));
    for _ in 0..5 {
        let begin = Instant::now();
        let (_, batch) = carry_out(&client, &[Request::write(&local, 0, old.at(0), 4096)]);
        assert_eq!(reasons(&batch), [Some(Reason::PeerGone)]);
        assert!(begin.elapsed() < PATIENCE / 2);
    }
    let error = client.open(&label).unwrap_err();
    assert!(error.is_peer(), "{error}");
    let server = node(&[&port]);
    let again = find(&client, &server);
    assert_ne!(again.incarnation(), first.incarnation());
    let next = |events: &pipeline_node::PeerEvents| loop {
        match events.next(PATIENCE).unwrap() {
            event if down(&event) => {}
            event => return event,
        }
    };
    assert!(matches!(next(&events), PeerEvent::Restarted { .. }));
    assert!(matches!(next(&events), PeerEvent::Up { .. }));
    let (_, stale) = carry_out(&client, &[Request::write(&local, 0, old.at(0), 4096)]);
    assert_eq!(reasons(&stale), [Some(Reason::StalePeer)]);
    done(&client, &[Request::write(&local, 0, again.segment("buffer-0").unwrap().at(0), 4096)]);
    drop((stale, server));
    nothing_left(&client, [local]);
}

/// A peer that stops in the middle of a stream of WRITEs and READs: each ends once, with a reason if it failed, and nothing
/// of them is left; what was done before and after is done.
#[test]
fn in_the_middle() {
    let (client, port) = (node(&[]), fixed_port());
    let local = region_of(&client, &vec![3; 4 << 20]);
    for round in 0..3 {
        let server = node(&[&port]);
        let buffer = find(&client, &server).segment("buffer-0").unwrap();
        let requests: Vec<_> = (0..64)
            .map(|i| match i % 2 {
                0 => Request::write(&local, i * 65_536, buffer.at(i * 65_536), 65_536),
                _ => Request::read(&local, i * 65_536, buffer.at(i * 65_536), 65_536),
            })
            .collect();
        done(&client, &requests);
        let options = Options { deadline: Some(PATIENCE / 3), ..Options::default() };
        let batches: Vec<_> = (0..16).map(|_| client.submit(&requests, options.clone()).unwrap()).collect();
        until("some are done", || batches[round].poll().is_some());
        server.stop();
        for batch in &batches {
            batch.wait(PATIENCE).expect("an end");
            for reason in reasons(batch).into_iter().flatten() {
                let typed = matches!(
                    reason,
                    Reason::PeerGone | Reason::Undetermined | Reason::StalePeer | Reason::Deadline
                );
                assert!(typed, "{reason:?}");
            }
        }
        drop((batches, server));
    }
    nothing_left(&client, [local]);
}

/// Peers whose links ended unused are there again when they are wanted, and cost nothing in between: with room for one
/// connection only, two clients take turns.
#[test]
fn connections_that_idle() {
    let server = node(&["transports.mooncake.connections=1"]);
    let one_lane = "transports.mooncake.lanes=1";
    let clients = [(); 2].map(|()| node(&[one_lane]));
    for round in 0..6 {
        let client = &clients[round % 2];
        let local = region_of(client, &[round as u8; 4096]);
        let buffer = find(client, &server).segment("buffer-0").unwrap();
        done(client, &[Request::write(&local, 0, buffer.at(0), 4096)]);
        std::thread::sleep(Duration::from_millis(20));
        nothing_left(client, [local]);
    }
}
