//! The engine's typed errors as exit codes.

use pipeline_node::Error;
use pipeline_stages::control;

use super::exit::Failure;

/// Which exit code an error of the engine is.
pub fn engine(error: &Error) -> Failure {
    match error {
        _ if error.is_label() => Failure::usage(error),
        Error::Config(findings) => super::file::refused(findings),
        Error::Control(_) if error.is_peer() => Failure::peer(error),
        Error::Control(control::Error::Foreign { .. }) => Failure::failed(error),
        Error::Control(_) | Error::Memory(_) | Error::Start(_) | Error::Recording(_) => {
            Failure::system(error)
        }
        _ => Failure::failed(error),
    }
}
