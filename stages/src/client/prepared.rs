//! Requests that were judged once, to be submitted again and again by their indices.
//! Deliberately without hold on anything: no region is pinned and no peer kept. What may have changed since, a restart of
//! the peer or a region that is gone, is seen at each submission by the names in the request.

use std::fmt;
use std::ops::{Range, RangeFull};
use std::sync::Arc;

use super::Client;
use super::judge::{FarEnd, Judge};
use crate::reason::{Failure, Reason};
use crate::request::Request;

/// What is said of an index that names none.
pub(super) const BEYOND: &str = "it names a prepared request that is not there";

/// Prepared requests. Any thread; share it by reference or `Arc`.
///
/// It pins nothing: a local region may be unregistered while it exists, and requests that name that region fail
/// `NotRegistered` from then on, whatever is registered later. So do those to a peer that was restarted, with
/// `StalePeer`: prepare them again after the peer was opened again.
pub struct Prepared {
    pub(super) ready: Box<[Ready]>,
    /// The start of the engine that has judged them.
    pub(super) engine: u64,
}

/// One of them.
#[derive(Clone, Copy)]
pub(super) struct Ready {
    pub(super) request: Request,
    /// The remote region that it begins in.
    pub(super) far_end: FarEnd,
}

impl Prepared {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.ready.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// One of them, as it was given.
    pub fn get(&self, index: u32) -> Option<&Request> {
        Some(&self.ready.get(index as usize)?.request)
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").field("len", &self.len()).finish()
    }
}

/// Which of the prepared requests a batch is made of, in this order; one may occur several times.
#[derive(Clone, Debug)]
pub enum Pick<'a> {
    /// All.
    All,
    /// Those that follow each other.
    Range(Range<u32>),
    /// By index.
    List(&'a [u32]),
}

impl From<RangeFull> for Pick<'_> {
    fn from(_: RangeFull) -> Self {
        Self::All
    }
}

impl From<Range<u32>> for Pick<'_> {
    fn from(range: Range<u32>) -> Self {
        Self::Range(range)
    }
}

impl<'a> From<&'a [u32]> for Pick<'a> {
    fn from(indices: &'a [u32]) -> Self {
        Self::List(indices)
    }
}

impl<'a> From<&'a Vec<u32>> for Pick<'a> {
    fn from(indices: &'a Vec<u32>) -> Self {
        Self::List(indices)
    }
}

impl<'a, const N: usize> From<&'a [u32; N]> for Pick<'a> {
    fn from(indices: &'a [u32; N]) -> Self {
        Self::List(indices)
    }
}

/// Why requests were not prepared: the first that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrepareError {
    /// It makes no sense, whatever the memory.
    #[error("bad argument: request {index}: {what}; correct it and prepare again")]
    BadRequest {
        /// Which.
        index: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// Its memory is not there, or may not be used so.
    #[error("request {index}: {failure}")]
    Refused {
        /// Which.
        index: usize,
        /// Why, and what to do next.
        failure: Failure,
    },
    /// This process was forked from the one whose engine it is.
    #[error(
        "not usable after fork: the engine's threads stayed in the parent; start a new engine in the child"
    )]
    Forked,
}

impl Client {
    /// Judges requests once: peers, segments, bounds and access.
    ///
    /// # Errors
    /// [`PrepareError`], of the first that is wrong; nothing was prepared then.
    pub fn prepare(&self, requests: &[Request]) -> Result<Prepared, PrepareError> {
        if !self.is_here() {
            return Err(PrepareError::Forked);
        }
        let mut judge = Judge::new(&self.world);
        let one = |(index, request): (usize, &Request)| {
            if let Some(what) = request.nonsense() {
                return Err(PrepareError::BadRequest { index, what });
            }
            match judge.look_at(request) {
                Ok(far_end) => Ok(Ready { request: *request, far_end }),
                Err(reason) => Err(PrepareError::Refused { index, failure: self.failure(request, reason) }),
            }
        };
        let ready = requests.iter().enumerate().map(one).collect::<Result<_, _>>()?;
        Ok(Prepared { ready, engine: self.world.incarnation })
    }

    fn failure(&self, request: &Request, reason: Reason) -> Failure {
        let peer = self.world.peers.get(request.remote.peer);
        let peer = peer.map_or_else(|| Arc::from("unknown"), |peer| peer.label.clone());
        Failure { reason, peer, stage: "prepare".into() }
    }
}
