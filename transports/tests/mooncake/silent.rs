//! Targets that say nothing, under a clock that the test moves, and addresses at which nobody is.

use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use pipeline_transports::mooncake::Settings;
use pipeline_transports::mooncake::wire::Framing;
use pipeline_transports::wr::{Blame, Outcome};
use pipeline_transports::{Error, LinkId, Nanos, Op};

use crate::rig::{Side, request};

const STALL: Nanos = 1_000_000_000;

fn settings() -> Settings {
    Settings { stall: Some(Duration::from_nanos(STALL)), ..Settings::default() }
}

/// A target that takes requests and never answers, as one that is frozen: nothing happens for the allowed time, then the
/// lane is closed, the peer is to blame, and what was asked of it may have begun.
#[test]
fn a_frozen_target() {
    for framing in [Framing::V1, Framing::V2] {
        let (mut side, _mute) = Side::raw_target(&settings(), framing);
        let local = side.region(4096);
        side.turn(0);
        side.post(&[request(1, Op::Write, local, 0, 0, 100), request(2, Op::Read, local, 0, 0, 100)]);
        for quarter in 4..=7 {
            side.turn(quarter * STALL / 4);
            assert_eq!((&side.ended[..], &side.closed[..]), (&[][..], &[][..]), "after {quarter} quarters");
        }
        side.turn(2 * STALL);
        assert_eq!(side.until_closed(), Blame::Peer);
        assert_eq!(side.outcomes(), [Outcome::Begun; 2]);
    }
}

/// A lane without work outstanding may be silent for ever.
#[test]
fn an_idle_lane_lives() {
    let (mut side, _mute) = Side::raw_target(&settings(), Framing::V2);
    for second in 0..1000 {
        side.turn(second * STALL);
    }
    assert!(side.closed.is_empty() && side.halves.post.room(LinkId(1)) > 0);
}

/// A dead first address costs little, and the next lane nothing: it tries the others first.
#[test]
fn a_dead_first_address() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    // Set aside for documents: nothing answers there, not even with a refusal, unless the machine has no way there at all.
    let hole: SocketAddr = "192.0.2.1:9".parse().unwrap();
    let to = [dead, hole, listener.local_addr().unwrap()];
    let mut side = Side::new(&Settings::default());
    let start = Instant::now();
    side.dial(LinkId(1), &to, Framing::V2).unwrap();
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    let start = Instant::now();
    side.dial(LinkId(2), &to, Framing::V2).unwrap();
    assert!(start.elapsed() < Duration::from_millis(800), "{:?}", start.elapsed());
}

/// Where nobody listens the error names the peer, the address and the reason.
#[test]
fn nobody_there() {
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = Side::new(&Settings::default()).dial(LinkId(1), &[dead], Framing::V2).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Unreachable { .. }), "{text}");
    assert!(
        text.contains("target") && text.contains(&dead.to_string()) && text.contains("refused"),
        "{text}"
    );
}
