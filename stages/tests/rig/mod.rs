//! A node in miniature for tests of whole pipelines: a real file, a real graph, and links dialled by hand.
//! Deliberately without control: peers, views and links are what a test says.
#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up shall say so and stop")]

pub mod null;
pub mod tally;
pub mod trip;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker as TaskWaker};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use pipeline_configs::{Config, TransportConfig, load_str};
use pipeline_graph::{Engine, Spec, Time};
use pipeline_stages::faults::Verdicts;
use pipeline_stages::files::Desk;
use pipeline_stages::ledger::{Ledger, Sizes};
use pipeline_stages::mail::{Event, Half, Mail, PostOffice};
use pipeline_stages::notices::Inbox;
use pipeline_stages::peer::{LinkLife, LinkRef, PeerId, PeerState, PeerView, RegionView, SegmentView};
use pipeline_stages::peer_events::Watchers;
use pipeline_stages::peers::Peers;
use pipeline_stages::seats::Seats;
use pipeline_stages::segments::SegmentTable;
use pipeline_stages::topology::{Sysfs, Topology};
use pipeline_stages::world::TransportEntry;
use pipeline_stages::{Client, Key, Remote, World, catalog};
use pipeline_transports::control::Control;
use pipeline_transports::transport::BoxFuture;
use pipeline_transports::{
    Access, Error, LinkId, Memory, Nanos, NicId, PairId, Path, RegionId, Regions, Transport, transport,
};

/// Numbers that no two rigs of a process share.
static NUMBERS: AtomicU64 = AtomicU64::new(0x5eed_0001);

