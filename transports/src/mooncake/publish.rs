//! Keeps what this node tells a directory true: put at the start and after each change, put again when the directory came
//! back without it, taken away at the end.
//!
//! Mooncake's entries have no life of their own: a node that was killed leaves them behind, and one of the same name takes
//! their place. Deliberately patient: a directory that does not answer delays nobody but those who do not know this node yet.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use super::bodies::{self, RpcMeta};
use super::find::Central;
use super::throttle::Throttle;
use crate::clock::{Nanos, now};
use crate::error::Error;

/// What [`Published::look`] is outside of tests.
pub(crate) const LOOK: Duration = Duration::from_secs(5);
/// Between tries while the directory does not answer.
const RETRY: Duration = Duration::from_millis(500);
/// For one exchange with the directory.
const EXCHANGE_NS: Nanos = 5_000_000_000;

/// What is put.
pub(crate) trait Entry: Send + Sync {
    /// The descriptor as it is put now.
    fn text(&self) -> Vec<u8>;
    /// Returns when it says something else than before.
    fn changed(&self) -> impl Future<Output = ()> + Send;
}

/// The entries of one node.
pub(crate) struct Published {
    pub(super) central: Arc<Central>,
    pub(crate) name: String,
    pub(crate) rpc_meta: RpcMeta,
    /// Whether values end in a newline, as Mooncake's do everywhere but over HTTP.
    pub(crate) has_newline: bool,
    pub(crate) throttle: Throttle,
    /// How often it is looked whether the entries are still there.
    pub(crate) look: Duration,
    /// Whether they have been taken back. Held while they change, so that none is put behind that.
    pub(crate) withdrawn: tokio::sync::Mutex<bool>,
}

impl Published {
    /// Keeps the entries as long as it is driven.
    pub(crate) async fn keep(&self, entry: &impl Entry) -> Infallible {
        let mut is_there = false;
        loop {
            let withdrawn = self.withdrawn.lock().await;
            let put = match is_there {
                _ if *withdrawn => return std::future::pending().await,
                false => self.put_all(entry).await,
                true => self.put_descriptor(entry).await,
            };
            drop(withdrawn);
            if let Err(error) = put {
                self.complain(&error);
                is_there = false;
                tokio::time::sleep(RETRY).await;
                continue;
            }
            is_there = self.watch(entry).await;
        }
    }

    /// Returns when there is something to put: `true`, the descriptor has changed; `false`, the entries are gone.
    async fn watch(&self, entry: &impl Entry) -> bool {
        loop {
            if tokio::time::timeout(self.look, entry.changed()).await.is_ok() {
                return true;
            }
            match self.is_ours().await {
                Ok(true) => {}
                Ok(false) => {
                    tracing::info!(
                        name = self.name,
                        place = self.central.store.place(),
                        "the directory knows this node no more: its entries are put again"
                    );
                    return false;
                }
                // Nothing is known: it is asked again.
                Err(error) => self.complain(&error),
            }
        }
    }

    /// Takes the entries away, unless they are another node's by now.
    ///
    /// # Errors
    /// What the directory says.
    pub(crate) async fn withdraw(&self, by: Nanos) -> Result<(), Error> {
        *self.withdrawn.lock().await = true;
        if self.is_ours().await? {
            self.central.store.remove(&self.central.keys.rpc_meta(&self.name), by).await?;
            self.central.store.remove(&self.central.keys.descriptor(&self.name), by).await?;
        }
        Ok(())
    }

    async fn put_all(&self, entry: &impl Entry) -> Result<(), Error> {
        let key = self.central.keys.rpc_meta(&self.name);
        match self.told().await? {
            Some(told) if told == self.rpc_meta => {}
            told => {
                if told.is_some() {
                    tracing::info!(
                        name = self.name,
                        "the directory knew an earlier node of this name: replaced"
                    );
                    // Mooncake's own servers refuse to put over this one.
                    self.central.store.remove(&key, soon()).await?;
                }
                let text = self.ended(bodies::encode(&self.rpc_meta));
                self.central.store.put(&key, &text, None, soon()).await?;
            }
        }
        self.put_descriptor(entry).await
    }

