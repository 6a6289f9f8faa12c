//! A deadline for control's work on a link: dialling one, answering one.
//! Deliberately nothing for the data path, where stages keep deadlines.

use std::future::Future;

use crate::clock::{Nanos, until};
use crate::error::Error;

/// The outcome of `work`, which is dropped when it is not there `by` then.
///
/// # Errors
/// Of the work; [`Error::Deadline`], saying `what` was late with whom.
pub(crate) async fn in_time<T>(
    what: &'static str,
    peer: &str,
    by: Nanos,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(until(by), work).await {
        Ok(done) => done,
        Err(_) => Err(Error::Deadline { what, peer: peer.to_owned() }),
    }
}
