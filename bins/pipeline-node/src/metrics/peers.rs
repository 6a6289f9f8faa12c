//! Which peers have series of their own: the first that were opened, as many as [`PEERS_MAX`]. All others share one, `other`.
//! First come, and not the most active: a peer that lost its series and got it back would look like a counter that was reset.

use pipeline_stages::peer::PeerState;
use pipeline_stages::traffic::PeerStats;

/// Peers that have series of their own. Names and addresses that the application opens are all that can become one: whoever
/// connects to a node has none.
pub const PEERS_MAX: usize = 256;

/// The label of the rest. A peer that a file calls so is among them: two series of one name would be none.
pub(super) const OTHER: &str = "other";

/// States, by their label.
pub(super) const STATES: [(PeerState, &str); 4] = [
    (PeerState::Connecting, "connecting"),
    (PeerState::Up, "up"),
    (PeerState::Down, "down"),
    (PeerState::Leaving, "leaving"),
];

/// Peers with series of their own, and what the others come to if there are any.
pub(super) fn divide(peers: &[PeerStats]) -> (Vec<&PeerStats>, Option<PeerStats>) {
    let (mut own, others): (Vec<_>, Vec<_>) = peers.iter().partition(|peer| peer.label != OTHER);
    let beyond = own.split_off(own.len().min(PEERS_MAX));
    (own, others.into_iter().chain(beyond).cloned().reduce(sum))
}

fn sum(all: PeerStats, one: PeerStats) -> PeerStats {
    PeerStats {
        links: all.links + one.links,
        outstanding: all.outstanding + one.outstanding,
        slices: all.slices + one.slices,
        bytes_read: all.bytes_read + one.bytes_read,
        bytes_written: all.bytes_written + one.bytes_written,
        errors: all.errors + one.errors,
        retries: all.retries + one.retries,
        path_failures: all.path_failures + one.path_failures,
        peer_failures: all.peer_failures + one.peer_failures,
        ..PeerStats::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many peers there are, those that came first keep their series, and the others are added up in one.
    #[test]
    fn the_first_keep_their_series() {
        let peer =
            |i: usize| PeerStats { label: i.to_string(), links: 2, path_failures: 3, ..PeerStats::default() };
        let all: Vec<_> = (0..PEERS_MAX + 10).map(peer).collect();
        for n in [0, 1, PEERS_MAX] {
            assert_eq!(divide(&all[..n]), (all[..n].iter().collect(), None));
        }
        let (own, others) = divide(&all);
        assert_eq!(own, all[..PEERS_MAX].iter().collect::<Vec<_>>());
        let others = others.unwrap();
        assert_eq!((others.links, others.path_failures), (20, 30));
        // One that is called so has no series beside that.
        let all = [PeerStats { label: OTHER.into(), ..peer(1) }, peer(2)];
        let (own, others) = divide(&all);
        assert_eq!((own, others.unwrap().links), (vec![&all[1]], 2));
    }
}
