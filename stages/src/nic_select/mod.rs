//! `nic_select`: chooses the link of a slice: of those to its peer over its transport the live one with least work
//! outstanding; where the transport has several NICs, first the NIC, by the policy ([`spread`]). Where `wr_post` follows inline it is one of this worker's own links, because nobody else could post on it.
//! Slices without a link wait here, by peer, and control is asked for one.
//! Deliberately never stopped by one destination: a slice whose ring is full waits and the others go on. WRITEs and
//! READs wait apart: no WRITE goes to a peer where a dead link may still write, but READs do.

mod costs;
mod mix;
mod policy;
mod reach;
mod several;
mod spread;
mod stretch;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use arc_swap::Guard;
use pipeline_configs::{Facts, StageKind, Values};
use pipeline_graph::{
    Arming, Batch, Context, Contract, Drained, Flow, Nanos, Outlet, Polled, PortId, Seat, Shape, Stage,
};
use pipeline_transports::Op;

use crate::holding::Holding;
use crate::key::Key;
use crate::ledger::Slot;
use crate::list::List;
use crate::mail::Event;
use crate::peer::{LinkRef, Peer, PeerId, PeerState};
use crate::reason::{Code, Reason, StageIx};
use crate::spec::{Making, ports};
use crate::stays::Stays;
use crate::world::{Own, World};
use mix::{Lanes, Mix};
use reach::Reach;
pub(crate) use several::next;
use spread::Spread;

/// Its entry in the catalogue.
pub const KIND: StageKind = StageKind {
    name: "nic_select",
    summary: "Chooses the link of a slice.",
    keys: policy::KEYS,
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
    let chooser = Chooser {
        waiting: (0..2 * peers).map(|_| Waiting::default()).collect(),
        ring: VecDeque::with_capacity(2 * peers),
        holding: Holding::new(&world.ledger, world.time.now(), making.ix()),
        stays: Stays::of(seat),
        mixes: vec![Mix::default(); peers].into(),
        now: 0,
        reach: Reach::of(&making.config, making.stage, seat),
        several: making.config.transports.iter().map(|t| t.nics.len() > 1).collect(),
        spread: Spread::of(&making.config, making.values()),
        stage: making.ix(),
    };
    Ok(Box::new(Select { world, chooser }))
}

/// A peer and a direction: what waits there is in one list.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Way(usize);

impl Way {
    fn of(slot: Slot) -> Self {
        Self(2 * slot.peer().0 as usize + usize::from(slot.op() == Op::Write))
    }

    fn peer(self) -> PeerId {
        PeerId((self.0 / 2) as u32)
    }
}

/// Slices of one peer and direction that could not go on.
#[derive(Clone, Copy, Default)]
struct Waiting {
    slices: List,
    /// The peer's version (plus one) at which the first of them found no link; 0: it found no room.
    barren: u64,
    /// The version (plus one) at which control was asked for a link.
    asked: u64,
}

/// The stage: what it looks at, and apart from that what it works with.
#[repr(align(128))]
struct Select {
    world: Own,
    chooser: Chooser,
}

struct Chooser {
    stage: StageIx,
    /// Whose links it may choose.
    reach: Reach,
    waiting: Box<[Waiting]>,
    /// Ways on which slices wait; each once.
    ring: VecDeque<Way>,
    holding: Holding,
    /// How long slices wait for a link, or for room.
    stays: Stays,
    /// What goes to each peer.
    mixes: Box<[Mix]>,
    /// Which transports have NICs to choose from.
    several: Box<[bool]>,
    /// The choice among those.
    spread: Spread,
    /// As of this run or poll.
    now: Nanos,
}

/// What came of one slice.
enum Placed {
    /// It is on its way.
    Sent,
    /// Every link's ring is full.
    NoRoom,
    /// No live link, as of this version (plus one).
    NoLink(u64),
    /// A WRITE, and dead links may still write there, as of this version (plus one).
    Unfenced(u64),
    /// It cannot be sent at all.
    Failed(Reason),
}

/// A peer as one run sees it: looked at once for all of its slices.
struct Sight {
    peer: PeerId,
    /// Version plus one, from before the rest was looked at: a change after that makes it look old.
    version: u64,
    incarnation: u64,
    unfenced: bool,
    state: PeerState,
    /// Borrowed, not counted: the count lies on a line that all workers would write.
    links: Guard<Arc<Vec<LinkRef>>>,
}

impl Sight {
    fn of(peer: PeerId, target: &Peer) -> Self {
        let version = target.version.load(Acquire) + 1;
        let view = target.view.load();
        let (incarnation, unfenced) = (view.incarnation, view.unfenced.links() > 0);
        Self { peer, version, incarnation, unfenced, state: target.state(), links: target.links.load() }
    }

    /// The sight of a peer: the last one, if it was of that peer.
    #[inline]
    fn at<'a>(world: &World, last: &'a mut Option<Self>, peer: PeerId) -> Option<&'a Self> {
        if last.as_ref().is_none_or(|sight| sight.peer != peer) {
            *last = world.peers.get(peer).map(|target| Self::of(peer, target));
        }
        last.as_ref()
    }
}

