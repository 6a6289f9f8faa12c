//! The other side: it is not there, it answers nothing, or it and the wire are slower than this node.

use pipeline_stages::peer::PeerState;
use pipeline_stages::traffic::PeerStats;

use super::super::look::{Look, percent, time};
use super::super::{Because, Limit, Rule, knob};

/// Of their time, slices are with peers for so much: the rest of the node has little to do with it.
const ON_THE_WIRE: f64 = 0.75;

/// Requests wait, and nothing moves.
pub(crate) const GONE: Rule = Rule {
    because: Because::Peer,
    says: "requests are under way and none of their slices has come back: the peer is down, or answers nothing",
    apply: gone,
};

/// Slices are with peers for three quarters of their time.
pub(crate) const SLOW: Rule = Rule {
    because: Because::Peer,
    says: "workers have time, nothing is full, and slices are with peers for three quarters of their time",
    apply: slow,
};

fn gone(look: &Look<'_>) -> Option<Limit> {
    let nics = &look.interval.nics;
    let back: u64 = nics.iter().map(|nic| nic.slices + nic.errors).sum();
    let waiting = look.interval.usage.requests;
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
    Some(Limit { stage: None, because: Because::Peer, words, knob: knob::lanes(look) })
}
