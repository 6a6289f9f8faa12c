//! A node's end of an in-process transport: it is in the hub, has worker pairs, makes links.
//! Deliberately no third end of a link: the target's CPU takes no part.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;
use crate::inproc::hub::{Membership, Watch};
use crate::inproc::lane::{Lane, Share};
use crate::inproc::place::Place;
use crate::inproc::ports::Ports;
use crate::link::{Link, LinkEnd};
use crate::memory::Regions;
use crate::transport::{Offer, Path};

/// See the file's head.
pub(crate) struct Station {
    kind: &'static str,
    name: String,
    nics: Vec<String>,
    incarnation: u64,
    place: Place,
    pub(crate) regions: Arc<Regions>,
    pub(crate) ports: Ports,
    /// Work requests outstanding on a link.
    queue: usize,
    dialled: AtomicU64,
    /// Peers find the regions while this lives; links to them die with it.
    _member: Membership,
}

/// What the reap half gets of a link.
pub(crate) struct ReapEnd {
    pub(crate) lane: Share,
    /// The peer, and our interest in its life.
    pub(crate) watch: Watch,
    /// How many links this transport had dialled before.
    pub(crate) ordinal: u64,
}

impl Station {
    /// For the transport `name` of a node, over these NICs; without any it is one NIC of its own name.
    ///
    /// # Errors
    /// [`Error::BadArgument`] for a queue of 0, or an incarnation that another node of this process has;
    /// [`Error::Io`] without random bytes.
    pub(crate) fn new(
        (kind, name): (&'static str, &str),
        nics: &[String],
        queue: usize,
        incarnation: u64,
        regions: Arc<Regions>,
    ) -> Result<Self, Error> {
        if queue == 0 {
            return Err(Error::BadArgument(format!(
                "transport `{name}`: a queue of 0 takes no work request"
            )));
        }
        let nics = if nics.is_empty() { vec![name.to_owned()] } else { nics.to_vec() };
        Ok(Self {
            kind,
            name: name.to_owned(),
            ports: Ports::new(nics.len()),
            nics,
            incarnation,
            place: Place::here(incarnation)?,
            _member: Membership::join(incarnation, &regions)?,
            regions,
            queue,
            dialled: AtomicU64::new(0),
        })
    }

    /// Names of its NICs: at least one.
    pub(crate) fn nics(&self) -> &[String] {
        &self.nics
    }

    /// What a peer of this process must know.
    pub(crate) fn offer(&self) -> Offer {
        Offer { kind: self.kind.into(), name: self.name.clone(), body: self.place.encode() }
    }

    /// Finds the peer in this process and makes a link to it. There is nothing to wait for.
    pub(crate) fn dial(&self, path: &Path, peer: &Offer) -> Result<Link, Error> {
        let kind = self.kind;
        if peer.kind != kind {
            let reason = format!("its transport `{}` is of type {}, not {kind}", peer.name, peer.kind);
            return Err(Error::Refused { peer: path.peer.clone(), reason });
        }
        let wakes = self.ports.wakes(path.nic, path.pair)?;
        // Asked anew: after a fork this is another process, without the threads that would reap.
        let node = Place::here(self.incarnation)?.find(kind, &path.peer, &peer.body)?;
        let (post, lane) = Share::both(Lane::new(self.queue));
        let watch = node.watch(path.link, wakes.reap);
        let reap = ReapEnd { lane, watch, ordinal: self.dialled.fetch_add(1, Ordering::Relaxed) };
        Ok(Link {
            id: path.link,
            post: Some(LinkEnd { id: path.link, body: Box::new(post) }),
            reap: Some(LinkEnd { id: path.link, body: Box::new(reap) }),
            serve: None,
            remote_nic: 0,
        })
    }
}

/// Copies need no registration.
pub(crate) struct Unregistered;

impl crate::transport::Registered for Unregistered {}
