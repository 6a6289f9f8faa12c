//! Another engine's protocol on a one-sided wire, for tests: peers of this process are found by name, tell where their memory
//! lies by address, and have neither sessions nor exchanges nor fences.
//!
//! Deliberately the least that such a protocol can have: no listener and no bytes of its own, but every way in which it
//! can fail.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::MAGIC;
use super::wires::{Published, Wires};
use crate::clock::{self, Nanos};
use crate::error::Error;
use crate::foreign::{Foreign, ForeignNotice, Found, FoundRegion, FoundSegment, Hear};
use crate::memory::RegionId;
use crate::transport::{BoxFuture, Offer, Transport};

/// Who can be found, by name.
static PEERS: Mutex<BTreeMap<String, Arc<Peer>>> = Mutex::new(BTreeMap::new());

fn peers() -> MutexGuard<'static, BTreeMap<String, Arc<Peer>>> {
    PEERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A node that can be found.
struct Peer {
    wires: Wires,
    inner: Arc<dyn Transport>,
    hear: Option<Hear>,
    incarnation: u64,
}

/// See the file's head.
pub(super) struct Elsewhere {
    wires: Wires,
    inner: Arc<dyn Transport>,
    hear: Mutex<Option<Hear>>,
}

impl Elsewhere {
    /// Over the transport that moves the bytes.
    pub(super) fn new(wires: &Wires, inner: &Arc<dyn Transport>) -> Self {
        Self { wires: wires.clone(), inner: inner.clone(), hear: Mutex::default() }
    }

    /// The peer of a name, once it answers.
    async fn ask(&self, name: &str, by: Nanos) -> Result<Arc<Peer>, Error> {
        if self.wires.state().directory_down {
            let (place, reason) = ("the test's directory".to_owned(), "the test says so".to_owned());
            return Err(Error::Directory { place, reason });
        }
        let unknown =
            || Error::UnknownName { name: name.to_owned(), place: "the test's directory".to_owned() };
        let peer = peers().get(name).cloned().ok_or_else(unknown)?;
        while peer.wires.state().mute {
            if clock::now() >= by {
                return Err(Error::Deadline { what: "asking", peer: name.to_owned() });
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        Ok(peer)
    }
}

impl Peer {
    /// All of its published memory, by address, and each piece of it by itself.
    fn segments(&self) -> Vec<FoundSegment> {
        let state = self.wires.state();
        let region = |(id, known): &(u64, Published), start| FoundRegion {
            id: RegionId(*id),
            start,
            len: known.len,
            access: known.access,
            keys: [MAGIC.as_slice(), &id.to_le_bytes()].concat(),
        };
        let segment = |name: String, regions| FoundSegment { name, kind: "dram".to_owned(), regions };
        let mut all: Vec<_> = state.published.iter().map(|of| region(of, of.1.address)).collect();
        all.sort_by_key(|region| region.start);
        let each = state.published.iter().enumerate();
        let each = each.map(|(at, of)| segment(format!("buffer-{at}"), vec![region(of, 0)]));
        std::iter::once(segment("memory".to_owned(), all)).chain(each).collect()
    }
}

impl Foreign for Elsewhere {
    fn bind<'a>(&'a self, node: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Relaxed);
        let mut state = self.wires.state();
        if state.unbindable {
            let source = std::io::Error::other("the test says so");
            let error = Error::Io { what: "listening on 127.0.0.1:1".to_owned(), source };
            return Box::pin(std::future::ready(Err(error)));
        }
        let name = state.called.get_or_insert_with(|| format!("{node}-{number}")).clone();
        drop(state);
        let hear = self.hear.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (wires, inner) = (self.wires.clone(), self.inner.clone());
        peers().insert(name, Arc::new(Peer { wires, inner, hear, incarnation: number }));
        Box::pin(std::future::ready(Ok(())))
    }

    fn own_name(&self) -> Option<String> {
        self.wires.state().called.clone()
    }

    fn protocol(&self, _offer: &Offer) -> String {
        "the test's, version 1".to_owned()
    }

    fn find<'a>(&'a self, name: &'a str, by: Nanos) -> BoxFuture<'a, Result<Found, Error>> {
        Box::pin(async move {
            self.wires.state().counts.found += 1;
            let peer = self.ask(name, by).await?;
            Ok(Found {
                name: name.to_owned(),
                incarnation: peer.incarnation,
                // Nobody connects there: its links are made within the process.
                addresses: [std::net::SocketAddr::from(([127, 0, 0, 1], 1))].into(),
                offer: peer.inner.offer(),
                segments: peer.segments(),
            })
        })
    }

    fn probe<'a>(&'a self, name: &'a str, by: Nanos) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            self.wires.state().counts.probed += 1;
            self.ask(name, by).await.map(drop)
        })
    }

    fn notify<'a>(
        &'a self,
        name: &'a str,
        notice: &'a ForeignNotice,
        by: Nanos,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            if std::str::from_utf8(&notice.body).is_err() {
                return Err(Error::BadArgument("notices here are text".to_owned()));
            }
            let peer = self.ask(name, by).await?;
            match peer.hear.as_ref().is_some_and(|hear| hear(notice.clone())) {
                true => Ok(()),
                false => {
                    let reason = "nobody listens there".to_owned();
                    Err(Error::Refused { peer: name.to_owned(), reason })
                }
            }
        })
    }

    fn hear(&self, by: Hear) {
        *self.hear.lock().unwrap_or_else(PoisonError::into_inner) = Some(by);
    }
}

impl Drop for Elsewhere {
    /// The node is gone: nobody finds it any more, if its name is not another one's by now.
    fn drop(&mut self) {
        let name = self.wires.state().called.clone().unwrap_or_default();
        let mut peers = peers();
        if peers.get(&name).is_some_and(|peer| Arc::ptr_eq(&peer.inner, &self.inner)) {
            peers.remove(&name);
        }
    }
}
