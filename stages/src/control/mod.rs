//! The control pool: one thread, `control`, and up to two resolver threads. It listens, dials, shakes hands,
//! learns what peers have, and hands finished links to the workers that own them.
//!
//! Deliberately off the data path: a slice never waits for it, and it never touches payload.

mod accepted;
mod addresses;
mod announce;
mod answers;
mod by_name;
mod by_session;
mod connect;
mod dialled;
mod directory;
mod error;
mod exchanges;
mod fences;
mod foreign;
mod found;
mod leaving;
mod links;
mod listener;
mod nics;
mod notices;
mod pages;
mod post;
mod published;
mod pulls;
mod reach;
mod resolve;
mod rest;
mod session;
mod settings;
mod shared;
mod starts;
mod tending;
mod throttle;
mod until;

pub use dialled::LOG as LOG_OF_PEERS;
pub use error::Error;
pub use leaving::Remaining;
pub(crate) use links::lanes;
pub use nics::{Blames, NicFailures, PeerFailures};
pub use settings::{DirectorySettings, Settings};

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};
use pipeline_graph::Waker;
use pipeline_transports::control::{Identity, Message};
use pipeline_transports::{Nanos, clock};
use rustix::net::{Shutdown, shutdown};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Notify, watch};

use crate::client::Client;
use crate::mail::Event;
use crate::peer::{PeerId, PeerView};
use crate::world::World;
use dialled::Dialled;
use reach::Reach;
use shared::Shared;
pub(crate) use shared::lock;
use until::until;

/// Requests served at a time for one peer.
const REQUESTS: u32 = 64;
/// How long looking up the name of an address to listen on may take.
const LISTEN_NS: Nanos = 10_000_000_000;
/// How long a node that stops takes back what it told directories of other engines.
const UNBIND_NS: Nanos = 1_000_000_000;

/// The running control pool of a node. All methods may be called from any thread but its own; they block
/// until their answer is there or `by` has passed. Dropping it closes it.
pub struct Control {
    shared: Arc<Shared>,
    runtime: Handle,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The name under which other crates know [`Control`].
pub type ControlHandle = Control;

impl Control {
    /// Starts the thread and binds the listener. The graph must have started: seats that open their boxes
    /// later are not dialled for.
    ///
    /// # Errors
    /// [`Error::Bind`] with the address, [`Error::Listen`] with the transport; [`Error::Address`] and [`Error::NoName`] for a
    /// bad entry under `[peers]`; [`Error::Start`].
    pub fn start(world: Arc<World>, settings: Settings, events: Receiver<Event>) -> Result<Self, Error> {
        let identity = Identity {
            name: world.name.clone(),
            incarnation: world.incarnation,
            requests_max: REQUESTS,
            idle: settings.idle,
            key: settings.key.clone(),
        };
        let mut names = HashMap::new();
        for (name, addresses) in &settings.names {
            names.insert(name.clone(), Reach::of(&world, addresses)?);
        }
        let nics = nics::Nics::new(&world, settings.rest_max);
        let directory = settings.directory.as_ref().map(directory::Directory::open).transpose()?;
        let shared = Arc::new(Shared {
            world,
            nics,
            identity,
            settings,
            names,
            directory,
            local: OnceLock::new(),
            dialled: Mutex::default(),
            accepted: Mutex::default(),
            links: Mutex::default(),
            lanes: Mutex::default(),
            stop: watch::Sender::new(false),
            leaving: watch::Sender::new(false),
            running: watch::Sender::new(0),
            cancels: watch::Sender::new(0),
            refusals: throttle::Throttle::default(),
            shortages: throttle::Throttle::default(),
            fenced: Notify::new(),
            pulls: pulls::Pulls::default(),
            starts: starts::Starts::default(),
        });
        let (told, hear) = bounded(1);
        let inner = shared.clone();
        // Resolver threads inherit it.
        let signals = pipeline_graph::signals::block();
        let thread = std::thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || thread_main(&inner, &events, &told))
            .map_err(|e| Error::Start(e.to_string()))?;
        drop(signals);
        match hear.recv() {
            Ok(Ok(runtime)) => Ok(Self { shared, runtime, thread: Mutex::new(Some(thread)) }),
            Ok(Err(error)) => {
                let _ = thread.join();
                Err(error)
            }
            Err(_) => Err(Error::Start("the thread ended at once".to_owned())),
        }
    }

    /// Pulls that clients ask for go through this way into the node's own pipeline; without one they are refused.
    pub fn pull_by(&self, client: Client) {
        self.shared.pulls.by(client);
    }

    /// Where it listens: the bound address, with the port the system gave for port 0.
    pub fn local_address(&self) -> SocketAddr {
        *self.shared.local.get().expect("set before the thread reports that it runs")
    }

