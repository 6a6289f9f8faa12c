//! `wr_post`: posts slices as work requests, from one list a link, as far as each link has room.
//! Deliberately never stopped by a busy link: its slices wait in its list and the others go on.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crossbeam_channel::Receiver;
use pipeline_configs::{Facts, StageKind, Values};
use pipeline_graph::{
    Arming, Batch, Context, Contract, Drained, Flow, Nanos, Outlet, Polled, PortId, Seat, Shape, Stage,
};
use pipeline_transports::{Flushed, LinkId, Op, Post, RegionId, Span, Transport, WorkRequest, WrId};

use crate::arming::ToGraph;
use crate::holding::Holding;
use crate::key::Key;
use crate::ledger::{Ledger, Phase, Slot};
use crate::links::Links;
use crate::list::List;
use crate::mail::{Half, Mail};
use crate::peer::LinkLife;
use crate::reason::StageIx;
use crate::seats::{self, Joined};
use crate::spec::{Making, ports};
use crate::wheel::Wheel;
use crate::world::{Own, World};

/// Its entry in the catalogue.
pub const KIND: StageKind = StageKind {
    name: "wr_post",
    summary: "Posts slices to their links.",
    keys: &[seats::TRANSPORTS],
    shape,
    later: None,
};

const FAILED: PortId = PortId(0);
const RETRY: PortId = PortId(1);

/// Work requests handed over in one call.
const RUN: usize = 64;
const NOWHERE: Span = Span { region: RegionId(0), offset: 0, key: 0 };
const BLANK: WorkRequest = WorkRequest { id: WrId(0), op: Op::Read, local: NOWHERE, remote: NOWHERE, len: 0 };

fn shape(_: &Values, _: &Facts) -> Shape {
    Shape {
        ports: ports(&[("failed", false), ("retry", false)]),
        contract: Contract {
            sink: true,
            holds: true,
            polls: true,
            waits_for: vec!["credits"],
            ..Contract::default()
        },
    }
}

pub(crate) fn build(making: &Making, seat: &Seat) -> Result<Box<dyn Stage<Key>>, String> {
    let world = making.own();
    world.ledger.holders.add(seat.waker.clone());
    let join = |place| {
        let joined = world.seats.join(&world.mail, Half::Post, place, seat, making.box_size);
        let transport = world.transports[usize::from(joined.place.0)].transport.clone();
        Drive::new(joined, transport)
    };
    let drives = seats::places(making, seat).into_iter().map(join).collect();
    let links = making.config.limits.links as usize;
    Ok(Box::new(WrPost {
        drives,
        links: Links::with_capacity(links),
        active: Vec::with_capacity(links),
        holding: Holding::new(&world.ledger, world.time.now(), making.ix()),
        adrift: List::default(),
        work: Work { requests: Box::new([BLANK; RUN]), handed: 0 },
        stage: making.ix(),
        world,
    }))
}

/// One post half, with what belongs to it.
struct Drive {
    transport: Arc<dyn Transport>,
    half: Option<Box<dyn Post>>,
    joined: bool,
    seat: Joined,
    /// Something was posted and not wholly flushed.
    dirty: bool,
}

impl Drive {
    fn new(seat: Joined, transport: Arc<dyn Transport>) -> Self {
        Self { transport, half: None, joined: false, seat, dirty: false }
    }

    /// Takes the half, at the first look: by then all of its pair's stages have been built. One that could not be
    /// made is tried again when somebody needs it.
    fn ready(&mut self, world: &World) {
        if self.half.is_none() && (!self.joined || !self.seat.mail.is_empty()) {
            self.joined = true;
            self.half = world.seats.post(self.seat.place, &*self.transport);
        }
    }

    fn mail(&self) -> &Receiver<Mail> {
        &self.seat.mail
    }
}

/// One link.
struct Lane {
    id: LinkId,
    drive: usize,
    life: Arc<LinkLife>,
    waiting: List,
    /// Whether it is in [`WrPost::active`].
    active: bool,
}

struct WrPost {
    world: Own,
    stage: StageIx,
    drives: Vec<Drive>,
    links: Links<Lane>,
    /// Links with slices waiting.
    active: Vec<u32>,
    holding: Holding,
    /// Slices whose link is gone: they leave by the port `retry`.
    adrift: List,
    work: Work,
}

/// What is handed over in one call.
struct Work {
    requests: Box<[WorkRequest; RUN]>,
    /// How many the transport has been given and not answered for: more than 0 only if it panicked.
    handed: usize,
}

