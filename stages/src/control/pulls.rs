//! Pulls: a client has this node fetch bytes of a file from another node that has just received them. Control asks that
//! node where they are, has the pipeline READ them, and has `file_serve` write them.
//!
//! Deliberately careful whom it calls (a client must not be able to send this node anywhere), and bounded: so many pulls
//! at a time, each within the lease of its upload and with a deadline.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use pipeline_graph::Waker;
use pipeline_transports::control::{Address, FileAnswer, FileRequest, Message, Pull, Token};
use pipeline_transports::transport::SessionId;
use pipeline_transports::{Nanos, RegionId, clock};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

use super::dialled::Dialled;
use super::error::Error;
use super::reach::Reach;
use super::shared::{Shared, lock};
use crate::batch::Status;
use crate::client::Client;
use crate::files::{FileError, FileSession, Landing};
use crate::request::{Options, Remote, Request};

/// Pulls at a time; more wait, within their own time.
const PULLS: usize = 64;
/// A pull takes no longer, whatever its asker says.
const WITHIN_MAX: Duration = Duration::from_secs(30);
/// Nodes pulled from that `[peers]` does not name: a name in the table of peers stays for good.
const STRANGERS: usize = 64;
/// Places of leases that are remembered for one node.
const PLACES: usize = 64;
/// What is pulled lies in the bounce region of a segment of this kind; nothing else is ever read for a client.
const KIND: &str = "dir";

/// What pulls share.
pub(super) struct Pulls {
    /// The way into our own pipeline; without one nothing is pulled.
    client: OnceLock<Client>,
    turns: Semaphore,
    strangers: Mutex<Vec<String>>,
}

impl Default for Pulls {
    fn default() -> Self {
        Self { client: OnceLock::new(), turns: Semaphore::new(PULLS), strangers: Mutex::default() }
    }
}

impl Pulls {
    /// The first call counts.
    pub(super) fn by(&self, client: Client) {
        let _ = self.client.set(client);
    }
}

/// Where a peer's leases are, as it has told on one session. They stay there as long as they live; what is read from one
/// that has ended fails its checksum.
#[derive(Default)]
pub(super) struct Places(Mutex<(Option<SessionId>, HashMap<Token, Place>)>);

#[derive(Clone, Copy)]
struct Place {
    /// Index in the peer's view.
    segment: u32,
    start: u64,
    len: u64,
}

/// Carries out a pull.
///
/// # Errors
/// [`FileError::PullDenied`]; [`FileError::Upstream`] when the other node did not give the bytes; else as an upload.
pub(super) async fn pull(
    shared: &Arc<Shared>,
    files: &Arc<FileSession>,
    pull: Pull,
) -> Result<FileAnswer, FileError> {
    let within = Duration::from_millis(u64::from(pull.within_ms)).min(WITHIN_MAX);
    let by = clock::now().saturating_add(within.as_nanos() as Nanos);
    let landing = Arc::new(files.landing(&pull)?);
    let client = shared.pulls.client.get().ok_or(FileError::Unable("this node carries out no pulls"))?;
    if shared.world.callers.get().is_some() {
        let stepped = "its pipeline is stepped by its application (a pool of kind `caller`): it cannot pull";
        return Err(FileError::Unable(stepped));
    }
    let (label, reach) = source(shared, &landing, &pull.peer)?;
    let late = || landing.upstream(format!("not done within {} ms", within.as_millis()));
    let turn = timeout(clock::until(by), shared.pulls.turns.acquire()).await.map_err(|_| late())?;
    let dialled = shared.dialled_as(&label, reach, &Handle::current());
    let dialled = dialled.map_err(|e| landing.upstream(e))?;
    let remote = locate(&dialled, &pull, by).await.map_err(|reason| landing.upstream(reason))?;
    // A task of its own: if whoever asked goes away, the lease is kept until nothing is written there any more.
    let fetching = tokio::spawn(fetch(client.clone(), landing.clone(), remote, pull.len, by));
    let fetched = fetching.await.unwrap_or_else(|_| Err("the node is stopping".to_owned()));
    fetched.map_err(|reason| landing.upstream(reason))?;
    drop(turn);
    files.land(landing).await
}

