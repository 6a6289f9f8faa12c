//! A directory in redis: plain string keys, as Mooncake's. A life is a redis TTL (`SET … PX`), to the millisecond.
//! Deliberately one connection for all calls, without sentinel, cluster and TLS.

use std::collections::BTreeSet;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ErrorKind, IntoConnectionInfo as _, RedisConnectionInfo,
    RedisError, ServerErrorKind, cmd, pipe,
};

use super::endpoint::Endpoint;
use super::kept::{Connect, Kept};
use super::settings::StoreSettings;
use super::turns::Failure;
use super::{Pairs, Store, VALUE_MAX};
use crate::clock::Nanos;
use crate::error::Error;
use crate::transport::BoxFuture;

/// Keys looked at in one step of a list, and values fetched in one.
const STEP: usize = 512;

/// See the module.
pub(super) struct RedisStore(Kept<Clients>);

struct Clients(Vec<Client>);

impl Connect for Clients {
    type Connection = MultiplexedConnection;

    fn connect<'a>(&'a self, endpoint: usize) -> BoxFuture<'a, Result<MultiplexedConnection, Failure>> {
        Box::pin(async move {
            // The caller keeps the time.
            let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
            self.0[endpoint].get_multiplexed_async_connection_with_config(&config).await.map_err(failure)
        })
    }
}

impl RedisStore {
    pub(super) fn new(
        place: String,
        endpoints: Vec<Endpoint>,
        settings: &StoreSettings,
    ) -> Result<Self, Error> {
        let client = |endpoint: &Endpoint| {
            let mut login = RedisConnectionInfo::default()
                .set_db(i64::from(endpoint.database.unwrap_or(settings.database)))
                .set_skip_set_lib_name();
            if let Some(user) = &settings.user {
                login = login.set_username(user);
            }
            if let Some(password) = &settings.password {
                login = login.set_password(password.text());
            }
            let address = ConnectionAddr::Tcp(endpoint.address.host.clone(), endpoint.address.port);
            let info = address.into_connection_info().map(|info| info.set_redis_settings(login));
            info.and_then(Client::open).map_err(|e| Error::BadArgument(format!("{place}: {e}")))
        };
        let clients: Vec<Client> = endpoints.iter().map(client).collect::<Result<_, _>>()?;
        Ok(Self(Kept::new(place, endpoints, Clients(clients))))
    }

    fn place(&self) -> &str {
        &self.0.place
    }
}

/// What another endpoint may do better, and what not.
fn failure(error: RedisError) -> Failure {
    match error.kind() {
        ErrorKind::UnexpectedReturnType | ErrorKind::Server(ServerErrorKind::ResponseError) => {
            Failure::Here(format!("it refuses: {error}"))
        }
        ErrorKind::AuthenticationFailed => Failure::Here(format!("it does not let us in: {error}")),
        _ => Failure::Here(error.to_string()),
    }
}

/// Refuses values that are too long before they are fetched: redis keeps up to 512 MiB. (No `MULTI`: version 1.8 of the
/// crate miscounts the answers to one that is refused.)
async fn lengths(connection: &mut MultiplexedConnection, keys: &[&str]) -> Result<usize, Failure> {
    let mut ask = pipe();
    for key in keys {
        ask.cmd("STRLEN").arg(key);
    }
    let told: Vec<usize> = ask.query_async(connection).await.map_err(failure)?;
    Ok(told.into_iter().fold(0, usize::saturating_add))
}

/// The pattern of all keys that begin so.
fn pattern(prefix: &str) -> String {
    let mut pattern = String::with_capacity(prefix.len() + 1);
    for c in prefix.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\' | '^') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('*');
    pattern
}

impl Store for RedisStore {
    fn place(&self) -> String {
        self.place().to_owned()
    }