impl WrPost {
    /// Adopts and aborts links. Whether there was mail.
    fn read_mail(&mut self) -> bool {
        let mut any = false;
        for (at, drive) in self.drives.iter_mut().enumerate() {
            drive.ready(&self.world);
            while let Ok(mail) = drive.mail().try_recv() {
                any = true;
                match mail {
                    Mail::Adopt { end, life } => {
                        let id = end.id;
                        let Some(half) = &mut drive.half else {
                            // Dropped here, its end tells the reaper; nobody may choose it meanwhile.
                            life.dead.store(true, Relaxed);
                            continue;
                        };
                        // Links that died while nothing waited for them are noticed by nobody else.
                        self.links.retain(|lane| lane.active || !lane.life.is_dead());
                        let lane = Lane { id, drive: at, life, waiting: List::default(), active: false };
                        self.links.insert(id, lane);
                        half.adopt(end);
                    }
                    // The reap half aborts; here it only takes nothing more.
                    Mail::Abort(id) | Mail::Bereaved { link: id, .. } => {
                        if let Some(lane) = self.links.find(id).and_then(|i| self.links.get(i)) {
                            lane.life.dead.store(true, Relaxed);
                        }
                    }
                }
            }
        }
        any
    }

    fn take(&mut self, world: &World, key: Key, slot: &Slot, now: Nanos) {
        let (ledger, position) = (&*world.ledger, world.ledger.position(key));
        let mut found = self.links.find(slot.link());
        if found.is_none() && self.read_mail() {
            found = self.links.find(slot.link());
        }
        let Some((index, lane)) = found.and_then(|i| Some((i, self.links.get(i)?))) else {
            return self.adrift.push(ledger, position);
        };
        if let Some(code) = ledger.verdict(slot, now, self.stage) {
            lane.life.outstanding.fetch_sub(1, Relaxed);
            return self.holding.doom(ledger, position, code);
        }
        lane.waiting.push(ledger, position);
        if !lane.active {
            lane.active = true;
            self.active.push(index);
        }
    }

    /// Posts what links have room for. Whether anything moved.
    fn pump(&mut self, now: Nanos) -> bool {
        let mut any = false;
        let mut at = 0;
        while at < self.active.len() {
            let index = self.active[at];
            let Some(lane) = self.links.get(index) else {
                self.active.swap_remove(at);
                continue;
            };
            let drive = &mut self.drives[lane.drive];
            if lane.life.is_dead() {
                cast_adrift(&self.world.ledger, lane, &mut self.holding, &mut self.adrift);
                any = true;
            } else if let Some(half) = &mut drive.half {
                let (holding, work) = (&mut self.holding, &mut self.work);
                let posted = post(&self.world.ledger, lane, half.as_mut(), &drive.seat, holding, work, now);
                drive.dirty |= posted;
                any |= posted;
            }
            if lane.waiting.is_empty() {
                lane.active = false;
                let gone = lane.life.is_dead().then_some(lane.id);
                self.active.swap_remove(at);
                gone.and_then(|id| self.links.remove(id));
            } else {
                watch(&self.world.ledger, lane, &mut self.holding);
                at += 1;
            }
        }
        any
    }

    fn flush(&mut self, now: Nanos) {
        for drive in self.drives.iter_mut().filter(|d| d.dirty) {
            drive.dirty = drive.half.as_mut().is_some_and(|half| half.flush(now) == Flushed::Partly);
        }
    }

    /// Lets those go that must end, and those whose link is gone.
    fn dismiss(&mut self, out: &mut Outlet<Key>) -> bool {
        let ledger = &*self.world.ledger;
        let mut any = self.holding.bury(ledger, out, FAILED);
        while let Some(position) = self.adrift.head() {
            let key = ledger.key_at(position);
            if out.room(RETRY, key) == 0 {
                break;
            }
            self.holding.grasp(key);
            self.adrift.remove(ledger, position);
            // Room was asked for.
            let _ = out.push(RETRY, key);
            self.holding.let_loose();
            any = true;
        }
        any
    }
}

/// Posts one link's slices as far as it has room. Whether any was taken.
fn post(
    ledger: &Ledger,
    lane: &mut Lane,
    half: &mut dyn Post,
    seat: &Joined,
    holding: &mut Holding,
    work: &mut Work,
    now: Nanos,
) -> bool {
    let mut any = false;
    while !lane.waiting.is_empty() {
        let room = half.room(lane.id).min(RUN).min(seat.shared.posted.room());
        let (mut n, mut earliest) = (0, Nanos::MAX);
        while n < room {
            let Some(position) = lane.waiting.pop(ledger) else { break };
            holding.let_go(ledger, position);
            let slot = ledger.at(position);
            // Posted under a new key: whoever still has the one that brought it, as a batch does after a panic, must not
            // take it for its own when it comes back from the transport, on another worker.
            let Some(key) = ledger.post(ledger.key_at(position)) else { continue };
            work.requests[n] = slot.work(key);
            earliest = earliest.min(slot.deadline());
            n += 1;
        }
        if n == 0 {
            break;
        }
        work.handed = n;
        let taken = half.post(now, lane.id, &work.requests[..n]).taken.min(n);
        work.handed = 0;
        for refused in work.requests[taken..n].iter().rev() {
            let key = Key::from_raw(refused.id.0);
            ledger.at(ledger.position(key)).step(key.generation(), Phase::Posted, Phase::Live);
            lane.waiting.push_front(ledger, ledger.position(key));
        }
        let keys = work.requests[..taken].iter().map(|w| Key::from_raw(w.id.0));
        if seat.shared.posted.publish(keys, earliest) {
            seat.shared.ring(Half::Reap);
        }
        seat.shared.end_unreaped(ledger);
        any |= taken > 0;
        if taken < n {
            break;
        }
    }
    any
}

