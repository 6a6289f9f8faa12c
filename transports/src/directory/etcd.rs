//! A directory in etcd (version 3). A value with a life hangs on a lease of its own, granted anew by each `put`, whose
//! predecessor is revoked: so a dead node's value goes away by itself, and a live one's leases do not pile up.
//! Deliberately without watches and TLS; one connection for all calls.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, Error as EtcdError, GetOptions, KvClient, PutOptions};

use super::endpoint::Endpoint;
use super::kept::{Connect, Kept};
use super::settings::StoreSettings;
use super::turns::Failure;
use super::{Pairs, Store, VALUE_MAX};
use crate::clock::Nanos;
use crate::error::Error;
use crate::transport::BoxFuture;

/// Of an answer: a value, and what is said around it.
const ANSWER_MAX: usize = VALUE_MAX + (64 << 10);

/// Codes of gRPC that say something of the question and not of the server.
const INVALID_ARGUMENT: i32 = 3;
const PERMISSION_DENIED: i32 = 7;

/// See the module.
pub(super) struct EtcdStore {
    kept: Kept<Connector>,
    /// Leases that hold our values, by key.
    leases: Mutex<HashMap<String, i64>>,
}

struct Connector {
    urls: Vec<String>,
    options: ConnectOptions,
    place: String,
}

impl Connect for Connector {
    type Connection = Client;

    fn connect<'a>(&'a self, endpoint: usize) -> BoxFuture<'a, Result<Client, Failure>> {
        Box::pin(async move {
            let connected =
                Client::connect(&self.urls[endpoint..=endpoint], Some(self.options.clone())).await;
            connected.map_err(|e| failure(&self.place, e))
        })
    }
}

impl EtcdStore {
    pub(super) fn new(place: String, endpoints: Vec<Endpoint>, settings: &StoreSettings) -> Self {
        let mut options = ConnectOptions::new();
        if let (Some(user), Some(password)) = (&settings.user, &settings.password) {
            options = options.with_user(user, password.text());
        }
        let urls = endpoints.iter().map(|e| format!("http://{}", e.address)).collect();
        let connector = Connector { urls, options, place: place.clone() };
        Self { kept: Kept::new(place, endpoints, connector), leases: Mutex::default() }
    }

    fn failure(&self, error: EtcdError) -> Failure {
        failure(&self.kept.place, error)
    }

    fn leases(&self) -> MutexGuard<'_, HashMap<String, i64>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn put_once(
        &self,
        mut client: Client,
        key: &str,
        value: &[u8],
        life: Option<Duration>,
    ) -> Result<(), Failure> {
        let lease = match life {
            // Whole seconds, never fewer than asked for.
            Some(life) => {
                let seconds =
                    i64::try_from(life.as_nanos().div_ceil(1_000_000_000)).unwrap_or(i64::MAX).max(1);
                let granted = client.lease_grant(seconds, None).await.map_err(|e| self.failure(e))?;
                Some(granted.id())
            }
            None => None,
        };
        let options = lease.map(|lease| PutOptions::new().with_lease(lease));
        let put = client.put(key, value, options).await.map_err(|e| self.failure(e));
        let old = match (&put, lease) {
            (Ok(_), Some(lease)) => self.leases().insert(key.to_owned(), lease),
            (Ok(_), None) => self.leases().remove(key),
            (Err(_), lease) => lease,
        };
        // The value hangs on another one by now. What cannot be revoked ends by itself when its time has passed.
        if let Some(old) = old {
            let _ = client.lease_revoke(old).await;
        }
        put.map(drop)
    }

    async fn remove_once(&self, mut client: Client, key: &str) -> Result<bool, Failure> {
        let deleted = client.delete(key, None).await.map_err(|e| self.failure(e))?.deleted();
        let old = self.leases().remove(key);
        if let Some(old) = old {
            let _ = client.lease_revoke(old).await;
        }
        Ok(deleted > 0)
    }
}

fn reader(client: &Client) -> KvClient {
    client.kv_client().max_decoding_message_size(ANSWER_MAX)
}

fn failure(place: &str, error: EtcdError) -> Failure {
    let EtcdError::GRpcStatus(status) = &error else { return Failure::Here(error.to_string()) };
    let reason = status.message().to_owned();
    match i32::from(status.code()) {
        // A wrong password is one, too.
        INVALID_ARGUMENT if reason.contains("too large") => {
            Failure::Final(Error::BadArgument(format!("{place} takes no value that long: {reason}")))
        }
        INVALID_ARGUMENT | PERMISSION_DENIED => {
            Failure::Final(Error::Directory { place: place.to_owned(), reason })
        }
        _ => Failure::Here(if reason.is_empty() { error.to_string() } else { reason }),
    }
}

impl Store for EtcdStore {
    fn place(&self) -> String {
        self.kept.place.clone()
    }

    fn get<'a>(&'a self, key: &'a str, by: Nanos) -> BoxFuture<'a, Result<Option<Vec<u8>>, Error>> {
        Box::pin(async move {
            let ask = move |client: Client| -> BoxFuture<'a, _> {
                Box::pin(async move {
                    let mut got = reader(&client).get(key, None).await.map_err(|e| self.failure(e))?;
                    Ok(got.take_kvs().pop().map(|kv| kv.into_key_value().1))
                })
            };
            self.kept.ask(by, &ask).await
        })
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: &'a [u8],
        life: Option<Duration>,
        by: Nanos,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            super::check_length(&self.kept.place, key, value)?;
            let ask = move |client: Client| -> BoxFuture<'a, _> {
                Box::pin(self.put_once(client, key, value, life))
            };
            self.kept.ask(by, &ask).await
        })
    }

    fn remove<'a>(&'a self, key: &'a str, by: Nanos) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            let ask = move |client: Client| -> BoxFuture<'a, _> { Box::pin(self.remove_once(client, key)) };
            self.kept.ask(by, &ask).await
        })
    }

    fn list<'a>(&'a self, prefix: &'a str, most: usize, by: Nanos) -> BoxFuture<'a, Result<Pairs, Error>> {
        Box::pin(async move {
            let ask = move |client: Client| -> BoxFuture<'a, _> {
                Box::pin(async move {
                    // A limit of 0 means none.
                    let limit = i64::try_from(most.max(1)).unwrap_or(i64::MAX);
                    let options = GetOptions::new().with_prefix().with_limit(limit);
                    let mut got =
                        reader(&client).get(prefix, Some(options)).await.map_err(|e| self.failure(e))?;
                    let pairs = got.take_kvs().into_iter().map(|kv| kv.into_key_value());
                    let texts = pairs.filter_map(|(key, value)| Some((String::from_utf8(key).ok()?, value)));
                    Ok(texts.take(most).collect())
                })
            };
            self.kept.ask(by, &ask).await
        })
    }
}