/// Under which name and how the node is dialled, if it may be.
fn source(shared: &Shared, landing: &Landing, peer: &str) -> Result<(String, Reach), FileError> {
    if let Some(reach) = shared.names.get(peer) {
        landing.allow(true, false)?;
        return Ok((peer.to_owned(), reach.clone()));
    }
    let address = Address::parse(peer).map_err(|e| landing.upstream(e))?;
    let is_there = |reach: &Reach| matches!(reach, Reach::Addresses(all) if all.contains(&address));
    if let Some((name, reach)) = shared.names.iter().find(|(_, reach)| is_there(reach)) {
        landing.allow(true, false)?;
        return Ok((name.clone(), reach.clone()));
    }
    landing.allow(false, shared.settings.key.is_some())?;
    let label = address.to_string();
    let mut strangers = lock(&shared.pulls.strangers);
    if !strangers.contains(&label) {
        if strangers.len() >= STRANGERS {
            let what = "nodes pulled from that are not under [peers]";
            return Err(FileError::Limit { what, limit: STRANGERS as u64 });
        }
        strangers.push(label.clone());
    }
    Ok((label, Reach::Addresses(vec![address])))
}

/// Reaches the node and learns where the bytes are.
async fn locate(dialled: &Dialled, pull: &Pull, by: Nanos) -> Result<Remote, String> {
    dialled.must_have("files").map_err(|e| e.to_string())?;
    dialled.open(true, by).await.map_err(|e| e.to_string())?;
    let session = dialled.session().map_err(|e| e.to_string())?;
    let view = dialled.peer.view.load_full();
    let known = {
        let (of, places) = &mut *lock(&dialled.places.0);
        if *of != Some(session.id) {
            (*of, *places) = (Some(session.id), HashMap::new());
        }
        places.get(&pull.token).copied()
    };
    let place = match known {
        Some(place) => place,
        None => {
            let asked = Message::File(FileRequest::Redeem { token: pull.token });
            let told = session.request(&asked, by).await.map_err(|e| e.to_string())?;
            let Message::Filed(FileAnswer::Place { segment, start, len }) = told else {
                return Err(format!("it answered a token with type {}", told.kind()));
            };
            let found = view.segments.iter().position(|s| s.name == segment && s.kind == KIND);
            let index = found.ok_or_else(|| format!("it has no segment `{segment}` of kind `{KIND}`"))?;
            let place = Place { segment: index as u32, start, len };
            let (of, places) = &mut *lock(&dialled.places.0);
            if *of == Some(session.id) && places.len() < PLACES {
                places.insert(pull.token, place);
            }
            place
        }
    };
    let end = pull.token_offset.checked_add(pull.len);
    if end.is_none_or(|end| end > place.len) {
        return Err("the bytes are not within the lease there".to_owned());
    }
    let offset = place.start.checked_add(pull.token_offset).ok_or("the lease there is out of bounds")?;
    Ok(Remote { peer: dialled.id, incarnation: view.incarnation, segment: place.segment, offset })
}

/// READs the bytes into the bounce region.
async fn fetch(
    client: Client,
    landing: Arc<Landing>,
    remote: Remote,
    len: u64,
    by: Nanos,
) -> Result<(), String> {
    let (region, at): (RegionId, u64) = landing.place();
    let done = Arc::new(Notify::new());
    let ring = done.clone();
    let waker = Waker::new(move || ring.notify_one());
    let options = Options { deadline: Some(clock::until(by)), ..Options::default() };
    let batch = client.submit_telling(&[Request::read(region, at, remote, len)], &options, &waker);
    let batch = batch.map_err(|e| e.to_string())?;
    // Its deadline ends it, so this ends.
    done.notified().await;
    match batch.results().next() {
        Some(Status::Done) => Ok(()),
        Some(Status::Failed(failure)) => Err(failure.to_string()),
        Some(Status::Pending) | None => Err("its READ was not carried out".to_owned()),
    }
}

impl Shared {
    /// The peer that is dialled under this name, made if there is none.
    pub(super) fn dialled_as(
        self: &Arc<Self>,
        label: &str,
        reach: Reach,
        runtime: &Handle,
    ) -> Result<Arc<Dialled>, Error> {
        let full = || Error::Limit { what: "peers", limit: self.world.peers.capacity() as u64 };
        let id = self.world.peers.intern(label).ok_or_else(full)?;
        let peer = self.world.peers.get(id).ok_or(Error::UnknownPeer)?.clone();
        let mut all = lock(&self.dialled);
        let dialled = all.entry(id).or_insert_with(|| {
            let dialled = Arc::new(Dialled::new(id, peer, reach));
            runtime.spawn(dialled.clone().drive(self.clone()));
            dialled
        });
        Ok(dialled.clone())
    }
}
