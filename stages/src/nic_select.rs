//! `nic_select`: chooses the link of a slice: of those to its peer over its transport the live one with least work
//! outstanding. Slices without a link wait here, by peer, and control is asked for one.
//! Deliberately never stopped by one destination: a slice whose ring is full waits and the others go on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use pipeline_configs::schema::Change;
use pipeline_configs::{Facts, Kind, StageKind, Values};
use pipeline_graph::{
    Arming, Batch, Context, Contract, Drained, Flow, Outlet, Polled, PortId, Seat, Shape, Stage,
};

use crate::holding::Holding;
use crate::key::Key;
use crate::ledger::Slot;
use crate::list::List;
use crate::mail::Event;
use crate::peer::{LinkRef, Peer, PeerId, PeerState};
use crate::reason::{Code, Reason, StageIx};
use crate::spec::{Making, ports};
use crate::world::{Own, World};

/// Its entry in the catalogue.
pub const KIND: StageKind = StageKind {
    name: "nic_select",
    summary: "Chooses the link of a slice.",
    keys: &[pipeline_configs::Key {
        name: "policy",
        kind: Kind::Word(&["topology"]),
        default: Some("topology"),
        required: false,
        doc: "How it chooses; topology: the nearest NIC; among equals the live link with least work outstanding.",
        change: Change::Live,
        ..pipeline_configs::Key::PLAIN
    }],
    shape,
    later: None,
};

const OUT: PortId = PortId(0);
const FAILED: PortId = PortId(1);

fn shape(_: &Values, _: &Facts) -> Shape {
    Shape {
        ports: ports(&[("out", true), ("failed", false)]),
        contract: Contract { holds: true, polls: true, ..Contract::default() },
    }
}

pub(crate) fn build(making: &Making, seat: &Seat) -> Result<Box<dyn Stage<Key>>, String> {
    let world = making.own();
    let peers = making.config.limits.peers as usize;
    world.peers.watch(seat.waker.clone());
    world.ledger.holders.add(seat.waker.clone());
    Ok(Box::new(Select {
        waiting: (0..peers).map(|_| Waiting::default()).collect(),
        ring: VecDeque::with_capacity(peers),
        holding: Holding::new(&world.ledger, making.ix()),
        stage: making.ix(),
        world,
    }))
}

/// Slices of one peer that could not go on.
#[derive(Clone, Copy, Default)]
struct Waiting {
    slices: List,
    /// The peer's version (plus one) at which the first of them found no link; 0: it found no room.
    barren: u64,
    /// The version (plus one) at which control was asked for a link.
    asked: u64,
}

struct Select {
    world: Own,
    stage: StageIx,
    waiting: Box<[Waiting]>,
    /// Peers for which slices wait; each once.
    ring: VecDeque<u32>,
    holding: Holding,
}

/// What came of one slice.
enum Placed {
    /// It is on its way.
    Sent,
    /// Every link's ring is full.
    NoRoom,
    /// No live link, as of this version (plus one).
    NoLink(u64),
    /// It cannot be sent at all.
    Failed(Reason),
}

/// A peer as one run sees it: looked at once for all of its slices.
struct Sight {
    peer: PeerId,
    /// Version plus one, from before the rest was looked at: a change after that makes it look old.
    version: u64,
    incarnation: u64,
    state: PeerState,
    links: Arc<Vec<LinkRef>>,
}

impl Sight {
    fn of(peer: PeerId, target: &Peer) -> Self {
        let version = target.version.load(Acquire) + 1;
        let incarnation = target.view.load().incarnation;
        Self { peer, version, incarnation, state: target.state(), links: target.links.load_full() }
    }
}

impl Select {
    /// Places a slice; `sight` is the peer of the last one, and of the next ones as a rule.
    fn place(
        world: &World,
        sight: &mut Option<Sight>,
        key: Key,
        slot: &Slot,
        out: &mut Outlet<Key>,
    ) -> Placed {
        let peer = slot.peer();
        if sight.as_ref().is_none_or(|s| s.peer != peer) {
            *sight = world.peers.get(peer).map(|target| Sight::of(peer, target));
        }
        let Some(sight) = sight else { return Placed::Failed(Reason::PeerGone) };
        let request = world.ledger.request(slot.request());
        if sight.incarnation != request.incarnation.load(Relaxed) {
            return Placed::Failed(Reason::StalePeer);
        }
        let Some(transport) = slot.transport() else { return Placed::Failed(Reason::NoRoute) };
        match send(&sight.links, transport, key, slot, out) {
            Placed::NoLink(_) if sight.state == PeerState::Down => Placed::Failed(Reason::PeerGone),
            Placed::NoLink(_) => Placed::NoLink(sight.version),
            placed => placed,
        }
    }

    /// Asks control for a link, once a version of the peer. A full channel is tried again at the next look.
    fn ask(&mut self, peer: PeerId, transport: Option<u16>, version: u64) {
        let (Some(waiting), Some(transport)) = (self.waiting.get_mut(peer.0 as usize), transport) else {
            return;
        };
        if waiting.asked != version && self.world.tell(Event::Want { peer, transport }) {
            waiting.asked = version;
        }
    }