impl Chooser {
    fn holds_nothing(&self) -> bool {
        self.ring.is_empty() && self.holding.is_empty()
    }

    /// Places a slice; `sight` is the peer of the last one, and of the next ones as a rule.
    fn place(
        &mut self,
        world: &World,
        sight: &mut Option<Sight>,
        key: Key,
        slot: Slot,
        share: Lanes,
        out: &mut Outlet<Key>,
    ) -> Placed {
        let Some(sight) = Sight::at(world, sight, slot.peer()) else {
            return Placed::Failed(Reason::PeerGone);
        };
        let request = world.ledger.request(slot.request());
        if sight.incarnation != request.incarnation.load(Relaxed) {
            return Placed::Failed(Reason::StalePeer);
        }
        let Some(transport) = slot.transport() else { return Placed::Failed(Reason::NoRoute) };
        let placed = match sight.unfenced && slot.op() == Op::Write {
            true => Placed::Unfenced(sight.version),
            false if self.has_several(transport) => {
                self.send_several(world, sight, transport, (key, slot), share, out)
            }
            false => send(self.reach, &sight.links, transport, key, slot, share, out),
        };
        match placed {
            Placed::NoLink(_) | Placed::Unfenced(_) if sight.state == PeerState::Down => {
                Placed::Failed(Reason::PeerGone)
            }
            Placed::NoLink(_) => Placed::NoLink(sight.version),
            placed => placed,
        }
    }

    /// Asks control for a link, once a version of the peer. A full channel is tried again at the next look.
    fn ask(&mut self, world: &World, slot: Slot, version: u64) {
        let (peer, way) = (slot.peer(), Way::of(slot));
        let (Some(waiting), Some(transport)) = (self.waiting.get_mut(way.0), slot.transport()) else {
            return;
        };
        if waiting.asked != version && world.tell(Event::Want { peer, transport }) {
            waiting.asked = version;
        }
    }

    /// Takes in one slice.
    fn take(
        &mut self,
        world: &World,
        sight: &mut Option<Sight>,
        key: Key,
        slot: Slot,
        out: &mut Outlet<Key>,
    ) {
        let (way, position) = (Way::of(slot), world.ledger.position(key));
        let queued = self.waiting.get(way.0).is_some_and(|w| !w.slices.is_empty());
        // Those that wait go first.
        let lanes = self.lanes(key, slot);
        let placed = match queued {
            true => Placed::NoRoom,
            false => self.place(world, sight, key, slot, lanes, out),
        };
        match placed {
            Placed::Sent => self.stays.passed(1),
            Placed::Failed(reason) => self.fail(world, position, slot, reason),
            Placed::NoRoom | Placed::NoLink(_) | Placed::Unfenced(_) => {
                let waiting = &mut self.waiting[way.0];
                if waiting.slices.is_empty() {
                    self.ring.push_back(way);
                    waiting.barren = 0;
                }
                waiting.slices.push(&world.ledger, position);
                self.holding.hold(&world.ledger, position);
                self.stays.begin(slot, self.now);
                if let Placed::NoLink(version) | Placed::Unfenced(version) = placed {
                    waiting.barren = version;
                    self.ask(world, slot, version);
                }
            }
        }
    }

    fn lanes(&mut self, key: Key, slot: Slot) -> Lanes {
        let is_small = stretch::is_small(key, slot);
        self.mixes.get_mut(slot.peer().0 as usize).map_or(Lanes::All, |mix| mix.lanes(is_small, self.now))
    }

    fn fail(&mut self, world: &World, position: u32, slot: Slot, reason: Reason) {
        if reason == Reason::PeerGone {
            // The next one may find it back.
            let version = world.peers.get(slot.peer()).map_or(0, |p| p.version.load(Acquire) + 1);
            self.ask(world, slot, version);
        }
        self.holding.doom(&world.ledger, position, Code::new(reason, self.stage));
    }

