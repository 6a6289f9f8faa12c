//! Settings to stores. Deliberately contacts nothing: each store connects when it is asked first, so that a node starts
//! whether or not its directory does.

use std::sync::Arc;

use super::Store;
use super::http::HttpStore;
use super::redis::RedisStore;
use super::settings::{StoreKind, StoreSettings};
use crate::error::Error;

/// Makes the store. Its calls belong into one tokio runtime, with time and I/O.
///
/// # Errors
/// [`Error::BadArgument`]: an endpoint that cannot be meant, a log-in where there is none, a kind that this program was
/// built without.
pub fn open(settings: &StoreSettings) -> Result<Arc<dyn Store>, Error> {
    let endpoints = settings.parsed()?;
    let place = settings.place(&endpoints);
    let StoreSettings { user, password, .. } = settings;
    let refuse = |why: &str| Err(Error::BadArgument(format!("{place}: {why}")));
    match settings.kind {
        StoreKind::Http if user.is_some() || password.is_some() => {
            refuse("a directory of type http has no log-in; take `user` and `password_file` out")
        }
        StoreKind::Etcd if user.is_some() != password.is_some() => {
            refuse("etcd logs in with both a `user` and a `password_file`, or with none")
        }
        StoreKind::Redis if user.is_some() && password.is_none() => {
            refuse("redis wants a `password_file` with its `user`")
        }
        StoreKind::Http => Ok(Arc::new(HttpStore::new(place, endpoints))),
        StoreKind::Redis => Ok(Arc::new(RedisStore::new(place, endpoints, settings)?)),
        #[cfg(feature = "etcd")]
        StoreKind::Etcd => Ok(Arc::new(super::etcd::EtcdStore::new(place, endpoints, settings))),
        #[cfg(not(feature = "etcd"))]
        StoreKind::Etcd => refuse(
            "this program was built without etcd: build it with `--features etcd` (its build runs protoc: apt-get install \
             protobuf-compiler), or take a directory of type redis or http",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Password;

    /// A log-in that the kind does not have, or half of one, is refused before anything is contacted.
    #[test]
    fn log_ins_are_judged() {
        let open = |kind, user: Option<&str>, password: Option<&str>| {
            let mut settings = StoreSettings::new(kind, vec!["127.0.0.1:1".into()]);
            settings.user = user.map(str::to_owned);
            settings.password = password.map(Password::new);
            open(&settings).map(|store| store.place()).map_err(|e| e.to_string())
        };
        assert!(open(StoreKind::Http, Some("u"), None).unwrap_err().contains("no log-in"));
        assert!(open(StoreKind::Etcd, Some("u"), None).unwrap_err().contains("both"));
        assert!(open(StoreKind::Redis, Some("u"), None).unwrap_err().contains("password_file"));
        assert_eq!(open(StoreKind::Redis, None, Some("p")).unwrap(), "redis at 127.0.0.1:1");
        assert_eq!(open(StoreKind::Http, None, None).unwrap(), "directory at http://127.0.0.1:1/metadata");
    }

    /// A program without the feature says which one it lacks, and how to get it.
    #[cfg(not(feature = "etcd"))]
    #[test]
    fn the_feature_is_named() {
        let settings = StoreSettings::from_url("etcd://127.0.0.1:2379").unwrap();
        let error = open(&settings).err().unwrap().to_string();
        assert!(error.contains("--features etcd") && error.contains("protobuf-compiler"), "{error}");
    }
}