    /// What peers that run other engines call this node: names of transports, and the name that each is known by.
    pub fn foreign_names(&self) -> Vec<(String, String)> {
        foreign::names(&self.shared.world)
    }

    /// The addresses to tell peers: those the file advertises, else the bound one, else those of this machine.
    pub fn advertised(&self) -> Vec<String> {
        published::published(&self.shared)
    }

    /// Opens a peer, by its name under `[peers]`, by its name in the directory, or by address: waits until its session stands, its segments
    /// are known, and at least one link is ready. One that is ready already answers at once.
    ///
    /// # Errors
    /// When every address was tried once in vain; [`Error::NoTransport`]; [`Error::Deadline`].
    pub fn open(&self, peer: &str, by: Nanos) -> Result<PeerId, Error> {
        let dialled = self.dialled(peer)?;
        self.block(by, async move { dialled.open(true, by).await })
    }

    /// As [`Self::open`], without waiting for a link: for requests to the control session only.
    ///
    /// # Errors
    /// As there.
    pub fn connect(&self, peer: &str, by: Nanos) -> Result<PeerId, Error> {
        let dialled = self.dialled(peer)?;
        self.block(by, async move { dialled.open(false, by).await })
    }

    /// Loads the segments of a peer again: for a name or an offset that its view does not have.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::Deadline`].
    pub fn refresh(&self, peer: PeerId, by: Nanos) -> Result<(), Error> {
        let (dialled, shared) = (self.known(peer)?, self.shared.clone());
        self.block(by, async move { dialled.refresh(&shared, by).await })
    }

    /// Whether a peer runs another engine.
    pub fn is_foreign(&self, peer: PeerId) -> bool {
        self.known(peer).is_ok_and(|dialled| dialled.is_foreign())
    }

    /// Waits until no dead link may write any more to the start of a peer that `view` is of. Opens a session if there
    /// is none.
    ///
    /// # Errors
    /// When the peer cannot be reached, [`Error::Deadline`]; [`Error::Foreign`] of one that runs another engine. Each names it.
    pub fn fence(&self, peer: PeerId, view: &PeerView, by: Nanos) -> Result<(), Error> {
        let (dialled, shared, target) = (self.known(peer)?, self.shared.clone(), view.unfenced.clone());
        dialled.must_have("fence")?;
        self.block(by, async move { dialled.fence(&shared, &target, by).await })
    }

    /// Sends a request on the control session and awaits its answer.
    ///
    /// # Errors
    /// [`Error::Remote`] for an error answer, [`Error::Gone`], [`Error::Deadline`]; [`Error::Foreign`] of a peer that runs
    /// another engine.
    pub fn request(&self, peer: PeerId, message: Message, by: Nanos) -> Result<Message, Error> {
        let dialled = self.known(peer)?;
        dialled.must_have(asked(&message))?;
        self.block(by, async move { dialled.session()?.request(&message, by).await })
    }

    /// Takes no new sessions from now on, and asks the peers that have one to begin nothing new here. May be called
    /// more than once.
    pub fn leave(&self) {
        self.shared.leaving.send_replace(true);
    }

    /// After [`Self::leave`]: peers whose requests to this node have not ended. A peer that has never answered within two
    /// seconds is not among them.
    pub fn remaining(&self) -> Vec<Remaining> {
        leaving::remaining(&self.shared)
    }

    /// What went wrong, and because of what.
    pub fn blames(&self) -> Blames {
        Blames(self.shared.clone())
    }

    /// Binds another listener, as the node's own is bound, for a task of [`Self::spawn`].
    ///
    /// # Errors
    /// [`Error::Bind`] with the address, [`Error::Address`].
    pub fn listen(&self, address: &str) -> Result<TcpListener, Error> {
        let address = address.to_owned();
        self.block(clock::now() + LISTEN_NS, async move { listener::bind(&address).await })
    }

    /// Carries out a task on the control thread, beside what that does itself: until it ends, or control closes, which
    /// drops it. It must not block, and must not hold what owns this.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    /// Ends all sessions, has all links killed, and stops the thread. Calls that wait end with
    /// [`Error::Closed`]. May be called more than once.
    pub fn close(&self) {
        self.shared.stop.send_replace(true);
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
        self.shared.world.inbox.stop();
        self.shared.world.watchers.stop();
    }

    /// Name or address a peer was opened by; empty for none.
    pub fn label(&self, peer: PeerId) -> String {
        self.shared.world.peers.get(peer).map(|p| p.label.to_string()).unwrap_or_default()
    }

    fn known(&self, peer: PeerId) -> Result<Arc<Dialled>, Error> {
        lock(&self.shared.dialled).get(&peer).cloned().ok_or(Error::UnknownPeer)
    }

