//! Why a batch was not taken. What is wrong with one request only is a [`crate::Failure`] of that request.
//! Deliberately without stage or peer: nothing has entered.

use pipeline_graph::Full;

/// Why nothing was submitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// A table or the first edge is full.
    #[error(
        "busy: {asked} wanted of {what}, {free} free now; free finished batches or submit again later \
         (`submit_wait` waits)"
    )]
    Busy {
        /// What is full: a key under `[limits]`, or the edge from `submit`.
        what: &'static str,
        /// How many of it the batch needs.
        asked: u64,
        /// How many there were.
        free: u64,
    },
    /// It could never fit.
    #[error(
        "too large: {asked} requests in one batch, `limits.requests` is {limit}; split it or raise the limit"
    )]
    TooLarge {
        /// Requests in the batch.
        asked: u64,
        /// `limits.requests`.
        limit: u64,
    },
    /// No requests.
    #[error("a batch without requests; submit at least one")]
    Empty,
    /// A request makes no sense, whatever the memory. Nothing was submitted.
    #[error("bad argument: request {index}: {what}; correct it and submit again")]
    BadRequest {
        /// Which.
        index: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// It was busy, and `submit_wait` was called on a thread of an engine, which would wait for itself.
    #[error("waiting for room here would deadlock: this thread runs the engine's stages; use `submit`")]
    WouldDeadlock,
    /// The requests were prepared by another engine, or by an earlier start of this one.
    #[error("bad argument: these requests were prepared by another engine; prepare them with this one")]
    PreparedElsewhere,
    /// A notice that is too long.
    #[error("bad argument: a notice of {len} bytes, at most {limit} are allowed; put the rest into memory")]
    NoticeTooLong {
        /// Its bytes.
        len: usize,
        /// [`crate::request::NOTICE_MAX`].
        limit: usize,
    },
    /// [`crate::Options::notify`] names a doorbell, and nobody would ring it.
    #[error(
        "this pipeline rings no doorbells: add \"eventfd\" to `via` of completion_notify, or leave `notify` out"
    )]
    NoDoorbells,
    /// The engine drains or has stopped.
    #[error("the engine takes no more work: it drains or has stopped; start it again")]
    Stopped,
    /// This process was forked from the one whose engine it is.
    #[error(
        "not usable after fork: the engine's threads stayed in the parent; start a new engine in the child"
    )]
    Forked,
}

impl From<Full> for SubmitError {
    fn from(full: Full) -> Self {
        match full {
            Full::NoRoom { asked, free } => {
                Self::Busy { what: "the edge from `submit`", asked: asked as u64, free: free as u64 }
            }
            Full::Closed => Self::Stopped,
        }
    }
}
