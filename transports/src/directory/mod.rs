//! Directories: where nodes of several machines tell each other where they are. A [`Store`] keeps short values under keys,
//! each for a while; what the values mean is for others (`stages` for nodes of ours, `mooncake` for theirs).
//!
//! Deliberately no store of our own beyond one machine's memory: etcd and redis are those, and the HTTP server is for
//! tests and small set-ups.

mod endpoint;
#[cfg(feature = "etcd")]
mod etcd;
mod http;
mod kept;
mod listing;
mod open;
mod password;
mod record;
mod redis;
pub mod server;
mod settings;
mod turns;

use std::time::Duration;

pub use open::open;
pub use password::Password;
pub use record::NodeRecord;
pub use settings::{StoreKind, StoreSettings};

use crate::clock::Nanos;
use crate::error::Error;
use crate::transport::BoxFuture;

/// Longest value, bytes.
pub const VALUE_MAX: usize = 64 << 20;

/// Keys with their values.
pub type Pairs = Vec<(String, Vec<u8>)>;

/// A place that keeps values under keys. Shared by all tasks of the control pool; each call is on its own, reconnects by
/// itself and ends by `by`. A call that ended with an error may have had its effect.
pub trait Store: Send + Sync {
    /// Where it is, for messages: `etcd at http://10.0.0.1:2379`.
    fn place(&self) -> String;
    /// The value of a key; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Directory`] when it does not answer.
    fn get<'a>(&'a self, key: &'a str, by: Nanos) -> BoxFuture<'a, Result<Option<Vec<u8>>, Error>>;
    /// Sets it. With a `life` the value goes away by itself that long after the last `put` of it (some stores count in whole
    /// seconds, and round up): who wants it to stay puts it again in time. Without, it stays until it is removed.
    ///
    /// # Errors
    /// As [`Self::get`]; [`Error::BadArgument`] for a value longer than the store takes.
    fn put<'a>(
        &'a self,
        key: &'a str,
        value: &'a [u8],
        life: Option<Duration>,
        by: Nanos,
    ) -> BoxFuture<'a, Result<(), Error>>;
    /// Takes it away. Whether it was there.
    ///
    /// # Errors
    /// As [`Self::get`].
    fn remove<'a>(&'a self, key: &'a str, by: Nanos) -> BoxFuture<'a, Result<bool, Error>>;
    /// Keys that begin so, with their values: at most `most`, in the order of the keys.
    ///
    /// # Errors
    /// As [`Self::get`].
    fn list<'a>(&'a self, prefix: &'a str, most: usize, by: Nanos) -> BoxFuture<'a, Result<Pairs, Error>>;
}

/// Refuses what no store takes.
fn check_length(place: &str, key: &str, value: &[u8]) -> Result<(), Error> {
    match value.len() {
        len if len > VALUE_MAX => Err(Error::BadArgument(format!(
            "{place} takes no value of {len} bytes under `{key}`: at most {VALUE_MAX}"
        ))),
        _ => Ok(()),
    }
}
