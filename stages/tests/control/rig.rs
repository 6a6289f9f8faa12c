//! A node without a graph: a world, its control pool, and one thread that drives the transports' halves and
//! the file jobs as the stages would.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use pipeline_graph::{Time, Waker};
use pipeline_stages::World;
use pipeline_stages::control::{Control, Settings};
use pipeline_stages::files::{Desk, Job};
use pipeline_stages::ledger::{Ledger, Sizes};
use pipeline_stages::mail::{Event, Half, Mail};
use pipeline_stages::notices::Inbox;
use pipeline_stages::peer::{Peer, PeerId};
use pipeline_stages::peer_events::Watchers;
use pipeline_stages::peers::Peers;
use pipeline_stages::segments::SegmentTable;
use pipeline_stages::topology::Topology;
use pipeline_stages::world::TransportEntry;
use pipeline_transports::loopback::{Loopback, LoopbackSettings};
use pipeline_transports::tcp::{Settings as TcpSettings, TcpTransport};
use pipeline_transports::{
    Completions, Halves, Nanos, NicId, PairId, Regions, Transport, Waker as Bell, Wakes, clock,
};

/// See the module.
pub struct Rig {
    pub world: Arc<World>,
    pub control: Control,
    stop: Arc<AtomicBool>,
    driver: Option<JoinHandle<()>>,
}

/// Which transports a node declares.
#[derive(Clone, Copy, PartialEq)]
pub enum With {
    Nothing,
    Tcp,
    Both,
}

pub fn settings() -> Settings {
    Settings { idle: Duration::from_secs(5), connect: Duration::from_secs(3), ..Settings::default() }
}

pub fn by(seconds: u64) -> Nanos {
    clock::now() + seconds * 1_000_000_000
}

/// Waits for a condition; a test that waits longer than ten seconds has failed.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(10), "never happened: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn world(name: &str, with: With) -> (Arc<World>, Receiver<Event>) {
    let incarnation = u64::from_le_bytes(
        pipeline_transports::control::handshake::new_session().unwrap().0[..8].try_into().unwrap(),
    );
    let regions = Arc::new(Regions::new(16));
    let mut transports = Vec::new();
    if with == With::Both {
        let loopback = Loopback::new(LoopbackSettings::default(), incarnation, regions.clone()).unwrap();
        let transport: Arc<dyn Transport> = Arc::new(loopback);
        transports.push(TransportEntry { name: "loopback".into(), kind: "loopback".into(), transport });
    }
    if with != With::Nothing {
        let transport: Arc<dyn Transport> =
            Arc::new(TcpTransport::new("wire", TcpSettings::default(), regions.clone()));
        transports.push(TransportEntry { name: "wire".into(), kind: "tcp".into(), transport });
    }
    let sizes = Sizes {
        requests: 4,
        slices: 64,
        batches: 4,
        peers: 8,
        notices: 4,
        bytes_in_flight: 1 << 20,
        peer_share_percent: 25,
        shards: 1,
        parts: 1,
        timed: true,
    };
    let (events, hear) = bounded(64);
    let world = World {
        name: name.to_owned(),
        incarnation,
        time: Time::default(),
        segments: SegmentTable::new(64),
        files: Desk::new(64),
        transports,
        topology: Topology::default(),
        peers: Peers::new(8),
        ledger: Arc::new(Ledger::new(sizes, regions.clone())),
        regions,
        mail: Default::default(),
        seats: Default::default(),
        events,
        inbox: Inbox::new(4, 8),
        watchers: Watchers::default(),
        control: Default::default(),
        callers: Default::default(),
    };
    (Arc::new(world), hear)
}

impl Rig {
    pub fn new(name: &str, with: With, settings: Settings) -> Self {
        let (world, events) = world(name, with);
        Self::over(world, events, settings)
    }

    pub fn over(world: Arc<World>, events: Receiver<Event>, settings: Settings) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (told, hear) = bounded(1);
        let (inner, stopped) = (world.clone(), stop.clone());
        let driver = std::thread::spawn(move || drive(&inner, &stopped, &told));
        hear.recv().unwrap();
        let control = Control::start(world.clone(), settings, events).unwrap();
        Self { world, control, stop, driver: Some(driver) }
    }

    pub fn address(&self) -> String {
        self.control.local_address().to_string()
    }

    pub fn peer(&self, id: PeerId) -> Arc<Peer> {
        self.world.peers.get(id).unwrap().clone()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.control.close();
        self.stop.store(true, Ordering::Relaxed);
        if let Some(driver) = self.driver.take() {
            driver.join().unwrap();
        }
    }
}

struct Seat {
    halves: Halves,
    boxes: [Receiver<Mail>; 3],
}

fn drive(world: &Arc<World>, stop: &AtomicBool, told: &crossbeam_channel::Sender<()>) {
    let me = std::thread::current();
    let mut seats: Vec<Seat> =
        (0..world.transports.len()).map(|t| seat(world, t as u16, me.clone())).collect();
    let jobs = world.files.attend(bell(me));
    told.send(()).unwrap();
    let (mut done, mut scratch) = (Completions::with_capacity(64), vec![0; 10_000]);
    while !stop.load(Ordering::Relaxed) {
        for seat in &mut seats {
            step(world, seat, &mut done);
        }
        jobs.try_iter().for_each(|job: Job| job(&mut scratch));
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

fn bell(thread: Thread) -> Waker {
    Waker::new(move || thread.unpark())
}

fn seat(world: &World, t: u16, thread: Thread) -> Seat {
    let open = |half| world.mail.open((half, t, 0, 0), 3, 64, bell(thread.clone()));
    let boxes = [open(Half::Post), open(Half::Reap), open(Half::Serve)];
    let ring = Bell::new(move || thread.unpark());
    let wakes = Wakes { post: ring.clone(), reap: ring.clone(), serve: ring };
    let halves = world.transports[t as usize].transport.attach(NicId(0), PairId(0), wakes).unwrap();
    Seat { halves, boxes }
}

fn step(world: &World, seat: &mut Seat, done: &mut Completions) {
    let Halves { post, reap, serve } = &mut seat.halves;
    for mail in seat.boxes[0].try_iter() {
        if let Mail::Adopt { end, .. } = mail {
            post.adopt(end);
        }
    }
    for mail in seat.boxes[1].try_iter() {
        match mail {
            Mail::Adopt { end, .. } => reap.adopt(end),
            Mail::Abort(link) | Mail::Bereaved { link, .. } => reap.abort(link),
        }
    }
    for mail in seat.boxes[2].try_iter() {
        match (mail, serve.as_mut()) {
            (Mail::Adopt { end, .. }, Some(serve)) => serve.adopt(end),
            (Mail::Abort(link) | Mail::Bereaved { link, .. }, Some(serve)) => serve.fence(link),
            _ => {}
        }
    }
    let now = clock::now();
    post.flush(now);
    reap.reap(now, done);
    if let Some(serve) = serve {
        serve.step(now, 64);
        while let Some(link) = serve.closed() {
            let _ = world.events.send(Event::LaneClosed(link));
            world.control.get().unwrap().wake();
        }
    }
    for link in done.closed() {
        // Control may be closed already.
        let _ = world.events.send(Event::LinkClosed(*link, None));
        world.control.get().unwrap().wake();
    }
    done.clear();
}
