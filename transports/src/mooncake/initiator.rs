//! This node as an initiator: what reads and writes the memory of Mooncake peers. Makes the halves, and the lanes between.
//! Deliberately no finding of peers: see [`super::find`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::dial::reach;
use super::lane::Lane;
use super::peers::Learnt;
use super::post::MooncakePost;
use super::reap::MooncakeReap;
use super::ring::Ring;
use super::settings::Settings;
use super::transport::KIND;
use super::wire::Framing;
use crate::clock::Nanos;
use crate::deadline::in_time;
use crate::error::Error;
use crate::link::{Link, LinkEnd, Wakes};
use crate::memory::{RegionId, Regions};
use crate::resting::Resting;
use crate::tcp::halves::{Connection, Pair};
use crate::transport::{NicId, Offer, PairId, Path};

/// The least `stall`: below it a busy machine would look dead.
const STALL_MIN: Duration = Duration::from_millis(100);
/// Most work requests outstanding on a lane.
const DEPTH_MAX: u32 = 1 << 20;

/// See the file's head. Any thread.
pub(super) struct Initiator {
    regions: Arc<Regions>,
    depth: usize,
    stall: Option<Duration>,
    /// The highest version of requests that is sent.
    framing: Framing,
    pairs: Mutex<HashMap<(NicId, PairId), Arc<Pair>>>,
    learnt: Learnt,
    resting: Resting,
}

impl Initiator {
    pub(super) fn new(settings: &Settings, regions: Arc<Regions>) -> Self {
        Self {
            regions,
            depth: settings.depth.clamp(1, DEPTH_MAX) as usize,
            stall: settings.stall.map(|stall| stall.max(STALL_MIN)),
            framing: settings.framing,
            pairs: Mutex::default(),
            learnt: Learnt::default(),
            resting: Resting::default(),
        }
    }

    /// The halves of this side, see [`crate::Transport::attach`].
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn attach(
        &self,
        nic: NicId,
        pair: PairId,
        wakes: Wakes,
    ) -> Result<(MooncakePost, MooncakeReap), Error> {
        let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        // A pair that lost a half goes on with what the others share: they are to notice the deaths of new lanes too.
        let shared = pairs.entry((nic, pair)).or_insert_with(|| Arc::new(Pair::new(wakes))).clone();
        drop(pairs);
        Ok((MooncakePost::new(self.regions.clone(), shared)?, MooncakeReap::new(self.stall)?))
    }

    /// Opens a lane, see [`crate::Transport::dial`].
    ///
    /// # Errors
    /// As there.
    pub(super) async fn dial(&self, path: &Path, peer: &Offer, by: Nanos) -> Result<Link, Error> {
        let pair = self.pair(path)?;
        let framing = self.framing_to(path, peer)?;
        let dialling = reach(path, &self.resting, self.stall, by);
        let stream = in_time("opening a lane", &path.peer, by, dialling).await?;
        let stream = stream
            .into_std()
            .map_err(|e| Error::Unreachable { peer: path.peer.clone(), reason: e.to_string() })?;
        let id = path.link;
        let lane = Lane {
            connection: Connection::new(id, path.peer.clone(), stream, pair),
            framing,
            remote: self.learnt.of(path.incarnation),
            ring: Ring::new(self.depth),
        };
        let (post, reap) = lane.ends();
        let (post, reap) = (LinkEnd { id, body: Box::new(post) }, LinkEnd { id, body: Box::new(reap) });
        Ok(Link { id, post: Some(post), reap: Some(reap), serve: None, remote_nic: 0 })
    }

    fn pair(&self, path: &Path) -> Result<Arc<Pair>, Error> {
        let pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        pairs.get(&(path.nic, path.pair)).cloned().ok_or_else(|| {
            let (nic, pair) = (path.nic.0, path.pair.0);
            Error::BadArgument(format!("a {KIND} transport has no workers for NIC {nic} pair {pair}"))
        })
    }

    fn framing_to(&self, path: &Path, peer: &Offer) -> Result<Framing, Error> {
        let theirs = Framing::from_offer(&peer.body).filter(|_| peer.kind == KIND).ok_or_else(|| {
            let reason =
                format!("its transport `{}` is of type {} and not one of {KIND}", peer.name, peer.kind);
            Error::Refused { peer: path.peer.clone(), reason }
        })?;
        let both = theirs == Framing::V2 && self.framing == Framing::V2;
        Ok(if both { Framing::V2 } else { Framing::V1 })
    }

    /// See [`crate::Transport::learn`].
    ///
    /// # Errors
    /// As there.
    pub(super) fn learn(
        &self,
        incarnation: u64,
        region: RegionId,
        len: u64,
        keys: &[u8],
    ) -> Result<(), Error> {
        self.learnt.learn(incarnation, region, len, keys)
    }

    /// See [`crate::Transport::forget`].
    pub(super) fn forget(&self, incarnation: u64) {
        self.learnt.forget(incarnation);
    }
}

impl Framing {
    /// What a [`Found`](crate::foreign::Found) says of it.
    pub(super) fn to_offer(self) -> Vec<u8> {
        vec![if self == Self::V2 { 2 } else { 1 }]
    }

    pub(super) fn from_offer(body: &[u8]) -> Option<Self> {
        match body {
            [1] => Some(Self::V1),
            [2] => Some(Self::V2),
            _ => None,
        }
    }
}