    async fn put_descriptor(&self, entry: &impl Entry) -> Result<(), Error> {
        let text = self.ended(entry.text());
        self.central.store.put(&self.central.keys.descriptor(&self.name), &text, None, soon()).await
    }

    /// Whether the directory leads to this node. The short entry is asked for: a directory that lost one lost all.
    async fn is_ours(&self) -> Result<bool, Error> {
        Ok(self.told().await?.is_some_and(|told| told == self.rpc_meta))
    }

    async fn told(&self) -> Result<Option<RpcMeta>, Error> {
        let value = self.central.store.get(&self.central.keys.rpc_meta(&self.name), soon()).await?;
        // What cannot be read is somebody's all the same.
        Ok(value.map(|text| bodies::decode(&text).unwrap_or_default()))
    }

    fn ended(&self, mut text: Vec<u8>) -> Vec<u8> {
        match (text.ends_with(b"\n"), self.has_newline) {
            (true, false) => {
                text.pop();
            }
            (false, true) => text.push(b'\n'),
            _ => {}
        }
        text
    }

    fn complain(&self, error: &Error) {
        if let Some(unsaid) = self.throttle.speak(now()) {
            tracing::warn!(name = self.name, %error, unsaid, "this node could not be published");
        }
    }
}

fn soon() -> Nanos {
    now().saturating_add(EXCHANGE_NS)
}

