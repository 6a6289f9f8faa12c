//! The engine's typed errors as exit codes, and in words for whoever started a command. Deliberately other ones where the library
//! advises a program that submits requests: here the command is started again.

use pipeline_node::{Error, Reason};
use pipeline_stages::control;
use pipeline_transports::Error::{Directory, Unreachable};

use super::exit::Failure;

const CHECK: &str = "check its address, and that it runs";

const CHECK_DIRECTORY: &str = "`doctor FILE` says what mends it; without a directory, call the peer by its address, or name that under [peers]";

/// Which exit code an error of the engine is.
pub fn engine(error: &Error) -> Failure {
    match error {
        _ if error.is_label() => Failure::usage(error),
        Error::Config(findings) => super::file::refused(findings),
        Error::Control(control::Error::Peer(e)) => match &**e {
            Unreachable { .. } => Failure::peer(format!("{error}; {CHECK}")),
            // Its own advice is for a node that goes on.
            Directory { place, reason } => {
                Failure::peer(format!("{place} does not answer as it should: {reason}; {CHECK_DIRECTORY}"))
            }
            _ if error.is_peer() => Failure::peer(error),
            _ => Failure::system(error),
        },
        Error::Control(control::Error::Deadline { .. }) => Failure::peer(format!("{error}; {CHECK}")),
        Error::Control(_) if error.is_peer() => Failure::peer(error),
        Error::Control(control::Error::Foreign { .. }) => Failure::failed(error),
        Error::Control(_) | Error::Memory(_) | Error::Start(_) | Error::Admin(_) | Error::Recording(_) => {
            Failure::system(error)
        }
        _ => Failure::failed(error),
    }
}

/// What the engine says of a peer, in the middle of something.
pub fn words(error: &Error) -> String {
    match error {
        Error::Control(control::Error::Gone { peer, reason }) => format!("peer {peer} is gone: {reason}"),
        other => other.to_string(),
    }
}

/// Why a request failed.
pub fn request(failure: &pipeline_node::Failure) -> String {
    match failure.reason {
        Reason::PeerGone | Reason::StalePeer | Reason::PeerLeaving | Reason::Undetermined => {
            format!("peer `{}`, stage `{}`: {}", failure.peer, failure.stage, failure.reason.what())
        }
        _ => failure.to_string(),
    }
}
