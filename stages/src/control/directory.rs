//! The directory of a node, as control uses it: where records of nodes are, and what is said while it does not answer.
//! Deliberately one store for all: telling of this node ([`super::announce`]) and looking for others ([`super::resolve`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pipeline_transports::directory::{NodeRecord, Store, open};
use pipeline_transports::{Error as Reason, Nanos};

use super::error::Error;
use super::settings::DirectorySettings;

/// See the file's head.
pub(super) struct Directory {
    store: Arc<dyn Store>,
    /// What keys of records start with.
    prefix: String,
    pub(super) ttl: Duration,
    pub(super) publishes: bool,
    /// It did not answer when it was asked last: said once, and once that it is back.
    silent: AtomicBool,
}

impl Directory {
    /// Contacts nothing.
    pub(super) fn open(settings: &DirectorySettings) -> Result<Self, Error> {
        Ok(Self {
            store: open(&settings.store)?,
            prefix: format!("{}nodes/", settings.prefix),
            ttl: settings.ttl,
            publishes: settings.publishes,
            silent: AtomicBool::new(false),
        })
    }

    pub(super) fn place(&self) -> String {
        self.store.place()
    }

    /// The record under a name. One that cannot be read is none of ours, and said to be.
    pub(super) async fn get(&self, name: &str, by: Nanos) -> Result<Option<NodeRecord>, Reason> {
        let key = self.key(name);
        let Some(bytes) = self.heard(self.store.get(&key, by).await)? else { return Ok(None) };
        match NodeRecord::decode(&bytes) {
            Ok(record) => Ok(Some(record)),
            Err(why) => {
                tracing::warn!(key, "{} has no record of a node there: {why}", self.place());
                Ok(None)
            }
        }
    }

    /// Puts a record, for its life.
    pub(super) async fn put(&self, record: &NodeRecord, by: Nanos) -> Result<(), Reason> {
        let (key, bytes) = (self.key(&record.name), record.encode());
        self.heard(self.store.put(&key, &bytes, Some(self.ttl), by).await)
    }

    /// Takes a record away.
    pub(super) async fn remove(&self, name: &str, by: Nanos) -> Result<bool, Reason> {
        let key = self.key(name);
        self.heard(self.store.remove(&key, by).await)
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Tells once when it falls silent, and once when it is back.
    fn heard<T>(&self, answer: Result<T, Reason>) -> Result<T, Reason> {
        match &answer {
            Err(error @ Reason::Directory { .. }) => {
                if !self.silent.swap(true, Ordering::Relaxed) {
                    tracing::warn!("{error}");
                }
            }
            _ => {
                if self.silent.swap(false, Ordering::Relaxed) {
                    tracing::info!("{} answers again", self.place());
                }
            }
        }
        answer
    }
}
