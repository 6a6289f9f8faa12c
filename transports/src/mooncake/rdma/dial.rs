//! The active side: opens a link by connecting queue pairs with those of another node.
//!
//! Their nodes keep one set of queue pairs for each path of a NIC that asks, and use it both ways; a second question of the
//! same path ends the first. So each link asks by a path of its own ([`lane_path`]): what we dial is never what they
//! dial, two that ask each other at once make two sets, and lanes do not end each other. A lane that is dialled again asks by
//! its old path, so that nothing of it is left there. Nobody looks such a NIC up, since the question carries its
//! address (from 0.3.11); an older node would, and cannot be reached so.
//!
//! The first queue pair of a set carries the work, the others are there because theirs are paired one by one.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use super::exchange::{self, NicPath};
use super::peer::Reached;
use crate::clock::Nanos;
use crate::error::Error;
use crate::link::Link;
use crate::mooncake::ask::Ask;
use crate::mooncake::bodies::Connection;
use crate::mooncake::name::HostPort;
use crate::rdma::RdmaTransport;
use crate::transport::Path;

/// Peers whose count of queue pairs is remembered.
const COUNTS_KEPT: usize = 4096;

/// How many queue pairs each peer connects at once, where it was found that it is not what the file says.
#[derive(Debug, Default)]
pub(super) struct Counts(Mutex<HashMap<String, u16>>);

impl Counts {
    fn of(&self, server: &str) -> Option<u16> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(server).copied()
    }

    fn note(&self, server: &str, count: u16) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= COUNTS_KEPT {
            // To be found anew by one more question each.
            all.clear();
        }
        all.insert(server.to_owned(), count);
    }
}

/// Who dials.
pub(super) struct Dialling<'a> {
    pub(super) wire: &'a RdmaTransport,
    /// What others call this node.
    pub(super) own: &'a str,
    /// Queue pairs at once, of a file.
    pub(super) queue_pairs: u16,
    pub(super) counts: &'a Counts,
    pub(super) max_handshake_bytes: u64,
}

impl Dialling<'_> {
    /// Opens a link; see [`crate::Transport::dial`].
    ///
    /// # Errors
    /// As there.
    pub(super) async fn dial(&self, path: &Path, reached: &Reached, by: Nanos) -> Result<Link, Error> {
        let known = self.counts.of(&reached.server).unwrap_or(self.queue_pairs);
        match self.dial_with(path, reached, known, by).await {
            Ok(Opened::Link(link)) => Ok(*link),
            Err(error) => Err(error),
            // It has told how many it wants.
            Ok(Opened::Count(count)) => match self.dial_with(path, reached, count, by).await? {
                Opened::Link(link) => {
                    self.counts.note(&reached.server, count);
                    Ok(*link)
                }
                Opened::Count(other) => Err(Error::Protocol {
                    peer: path.peer.clone(),
                    reason: format!("it wants {count} queue pairs at once, and then {other}"),
                }),
            },
        }
    }

    async fn dial_with(
        &self,
        path: &Path,
        reached: &Reached,
        count: u16,
        by: Nanos,
    ) -> Result<Opened, Error> {
        let broken = |reason: String| Error::Protocol { peer: path.peer.clone(), reason };
        let remote = self.wire.choose_remote(path, reached.devices.len());
        let (index, device) = remote
            .and_then(|at| Some((at, reached.devices.get(usize::from(at))?)))
            .ok_or_else(|| broken("it has no NIC".to_owned()))?;
        let opening = self.wire.begin(path, count, by).await?;
        let ours = opening.ends();
        let to = NicPath { server: &reached.server, nic: &device.name };
        let asked = exchange::told(&ours, lane_path(self.own, &ours.nic, path), to.to_string());
        let port = HostPort::new(&path.address.ip().to_string(), path.address.port());
        let ask = Ask { of: &port, max: self.max_handshake_bytes, by };
        let answer = ask.connection(&asked).await?;
        if !answer.reply_msg.is_empty() {
            return match u16::try_from(answer.qp_num.len()) {
                Ok(theirs) if theirs != count && (1..=exchange::QUEUE_PAIRS_MAX).contains(&theirs.into()) => {
                    Ok(Opened::Count(theirs))
                }
                _ => Err(Error::Refused { peer: path.peer.clone(), reason: answer.reply_msg }),
            };
        }
        let theirs = exchange::answered(&asked, &answer, Some(device)).map_err(broken)?;
        let link = self.wire.connect(opening, path, (index, &theirs))?;
        if answer.ready_ack.is_some() {
            let ready = Connection { ready_ack: Some(true), ..asked };
            let heard = ask.connection(&ready).await?;
            if !heard.reply_msg.is_empty() {
                return Err(Error::Refused { peer: path.peer.clone(), reason: heard.reply_msg });
            }
        }
        Ok(Opened::Link(Box::new(link)))
    }
}

/// What came of a question.
enum Opened {
    Link(Box<Link>),
    /// The peer connects so many at once.
    Count(u16),
}

/// The path that a link of ours asks by: that of its NIC, with what tells it from the others to the same node.
fn lane_path(own: &str, nic: &str, path: &Path) -> String {
    // Two names of one node are two peers here, with links of their own.
    let mut hasher = DefaultHasher::new();
    path.peer.hash(&mut hasher);
    let (name, pair, lane) = (hasher.finish() as u32, path.pair.0, path.lane);
    NicPath { server: own, nic: &format!("{nic}#{pair}.{lane}.{name:08x}") }.to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::link::LinkId;
    use crate::transport::{NicId, PairId, SessionId};

    fn path(link: u64, peer: &str, pair: u16, lane: u16) -> Path {
        Path {
            link: LinkId(link),
            nic: NicId(0),
            pair: PairId(pair),
            lane,
            peer: peer.into(),
            address: "10.9.0.10:1".parse().unwrap(),
            addresses: Arc::default(),
            session: SessionId([0; 16]),
            incarnation: 1,
            avoid: Vec::new(),
        }
    }

    /// A lane that is dialled again asks by its old path, and no two links that live side by side ask by the same one.
    #[test]
    fn a_path_a_lane() {
        let of = |path: &Path| lane_path("10.9.0.11:5", "rxe1", path);
        let first = of(&path(1, "a", 0, 0));
        assert_eq!(of(&path(2, "a", 0, 0)), first);
        let others = [path(1, "a", 0, 1), path(1, "a", 1, 0), path(1, "b", 0, 0)].map(|path| of(&path));
        for (at, other) in others.iter().enumerate() {
            assert!(*other != first && !others[..at].contains(other), "{other}");
        }
        let read = NicPath::parse(&first).unwrap();
        assert!(read.server == "10.9.0.11:5" && read.nic.starts_with("rxe1#"), "{first}");
    }

    /// What was found of a peer is remembered, of as many as may be.
    #[test]
    fn counts() {
        let counts = Counts::default();
        (0..COUNTS_KEPT + 1).for_each(|at| counts.note(&at.to_string(), 3));
        let kept = counts.0.lock().unwrap().len();
        assert!((1..=COUNTS_KEPT).contains(&kept));
        assert_eq!((counts.of(&COUNTS_KEPT.to_string()), counts.of("nobody")), (Some(3), None));
    }
}
