//! From a loaded file to a running node: tables, transports, segments, graph, control, in the one order that works.
//! Deliberately the only place that knows all crates.

use std::sync::{Arc, OnceLock, RwLock};

use crossbeam_channel::{Sender, bounded};
use pipeline_configs::{Config, SegmentConfig, SegmentKind};
use pipeline_graph::{Crews, Engine as Graph, Inlet as GraphInlet, Spec, Time, Waker};
use pipeline_stages::catalog;
use pipeline_stages::checksum;
use pipeline_stages::control::{Control, Settings};
use pipeline_stages::faults::Verdicts;
use pipeline_stages::files::{Desk, Root};
use pipeline_stages::ledger::{Ledger, Sizes};
use pipeline_stages::mail::{Event, PostOffice};
use pipeline_stages::notices::Inbox;
use pipeline_stages::peer_events::Watchers;
use pipeline_stages::peers::Peers;
use pipeline_stages::seats::Seats;
use pipeline_stages::segments::SegmentTable;
use pipeline_stages::topology::{Sysfs, Topology};
use pipeline_stages::world::TransportEntry;
use pipeline_stages::{Client, Inlet, Key, Location, SubmitError, World};
use pipeline_transports::control::SharedKey;
use pipeline_transports::memory::Memory;
use pipeline_transports::{Access, Regions, Transport};

use crate::awake::Awake;
use crate::error::Error;
use crate::memory::Book;

/// What the data path may tell control before control has listened; stages try again when it is full.
const EVENTS: usize = 1024;
/// Segments of one node.
const SEGMENTS: usize = 4096;
/// File jobs that may wait for a worker; a client waits for its answer, so there are few.
const FILE_JOBS: usize = 256;

/// What a running node is made of.
pub(crate) struct Parts {
    pub(crate) world: Arc<World>,
    pub(crate) config: Arc<Config>,
    pub(crate) client: Client,
    pub(crate) graph: Arc<RwLock<Graph<Key>>>,
    pub(crate) control: Control,
    pub(crate) book: Book,
    pub(crate) awake: Option<Awake>,
}

/// What is put around a part, by its name.
pub(crate) type Around<'a, T> = &'a dyn Fn(&str, Arc<T>) -> Arc<T>;

/// What is put around each declared transport and stage: nothing in a node, faults or a watch in a test.
#[derive(Clone, Copy)]
pub(crate) struct Wrap<'a> {
    pub(crate) transport: Around<'a, dyn Transport>,
    pub(crate) stage: Around<'a, dyn Spec<Key>>,
}

impl Wrap<'_> {
    /// Nothing.
    pub(crate) const BARE: Self = Self { transport: &|_, transport| transport, stage: &|_, stage| stage };
}

/// Starts everything, or nothing.
pub(crate) fn start(config: Config, wrap: Wrap<'_>) -> Result<Parts, Error> {
    if let [first, ..] = config.later.as_slice() {
        return Err(Error::Start(first.clone()));
    }
    let config = Arc::new(config);
    let awake = config.node.cpu_dma_latency.map(Awake::hold).transpose()?;
    let (events, hear) = bounded(EVENTS);
    let world = Arc::new(world(&config, events, wrap)?);
    let crews = Crews::start(&config.blueprint).map_err(|e| Error::Start(e.to_string()))?;
    let book = Book::new(config.limits.register.as_ref().and_then(|pool| crews.named(pool).cloned()));
    open_segments(&world, &book, &config.segments)?;
    let mut scratch = |bytes, access| {
        let region = Memory::allocate(bytes)
            .map_err(Error::from)
            .and_then(|memory| book.register(&world, memory, access));
        region.map(|region| region.id()).map_err(|e| e.to_string())
    };
    checksum::open_scratch(&config, &world, &mut scratch).map_err(Error::Start)?;
    let specs = catalog::specs(&config, &world)?.into_iter().zip(&config.stages);
    let specs = specs.map(|(spec, declared)| (wrap.stage)(&declared.name, spec)).collect();
    let graph = Graph::start_with(&config.blueprint, specs, Arc::new(Verdicts(world.clone())), crews);
    let graph = graph.map_err(|e| Error::Start(e.to_string()))?;
    if let Some(callers) = graph.callers() {
        world.step_by(callers.clone());
    }
    // Between the two: a link can only be dialled for halves that exist.
    world.seats.attach_all(&world.transports)?;
    let inlet = Arc::new(Entry(graph.inlet()));
    let client = Client::new(world.clone(), inlet, config.limits.deadline);
    // After the graph: control dials for seats that have opened their boxes.
    let control = Control::start(world.clone(), settings(&config)?, hear)?;
    control.pull_by(client.clone());
    Ok(Parts { world, config, client, graph: Arc::new(RwLock::new(graph)), control, book, awake })
}

