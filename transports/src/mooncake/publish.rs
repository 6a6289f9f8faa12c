//! Keeps what this node tells a directory true: put at the start and after each change, put again when the directory came
//! back without it, taken away at the end.
//!
//! Mooncake's entries have no life of their own: a node that was killed leaves them behind, and one of the same name takes
//! their place. A name is that of its latest start: who finds another node's entry in the place of its own says so, and leaves
//! it there while that node answers. Deliberately patient: a directory that does not answer delays nobody but those who do not
//! know this node yet.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use super::ask::Ask;
use super::bodies::{self, RpcMeta};
use super::find::Central;
use super::name::HostPort;
use super::throttle::Throttle;
use crate::clock::{Nanos, now};
use crate::error::Error;

/// What [`Published::look`] is outside of tests.
pub(crate) const LOOK: Duration = Duration::from_secs(5);
/// Between tries while the directory does not answer.
const RETRY: Duration = Duration::from_millis(500);
/// For one exchange with the directory.
const EXCHANGE_NS: Nanos = 5_000_000_000;
/// For another node of this name to answer, and how often in a row it does not until its entry counts as left behind.
const ANSWER_NS: Nanos = 2_000_000_000;
const SILENCES: u32 = 6;
/// Longest answer of that node.
const ANSWER_BYTES: u64 = 4096;

/// What is put.
pub(crate) trait Entry: Send + Sync {
    /// The descriptor as it is put now.
    fn text(&self) -> Vec<u8>;
    /// Returns when it says something else than before.
    fn changed(&self) -> impl Future<Output = ()> + Send;
}