#[cfg(test)]
mod tests {
    use super::super::keys::Keys;
    use super::*;
    use crate::directory::{Pairs, Store};
    use crate::transport::BoxFuture;
    use std::collections::BTreeMap;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};
    use tokio::sync::Notify;

    /// A store that refuses to put over an entry of `rpc_meta`, as Mooncake's own servers do, and that may be deaf.
    #[derive(Default)]
    struct Strict {
        values: Mutex<BTreeMap<String, Vec<u8>>>,
        deaf: Mutex<bool>,
    }

    impl Strict {
        fn answer<T>(
            &self,
            of: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> Result<T, Error>,
        ) -> Result<T, Error> {
            if *self.deaf.lock().unwrap() {
                return Err(Error::Directory { place: self.place(), reason: "deaf".into() });
            }
            of(&mut self.values.lock().unwrap())
        }

        fn keys(&self) -> Vec<String> {
            self.values.lock().unwrap().keys().cloned().collect()
        }

        fn text(&self, key: &str) -> String {
            String::from_utf8(self.values.lock().unwrap()[key].clone()).unwrap()
        }
    }

    impl Store for Strict {
        fn place(&self) -> String {
            "a strict store".into()
        }

        fn get<'a>(&'a self, key: &'a str, _: Nanos) -> BoxFuture<'a, Result<Option<Vec<u8>>, Error>> {
            Box::pin(std::future::ready(self.answer(|values| Ok(values.get(key).cloned()))))
        }

        fn put<'a>(
            &'a self,
            key: &'a str,
            value: &'a [u8],
            life: Option<Duration>,
            _: Nanos,
        ) -> BoxFuture<'a, Result<(), Error>> {
            assert_eq!(life, None, "Mooncake's entries have no life");
            Box::pin(std::future::ready(self.answer(|values| match values.contains_key(key) {
                true if key.contains("rpc_meta") => Err(Error::BadArgument("it is there".into())),
                _ => Ok(_ = values.insert(key.to_owned(), value.to_vec())),
            })))
        }

        fn remove<'a>(&'a self, key: &'a str, _: Nanos) -> BoxFuture<'a, Result<bool, Error>> {
            Box::pin(std::future::ready(self.answer(|values| Ok(values.remove(key).is_some()))))
        }

        fn list<'a>(&'a self, _: &'a str, _: usize, _: Nanos) -> BoxFuture<'a, Result<Pairs, Error>> {
            unreachable!("nothing is listed")
        }
    }

    #[derive(Default)]
    struct Numbered(AtomicU64, Notify);

    impl Entry for Numbered {
        fn text(&self) -> Vec<u8> {
            format!("{{\"n\":{}}}\n", self.0.load(Ordering::Relaxed)).into_bytes()
        }

        async fn changed(&self) {
            self.1.notified().await;
        }
    }

    fn published(store: &Arc<Strict>, has_newline: bool) -> Published {
        Published {
            central: Arc::new(Central { store: store.clone(), keys: Keys::new(Some("c")) }),
            name: "n".into(),
            rpc_meta: RpcMeta { ip_or_host_name: "10.0.0.1".into(), rpc_port: 7 },
            has_newline,
            throttle: Throttle::default(),
            look: Duration::from_millis(10),
            withdrawn: Default::default(),
        }
    }

    /// Drives `published` with the clock of a test until `seen`.
    async fn until_seen(published: &Published, entry: &Numbered, seen: impl Fn() -> bool) {
        let looking = async {
            while !seen() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            never = published.keep(entry) => match never {},
            done = tokio::time::timeout(Duration::from_secs(60), looking) => done.unwrap(),
        }
    }

    fn in_a_runtime<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }

    const RAM: &str = "mooncake/c/ram/n";
    const RPC: &str = "mooncake/c/rpc_meta/n";

    /// Both entries come, in place of those of an earlier node of the name; a change follows; at the end both go.
    #[test]
    fn put_changed_and_taken_away() {
        let (store, entry) = (Arc::<Strict>::default(), Numbered::default());
        store
            .values
            .lock()
            .unwrap()
            .insert(RPC.into(), b"{\"ip_or_host_name\":\"old\",\"rpc_port\":1}".to_vec());
        let published = published(&store, true);
        in_a_runtime(async {
            until_seen(&published, &entry, || store.keys() == [RAM, RPC]).await;
            assert_eq!(store.text(RPC), "{\"ip_or_host_name\":\"10.0.0.1\",\"rpc_port\":7}\n");
            assert_eq!(store.text(RAM), "{\"n\":0}\n");
            entry.0.store(1, Ordering::Relaxed);
            entry.1.notify_one();
            until_seen(&published, &entry, || store.text(RAM) == "{\"n\":1}\n").await;
            published.withdraw(soon()).await.unwrap();
            assert_eq!(store.keys(), [""; 0]);
            let kept = tokio::time::timeout(Duration::from_millis(20), published.keep(&entry)).await;
            assert!(kept.is_err() && store.keys().is_empty(), "nothing is put behind the end");
        });
    }

    /// A directory that came back empty, or did not answer for a while, has the entries again within one look; over HTTP they
    /// end without a newline.
    #[test]
    fn put_again_when_lost() {
        let (store, entry) = (Arc::<Strict>::default(), Numbered::default());
        let published = published(&store, false);
        in_a_runtime(async {
            *store.deaf.lock().unwrap() = true;
            let emptied = std::cell::Cell::new(false);
            until_seen(&published, &entry, || {
                *store.deaf.lock().unwrap() = false;
                let is_there = store.keys() == [RAM, RPC];
                if is_there && !emptied.replace(true) {
                    assert_eq!(store.text(RAM), "{\"n\":0}");
                    store.values.lock().unwrap().clear();
                    return false;
                }
                is_there
            })
            .await;
        });
    }

    /// What has become another node's meanwhile is left alone.
    #[test]
    fn what_is_anothers_stays() {
        let (store, entry) = (Arc::<Strict>::default(), Numbered::default());
        let published = published(&store, true);
        in_a_runtime(async {
            until_seen(&published, &entry, || store.keys().len() == 2).await;
            let other = b"{\"ip_or_host_name\":\"10.0.0.2\",\"rpc_port\":7}".to_vec();
            store.values.lock().unwrap().insert(RPC.into(), other);
            published.withdraw(soon()).await.unwrap();
        });
        assert_eq!(store.keys(), [RAM, RPC]);
    }
}
