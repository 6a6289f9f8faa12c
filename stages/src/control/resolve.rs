//! Where a node is that is only known by its name: its record in the directory, asked anew for each attempt to reach it, so
//! that a node which was restarted elsewhere is found there. While the directory does not answer, or has come back empty, a
//! node that was found before is looked for where it was last.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use pipeline_configs::names;
use pipeline_transports::control::Address;
use pipeline_transports::{Error as Reason, Nanos, clock};

use super::dialled::{Dialled, Ended};
use super::directory::Directory;
use super::error::Error;
use super::shared::{Shared, lock};
use super::until::until;

/// Whether a label that `[peers]` does not list is the name of a node in the directory, where there is one: what could be
/// such a name, and is no IP address. With a port it is an address.
pub(super) fn is_name(label: &str) -> bool {
    names::is_node(label) && label.parse::<Ipv4Addr>().is_err()
}

/// What is remembered of a node that was found.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    last: Mutex<Option<Vec<Address>>>,
    /// It was said that the last addresses are used.
    said: AtomicBool,
}

/// Where it is.
#[derive(Debug)]
pub(super) struct Located {
    pub(super) addresses: Vec<Address>,
    /// Why these are only those of earlier.
    pub(super) stale: Option<Reason>,
}

/// Looks for the node of this name.
///
/// # Errors
/// [`Reason::UnknownName`] where the directory has no record of it, [`Reason::Directory`] where that does not answer; for a
/// node that was found before neither is an error.
pub(super) async fn locate(
    directory: &Directory,
    name: &str,
    remembered: &Remembered,
    by: Nanos,
) -> Result<Located, Reason> {
    let unknown = || Reason::UnknownName { name: name.to_owned(), place: directory.place() };
    let why = match directory.get(name, by).await {
        Ok(Some(record)) => {
            let addresses: Vec<Address> =
                record.addresses.iter().filter_map(|a| Address::parse(a).ok()).collect();
            if addresses.is_empty() {
                let reason = format!("the record of `{name}` names no address that can be dialled");
                return Err(Reason::Directory { place: directory.place(), reason });
            }
            *lock(&remembered.last) = Some(addresses.clone());
            remembered.said.store(false, Ordering::Relaxed);
            return Ok(Located { addresses, stale: None });
        }
        Ok(None) => unknown(),
        Err(error) => error,
    };
    let Some(addresses) = lock(&remembered.last).clone() else { return Err(why) };
    if !remembered.said.swap(true, Ordering::Relaxed) {
        tracing::warn!(peer = name, "looked for where it was last: {why}");
    }
    Ok(Located { addresses, stale: Some(why) })
}

impl Dialled {
    /// Asks where it is, and dials it there. Answers why that came to an end.
    pub(super) async fn by_directory(self: &Arc<Self>, shared: &Arc<Shared>, name: &str) -> Ended {
        let directory =
            shared.directory.as_ref().expect("peers are named so only where there is a directory");
        let mut stop = shared.stop.subscribe();
        let by = clock::now() + shared.settings.connect.as_nanos() as Nanos;
        let located = tokio::select! {
            located = locate(directory, name, &self.remembered, by) => located,
            _ = until(&mut stop, |stop| *stop) => return Ended::before(Error::Closed),
        };
        let located = match located {
            Ok(located) => located,
            Err(error) => {
                self.fences.out_of_reach(shared);
                return Ended::before(error.into());
            }
        };
        let ended = self.by_session(shared, &located.addresses, Some(name)).await;
        match located.stale {
            // Not where it was, and nobody knows of it: the second is what matters.
            Some(why @ Reason::UnknownName { .. })
                if !ended.stood && !matches!(ended.error, Error::Closed) =>
            {
                Ended::before(why.into())
            }
            _ => ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and addresses are told apart by what they look like alone: a port, a bracket or an IP address make an address.
    #[test]
    fn names_and_addresses() {
        for name in ["decode-0", "a", "node_1.rack-2", "10.0.0", "1", "localhost"] {
            assert!(is_name(name), "{name}");
        }
        for address in
            ["10.0.0.5", "decode-0:7001", "::1", "[::1]", "[::1]:7001", "fe80::1%lo", "", "a b", "x://y"]
        {
            assert!(!is_name(address), "{address}");
        }
    }
}