/// What became of an attempt to put the entries.
enum Put {
    /// Both are there anew.
    Both,
    /// The way to this node was there already.
    Descriptor,
    /// Another node has the name by now.
    Taken(RpcMeta),
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
        // Until it is there for the first time it is the latest start of its name.
        let mut newcomer = true;
        loop {
            let withdrawn = self.withdrawn.lock().await;
            if *withdrawn {
                return std::future::pending().await;
            }
            let put = self.put(entry, newcomer).await;
            drop(withdrawn);
            match put {
                Ok(Put::Taken(other)) => newcomer = self.step_aside(&other).await,
                Ok(put) => {
                    newcomer = false;
                    self.watch(entry, matches!(put, Put::Both)).await;
                }
                Err(error) => {
                    self.complain(&error);
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Returns when there is something to put. `unsure`: of two nodes that began at once each may have put the half of the
    /// other, so the first look counts as a change.
    async fn watch(&self, entry: &impl Entry, unsure: bool) {
        loop {
            if tokio::time::timeout(self.look, entry.changed()).await.is_ok() {
                return;
            }
            match self.told().await {
                Ok(Some(told)) if told == self.rpc_meta && !unsure => {}
                Ok(Some(_)) => return,
                Ok(None) => {
                    let place = self.central.store.place();
                    tracing::info!(
                        name = self.name,
                        place,
                        "the directory knows this node no more: its entries are put again"
                    );
                    return;
                }
                // Nothing is known: it is asked again.
                Err(error) => self.complain(&error),
            }
        }
    }

    /// Another node has the name: returns when it is free, or this node's after all. Whether the entry of the other one may
    /// be replaced: it has not answered for a while.
    async fn step_aside(&self, other: &RpcMeta) -> bool {
        let place = self.central.store.place();
        tracing::warn!(
            name = self.name,
            place,
            other = %at(other),
            "another node has taken this one's name: who opens it reaches that one, and this node is not published while it \
             answers; give each a `server_name` of its own"
        );
        let mut silences = 0;
        while silences < SILENCES {
            tokio::time::sleep(self.look).await;
            match self.told().await {
                Ok(Some(told)) if told != self.rpc_meta => {
                    silences = if answers(&told).await { 0 } else { silences + 1 };
                }
                Ok(_) => {
                    tracing::info!(name = self.name, place, "the name is free again");
                    return false;
                }
                Err(error) => self.complain(&error),
            }
        }
        tracing::info!(
            name = self.name,
            place,
            "the other node of this name answers no more: it is replaced"
        );
        true
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

    /// Puts what is not there. A `newcomer` takes the place of any other node.
    async fn put(&self, entry: &impl Entry, newcomer: bool) -> Result<Put, Error> {
        let key = self.central.keys.rpc_meta(&self.name);
        let both = match self.told().await? {
            Some(told) if told == self.rpc_meta => false,
            Some(other) if !newcomer => return Ok(Put::Taken(other)),
            Some(other) => {
                self.replaces(&other).await;
                // Mooncake's own servers refuse to put over this one.
                self.central.store.remove(&key, soon()).await?;
                true
            }
            None => true,
        };
        if both {
            let text = self.ended(bodies::encode(&self.rpc_meta));
            self.central.store.put(&key, &text, None, soon()).await?;
        }
        self.put_descriptor(entry).await?;
        Ok(if both { Put::Both } else { Put::Descriptor })
    }

    async fn replaces(&self, other: &RpcMeta) {
        let (name, other_at) = (&self.name, at(other));
        match answers(other).await {
            false => {
                tracing::info!(name, other = %other_at, "the directory knew an earlier node of this name: replaced");
            }
            true => tracing::warn!(
                name,
                other = %other_at,
                "another node of this name is there and answers: its place is taken; give each a `server_name` of its own"
            ),
        }
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

fn at(other: &RpcMeta) -> HostPort {
    HostPort::new(&other.ip_or_host_name, other.rpc_port)
}

/// Whether somebody is there: also who answers nonsense, or hangs up as releases up to 0.3.10 do.
async fn answers(other: &RpcMeta) -> bool {
    let ask = Ask { of: &at(other), max: ANSWER_BYTES, by: now().saturating_add(ANSWER_NS) };
    matches!(ask.probe().await, Ok(()) | Err(Error::Protocol { .. } | Error::Refused { .. }))
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
        /// Times that the way to a node was put.
        moved: Mutex<usize>,
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
                is_there => {
                    *self.moved.lock().unwrap() += usize::from(!is_there && key.contains("rpc_meta"));
                    Ok(_ = values.insert(key.to_owned(), value.to_vec()))
                }
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
        published_at(store, has_newline, "10.0.0.1", 7)
    }

    fn published_at(store: &Arc<Strict>, has_newline: bool, host: &str, rpc_port: u16) -> Published {
        Published {
            central: Arc::new(Central { store: store.clone(), keys: Keys::new(Some("c")) }),
            name: "n".into(),
            rpc_meta: RpcMeta { ip_or_host_name: host.into(), rpc_port },
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
            .insert(RPC.into(), b"{\"ip_or_host_name\":\"127.0.0.1\",\"rpc_port\":0}".to_vec());
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

    /// Of two nodes of one name that both live the later start has it: the earlier one puts nothing any more, however often it
    /// looks, until the other one answers no more; then it is found again.
    #[test]
    fn the_later_start_has_the_name() {
        use tokio::net::TcpListener;
        let (store, entry) = (Arc::<Strict>::default(), Numbered::default());
        in_a_runtime(async {
            let port = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let rpc_port = port.local_addr().unwrap().port();
            let early = published_at(&store, true, "127.0.0.1", 1);
            let late = published_at(&store, true, "127.0.0.1", rpc_port);
            until_seen(&early, &entry, || store.keys().len() == 2).await;
            let own = store.text(RPC);
            let lives = async {
                loop {
                    // It hangs up at once, which is an answer.
                    drop(port.accept().await.unwrap());
                }
            };
            let looks = std::cell::Cell::new(0);
            let both = async {
                tokio::select! {
                    never = late.keep(&entry) => match never {},
                    never = lives => never,
                    () = until_seen(&early, &entry, || {
                        looks.set(looks.get() + usize::from(store.text(RPC) != own));
                        looks.get() == 40
                    }) => {}
                }
            };
            both.await;
            let theirs = store.text(RPC);
            assert!(theirs.contains(&rpc_port.to_string()));
            assert_eq!(*store.moved.lock().unwrap(), 2, "each has put itself once");
            drop(port);
            until_seen(&early, &entry, || store.text(RPC) == own).await;
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
