//! A link that is being dialled, from its place to the link: what all ways of telling the other side have in common.
//!
//! It begins with queue pairs in INIT, of which the first will carry work requests; the others are there because another engine's
//! protocol connects several at once ([`Ends`]), and idle. Deliberately ignorant of how the other side is told: whoever
//! dials asks [`Opening::end`] or [`Opening::ends`], tells it in its own words, and comes back with the other's.

use std::sync::Arc;
use std::time::Duration;

use super::connect::{self, Nic};
use super::endpoint::{QueuePair, Sizes};
use super::link::{Pair, RdmaLink, TagGuard};
use super::offer::End;
use super::places::{Asked, Place};
use super::remote_keys::RemoteKeys;
use super::ring::{CauseCell, Ring};
use super::settings::RdmaSettings;
use crate::clock::{Nanos, until};
use crate::error::Error;
use crate::life::Life;
use crate::transport::Path;

/// How often a place that is being made free is asked for.
pub(super) const SOON: Duration = Duration::from_millis(1);

/// Queue pairs of one NIC that are connected together with as many of another, one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ends {
    /// Name of the NIC.
    pub(crate) nic: String,
    /// Its GID.
    pub(crate) gid: [u8; 16],
    /// Its LID; 0 on Ethernet.
    pub(crate) lid: u16,
    /// Numbers of the queue pairs, 24 bits each.
    pub(crate) numbers: Vec<u32>,
}

/// See the file's head.
pub(crate) struct Opening<'a> {
    nic: &'a Nic,
    settings: &'a RdmaSettings,
    pair: Arc<Pair>,
    place: Place,
    tag: TagGuard,
    queue_pair: QueuePair,
    idle: Vec<QueuePair>,
    psn: u32,
}

impl<'a> Opening<'a> {
    /// Takes a place, waiting for one until `by`, and makes `1 + idle` queue pairs, whose first packet will be `psn`.
    ///
    /// # Errors
    /// [`Error::LocalNic`] where the NIC is down or refuses, [`Error::Exhausted`] where it has as many as it may.
    pub(super) async fn begin(
        nic: &'a Nic,
        pair: &Arc<Pair>,
        settings: &'a RdmaSettings,
        peer: &str,
        (idle, psn): (usize, u32),
        by: Nanos,
    ) -> Result<Self, Error> {
        nic.is_up()?;
        let place = loop {
            match nic.places.ask(pair) {
                Asked::Place(place) => break place,
                Asked::Soon if !until(by).is_zero() => tokio::time::sleep(SOON).await,
                Asked::Soon | Asked::Full => return Err(nic.is_full(peer)),
            }
        };
        let tag = pair.tag().ok_or_else(|| nic.is_full(peer))?;
        // One more than its links may have outstanding: the marker behind the last.
        let send = connect::depth(&nic.device, settings) + 1;
        let sizes = Sizes { send, inline_bytes: settings.inline_bytes, serves: false };
        let queue_pair = QueuePair::new(&nic.device, &pair.queue, sizes)?;
        let sizes = Sizes { send: 1, inline_bytes: 0, serves: false };
        let idle = (0..idle).map(|_| QueuePair::new(&nic.device, &nic.idle_queue, sizes));
        let idle = idle.collect::<Result<_, _>>()?;
        Ok(Self { nic, settings, pair: pair.clone(), place, tag, queue_pair, idle, psn })
    }

    /// What another node of ours must know of the first queue pair.
    pub(super) fn end(&self) -> End {
        let (mtu, reads) = (self.nic.mtu(self.settings), self.nic.starts_reads(self.settings));
        self.nic.end(&self.queue_pair, self.psn, mtu, reads)
    }

    /// What another engine must know of all of them.
    pub(crate) fn ends(&self) -> Ends {
        let idle = self.idle.iter().map(QueuePair::number);
        Ends {
            nic: self.nic.name.clone(),
            gid: self.queue_pair.gid().raw,
            lid: self.nic.device.lid(),
            numbers: std::iter::once(self.queue_pair.number()).chain(idle).collect(),
        }
    }

    /// Connects them to another engine's, of which only [`Ends`] are known; otherwise as [`Self::connect`].
    ///
    /// # Errors
    /// As there; [`Error::Protocol`] where it has not as many.
    pub(super) fn connect_all(
        self,
        theirs: &Ends,
        path: &Path,
        remote_nic: u16,
        keys: Arc<RemoteKeys>,
    ) -> Result<Arc<RdmaLink>, Error> {
        let ours = 1 + self.idle.len();
        if theirs.numbers.len() != ours {
            let reason = format!("it connects {} queue pairs with our {ours}", theirs.numbers.len());
            return Err(Error::Protocol { peer: path.peer.clone(), reason });
        }
        // Its protocol tells neither of its packets nor of READs: both sides assume what both can.
        let one = |qpn: &u32| End {
            qpn: *qpn,
            nic: theirs.nic.clone(),
            gid: theirs.gid,
            lid: theirs.lid,
            ..self.end()
        };
        let all: Vec<End> = theirs.numbers.iter().map(one).collect();
        for (queue_pair, end) in self.idle.iter().zip(&all[1..]) {
            self.meet(queue_pair, end, &path.peer)?;
        }
        self.connect(&all[0], path, remote_nic, keys)
    }

    /// Connects it to the other end: from now on it is a link, which its place follows until it is gone.
    ///
    /// # Errors
    /// [`Error::Unreachable`] where the system finds no way to the other NIC, [`Error::LocalNic`].
    pub(super) fn connect(
        self,
        theirs: &End,
        path: &Path,
        remote_nic: u16,
        keys: Arc<RemoteKeys>,
    ) -> Result<Arc<RdmaLink>, Error> {
        self.meet(&self.queue_pair, theirs, &path.peer)?;
        let reads = self.nic.starts_reads(self.settings).min(theirs.reads);
        self.queue_pair.let_loose(self.psn, reads, self.settings)?;
        let depth = connect::depth(&self.nic.device, self.settings);
        let link = Arc::new(RdmaLink {
            id: path.link,
            peer: path.peer.clone(),
            remote_nic,
            pair: self.pair,
            tag: self.tag,
            queue_pair: self.queue_pair,
            idle: self.idle.into(),
            ring: Ring::new(depth),
            life: Life::default(),
            cause: CauseCell::default(),
            keys,
        });
        self.place.seat(link.clone(), path.session, path.incarnation);
        Ok(link)
    }

    fn meet(&self, queue_pair: &QueuePair, theirs: &End, peer: &str) -> Result<(), Error> {
        let mtu = self.nic.mtu(self.settings).min(theirs.mtu);
        // This end serves nothing; some devices want to hear of one READ at least.
        let met = queue_pair.meet(theirs, mtu, 1, self.settings);
        met.map_err(|e| connect::no_way(self.nic, peer, theirs, &e))
    }
}
