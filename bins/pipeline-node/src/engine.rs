//! The engine: one node inside a process. Everything an application does goes through it.
//!
//! Deliberately no signal handler, no global state, no thread that `validate` does not announce: two engines in
//! one process do not know of each other.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use pipeline_configs::Config;
use pipeline_graph::State;
use pipeline_stages::explain::Explanation;
use pipeline_stages::{
    Batch, Client, Key, Location, Options, Pick, PrepareError, Prepared, Reason, Request, SubmitError, World,
};
use pipeline_transports::Access;
use pipeline_transports::clock;
use pipeline_transports::memory::{Memory, Region};

use crate::admin::Claim;
use crate::assemble::{self, Parts, Wrap};
use crate::awake::Awake;
use crate::drain::{self, DrainReport};
use crate::error::Error;
use crate::memory::Book;
use crate::peer::Peer;
use crate::source::Source;

/// How long [`Engine::open`] tries.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// A running node. Cheap to clone; all methods may be called from any thread. When the last clone (and the last
/// [`Peer`]) is gone it stops at once; to let work end first, [`Engine::drain`].
///
/// In a process forked from the one that started it, it is not usable: what can fail answers [`Error::Forked`] or
/// [`SubmitError::Forked`] at once, [`Self::drain`] and [`Self::stats`] are empty, [`Self::stop`] and dropping it do
/// nothing. Sockets, files and threads are the parent's and go on there. The child may start an engine of its own.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

/// What all clones share.
pub(crate) struct Inner {
    pub(crate) world: Arc<World>,
    pub(crate) control: pipeline_stages::control::Control,
    pub(crate) config: Arc<Config>,
    pub(crate) client: Client,
    pub(crate) graph: Arc<RwLock<pipeline_graph::Engine<Key>>>,
    book: Book,
    /// Held while the node runs.
    awake: Mutex<Option<Awake>>,
    /// Where metrics are served.
    pub(crate) metrics: OnceLock<SocketAddr>,
    /// The admin socket.
    pub(crate) admin: Mutex<Option<Claim>>,
}