/// Watches the deadlines of those that have to wait: the youngest are not watched yet.
fn watch(ledger: &Ledger, lane: &Lane, holding: &mut Holding) {
    lane.waiting.backwards(ledger, |position| {
        let fresh = !Wheel::holds(ledger, position);
        if fresh {
            holding.hold(ledger, position);
        }
        fresh
    });
}

/// A link has died: what waited for it goes to `retry`.
fn cast_adrift(ledger: &Ledger, lane: &mut Lane, holding: &mut Holding, adrift: &mut List) {
    while let Some(position) = lane.waiting.pop(ledger) {
        holding.let_go(ledger, position);
        lane.life.outstanding.fetch_sub(1, Relaxed);
        adrift.push(ledger, position);
    }
}

impl Stage<Key> for WrPost {
    fn run(&mut self, input: &mut Batch<Key>, out: &mut Outlet<Key>, cx: &mut Context) -> Flow {
        let world = self.world.clone();
        while let Some(key) = input.peek() {
            if let Some(slot) = world.ledger.live(key) {
                self.take(&world, key, slot, cx.now);
            }
            input.pop();
        }
        // Only posted: the poll of this turn or the next one flushes, so that what other batches bring goes along.
        self.pump(cx.now);
        self.dismiss(out);
        Flow::Done
    }

    fn poll(&mut self, out: &mut Outlet<Key>, cx: &mut Context) -> Polled {
        let world = self.world.clone();
        let mut any = self.read_mail();
        let links = &mut self.links;
        self.holding.doom_overdue(&world.ledger, cx.now, |position| {
            let link = world.ledger.at(position).link();
            if let Some(lane) = links.find(link).and_then(|i| links.get(i)) {
                lane.waiting.remove(&world.ledger, position);
                lane.life.outstanding.fetch_sub(1, Relaxed);
            }
        });
        any |= self.pump(cx.now);
        self.flush(cx.now);
        any |= self.dismiss(out);
        if any { Polled::Busy } else { Polled::Idle }
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        self.holding.arm(&self.world.ledger, on);
        let waits = !self.active.is_empty();
        for drive in &mut self.drives {
            if let Some(half) = &mut drive.half {
                half.arm(&mut ToGraph(on));
            }
            // Reap empties the ring whenever it looks; nobody rings for it.
            if waits && drive.seat.shared.posted.room() == 0 {
                drive.seat.shared.ring(Half::Reap);
                on.busy();
            }
            if !drive.mail().is_empty() {
                on.busy();
            }
        }
    }

    fn drain(&mut self, _: &mut Outlet<Key>, _: &mut Context) -> Drained {
        match self.holding.len() + self.adrift.len() {
            0 => Drained::Empty,
            n => Drained::Holds(n),
        }
    }
}

/// A panicking `wr_post` takes its links along: the reap halves are told to abort them. What waited ends here; what was
/// being handed over when it panicked may be in the transport's hands, and so is the reaper's to end.
impl Drop for WrPost {
    fn drop(&mut self) {
        let Some(code) = self.holding.epitaph() else { return };
        let (ledger, office) = (&*self.world.ledger, &self.world.mail);
        // Before anything ends: some of it may have begun.
        for lane in self.links.each() {
            lane.life.die_with_its_stage(self.drives[lane.drive].transport.caps().fenced);
        }
        if let [first, ..] = &self.work.requests[..self.work.handed] {
            let link = ledger.at(ledger.position(Key::from_raw(first.id.0))).link();
            let drive = self.links.find(link).and_then(|i| self.links.get(i)).map(|lane| lane.drive);
            let handed = self.work.requests[..self.work.handed].iter().map(|w| Key::from_raw(w.id.0));
            if let Some(shared) = drive.map(|d| &self.drives[d].seat.shared) {
                shared.posted.publish(handed, 0);
                shared.end_unreaped(ledger);
            }
        }
        let reaper = |seat: &Joined| seat.id(Half::Reap);
        for lane in self.links.each() {
            // A box that is closed or full means that reap is gone as well.
            let _ =
                office.post(reaper(&self.drives[lane.drive].seat), Mail::Bereaved { link: lane.id, code });
            while let Some(position) = lane.waiting.pop(ledger) {
                self.holding.let_go(ledger, position);
                ledger.abandon(position, code);
            }
        }
        for drive in &self.drives {
            office.close(drive.seat.id(Half::Post));
            for letter in drive.mail().try_iter() {
                if let Mail::Adopt { end, life } = letter {
                    life.dead.store(true, Relaxed);
                    let _ = office.post(reaper(&drive.seat), Mail::Bereaved { link: end.id, code });
                }
            }
        }
        self.adrift.abandon(ledger, code);
    }
}
