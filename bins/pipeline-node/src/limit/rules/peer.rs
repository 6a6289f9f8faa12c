//! The other side: it is not there, it answers nothing, or it and the wire are slower than this node.

use pipeline_stages::peer::PeerState;
use pipeline_stages::traffic::PeerStats;

use super::super::look::{Look, percent, time};
use super::super::{Because, Limit, Rule, knob};

/// Of their time, slices are with peers for so much: the rest of the node has less to do with it.
const ON_THE_WIRE: f64 = 0.6;

/// Slices on a lane at a time, on average, from which on another lane has something to carry.
const BUSY_LANE: f64 = 1.0;

/// Requests wait, and nothing moves.
pub(crate) const GONE: Rule = Rule {
    because: Because::Peer,
    says: "requests are under way and none of their slices has come back: the peer is down, or answers nothing",
    apply: gone,
};

/// Slices are with peers for most of their time.
pub(crate) const SLOW: Rule = Rule {
    because: Because::Peer,
    says: "workers have time, nothing is full, and slices are with peers, or wait for a lane to them, for three fifths of their time",
    apply: slow,
};

fn gone(look: &Look<'_>) -> Option<Limit> {
    let nics = &look.interval.nics;
    let back: u64 = nics.iter().map(|nic| nic.slices + nic.errors).sum();
    let waiting = look.interval.under_way;
    if back > 0 || waiting == 0 {
        return None;
    }
    let is_up = |peer: &&PeerStats| peer.state == PeerState::Up && peer.links > 0;
    let missing = look.interval.peers.iter().find(|peer| !is_up(peer));
    let silent = look.interval.peers.iter().filter(|peer| peer.outstanding > 0).max_by_key(|p| p.outstanding);
    let words = match (silent, missing) {
        (Some(peer), _) if peer.state == PeerState::Up => format!(
            "peer `{}` has {} slices and has answered none in {}; {waiting} requests wait",
            peer.label,
            peer.outstanding,
            time(look.seconds() * 1e9)
        ),
        (_, Some(peer)) => format!("{waiting} requests wait for peer `{}`, {}", peer.label, stands(peer)),
        _ => return None,
    };
    Some(Limit { stage: None, because: Because::Peer, words, knob: None })
}

fn stands(peer: &PeerStats) -> String {
    match peer.state {
        PeerState::Up => "to which no lane lives".to_owned(),
        PeerState::Connecting => "which is being reached".to_owned(),
        PeerState::Leaving => "which is about to stop".to_owned(),
        PeerState::Down if peer.reason.is_empty() => "which is down".to_owned(),
        PeerState::Down => format!("which is down: {}", peer.reason),
    }
}

fn slow(look: &Look<'_>) -> Option<Limit> {
    let share = look.with_peers();
    if share < ON_THE_WIRE {
        return None;
    }
    let slowest = look
        .interval
        .peers
        .iter()
        .max_by_key(|peer| peer.bytes_read + peer.bytes_written + peer.outstanding)?;
    let words = format!(
        "slices are with peers for {} of their time, most with `{}` (on {} lanes), and this node's workers have time: the wire or \
         the peer is slower",
        percent(share),
        slowest.label,
        slowest.links
    );
    // Lanes that have nothing to carry carry no more.
    let there = match look.held("cq_reap") {
        0.0 => slowest.outstanding as f64,
        held => look.share(held as u64),
    };
    let knob = if there >= BUSY_LANE * slowest.links as f64 { knob::lanes(look) } else { None };
    Some(Limit { stage: None, because: Because::Peer, words, knob })
}