    /// Sends what waits on one way, as far as it goes. Whether any went.
    fn send_waiting(&mut self, world: &World, way: Way, out: &mut Outlet<Key>) -> bool {
        let Some(target) = world.peers.get(way.peer()) else { return false };
        let (mut any, mut sight) = (false, None);
        while let Some(position) = self.waiting[way.0].slices.head() {
            let barren = self.waiting[way.0].barren;
            let slot = world.ledger.at(position);
            if barren != 0 && barren == target.version.load(Acquire) + 1 {
                self.ask(world, slot, barren);
                break;
            }
            let key = world.ledger.key_at(position);
            // Out of the wheel and the list first: once sent it may be anywhere.
            self.holding.grasp(key);
            self.waiting[way.0].slices.remove(&world.ledger, position);
            self.holding.let_go(&world.ledger, position);
            let (lanes, stamp) = (self.lanes(key, slot), slot.take_stamp());
            let placed = self.place(world, &mut sight, key, slot, lanes, out);
            self.holding.let_loose();
            if let (Placed::Sent | Placed::Failed(_), Some(stamp)) = (&placed, stamp) {
                self.stays.told(stamp, self.now);
            }
            match placed {
                Placed::Sent => {
                    self.waiting[way.0].barren = 0;
                    any = true;
                }
                Placed::Failed(reason) => {
                    self.fail(world, position, slot, reason);
                    any = true;
                }
                not_yet => {
                    let waiting = &mut self.waiting[way.0];
                    waiting.slices.push_front(&world.ledger, position);
                    self.holding.hold(&world.ledger, position);
                    stamp.into_iter().for_each(|stamp| slot.stamp(stamp));
                    waiting.barren = match not_yet {
                        Placed::NoLink(version) | Placed::Unfenced(version) => version,
                        _ => 0,
                    };
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

/// The live links over a transport that a slice may take: those that do not rest, if there are any.
#[inline]
fn live(reach: Reach, links: &[LinkRef], transport: u16) -> impl Iterator<Item = &LinkRef> {
    let lives = move |l: &&LinkRef| l.transport == transport && reach.has(l) && !l.life.is_dead();
    let all_rest = links.iter().filter(lives).all(|l| l.life.is_resting());
    links.iter().filter(move |l| lives(l) && (all_rest || !l.life.is_resting()))
}

/// Of some links the one with least work outstanding.
#[inline]
fn least<'a>(links: impl Iterator<Item = &'a LinkRef>) -> Option<&'a LinkRef> {
    links.min_by_key(|l| l.life.outstanding.load(Relaxed))
}

/// Chooses among the links, and pushes.
fn send(
    reach: Reach,
    links: &[LinkRef],
    transport: u16,
    key: Key,
    slot: Slot,
    lanes: Lanes,
    out: &mut Outlet<Key>,
) -> Placed {
    let live = || live(reach, links, transport);
    let Some(first) = live().next().map(|l| l.id) else { return Placed::NoLink(0) };
    let lanes = if lanes != Lanes::All && live().nth(1).is_none() { Lanes::All } else { lanes };
    let suits = |l: &&LinkRef| lanes == Lanes::All || (l.id == first) == (lanes == Lanes::First);
    let Some(best) = least(live().filter(suits)) else { return Placed::NoLink(0) };
    // Where the best has no room, any other that has some will do.
    for link in std::iter::once(best).chain(live().filter(suits).filter(|l| l.id != best.id)) {
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
    fn run(&mut self, input: &mut Batch<Key>, out: &mut Outlet<Key>, cx: &mut Context) -> Flow {
        let Self { world, chooser } = self;
        let mut sight = None;
        chooser.now = cx.now;
        while let Some(key) = input.peek() {
            let went = chooser.send_stretch(world, &mut sight, input, out);
            input.skip(went);
            chooser.stays.passed(went);
            if went == 0 {
                // It has to wait, it fails, or it goes where the others did not.
                if let Some(slot) = world.ledger.live(key) {
                    chooser.take(world, &mut sight, key, slot, out);
                }
                input.pop();
            }
        }
        chooser.holding.bury(&world.ledger, out, FAILED);
        if chooser.holds_nothing() { Flow::Rests } else { Flow::Done }
    }

    fn poll(&mut self, out: &mut Outlet<Key>, cx: &mut Context) -> Polled {
        let Self { world, chooser } = self;
        chooser.now = cx.now;
        let (waiting, stays) = (&mut chooser.waiting, &chooser.stays);
        chooser.holding.doom_overdue(&world.ledger, cx.now, |position| {
            let slot = world.ledger.at(position);
            waiting[Way::of(slot).0].slices.remove(&world.ledger, position);
            stays.end(slot, cx.now);
        });
        let mut any = false;
        for _ in 0..chooser.ring.len() {
            let Some(way) = chooser.ring.pop_front() else { break };
            any |= chooser.send_waiting(world, way, out);
            if !chooser.waiting[way.0].slices.is_empty() {
                chooser.ring.push_back(way);
            }
        }
        any |= chooser.holding.bury(&world.ledger, out, FAILED);
        match any {
            true => Polled::Busy,
            false if chooser.holds_nothing() => Polled::Resting,
            false => Polled::Idle,
        }
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        self.chooser.holding.arm(&self.world.ledger, on);
        let changed = |way: &Way| {
            let version = |peer: &Arc<Peer>| peer.version.load(Acquire) + 1;
            let barren = self.chooser.waiting[way.0].barren;
            barren != 0 && self.world.peers.get(way.peer()).is_some_and(|peer| version(peer) != barren)
        };
        if self.chooser.ring.iter().any(changed) {
            on.busy();
        }
    }

    fn drain(&mut self, _: &mut Outlet<Key>, _: &mut Context) -> Drained {
        match self.chooser.holding.len() {
            0 => Drained::Empty,
            n => Drained::Holds(n),
        }
    }
}
