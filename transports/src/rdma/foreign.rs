//! What transports of another engine's protocol build upon: the same devices, halves and rings, with that engine's words for
//! who connects to what and which keys there are.
//!
//! Its work requests name real addresses ([`super::Addresses::Real`]), and its connections are of several queue pairs
//! ([`Ends`]). Deliberately nothing of how those words travel.

use super::connect::{self, Nic, go_round};
use super::endpoint::{QueuePair, Sizes};
use super::link::{PostEnd, ReapEnd};
use super::offer::End;
use super::opening::{Ends, Opening};
use super::pieces::Pieces;
use super::places::AcceptedPlace;
use super::region_keys::RegionKeys;
use super::registration::Registrations;
use super::transport::RdmaTransport;
use crate::clock::Nanos;
use crate::error::Error;
use crate::link::{Link, LinkEnd};
use crate::memory::{Access, Memory, RegionId};
use crate::spread::Spread;
use crate::transport::{NicId, Path};

/// Queue pairs that serve another engine's NIC. Dropping them destroys them, which may take seconds: see
/// [`RdmaTransport::retire`].
pub(crate) struct Served {
    queue_pairs: Vec<QueuePair>,
    ends: Ends,
    _place: AcceptedPlace,
}

impl Served {
    /// What the other engine must know of them.
    pub(crate) fn ends(&self) -> &Ends {
        &self.ends
    }
}

impl RdmaTransport {
    /// Registers as [`crate::Transport::register_on`] does, and keeps what is to be told in other words.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn register_pieces(
        &self,
        memory: &Memory,
        access: Access,
        threads: &dyn Spread,
    ) -> Result<Registrations, Error> {
        self.domain().register(memory, access, threads)
    }

    /// GID and LID of a NIC now; a GID of zeros where it has none.
    pub(crate) fn address_of(&self, nic: NicId) -> ([u8; 16], u16) {
        let device = self.domain().device(nic);
        device.map_or(([0; 16], 0), |device| (device.gid().map_or([0; 16], |gid| gid.raw), device.lid()))
    }

    /// A region of another engine, at its address there: one registration, with a key for each of its NICs.
    ///
    /// # Errors
    /// [`Error::Protocol`] for one that cannot be.
    pub(crate) fn enter(
        &self,
        incarnation: u64,
        region: RegionId,
        (address, len): (u64, u64),
        rkeys: Box<[u32]>,
    ) -> Result<(), Error> {
        let pieces = Pieces::at_address(address, len).ok_or_else(|| Error::Protocol {
            peer: format!("of start {incarnation:016x}"),
            reason: format!("it has {len} bytes at {address:#x}"),
        })?;
        let keys = RegionKeys { access: Access::ReadWrite, pieces, rkeys };
        self.domain().learnt().enter(incarnation, region, keys)
    }

    /// Which of `count` NICs of a peer a link leads to; `None` if there is none.
    pub(crate) fn choose_remote(&self, path: &Path, count: usize) -> Option<u16> {
        let first = usize::from(path.nic.0);
        (count > 0).then(|| go_round((0..count).collect(), |_| first, path.lane, &path.avoid))
    }

    /// Begins to dial: makes so many queue pairs, at least 1, whose first packets are numbered 0.
    ///
    /// # Errors
    /// As [`crate::Transport::dial`].
    pub(crate) async fn begin(&self, path: &Path, queue_pairs: u16, by: Nanos) -> Result<Opening<'_>, Error> {
        let (nic, pair) = (self.nic(path.nic)?, self.pair(path.nic, path.pair)?);
        let idle = usize::from(queue_pairs.saturating_sub(1));
        Opening::begin(nic, &pair, self.settings(), &path.peer, (idle, 0), by).await
    }

    /// Makes a link of what was begun, to the NIC with this index and the queue pairs it told of.
    ///
    /// # Errors
    /// As [`crate::Transport::dial`].
    pub(crate) fn connect(
        &self,
        opening: Opening<'_>,
        path: &Path,
        (remote_nic, theirs): (u16, &Ends),
    ) -> Result<Link, Error> {
        let keys = self.domain().learnt().of(path.incarnation);
        let link = opening.connect_all(theirs, path, remote_nic, keys)?;
        let (id, remote_nic) = (link.id, link.remote_nic);
        let post = LinkEnd { id, body: Box::new(PostEnd(link.clone())) };
        let reap = LinkEnd { id, body: Box::new(ReapEnd::new(link)) };
        Ok(Link { id, post: Some(post), reap: Some(reap), serve: None, remote_nic })
    }

    /// Makes queue pairs that serve as many of another engine's, from now on.
    ///
    /// # Errors
    /// [`Error::Exhausted`] where the NIC has as many as it may, [`Error::LocalNic`], [`Error::Unreachable`].
    pub(crate) async fn serve(
        &self,
        nic: NicId,
        theirs: &Ends,
        peer: &str,
        by: Nanos,
    ) -> Result<Served, Error> {
        let nic = self.nic(nic)?;
        nic.is_up()?;
        let place = connect::accepted_place(nic, peer, by).await?;
        let queue_pairs = theirs.numbers.iter().map(|number| self.serving(nic, theirs, *number, peer));
        let queue_pairs = queue_pairs.collect::<Result<Vec<_>, _>>()?;
        let ends = Ends {
            nic: nic.name.clone(),
            gid: queue_pairs.first().map_or([0; 16], |first| first.gid().raw),
            lid: nic.device.lid(),
            numbers: queue_pairs.iter().map(QueuePair::number).collect(),
        };
        Ok(Served { queue_pairs, ends, _place: place })
    }

    fn serving(&self, nic: &Nic, theirs: &Ends, number: u32, peer: &str) -> Result<QueuePair, Error> {
        let (settings, sizes) = (self.settings(), Sizes { send: 1, inline_bytes: 0, serves: true });
        let queue_pair = QueuePair::new(&nic.device, &nic.idle_queue, sizes)?;
        let (mtu, reads) = (nic.mtu(settings), nic.serves_reads(settings));
        let end = End {
            nic: theirs.nic.clone(),
            gid: theirs.gid,
            lid: theirs.lid,
            qpn: number,
            ..nic.end(&queue_pair, 0, mtu, reads)
        };
        let met = queue_pair.meet(&end, mtu, reads, settings);
        met.map_err(|e| connect::no_way(nic, peer, &end, &e))?;
        Ok(queue_pair)
    }

    /// Takes such queue pairs out of use; when this returns, nothing of them touches memory. They are destroyed later.
    pub(crate) fn retire(&self, served: Served) {
        // Each of them, whatever the others say.
        let reset = served.queue_pairs.iter().filter(|queue_pair| queue_pair.reset()).count();
        if reset == served.queue_pairs.len() {
            self.graveyard().take(Box::new(served));
        }
    }
}

/// A piece of a region, as another engine is told of it: a registration with each NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PieceKeys {
    /// Its first byte in this process.
    pub(crate) address: u64,
    /// Bytes.
    pub(crate) len: u64,
    /// Keys of this node's own NICs, in their order.
    pub(crate) lkeys: Vec<u32>,
    /// Keys by which peers name it to these.
    pub(crate) rkeys: Vec<u32>,
}
