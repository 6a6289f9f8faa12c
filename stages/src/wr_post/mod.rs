//! `wr_post`: posts slices as work requests, from one list a link, as far as each link has room.
//! Deliberately never stopped by a busy link: its slices wait in its list and the others go on.

mod work;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crossbeam_channel::Receiver;
use pipeline_configs::{Facts, StageKind, Values};
use pipeline_graph::{
    Arming, BATCH, Batch, Context, Contract, Drained, Flow, Nanos, Outlet, Polled, PortId, Seat, Shape, Stage,
};
use pipeline_transports::{Flushed, LinkId, Post, Transport};

use crate::arming::ToGraph;
use crate::holding::Holding;
use crate::key::Key;
use crate::ledger::{Ledger, NIL};
use crate::links::Links;
use crate::list::List;
use crate::mail::{Half, Mail};
use crate::peer::LinkLife;
use crate::reason::StageIx;
use crate::seats::{self, Joined};
use crate::spec::{Making, ports};
use crate::stays::Stays;
use crate::wheel::Wheel;
use crate::world::{Own, World};
use work::{NO_LINK, RUN, Run, Work};

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
        work: Work::of(seat),
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
    /// It rests, and what waited for it was sent elsewhere. What comes since has nowhere else to go.
    rested: bool,
}

impl Lane {
    /// Whether it rests since the last look.
    fn begins_to_rest(&mut self) -> bool {
        let (rests, rested) = (self.life.is_resting(), self.rested);
        self.rested = rests;
        rests && !rested
    }
}

#[repr(align(128))]
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