    /// Takes in one slice.
    fn take(
        &mut self,
        world: &World,
        sight: &mut Option<Sight>,
        key: Key,
        slot: &Slot,
        out: &mut Outlet<Key>,
    ) {
        let (peer, position) = (slot.peer(), world.ledger.position(key));
        let queued = self.waiting.get(peer.0 as usize).is_some_and(|w| !w.slices.is_empty());
        // Those that wait go first.
        let placed = if queued { Placed::NoRoom } else { Self::place(world, sight, key, slot, out) };
        match placed {
            Placed::Sent => {}
            Placed::Failed(reason) => self.fail(position, peer, slot, reason),
            Placed::NoRoom | Placed::NoLink(_) => {
                let waiting = &mut self.waiting[peer.0 as usize];
                if waiting.slices.is_empty() {
                    self.ring.push_back(peer.0);
                    waiting.barren = 0;
                }
                waiting.slices.push(&world.ledger, position);
                self.holding.hold(&world.ledger, position);
                if let Placed::NoLink(version) = placed {
                    waiting.barren = version;
                    self.ask(peer, slot.transport(), version);
                }
            }
        }
    }

    fn fail(&mut self, position: u32, peer: PeerId, slot: &Slot, reason: Reason) {
        if reason == Reason::PeerGone {
            // The next one may find it back.
            let version = self.world.peers.get(peer).map_or(0, |p| p.version.load(Acquire) + 1);
            self.ask(peer, slot.transport(), version);
        }
        self.holding.doom(&self.world.ledger, position, Code::new(reason, self.stage));
    }

    /// Sends what waits for one peer, as far as it goes. Whether any went.
    fn send_waiting(&mut self, peer: PeerId, out: &mut Outlet<Key>) -> bool {
        let world = self.world.clone();
        let Some(target) = world.peers.get(peer) else { return false };
        let (mut any, mut sight) = (false, None);
        while let Some(position) = self.waiting[peer.0 as usize].slices.head() {
            let barren = self.waiting[peer.0 as usize].barren;
            let slot = world.ledger.at(position);
            if barren != 0 && barren == target.version.load(Acquire) + 1 {
                self.ask(peer, slot.transport(), barren);
                break;
            }
            let key = world.ledger.key_at(position);
            // Out of the wheel and the list first: once sent it may be anywhere.
            self.waiting[peer.0 as usize].slices.remove(&world.ledger, position);
            self.holding.let_go(&world.ledger, position);
            match Self::place(&world, &mut sight, key, slot, out) {
                Placed::Sent => {
                    self.waiting[peer.0 as usize].barren = 0;
                    any = true;
                }
                Placed::Failed(reason) => {
                    self.fail(position, peer, slot, reason);
                    any = true;
                }
                not_yet => {
                    let waiting = &mut self.waiting[peer.0 as usize];
                    waiting.slices.push_front(&world.ledger, position);
                    self.holding.hold(&world.ledger, position);
                    waiting.barren = if let Placed::NoLink(version) = not_yet { version } else { 0 };
                    sight = None;
                    if waiting.barren == 0 {
                        break;
                    }
                }
            }
        }
        any
    }
}

/// Chooses among the links, and pushes.
fn send(links: &[LinkRef], transport: u16, key: Key, slot: &Slot, out: &mut Outlet<Key>) -> Placed {
    let live = || links.iter().filter(|l| l.transport == transport && !l.life.is_dead());
    let Some(best) = live().min_by_key(|l| l.life.outstanding.load(Relaxed)) else {
        return Placed::NoLink(0);
    };
    // Where the best has no room, any other that has some will do.
    for link in std::iter::once(best).chain(live().filter(|l| l.id != best.id)) {
        // `room` asks for the slice's owner, hence first the link.
        slot.set_link(link.id, link.post_worker);
        if out.room(OUT, key) > 0 {
            // Counted before it is pushed: the one that takes it off may be faster.
            link.life.outstanding.fetch_add(1, Relaxed);
            // Room was asked for.
            let _ = out.push(OUT, key);
            return Placed::Sent;
        }
    }
    Placed::NoRoom
}

impl Stage<Key> for Select {
    fn run(&mut self, input: &mut Batch<Key>, out: &mut Outlet<Key>, _: &mut Context) -> Flow {
        let (world, mut sight) = (self.world.clone(), None);
        while let Some(key) = input.peek() {
            if let Some(slot) = world.ledger.live(key) {
                self.take(&world, &mut sight, key, slot, out);
            }
            input.pop();
        }
        self.holding.bury(&world.ledger, out, FAILED);
        Flow::Done
    }

    fn poll(&mut self, out: &mut Outlet<Key>, cx: &mut Context) -> Polled {
        let world = self.world.clone();
        let waiting = &mut self.waiting;
        self.holding.doom_overdue(&world.ledger, cx.now, |position| {
            let peer = world.ledger.at(position).peer();
            waiting[peer.0 as usize].slices.remove(&world.ledger, position);
        });
        let mut any = false;
        for _ in 0..self.ring.len() {
            let Some(peer) = self.ring.pop_front() else { break };
            any |= self.send_waiting(PeerId(peer), out);
            if !self.waiting[peer as usize].slices.is_empty() {
                self.ring.push_back(peer);
            }
        }
        any |= self.holding.bury(&world.ledger, out, FAILED);
        if any { Polled::Busy } else { Polled::Idle }
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        self.holding.arm(&self.world.ledger, on);
        let changed = |p: &u32| {
            let version = |peer: &Arc<Peer>| peer.version.load(Acquire) + 1;
            let barren = self.waiting[*p as usize].barren;
            barren != 0 && self.world.peers.get(PeerId(*p)).is_some_and(|peer| version(peer) != barren)
        };
        if self.ring.iter().any(changed) {
            on.busy();
        }
    }

    fn drain(&mut self, _: &mut Outlet<Key>, _: &mut Context) -> Drained {
        match self.holding.len() {
            0 => Drained::Empty,
            n => Drained::Holds(n),
        }
    }
}