pub fn number() -> u64 {
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// A target: memory that transports of this process can reach.
pub struct Target {
    pub regions: Arc<Regions>,
    pub incarnation: u64,
    pub transports: Vec<Arc<dyn Transport>>,
    pub view: PeerView,
}

/// How regions of a segment are laid out: lengths, and what peers may do.
pub fn target(config: &Config, lens: &[u64], access: Access) -> Target {
    let (regions, incarnation) = (Arc::new(Regions::new(lens.len().max(64))), number());
    let transports: Vec<Arc<dyn Transport>> =
        config.transports.iter().map(|t| catalog::transport(t, incarnation, &regions).unwrap()).collect();
    let (mut start, mut views) = (0, Vec::new());
    for &len in lens {
        let id = regions.add(Memory::allocate(len).unwrap(), access).unwrap();
        views.push(RegionView { id, start, len, access });
        start += len;
    }
    let segment = SegmentView { name: "kv".into(), kind: "dram".into(), len: start, regions: views };
    let view = PeerView {
        name: "target".into(),
        incarnation,
        offers: transports.iter().map(|t| t.offer()).collect(),
        segments: vec![Arc::new(segment)],
        ..PeerView::default()
    };
    Target { regions, incarnation, transports, view }
}

/// The whole node.
pub struct Rig {
    pub config: Arc<Config>,
    pub world: Arc<World>,
    pub engine: Option<Engine<Key>>,
    pub client: Client,
    pub events: Receiver<Event>,
}

pub const INLINE: &str = r#"
[pools]
one = { threads = 1, wait = { spin = "10us", yield = "50us", park = "1s" } }
[stages]
admit  = { type = "admit", pool = "one" }
split  = { type = "request_split", pool = "one", slice = "SLICE" }
route  = { type = "protocol_route", pool = "one" }
select = { type = "nic_select", pool = "one" }
post   = { type = "wr_post", pool = "one" }
reap   = { type = "cq_reap", pool = "one" }
retry  = { type = "retry", pool = "one", attempts = 5, backoff = "1ms" }
notify = { type = "completion_notify" }
[edges]
"submit -> admit" = { queue = 64, dispatch = "any" }
"admit -> split -> route -> select -> post" = "inline"
"reap -> notify"  = "inline"
"*.retry -> retry" = "inline"
"retry -> select" = "return"
"*.failed -> notify" = "inline"
"#;

pub const QUEUES: &str = r#"
[pools]
front = { threads = 2, wait = { spin = "0us", yield = "20us", park = "1s" } }
cut   = { threads = 1, wait = { spin = "0us", yield = "20us", park = "1s" } }
pick  = { threads = 1, wait = { spin = "0us", yield = "20us", park = "1s" } }
nic   = { per = "nic", threads = 2, wait = { spin = "0us", yield = "20us", park = "1s" } }
back  = { per = "nic", threads = 2, wait = { spin = "0us", yield = "20us", park = "1s" } }
[stages]
admit  = { type = "admit", pool = "front", spread = 8 }
split  = { type = "request_split", pool = "cut", slice = "SLICE" }
route  = { type = "protocol_route", pool = "pick" }
select = { type = "nic_select", pool = "pick" }
post   = { type = "wr_post", pool = "nic" }
reap   = { type = "cq_reap", pool = "back" }
retry  = { type = "retry", pool = "back", attempts = 5, backoff = "1ms" }
notify = { type = "completion_notify" }
[edges]
"submit -> admit" = { queue = 64, dispatch = "hash" }
"admit -> split"  = { queue = 16, dispatch = "any" }
"split -> route"  = { queue = 8, dispatch = "any" }
"route -> select" = "inline"
"select -> post"  = { queue = 4, dispatch = "owner" }
"reap -> notify"  = "inline"
"reap.retry -> retry" = "inline"
"post.retry -> retry" = { queue = 4, dispatch = "any" }
"retry -> select" = "return"
"*.failed -> notify" = "inline"
"#;

/// Thread-per-core: so many workers, each with all stages; a request stays where it came in.
pub const PER_CORE: &str = r#"
[pools]
core = { threads = WORKERS, wait = { spin = "10us", yield = "50us", park = "1s" } }
[stages]
admit  = { type = "admit", pool = "core" }
split  = { type = "request_split", pool = "core", slice = "SLICE" }
route  = { type = "protocol_route", pool = "core" }
select = { type = "nic_select", pool = "core" }
post   = { type = "wr_post", pool = "core" }
reap   = { type = "cq_reap", pool = "core" }
retry  = { type = "retry", pool = "core", attempts = 200, backoff = "10us" }
notify = { type = "completion_notify" }
[edges]
"submit -> admit" = { queue = 64, dispatch = "hash" }
"admit -> split -> route -> select -> post" = "inline"
"reap -> notify"  = "inline"
"*.retry -> retry" = "inline"
"retry -> select" = { return = true, dispatch = "owner" }
"*.failed -> notify" = "inline"
"#;

/// A file of one transport, a model, limits and a slice size.
pub fn file(transport: &str, model: &str, limits: &str, slice: &str) -> Arc<Config> {
    let text = format!(
        "version = 1\n[node]\nname = \"n\"\n[limits]\n{limits}\n[transports.mem]\n{transport}\n{}",
        model.replace("SLICE", slice)
    );
    match load_str("rig.toml", &text, &catalog::catalog(), &pipeline_configs::Options::default()) {
        Ok(loaded) => Arc::new(loaded.config),
        Err(findings) => panic!("{findings}\n{text}"),
    }
}

/// What the stages of a node share, over transports that a test makes itself; and what they tell control.
pub fn world(
    config: &Config,
    make: impl Fn(&TransportConfig, u64, &Arc<Regions>) -> Arc<dyn Transport>,
) -> (Arc<World>, Receiver<Event>) {
    world_in(config, Time::default(), make)
}

/// As before, in this time.
pub fn world_in(
    config: &Config,
    time: Time,
    make: impl Fn(&TransportConfig, u64, &Arc<Regions>) -> Arc<dyn Transport>,
) -> (Arc<World>, Receiver<Event>) {
    let (regions, incarnation) = (Arc::new(Regions::new(64)), number());
    let (events, received) = bounded(1024);
    let entry = |t: &TransportConfig| TransportEntry {
        name: t.name.clone(),
        kind: t.kind.clone(),
        transport: make(t, incarnation, &regions),
    };
    let world = Arc::new(World {
        name: config.node.name.clone(),
        incarnation,
        time: time.clone(),
        transports: config.transports.iter().map(entry).collect(),
        ledger: Arc::new(Ledger::new(Sizes::of(config), regions.clone()).timed_by(time)),
        regions,
        segments: SegmentTable::new(8),
        files: Desk::new(1),
        topology: Topology::of(config, &Sysfs::silent()),
        peers: Peers::new(config.limits.peers as usize),
        mail: PostOffice::default(),
        seats: Seats::default(),
        events,
        inbox: Inbox::new(4, 8),
        watchers: Watchers::default(),
        control: OnceLock::new(),
        callers: OnceLock::new(),
    });
    (world, received)
}

impl Rig {
    pub fn start(config: &Arc<Config>) -> Self {
        Self::start_over(config, |t, incarnation, regions| {
            catalog::transport(t, incarnation, regions).unwrap()
        })
    }

    /// Over transports that a test makes itself.
    pub fn start_over(
        config: &Arc<Config>,
        make: impl Fn(&TransportConfig, u64, &Arc<Regions>) -> Arc<dyn Transport>,
    ) -> Self {
        Self::start_around(config, make, |_, spec| spec)
    }

    /// Also around each stage, by its name.
    pub fn start_around(
        config: &Arc<Config>,
        make: impl Fn(&TransportConfig, u64, &Arc<Regions>) -> Arc<dyn Transport>,
        around: impl Fn(&str, Arc<dyn Spec<Key>>) -> Arc<dyn Spec<Key>>,
    ) -> Self {
        let (world, events) = world(config, make);
        let specs = catalog::specs(config, &world).unwrap().into_iter().zip(&config.blueprint.stages);
        let specs = specs.map(|(spec, stage)| around(&stage.name, spec)).collect();
        let faults = Arc::new(Verdicts(world.clone()));
        let engine = Engine::start(&config.blueprint, specs, faults).unwrap();
        world.seats.attach_all(&world.transports).unwrap();
        let client = Client::new(world.clone(), Arc::new(engine.inlet()), config.limits.deadline);
        Self { config: config.clone(), world, engine: Some(engine), client, events }
    }

    /// Knows a peer, without any link.
    pub fn meet(&self, label: &str, target: &Target) -> PeerId {
        let id = self.world.peers.intern(label).unwrap();
        let peer = self.world.peers.get(id).unwrap();
        peer.view.store(Arc::new(target.view.clone()));
        peer.set_state(PeerState::Up);
        self.world.peers.changed();
        id
    }

    /// Dials one link a pair of each NIC to a peer that it has met.
    pub fn link(&self, id: PeerId, target: &Target) -> Vec<LinkId> {
        self.link_those(id, target, |_| true)
    }

    /// As before, of one NIC of each transport.
    pub fn link_on(&self, id: PeerId, target: &Target, nic: u16) -> Vec<LinkId> {
        self.link_those(id, target, |at| at == nic)
    }

    fn link_those(&self, id: PeerId, target: &Target, nics: impl Fn(u16) -> bool) -> Vec<LinkId> {
        let pairs = self.pairs().filter(|(_, nic, _)| nics(*nic));
        let dial = |place| dial_on(&self.world, &target.view, place).expect("its stages run");
        let links: Vec<LinkRef> = pairs.map(dial).collect();
        let ids = links.iter().map(|l| l.id).collect();
        self.publish(id, links);
        ids
    }

    /// As control: forgets links that have closed, and dials those that are missing. A seat whose stage is being built
    /// anew takes none: it is dialled at the next call.
    pub fn relink(&self, id: PeerId, target: &Target) {
        let closed = |event| if let Event::LinkClosed(link, _) = event { Some(link) } else { None };
        let closed: Vec<LinkId> = self.events.try_iter().filter_map(closed).collect();
        let mut links: Vec<LinkRef> = self.world.peers.get(id).unwrap().links.load().to_vec();
        let before = links.len();
        links.retain(|link| !closed.contains(&link.id));
        let mut changed = links.len() < before;
        for (at, nic, pair) in self.pairs() {
            if links.iter().all(|l| (l.transport, l.nic, l.pair) != (at, NicId(nic), PairId(pair)))
                && let Some(link) = dial_on(&self.world, &target.view, (at, nic, pair))
            {
                links.push(link);
                changed = true;
            }
        }
        if changed {
            self.publish(id, links);
        }
    }

    /// Transports, NICs and pairs.
    fn pairs(&self) -> impl Iterator<Item = (u16, u16, u16)> + '_ {
        let nics = self.config.transports.iter().enumerate();
        let nics = nics.flat_map(|(at, t)| (0..t.nics.len() as u16).map(move |nic| (at as u16, nic)));
        let pairs =
            |(at, nic)| (0..self.world.mail.pairs(Half::Post, at, nic)).map(move |pair| (at, nic, pair));
        nics.flat_map(pairs)
    }

    fn publish(&self, id: PeerId, links: Vec<LinkRef>) {
        let peer = self.world.peers.get(id).unwrap();
        peer.links.store(Arc::new(links));
        peer.set_state(PeerState::Up);
        self.world.peers.changed();
    }

    /// A local region of `len` bytes, counted up from `seed`.
    pub fn memory(&self, len: u64, seed: u8) -> RegionId {
        let mut memory = Memory::allocate(len).unwrap();
        memory.write(0, &pattern(len, seed)).unwrap();
        self.world.regions.add(memory, Access::Local).unwrap()
    }

    pub fn remote(&self, peer: PeerId, target: &Target, offset: u64) -> Remote {
        Remote { peer, incarnation: target.incarnation, segment: 0, offset }
    }

    /// Waits until slots, windows and batches are all back; fails after ten seconds.
    pub fn all_back(&self) {
        let by = Instant::now() + Duration::from_secs(10);
        loop {
            let usage = self.world.ledger.usage();
            if usage.is_idle() && self.world.ledger.window.is_idle() {
                return;
            }
            assert!(Instant::now() < by, "not all came back: {usage:?}");
            std::thread::yield_now();
        }
    }
}