    fn get<'a>(&'a self, key: &'a str, by: Nanos) -> BoxFuture<'a, Result<Option<Vec<u8>>, Error>> {
        Box::pin(async move {
            let ask = move |mut connection: MultiplexedConnection| -> BoxFuture<'a, _> {
                Box::pin(async move {
                    if lengths(&mut connection, &[key]).await? > VALUE_MAX {
                        let reason = format!("the value of `{key}` is longer than {VALUE_MAX} bytes");
                        return Err(Failure::Final(Error::Directory {
                            place: self.place().to_owned(),
                            reason,
                        }));
                    }
                    cmd("GET").arg(key).query_async(&mut connection).await.map_err(failure)
                })
            };
            self.0.ask(by, &ask).await
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
            super::check_length(self.place(), key, value)?;
            let ask = move |mut connection: MultiplexedConnection| -> BoxFuture<'a, _> {
                Box::pin(async move {
                    let mut set = cmd("SET");
                    set.arg(key).arg(value);
                    if let Some(life) = life {
                        let ms = life.as_nanos().div_ceil(1_000_000).clamp(1, 1 << 50) as u64;
                        set.arg("PX").arg(ms);
                    }
                    set.query_async::<()>(&mut connection).await.map_err(failure)
                })
            };
            self.0.ask(by, &ask).await
        })
    }

    fn remove<'a>(&'a self, key: &'a str, by: Nanos) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            let ask = move |mut connection: MultiplexedConnection| -> BoxFuture<'a, _> {
                Box::pin(
                    async move { cmd("DEL").arg(key).query_async(&mut connection).await.map_err(failure) },
                )
            };
            self.0.ask(by, &ask).await
        })
    }

    fn list<'a>(&'a self, prefix: &'a str, most: usize, by: Nanos) -> BoxFuture<'a, Result<Pairs, Error>> {
        Box::pin(async move {
            let ask = move |connection: MultiplexedConnection| -> BoxFuture<'a, _> {
                Box::pin(scan(connection, prefix, most))
            };
            self.0.ask(by, &ask).await
        })
    }
}

/// All steps of a scan, of whose keys the first `most` are kept, and then their values.
async fn scan(mut connection: MultiplexedConnection, prefix: &str, most: usize) -> Result<Pairs, Failure> {
    let (mut keys, mut cursor) = (BTreeSet::new(), 0_u64);
    loop {
        let mut step = cmd("SCAN");
        step.arg(cursor).arg("MATCH").arg(pattern(prefix)).arg("COUNT").arg(STEP);
        let (next, found): (u64, Vec<Vec<u8>>) = step.query_async(&mut connection).await.map_err(failure)?;
        // Keys that are no text are nobody's of ours.
        keys.extend(found.into_iter().filter_map(|key| String::from_utf8(key).ok()));
        while keys.len() > most {
            keys.pop_last();
        }
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    let (mut listed, mut bytes) = (Pairs::with_capacity(keys.len()), 0);
    let keys: Vec<String> = keys.into_iter().collect();
    for some in keys.chunks(STEP) {
        let some: Vec<&str> = some.iter().map(String::as_str).collect();
        bytes += lengths(&mut connection, &some).await?;
        if bytes > VALUE_MAX {
            let reason = format!("more than {VALUE_MAX} bytes under `{prefix}`; list less at a time");
            return Err(Failure::Final(Error::BadArgument(reason)));
        }
        let values: Vec<Option<Vec<u8>>> =
            cmd("MGET").arg(&some).query_async(&mut connection).await.map_err(failure)?;
        // Gone since it was found: then it is not there.
        let pairs = some.iter().zip(values).filter_map(|(key, value)| Some(((*key).to_owned(), value?)));
        listed.extend(pairs);
    }
    Ok(listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What redis takes for a pattern stands for itself in a prefix.
    #[test]
    fn prefixes_are_no_patterns() {
        assert_eq!(pattern("mooncake/ram/"), "mooncake/ram/*");
        assert_eq!(pattern("a*[b]?\\^"), "a\\*\\[b\\]\\?\\\\\\^*");
    }
}