/// The tables and transports of a node, sized by `[limits]`.
fn world(config: &Config, events: Sender<Event>, wrap: Wrap<'_>) -> Result<World, Error> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|e| Error::Start(format!("no random numbers: {e}")))?;
    // 0 stands for "never opened" in tables of peers.
    let incarnation = u64::from_le_bytes(random).max(1);
    let regions = Arc::new(Regions::new(size(config.limits.regions)));
    let mut transports = Vec::new();
    for declared in &config.transports {
        transports.push(TransportEntry {
            name: declared.name.clone(),
            kind: declared.kind.clone(),
            transport: (wrap.transport)(&declared.name, catalog::transport(declared, incarnation, &regions)?),
        });
    }
    Ok(World {
        name: config.node.name.clone(),
        incarnation,
        time: Time::default(),
        ledger: Arc::new(Ledger::new(Sizes::of(config), regions.clone())),
        regions,
        segments: SegmentTable::new(SEGMENTS),
        topology: Topology::of(config, &Sysfs::of_machine()),
        files: Desk::new(FILE_JOBS),
        transports,
        peers: Peers::new(size(config.limits.peers)),
        mail: PostOffice::default(),
        seats: Seats::default(),
        events,
        inbox: Inbox::new(size(config.limits.notices), size(config.limits.peers)),
        watchers: Watchers::default(),
        control: OnceLock::new(),
        callers: OnceLock::new(),
    })
}

fn size(limit: u64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

fn settings(config: &Config) -> Result<Settings, Error> {
    let key = config.auth_key_file.as_deref().map(SharedKey::from_file).transpose()?;
    Ok(Settings {
        listen: config.node.listen.clone(),
        advertise: config.node.advertise.clone(),
        key,
        names: config.peers.clone(),
        directory: config.directory.as_ref().map(crate::directory::settings).transpose()?,
        sessions: size(config.limits.peers),
        links: size(config.limits.links),
        idle: config.limits.silence,
        connect: config.limits.connect,
        backoff_max: config.limits.reconnect,
        rest_max: config.limits.rest,
        serves: !config.bystander,
        ..Settings::default()
    })
}

/// Makes the segments of the file: their regions, all registered at once, their names, and for a `dir` the folder behind it.
fn open_segments(world: &Arc<World>, book: &Book, segments: &[SegmentConfig]) -> Result<(), Error> {
    let mut memories = Vec::with_capacity(segments.len());
    for segment in segments {
        let (kind, bytes) = match &segment.kind {
            SegmentKind::Dram { size } => ("dram", *size),
            SegmentKind::Dir { buffer, .. } => ("dir", *buffer),
            SegmentKind::Cuda { .. } | SegmentKind::File { .. } => {
                return Err(Error::Start(format!(
                    "segment `{}` is of a kind that comes later",
                    segment.name
                )));
            }
        };
        // Of a folder this is the buffer that bytes of files pass through: peers read what they fetch, and write what they bring.
        let access = access(&segment.access);
        world.segments.create(&segment.name, kind)?;
        let memory = Memory::allocate(bytes)?;
        if let Some(node) = segment.numa
            && let Err(error) = memory.prefer_node(node)
        {
            tracing::warn!("segment `{}` lies where the system puts it: {error}", segment.name);
        }
        memories.push((memory, access));
    }
    let unregistered =
        |(at, e): (usize, Error)| Error::Start(format!("segment `{}`: {e}", segments[at].name));
    let regions = book.register_all(world, memories).map_err(unregistered)?;
    for (segment, region) in segments.iter().zip(regions) {
        if let Some(node) = segment.numa {
            world.topology.place(region.id(), Location::Cpu(node));
        }
        book.publish(world, &segment.name, region.id())?;
        if let SegmentKind::Dir { path, buffer, pull } = &segment.kind {
            let opened = Root::open(&segment.name, path, region.id(), *buffer, self::access(&segment.access));
            let why = |e: std::io::Error| {
                let next = match e.kind() {
                    std::io::ErrorKind::NotFound => format!("; make it: mkdir -p {}", path.display()),
                    _ => String::new(),
                };
                format!("segment `{}`: folder {}: {e}{next}", segment.name, path.display())
            };
            world.files.add(opened.map_err(|e| Error::Start(why(e)))?.pulling(*pull));
        }
    }
    Ok(())
}

fn access(word: &str) -> Access {
    match (access_allows(word, "read"), access_allows(word, "write")) {
        (true, true) => Access::ReadWrite,
        (true, false) => Access::Read,
        (false, true) => Access::Write,
        (false, false) => Access::Local,
    }
}

fn access_allows(word: &str, what: &str) -> bool {
    word.split('_').any(|part| part == what)
}

/// The graph's inlet, as the client wants it.
struct Entry(GraphInlet<Key>);

impl Inlet for Entry {
    fn workers(&self) -> usize {
        self.0.workers()
    }

    fn worker_of(&self, key: Key) -> usize {
        self.0.worker_of(key)
    }

    fn push_all(&self, keys: &[Key]) -> Result<(), SubmitError> {
        Ok(self.0.push_all(keys)?)
    }

    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    fn ring_for_room(&self, waker: &Waker) {
        self.0.ring_for_room(waker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of `access` mean what they say.
    #[test]
    fn access_words() {
        let words = ["read", "write", "read_write"].map(access);
        assert_eq!(words, [Access::Read, Access::Write, Access::ReadWrite]);
    }
}