impl Engine {
    /// From a TOML file. Nothing but the file is read: no environment, no overrides (see [`Source`]).
    ///
    /// # Errors
    /// [`Error::Config`] with every finding; [`Error::Control`] when the listener cannot be bound;
    /// [`Error::Memory`], [`Error::Start`].
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::from_source(&Source::file(path.as_ref()))
    }

    /// From TOML text.
    ///
    /// # Errors
    /// As [`Self::from_file`].
    pub fn from_toml(text: &str) -> Result<Self, Error> {
        Self::from_source(&Source::text("<text>", text))
    }

    /// From a file or text with overrides.
    ///
    /// # Errors
    /// As [`Self::from_file`].
    pub fn from_source(source: &Source) -> Result<Self, Error> {
        let loaded = source.load().map_err(Error::Config)?;
        loaded.runnable().map_err(Error::Config)?;
        Self::start(loaded.config)
    }

    /// From a configuration that was loaded before.
    ///
    /// # Errors
    /// As [`Self::from_file`].
    pub fn start(config: Config) -> Result<Self, Error> {
        Self::start_wrapped(config, Wrap::BARE)
    }

    pub(crate) fn start_wrapped(config: Config, wrap: Wrap<'_>) -> Result<Self, Error> {
        let Parts { world, config, client, graph, control, book, awake } = assemble::start(config, wrap)?;
        let awake = Mutex::new(awake);
        let metrics = OnceLock::new();
        let admin = Mutex::default();
        let inner = Inner { world, control, config, client, graph, book, awake, metrics, admin };
        let engine = Self { inner: Arc::new(inner) };
        if let Some(listen) = &engine.inner.config.metrics_listen {
            engine.serve_metrics(listen)?;
        }
        if let Some(socket) = &engine.inner.config.admin_socket {
            engine.serve_admin(socket)?;
        }
        Ok(engine)
    }

    /// Refuses in a forked child, where locks may be held by threads that are not there.
    pub(crate) fn here(&self) -> Result<(), Error> {
        if self.inner.is_here() { Ok(()) } else { Err(Error::Forked) }
    }

    /// `[node] name`.
    pub fn name(&self) -> &str {
        &self.inner.world.name
    }

    /// Where it listens; with `listen = "…:0"` this has the port the system gave.
    pub fn local_address(&self) -> SocketAddr {
        self.inner.control.local_address()
    }

    /// What peers that run another engine call this node, over a transport that speaks its protocol: what stands behind
    /// `TRANSPORT://` in their files. `None` if there is no such transport, or if it does not speak to another engine.
    pub fn foreign_name(&self, transport: &str) -> Option<String> {
        self.foreign_names().into_iter().find_map(|(of, name)| (of == transport).then_some(name))
    }

    /// As [`Self::foreign_name`] for all transports that have one: transport and name, in the order of the file.
    pub fn foreign_names(&self) -> Vec<(String, String)> {
        self.inner.control.foreign_names()
    }

    /// What it was started from.
    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// Zeroed memory of this node that peers cannot touch: the local side of its own requests.
    ///
    /// # Errors
    /// [`Error::Memory`]: a length of 0, no memory, or `limits.regions`.
    pub fn allocate(&self, len: u64) -> Result<Region, Error> {
        self.register(Memory::allocate(len)?, Access::Local)
    }

    /// Memory that was made elsewhere; see [`Memory::from_raw`]. `access` is what peers may do once it is
    /// published.
    ///
    /// # Errors
    /// [`Error::Memory`]: empty, overlapping a registered region, or `limits.regions`.
    pub fn register(&self, memory: Memory, access: Access) -> Result<Region, Error> {
        self.here()?;
        self.inner.book.register(&self.inner.world, memory, access)
    }

    /// As [`Self::register`] for several regions at once: all of them, or none. The threads of the pool that `[limits]
    /// register` names share the work, which takes a device as long as the memory is large; without such a pool it is done
    /// here, one after the other. In the order of `memories`.
    ///
    /// # Errors
    /// Of the first that fails, as [`Self::register`]; nothing stays registered, and all of the memory is dropped.
    pub fn register_all(&self, memories: Vec<(Memory, Access)>) -> Result<Vec<Region>, Error> {
        self.here()?;
        self.inner.book.register_all(&self.inner.world, memories).map_err(|(_, error)| error)
    }

    /// Says where the memory of a region lies, so that NICs near to it are used: for memory of which the system does not tell,
    /// such as that of a GPU. Without it the kernel is asked for its NUMA node. A place that neither the machine nor the file
    /// has counts as unknown.
    pub fn place(&self, region: &Region, location: Location) {
        self.inner.world.topology.place(region.id(), location);
    }

    /// Where the memory of a region lies, as far as is known by now; memory that nobody has touched lies nowhere yet.
    pub fn location(&self, region: &Region) -> Location {
        let world = &self.inner.world;
        world.topology.location(&world.regions, region.id(), world.time.now())
    }

    /// Takes a region back: its memory is the caller's again and nothing of ours touches it.
    ///
    /// # Errors
    /// The region, with `Busy` while requests or peers use it: wait and try again, or [`Self::unregister_within`].
    pub fn unregister(&self, region: Region) -> Result<Memory, (Region, Error)> {
        if let Err(error) = self.here() {
            return Err((region, error));
        }
        self.inner.book.unregister(&self.inner.world, region)
    }

    /// As [`Self::unregister`], but lets nothing new begin and waits for what is under way.
    ///
    /// # Errors
    /// The region, usable again, when `timeout` passed first.
    pub fn unregister_within(&self, region: Region, timeout: Duration) -> Result<Memory, (Region, Error)> {
        if let Err(error) = self.here() {
            return Err((region, error));
        }
        self.inner.book.unregister_within(&self.inner.world, region, timeout)
    }

    /// Adds an empty segment, to [`Self::publish`] regions in.
    ///
    /// # Errors
    /// [`Error::Segment`]: the name is taken or no name.
    pub fn add_segment(&self, name: &str) -> Result<(), Error> {
        self.here()?;
        Ok(self.inner.world.segments.create(name, "dram")?)
    }

    /// Appends a region to one of our segments; answers where it starts there. Peers that open this node from
    /// now on see it.
    ///
    /// # Errors
    /// [`Error::Segment`], [`Error::Memory`] if it is not registered any more.
    pub fn publish(&self, segment: &str, region: &Region) -> Result<u64, Error> {
        self.here()?;
        self.inner.book.publish(&self.inner.world, segment, region.id())
    }

    /// Names of our segments.
    pub fn segments(&self) -> Vec<String> {
        if self.here().is_err() {
            return Vec::new();
        }
        self.inner.world.segments.names().into_iter().map(|(name, _)| name).collect()
    }

    /// Opens a peer by its name under `[peers]` or by its address, within ten seconds.
    ///
    /// # Errors
    /// [`Error::Control`] with the reason of every address.
    pub fn open(&self, peer: &str) -> Result<Peer, Error> {
        self.open_within(peer, OPEN_TIMEOUT)
    }

    /// Opens a peer: answers when its segments are known and a link to it is ready.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_within(&self, peer: &str, timeout: Duration) -> Result<Peer, Error> {
        self.here()?;
        let id = self.inner.control.open(peer, by(timeout))?;
        Peer::of(self.clone(), id)
    }

    /// As [`Self::open_within`], without waiting for a link, and without one if the two sides have no transport in common:
    /// for [`Self::explain`] and for questions to the peer.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn connect_within(&self, peer: &str, timeout: Duration) -> Result<Peer, Error> {
        self.here()?;
        let id = self.inner.control.connect(peer, by(timeout))?;
        Peer::of(self.clone(), id)
    }

    /// Which transport, NIC and lanes a transfer to a peer would take now, why, and what was rejected and why. The stages
    /// themselves are asked, so it is what they do; nothing is sent.
    pub fn explain(&self, peer: &Peer) -> Explanation {
        // Of the engine that has opened it, whichever is asked.
        let Inner { config, world, .. } = &*peer.engine().inner;
        let explained = pipeline_stages::explain::explain(config, world, peer.id());
        explained.expect("a peer that was opened keeps its place in the table")
    }

    /// Submits a batch: all of it, or nothing. Never blocks.
    ///
    /// # Errors
    /// [`SubmitError`]: nothing was submitted.
    pub fn submit(&self, requests: &[Request], options: Options) -> Result<Batch, SubmitError> {
        self.inner.client.submit(requests, options)
    }

    /// As [`Self::submit`], but waits up to `timeout` for room.
    ///
    /// # Errors
    /// As there.
    pub fn submit_wait(
        &self,
        requests: &[Request],
        options: Options,
        timeout: Duration,
    ) -> Result<Batch, SubmitError> {
        self.inner.client.submit_wait(requests, options, timeout)
    }

    /// Judges requests once, to submit them again and again by index: for the blocks of a KV cache, say, of which each
    /// step moves some. Peers, segments, bounds and access are looked up here and not again.
    ///
    /// ```
    /// use pipeline_node::{Engine, Options, Request};
    /// use std::time::Duration;
    ///
    /// let kv = "segments.kv = { kind = \"dram\", size = \"64KiB\", access = \"read_write\" }\n";
    /// let holder = Engine::from_toml(&format!("version = 1\nuse = \"tcp\"\n{kv}"))?;
    /// let engine = Engine::from_toml("version = 1\nuse = \"tcp\"\n")?;
    /// let pages = engine.allocate(65_536)?;
    /// let kv = engine.open(&holder.local_address().to_string())?.segment("kv")?;
    /// let blocks: Vec<Request> = (0..16).map(|i| Request::read(&pages, i * 4096, kv.at(i * 4096), 4096)).collect();
    /// let blocks = engine.prepare(&blocks)?;
    /// for some in [&[3, 4, 5, 11], &[0, 1, 2, 15]] {
    ///     let batch = engine.submit_prepared(&blocks, some, Options::default())?;
    ///     assert!(batch.wait(Duration::from_secs(10))?.is_done());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`PrepareError`], of the first request that is wrong: nothing was prepared.
    pub fn prepare(&self, requests: &[Request]) -> Result<Prepared, PrepareError> {
        self.inner.client.prepare(requests)
    }

    /// Submits some of the requests that were prepared: `..` for all of them, a range, or a list of indices. Never blocks.
    ///
    /// A peer that was restarted, or a local region that is not registered any more, fails the requests that name it, as
    /// [`Self::submit`] would: a [`Prepared`] keeps nothing in place.
    ///
    /// # Errors
    /// [`SubmitError`]: nothing was submitted.
    pub fn submit_prepared<'a>(
        &self,
        prepared: &Prepared,
        pick: impl Into<Pick<'a>>,
        options: Options,
    ) -> Result<Batch, SubmitError> {
        self.inner.client.submit_prepared(prepared, pick, options)
    }

    /// As [`Self::submit_prepared`], but waits up to `timeout` for room.
    ///
    /// # Errors
    /// As there.
    pub fn submit_prepared_wait<'a>(
        &self,
        prepared: &Prepared,
        pick: impl Into<Pick<'a>>,
        options: Options,
        timeout: Duration,
    ) -> Result<Batch, SubmitError> {
        self.inner.client.submit_prepared_wait(prepared, pick, options, timeout)
    }

    /// With a pool of kind `caller`: one turn of each of its workers that no other thread steps just now; never blocks.
    /// Answers whether anything moved: call it again then. `false` in an engine whose own threads do all.
    ///
    /// `submit` steps once by itself, and [`Batch::wait`], [`Self::submit_wait`], [`Self::unregister_within`] and
    /// [`Self::drain`] step while they wait. Whoever does none of these must step, or nothing goes on: completions are
    /// not collected, retries not made, and **deadlines do not fire**.
    pub fn step(&self) -> bool {
        self.inner.world.step()
    }

    /// A descriptor that is readable when [`Self::step`] has something to do, for the event loop of an application: a
    /// completion has come, work was left by another thread, a deadline is due. It is level-triggered, and only to be
    /// polled, never read. When it is readable, step until `step` answers `false`, then poll it again.
    ///
    /// ```no_run
    /// use pipeline_node::{Engine, Options, Request};
    /// use rustix::event::{PollFd, PollFlags, poll};
    ///
    /// let engine = Engine::from_file("caller.toml")?;
    /// let region = engine.allocate(4096)?;
    /// let kv = engine.open("10.0.0.2:7001")?.segment("kv")?;
    /// let fd = engine.fd()?;
    /// let batch = engine.submit(&[Request::write(&region, 0, kv.at(0), 4096)], Options::default())?;
    /// while batch.poll().is_none() {
    ///     // The application's other descriptors go here too.
    ///     poll(&mut [PollFd::new(&fd, PollFlags::IN)], None)?;
    ///     while engine.step() {}
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// From the first call on each submission leaves the workers so that the descriptor tells what comes, which costs a
    /// few system calls; an application that only waits by [`Batch::wait`] saves them by not asking for it.
    ///
    /// # Errors
    /// [`Error::Start`] without a pool of kind `caller`, or when the process may open no more descriptors.
    pub fn fd(&self) -> Result<OwnedFd, Error> {
        let none =
            "no pool is of kind `caller`: the engine's own threads do all, and there is nothing to step";
        let callers = self.inner.world.callers.get().ok_or_else(|| Error::Start(none.into()))?;
        callers.fd().map_err(|e| Error::Start(format!("no descriptor to poll: {e}")))
    }

    /// Leaves in good order. From now on nothing new is taken: own submissions answer `Stopped`, new sessions are turned
    /// away, and peers are told, so that theirs fail `PeerLeaving`. Waits up to `timeout` until all that has begun has
    /// ended, here and at the peers, and notices of it have been taken, both ways. The report names stages (`notice` for
    /// notices) and peers that are not done. May be called again, and from any thread; it goes on draining.
    /// [`Self::stop`] ends it at once.
    pub fn drain(&self, timeout: Duration) -> DrainReport {
        if self.here().is_err() {
            return DrainReport::default();
        }
        drain::drain(&self.inner, timeout)
    }

    /// Stops at once: threads are joined, links are closed. What has not ended fails `Stopped`.
    pub fn stop(&self) {
        self.inner.stop();
    }
}

impl Inner {
    fn is_here(&self) -> bool {
        self.world.regions.origin().is_here()
    }

    pub(crate) fn graph(&self) -> RwLockReadGuard<'_, pipeline_graph::Engine<Key>> {
        self.graph.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.graph().state() == State::Stopped
    }

    fn stop(&self) {
        if !self.is_here() {
            return;
        }
        // First: whoever finds the socket finds somebody who answers.
        drop(self.admin.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.control.close();
        self.world.ledger.close();
        self.graph.write().unwrap_or_else(PoisonError::into_inner).stop();
        self.book.dismiss();
        // What stages and transports still held; those on edges the graph has ended itself.
        self.world.ledger.end_all(Reason::Stopped);
        self.world.ledger.forget_callbacks();
        drop(self.awake.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// In a forked child everything is forgotten: to join threads that are not there is to wait for ever, and sockets are
/// the parent's as well.
impl Drop for Engine {
    fn drop(&mut self) {
        if !self.inner.is_here() {
            std::mem::forget(self.inner.clone());
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("name", &self.name()).field("address", &self.local_address()).finish()
    }
}

/// A deadline so far from now.
pub(crate) fn by(timeout: Duration) -> pipeline_transports::Nanos {
    clock::now().saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX))
}