impl WrPost {
    /// Adopts and aborts links. Whether there was mail.
    fn read_mail(&mut self) -> bool {
        let mut any = false;
        for (at, drive) in self.drives.iter_mut().enumerate() {
            drive.ready(&self.world);
            // A look at an empty box costs less than a try.
            while !drive.mail().is_empty()
                && let Ok(mail) = drive.mail().try_recv()
            {
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
                        let lane = Lane {
                            id,
                            drive: at,
                            life,
                            waiting: List::default(),
                            active: false,
                            rested: false,
                        };
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

    /// Takes slices in. What comes one after the other for one link, on which nothing waits, is handed over at once, as far
    /// as the link has room; all others go into its list. Until then they stay in `input`: should anything panic, those
    /// end by their keys that were neither handed over nor put into a list.
    fn take(&mut self, input: &Batch<Key>, now: Nanos) {
        let world = self.world.clone();
        let ledger = &*world.ledger;
        let (mut run, mut judged) = (Run::default(), (NIL, None));
        for key in input.iter() {
            let Some(slot) = ledger.live(key) else { continue };
            let (link, position, request) = (slot.link(), ledger.position(key), slot.request());
            if link != run.link || run.is_full() {
                self.hand_over(ledger, &mut run, now);
                if !self.begin(&mut run, link) {
                    self.adrift.push(ledger, position);
                    continue;
                }
            }
            if judged.0 != request {
                judged = (request, ledger.verdict(slot, now, self.stage));
            }
            match judged.1 {
                Some(code) => {
                    self.outstanding(run.index).map(|n| n.fetch_sub(1, Relaxed));
                    self.holding.doom(ledger, position, code);
                }
                None if run.room == 0 => self.wait(ledger, run.index, position, now),
                None => run.add(key),
            }
        }
        self.hand_over(ledger, &mut run, now);
    }

    /// Begins a run for a link; `false` if it is not known.
    fn begin(&mut self, run: &mut Run, link: LinkId) -> bool {
        run.link = NO_LINK;
        let mut index = self.links.find(link);
        if index.is_none() && self.read_mail() {
            index = self.links.find(link);
        }
        let Some((index, lane)) = index.and_then(|i| Some((i, self.links.get(i)?))) else { return false };
        let drive = &self.drives[lane.drive];
        // Those that wait go first, and what becomes of a dead link is the pump's.
        let is_free = lane.waiting.is_empty() && !lane.life.is_dead();
        let room = drive.half.as_ref().filter(|_| is_free).map_or(0, |half| half.room(link));
        (run.link, run.index) = (link, index);
        run.room = room.min(BATCH).min(drive.seat.shared.posted.room());
        true
    }

    fn outstanding(&mut self, index: u32) -> Option<&AtomicU32> {
        self.links.get(index).map(|lane| &lane.life.outstanding)
    }

    /// Puts a slice into the list of its link.
    fn wait(&mut self, ledger: &Ledger, index: u32, position: u32, now: Nanos) {
        let Some(lane) = self.links.get(index) else { return self.adrift.push(ledger, position) };
        lane.waiting.push(ledger, position);
        self.work.stays.begin(ledger.at(position), now);
        if !lane.active {
            lane.active = true;
            self.active.push(index);
        }
    }

    /// Hands a run over to its link. What that refuses waits.
    fn hand_over(&mut self, ledger: &Ledger, run: &mut Run, now: Nanos) {
        let (index, room) = (run.index, run.room);
        let keys = run.take();
        let Some(lane) = self.links.get(index).filter(|_| !keys.is_empty()) else { return };
        let drive = &mut self.drives[lane.drive];
        let Some(half) = &mut drive.half else { return };
        for key in keys {
            self.work.add(ledger, *key);
        }
        let taken = self.work.hand(ledger, lane, half.as_mut(), &drive.seat, now);
        drive.dirty |= taken > 0;
        self.work.stays.passed(taken);
        let left = if lane.waiting.is_empty() { room - keys.len() } else { 0 };
        if !lane.waiting.is_empty() && !lane.active {
            lane.active = true;
            self.active.push(index);
        }
        run.room = left;
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
            if lane.life.is_dead() || lane.begins_to_rest() {
                let (holding, adrift) = (&mut self.holding, &mut self.adrift);
                cast_adrift(&self.world.ledger, lane, holding, adrift, &self.work.stays, now);
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

    /// Whether anything moved.
    fn flush(&mut self, now: Nanos) -> bool {
        let mut any = false;
        for drive in self.drives.iter_mut().filter(|d| d.dirty) {
            let flushed = drive.half.as_mut().map_or(Flushed::All, |half| half.flush(now));
            drive.dirty = flushed != Flushed::All;
            any |= flushed != Flushed::Stuck;
        }
        any
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
        while work.len() < room
            && let Some(position) = lane.waiting.pop(ledger)
        {
            holding.let_go(ledger, position);
            work.stays.end(ledger.at(position), now);
            work.add(ledger, ledger.key_at(position));
        }
        let n = work.len();
        let taken = work.hand(ledger, lane, half, seat, now);
        any |= taken > 0;
        if taken < n || n == 0 {
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

/// A link has died, or rests: what waited for it goes to `retry`.
fn cast_adrift(
    ledger: &Ledger,
    lane: &mut Lane,
    holding: &mut Holding,
    adrift: &mut List,
    stays: &Stays,
    now: Nanos,
) {
    while let Some(position) = lane.waiting.pop(ledger) {
        holding.let_go(ledger, position);
        stays.end(ledger.at(position), now);
        lane.life.end(1, ledger.at(position).len());
        adrift.push(ledger, position);
    }
}

impl Stage<Key> for WrPost {
    fn run(&mut self, input: &mut Batch<Key>, out: &mut Outlet<Key>, cx: &mut Context) -> Flow {
        self.take(input, cx.now);
        input.clear();
        // Only posted: the poll of this turn flushes, so that what other batches bring goes along.
        self.pump(cx.now);
        self.dismiss(out);
        Flow::Done
    }

    fn poll(&mut self, out: &mut Outlet<Key>, cx: &mut Context) -> Polled {
        let world = self.world.clone();
        let mut any = self.read_mail();
        let (links, stays) = (&mut self.links, &self.work.stays);
        self.holding.doom_overdue(&world.ledger, cx.now, |position| {
            let slot = world.ledger.at(position);
            stays.end(slot, cx.now);
            if let Some(lane) = links.find(slot.link()).and_then(|i| links.get(i)) {
                lane.waiting.remove(&world.ledger, position);
                lane.life.end(1, slot.len());
            }
        });
        any |= self.pump(cx.now);
        any |= self.flush(cx.now);
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
        if let Some(first) = self.work.handed().next() {
            let link = ledger.at(ledger.position(first)).link();
            let drive = self.links.find(link).and_then(|i| self.links.get(i)).map(|lane| lane.drive);
            if let Some(shared) = drive.map(|d| &self.drives[d].seat.shared) {
                shared.posted.publish(self.work.handed(), 0);
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