    fn dialled(&self, label: &str) -> Result<Arc<Dialled>, Error> {
        let shared = &self.shared;
        let reach = match shared.names.get(label) {
            Some(reach) => reach.clone(),
            None if shared.directory.is_some() && resolve::is_name(label) => Reach::Named(label.to_owned()),
            None => Reach::parse(&shared.world, label)?,
        };
        shared.dialled_as(label, reach, &self.runtime)
    }

    /// Runs a future on the control thread and waits for it here.
    fn block<T: Send + 'static>(
        &self,
        by: Nanos,
        future: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let (told, hear) = bounded(1);
        let mut stop = self.shared.stop.subscribe();
        self.runtime.spawn(async move {
            let done = tokio::select! {
                done = future => done,
                _ = until(&mut stop, |stop| *stop) => Err(Error::Closed),
            };
            let _ = told.send(done);
        });
        // The future keeps the deadline itself; this one is for a runtime that was stopped under it.
        hear.recv_timeout(clock::until(by) + Duration::from_secs(5)).unwrap_or(Err(Error::Closed))
    }
}

/// What a request is about, for a peer that has no such thing.
fn asked(message: &Message) -> &'static str {
    match message {
        Message::File(_) => "files",
        Message::GetCpuTime => "CPU time to tell",
        Message::GetTraffic => "traffic to tell",
        _ => "control session",
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.close();
    }
}

fn thread_main(
    shared: &Arc<Shared>,
    events: &Receiver<Event>,
    told: &crossbeam_channel::Sender<Result<Handle, Error>>,
) {
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(2)
        .thread_name("resolver")
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(e) => {
            let _ = told.send(Err(Error::Start(e.to_string())));
            return;
        }
    };
    runtime.block_on(async {
        let listener = match listener::bind(&shared.settings.listen).await {
            Ok(listener) => listener,
            Err(error) => {
                let _ = told.send(Err(error));
                return;
            }
        };
        match listener.local_addr() {
            Ok(local) => _ = shared.local.set(local),
            Err(e) => {
                let _ = told.send(Err(Error::Start(e.to_string())));
                return;
            }
        }
        if let Err(error) = foreign::begin(shared).await {
            let _ = told.send(Err(error));
            return;
        }
        let socket = listener.as_fd().try_clone_to_owned();
        tokio::spawn(listener::accept(shared.clone(), listener));
        tending::start(shared);
        tokio::spawn(nics::keep(shared.clone()));
        let bell = Arc::new(Notify::new());
        let (ring, notice) = (bell.clone(), bell.clone());
        shared.world.ledger.outbox.attend(Waker::new(move || notice.notify_one()));
        // Set by another node's control only if two were started over one world: then the first is rung.
        let _ = shared.world.control.set(Waker::new(move || ring.notify_one()));
        let announcing = tokio::spawn(announce::keep(shared.clone()));
        tokio::spawn(hear_events(shared.clone(), events.clone(), bell));
        let _ = told.send(Ok(Handle::current()));
        until(&mut shared.stop.subscribe(), |stop| *stop).await;
        // Sessions say goodbye and have their links killed; a stuck one is not waited for.
        let mut running = shared.running.subscribe();
        let ended = tokio::time::timeout(Duration::from_millis(500), until(&mut running, |n| *n == 0));
        // Meanwhile directories are told, which have a bounded time for it, too.
        let withdrawn = tokio::time::timeout(announce::FAREWELL, announcing);
        let _ = tokio::join!(ended, foreign::end(shared, clock::now() + UNBIND_NS), withdrawn);
        // Not only closed: a child that the application forked may have a copy of the descriptor, and would keep the
        // address.
        let _ = socket.map(|socket| shutdown(socket, Shutdown::Both));
    });
    runtime.shutdown_timeout(Duration::from_millis(100));
}

/// Takes what the data path tells.
async fn hear_events(shared: Arc<Shared>, events: Receiver<Event>, bell: Arc<Notify>) {
    loop {
        notices::collect(&shared);
        // The channel is bounded, but may be filled as fast as it is emptied: others get their turn.
        let left = shared.world.mail.take_left();
        for event in events.try_iter().take(events.len().max(1)).chain(left) {
            match event {
                Event::LinkClosed(link, blame) => links::closed(&shared, link, blame),
                Event::LaneClosed(link) => accepted::closed(&shared, link),
                Event::Want { peer, transport } => {
                    if let Some(dialled) = lock(&shared.dialled).get(&peer) {
                        // Who asked before the last link came has it; who misses it when it has gone asks again.
                        let has_link =
                            dialled.peer.links.load().iter().any(|link| link.transport == transport);
                        if !has_link {
                            lock(&dialled.asked).insert(transport);
                        }
                        dialled.want();
                    }
                }
            }
        }
        match events.is_empty() {
            true => bell.notified().await,
            false => tokio::task::yield_now().await,
        }
    }
}