/// Dials a link for a pair of the first NIC of a node: see [`dial_on`].
pub fn dial(world: &World, view: &PeerView, transport: u16, pair: u16) -> Option<LinkRef> {
    dial_on(world, view, (transport, 0, pair))
}

/// Dials a link for a pair of a node, and hands its ends over; `None` if the other side cannot be reached, and where a
/// seat takes no links now.
pub fn dial_on(world: &World, view: &PeerView, (transport, nic, pair): (u16, u16, u16)) -> Option<LinkRef> {
    let path = Path {
        link: LinkId(number()),
        nic: NicId(nic),
        pair: PairId(pair),
        lane: 0,
        peer: view.name.clone(),
        address: ([127, 0, 0, 1], 1).into(),
        addresses: Default::default(),
        session: transport::SessionId([0; 16]),
        incarnation: view.incarnation,
        avoid: Vec::new(),
    };
    let (at, by) = (usize::from(transport), world.time.now() + 1_000_000_000);
    let link = now(world.transports[at].transport.dial(&path, &view.offers[at], &mut NoControl, by)).ok()?;
    let nics = world.transports[at].transport.nics().len();
    let (life, mail) = (Arc::new(LinkLife::to(view).among(nics)), &world.mail);
    // In this order: what is posted on a link that its reaper has not heard of belongs to one that is gone.
    for (half, end) in [(Half::Reap, link.reap), (Half::Post, link.post)] {
        let adopt = Mail::Adopt { end: end.unwrap(), life: life.clone() };
        if mail.post((half, transport, nic, pair), adopt).is_err() {
            let _ = mail.post((Half::Reap, transport, nic, pair), Mail::Abort(path.link));
            return None;
        }
    }
    let post_worker = mail.worker((Half::Post, transport, nic, pair)).unwrap();
    let (id, nic, pair) = (path.link, path.nic, path.pair);
    Some(LinkRef { id, transport, nic, remote_nic: link.remote_nic, pair, post_worker, life })
}

pub fn pattern(len: u64, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add((i >> 8) as u8).wrapping_add(seed)).collect()
}

/// What a region holds.
pub fn bytes(regions: &Regions, id: RegionId, offset: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    regions.read_shared(id, offset, &mut bytes).unwrap();
    bytes
}

struct NoControl;

impl Control for NoControl {
    fn exchange<'a>(&'a mut self, _: &'a [u8], _: Nanos) -> BoxFuture<'a, Result<Vec<u8>, Error>> {
        unreachable!("transports within a process ask for nothing")
    }
}

/// The value of a future that waits for nothing.
fn now<T>(mut future: BoxFuture<'_, T>) -> T {
    match future.as_mut().poll(&mut Context::from_waker(TaskWaker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a dial within a process does not wait"),
    }
}
