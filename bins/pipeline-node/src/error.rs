//! What can go wrong between a program and its engine. What can go wrong with a *request* is a
//! [`crate::Failure`], and why a batch was not taken a [`crate::SubmitError`].

use pipeline_configs::Findings;
use pipeline_stages::control;
use pipeline_stages::segments::SegmentError;
use pipeline_transports::control::ErrorCode;

/// See the file's head. Each names its object and says what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file has errors.
    #[error("the pipeline cannot be built as declared:\n{}", .0.text())]
    Config(Findings),
    /// A worker, a transport or a file the engine needs cannot be had.
    #[error("the engine cannot start: {0}")]
    Start(String),
    /// The admin socket cannot be served. The engine itself wants nothing.
    #[error("admin socket {0}")]
    Admin(String),
    /// Memory cannot be registered, or not be given back.
    #[error(transparent)]
    Memory(#[from] pipeline_transports::Error),
    /// A peer, or the listener.
    #[error(transparent)]
    Control(#[from] control::Error),
    /// What is submitted cannot be recorded.
    #[error("cannot record: {0}")]
    Recording(String),
    /// This process was forked from the one whose engine it is.
    #[error(
        "not usable after fork: the engine's threads stayed in the parent; start a new engine in the child"
    )]
    Forked,
    /// A name of one of our own segments.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// A name that the peer does not have.
    #[error("peer {peer} has no segment `{segment}`; {}", suggest(.segment, .known))]
    UnknownSegment {
        /// What it was opened by.
        peer: String,
        /// What was asked for.
        segment: String,
        /// What there was when it was opened.
        known: Vec<String>,
    },
    /// The peer answered something else than it was asked.
    #[error("peer {peer} gave an answer that does not fit: {answer}; are both sides of the same release?")]
    Answer {
        /// What it was opened by.
        peer: String,
        /// What it said.
        answer: String,
    },
}

impl Error {
    /// What kind of error a peer has answered with, if that is what this is.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Control(control::Error::Remote { code, .. }) => Some(*code),
            _ => None,
        }
    }

    /// Whether what a peer was called by is no name and no address: nothing was tried.
    pub fn is_label(&self) -> bool {
        matches!(self, Self::Control(control::Error::Address(_) | control::Error::NoName { .. }))
    }

    /// Whether the peer is out of reach, gone, or wants nothing of us: nothing sent to it can succeed now.
    pub fn is_peer(&self) -> bool {
        match self {
            Self::Control(error @ control::Error::Peer(_)) => !error.is_local(),
            Self::Control(error) => matches!(
                error,
                control::Error::Gone { .. }
                    | control::Error::Leaving { .. }
                    | control::Error::Deadline { .. }
                    | control::Error::NoTransport { .. }
                    | control::Error::Closed
            ),
            _ => false,
        }
    }
}

fn suggest(segment: &str, known: &[String]) -> String {
    pipeline_configs::suggest::help(segment, "its segments", known.iter().map(String::as_str))
}
