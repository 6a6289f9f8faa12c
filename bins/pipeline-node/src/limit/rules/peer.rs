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
    let silent = look.interval.peers.iter().filter(|peer| peer.outstanding > 0).max_by_key(|p| p.outstanding);
    let is_up = |peer: &&PeerStats| peer.state == PeerState::Up && peer.links > 0;
    let mut missing = look.interval.peers.iter().filter(|peer| !is_up(peer));
    let words = match (silent, missing.next()) {
        (Some(peer), _) => {
            let PeerStats { label, outstanding, .. } = peer;
            let since = time(look.seconds() * 1e9);
            let leaves = if peer.state == PeerState::Leaving { ", which is about to stop," } else { "" };
            format!(
                "peer `{label}`{leaves} has {outstanding} slices and has answered none in {since}; {waiting} requests wait"
            )
        }
        // Which peer a request is for is not counted, so nobody is blamed for more than where it stands.
        (None, Some(peer)) => {
            let (label, stands, others) = (&peer.label, stands(peer), missing.count());
            let others = match others {
                0 => String::new(),
                1 => ", and 1 more is not up".to_owned(),
                _ => format!(", and {others} more are not up"),
            };
            format!(
                "{waiting} requests wait and no peer has a slice of theirs; peer `{label}` {stands}{others}"
            )
        }
        (None, None) => return None,
    };
    Some(Limit { stage: None, because: Because::Peer, words, knob: None })
}

fn stands(peer: &PeerStats) -> String {
    match peer.state {
        PeerState::Up => "has no lane that lives".to_owned(),
        PeerState::Connecting => "is being reached".to_owned(),
        PeerState::Leaving => "is about to stop".to_owned(),
        PeerState::Down if peer.reason.is_empty() => "is down".to_owned(),
        PeerState::Down => format!("is down: {}", peer.reason),
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
