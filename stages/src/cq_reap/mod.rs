//! `cq_reap`: collects completions and says what each means; watches the deadlines of posted slices and takes them
//! back from their transport. Deliberately the only place where a posted slice becomes the engine's again.

mod done;
mod fencing;
mod orphans;
mod verdict;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use pipeline_configs::{Facts, StageKind, Values};
use pipeline_graph::{
    Arming, BATCH, Batch, Context, Contract, Drained, Flow, Nanos, Outlet, Polled, PortId, Seat, Shape, Stage,
};
use pipeline_transports::{
    Blame, Cancelled, Completion, Completions, LinkId, Op, Outcome, Reap, Transport, WrId,
};

use crate::arming::ToGraph;
use crate::holding::Holding;
use crate::key::Key;
use crate::ledger::Phase;
use crate::links::Links;
use crate::list::List;
use crate::mail::{Event, Half, Mail};
use crate::peer::LinkLife;
use crate::reason::{Code, Reason, StageIx};
use crate::seats::{self, Joined};
use crate::spec::{Making, ports};
use crate::stays::Stays;
use crate::topology::speeds::Gauge;
use crate::world::{Own, World};
use fencing::Fencing;
use verdict::{Stop, Verdict, judge, note};

/// Its entry in the catalogue.
pub const KIND: StageKind = StageKind {
    name: "cq_reap",
    summary: "Collects completions and watches the deadlines of posted slices.",
    keys: &[seats::TRANSPORTS],
    shape,
    later: None,
};

const OUT: PortId = PortId(0);
const FAILED: PortId = PortId(1);
const RETRY: PortId = PortId(2);

/// How long until a slice is looked at again whose completion is on its way.
const AGAIN_NS: Nanos = 20_000_000;
/// How long a cancelled WRITE of which bytes have left may still be answered before its link is aborted.
const RESPITE_NS: Nanos = 100_000_000;

/// As often at most a look that brought whole batches leaves what was posted unwatched.
const UNWATCHED_MAX: u32 = 8;

fn shape(_: &Values, _: &Facts) -> Shape {
    Shape {
        ports: ports(&[("out", true), ("failed", false), ("retry", false)]),
        contract: Contract {
            source: true,
            holds: true,
            polls: true,
            gives: vec!["credits"],
            ..Contract::default()
        },
    }
}

pub(crate) fn build(making: &Making, seat: &Seat) -> Result<Box<dyn Stage<Key>>, String> {
    let world = making.own();
    world.ledger.holders.add(seat.waker.clone());
    let links = making.config.limits.links as usize;
    let join = |place| {
        let seat = world.seats.join(&world.mail, Half::Reap, place, seat, making.box_size);
        let transport = world.transports[usize::from(seat.place.0)].transport.clone();
        let completions = Completions::with_capacity(BATCH);
        let fenced = transport.caps().fenced;
        // With one NIC there is nothing to choose by its speed.
        let speeds = Some(world.topology.speeds(seat.place.0)).filter(|speeds| speeds.len() > 1);
        let gauge = speeds.and_then(|s| s.get(usize::from(seat.place.1))).cloned().map(Gauge::new);
        Drive {
            transport,
            fenced,
            half: None,
            joined: false,
            seat,
            completions,
            next: 0,
            gauge,
            done_bytes: 0,
        }
    };
    Ok(Box::new(CqReap {
        drives: seats::places(making, seat).into_iter().map(join).collect(),
        first: 0,
        links: Links::with_capacity(links),
        closed: Vec::with_capacity(links),
        holding: Holding::new(&world.ledger, world.time.now(), making.ix()),
        stays: Stays::of(seat),
        fencing: Fencing::default(),
        again: List::default(),
        overdue: Vec::new(),
        more: false,
        unwatched: 0,
        stage: making.ix(),
        world,
    }))
}

/// One reap half, with what belongs to it.
struct Drive {
    transport: Arc<dyn Transport>,
    /// Nothing of a dead link of it touches the target.
    fenced: bool,
    half: Option<Box<dyn Reap>>,
    joined: bool,
    seat: Joined,
    completions: Completions,
    /// The first completion that was not delivered.
    next: usize,
    /// How fast its NIC is, where there are several, and bytes that it has not been told of.
    gauge: Option<Gauge>,
    done_bytes: u64,
}

impl Drive {
    fn ready(&mut self, world: &World) {
        // One that could not be made is tried again when somebody needs it.
        if self.half.is_none() && (!self.joined || !self.seat.mail.is_empty()) {
            self.joined = true;
            self.half = world.seats.reap(self.seat.place, &*self.transport);
        }
    }
}

/// One link.
struct Lane {
    id: LinkId,
    drive: usize,
    life: Arc<LinkLife>,
    /// We killed it: what it takes along is not to blame.
    aborted: bool,
    /// Its poster panicked while it handed slices over: how those end that the transport did not know of.
    bereaved: Option<Code>,
}

#[repr(align(128))]
struct CqReap {
    world: Own,
    stage: StageIx,
    drives: Vec<Drive>,
    first: usize,
    links: Links<Lane>,
    /// Closed links that control was not told of, because its channel was full, and who is to blame.
    closed: Vec<(LinkId, Option<Blame>)>,
    holding: Holding,
    /// How long transports have slices; of those that wait for a fence, how long for that.
    stays: Stays,
    /// Slices whose link must be fenced first.
    fencing: Fencing,
    /// Those whose link is: they leave by the port `retry`.
    again: List,
    /// For the moment in which what was cancelled is looked at.
    overdue: Vec<u32>,
    /// The last look brought all that it could: there may be more.
    more: bool,
    /// Looks since what was posted has been watched.
    unwatched: u32,
}

impl CqReap {
    fn read_mail(&mut self) -> bool {
        let mut any = false;
        for (at, drive) in self.drives.iter_mut().enumerate() {
            drive.ready(&self.world);
            // A look at an empty box costs less than a try.
            while !drive.seat.mail.is_empty()
                && let Ok(mail) = drive.seat.mail.try_recv()
            {
                any = true;
                let Some(half) = &mut drive.half else {
                    if let Mail::Adopt { end, life } = mail {
                        life.dead.store(true, Relaxed);
                        self.closed.push((end.id, None));
                    }
                    continue;
                };
                let bereaved = if let Mail::Bereaved { code, .. } = mail { Some(code) } else { None };
                match mail {
                    Mail::Adopt { end, life } => {
                        let id = end.id;
                        self.links.insert(id, Lane { id, drive: at, life, aborted: false, bereaved: None });
                        half.adopt(end);
                    }
                    Mail::Abort(id) | Mail::Bereaved { link: id, .. } => {
                        if let Some(lane) = self.links.find(id).and_then(|i| self.links.get(i)) {
                            lane.aborted = true;
                            lane.bereaved = lane.bereaved.or(bereaved);
                            lane.life.dead.store(true, Relaxed);
                            half.abort(id);
                        }
                    }
                }
            }
        }
        any
    }

    /// Watches what was posted since the last look. What has completed meanwhile is known by its phase, and
    /// what was posted again by its generation: neither is watched twice.
    fn watch_posted(&mut self) {
        let (ledger, mut strays, mut known) = (&*self.world.ledger, false, None);
        let (holding, links) = (&mut self.holding, &mut self.links);
        for drive in &self.drives {
            drive.seat.shared.posted.wake();
            drive.seat.shared.posted.take_all(|key| {
                let position = ledger.position(key);
                let slot = ledger.at(position);
                if slot.is(key.generation(), Phase::Posted) {
                    holding.hold(ledger, position);
                    let link = slot.link();
                    if known != Some(link) {
                        strays |= links.find(link).is_none();
                        known = Some(link);
                    }
                }
            });
        }
        if strays {
            self.end_strays();
        }
    }

    /// Takes back what is overdue or cancelled.
    fn take_back_overdue(&mut self, now: Nanos) {
        while let Some(position) = self.holding.fire(&self.world.ledger, now) {
            self.take_back(position, now);
        }
        // At most what can be posted at once; rare.
        let overdue = &mut self.overdue;
        self.holding.cancelled(&self.world.ledger, |position| overdue.push(position));
        while let Some(position) = self.overdue.pop() {
            self.take_back(position, now);
        }
    }

    fn take_back(&mut self, position: u32, now: Nanos) {
        let world = self.world.clone();
        let ledger = &*world.ledger;
        let (key, slot) = (ledger.key_at(position), ledger.at(position));
        if !slot.is(key.generation(), Phase::Posted) {
            return self.wait_no_longer(position, now);
        }
        let id = WrId(key.raw());
        let lane = self.links.find(slot.link()).and_then(|i| self.links.get(i));
        let drive = lane.as_ref().map(|lane| &mut self.drives[lane.drive]);
        let delivered = |drive: &Drive| drive.completions.done().is_empty();
        let half = drive.and_then(|drive| Some((delivered(drive), drive.half.as_mut()?)));
        let (Some(lane), Some((delivered, half))) = (lane, half) else {
            // Its link was reported closed, and it never completed: a bug of the transport. It still ends.
            tracing::error!(link = slot.link().0, "a link was closed before its work requests had completed");
            return self.end_posted(key, position, Code::new(Reason::Undetermined, self.stage));
        };
        match half.cancel(slot.link(), id) {
            // A completion follows, and finds it overdue.
            Cancelled::Dropped => {}
            // Cancelled in good time: if the target is well its answer comes before anybody misses it, and an abort
            // would take the work of others along.
            Cancelled::MustAbort if slot.deadline() > now && slot.grant_respite() => {
                self.holding.hold_until(ledger, position, slot.deadline().min(now + RESPITE_NS));
            }
            Cancelled::MustAbort => {
                lane.aborted = true;
                lane.life.dead.store(true, Relaxed);
                half.abort(slot.link());
            }
            Cancelled::Discarding => {
                lane.life.end(1, slot.len());
                let late = Code::new(Reason::Deadline, self.stage);
                let code = ledger.verdict(slot, now, self.stage).unwrap_or(late);
                self.end_posted(key, position, code);
            }
            // Its completion is on its way, or waits here for room.
            Cancelled::NotHere if !slot.note_missing() || !delivered => {
                self.holding.hold_until(ledger, position, now + AGAIN_NS);
            }
            // All that came since the last look has been delivered, and it was not among that: it is lost. The transport
            // has let go of the buffer; whether a WRITE was applied nobody can tell.
            Cancelled::NotHere => {
                tracing::error!(link = slot.link().0, "a transport has lost a completion");
                lane.life.end(1, slot.len());
                let late = Code::new(Reason::Deadline, self.stage);
                let code = match slot.op() {
                    Op::Read => ledger.verdict(slot, now, self.stage).unwrap_or(late),
                    Op::Write => Code::new(Reason::Undetermined, self.stage),
                };
                self.end_posted(key, position, code);
            }
        }
    }

    /// Ends a slice that its transport has let go without a completion.
    fn end_posted(&mut self, key: Key, position: u32, code: Code) {
        let ledger = &*self.world.ledger;
        if ledger.unpost(key).is_some() {
            self.holding.doom(ledger, position, code);
        }
    }

    /// Reaps and delivers as long as the ports have room. Whether anything came.
    fn reap(&mut self, out: &mut Outlet<Key>, now: Nanos) -> bool {
        let mut any = false;
        self.more = false;
        // A port has room for a batch a look: whoever came first each time would take it all.
        self.first = if self.first + 1 < self.drives.len() { self.first + 1 } else { 0 };
        for at in (self.first..self.drives.len()).chain(0..self.first) {
            let drive = &mut self.drives[at];
            let Some(half) = &mut drive.half else { continue };
            if drive.next == drive.completions.done().len() {
                drive.completions.clear();
                drive.next = 0;
                self.more |= half.reap(now, &mut drive.completions) >= BATCH;
                any |= drive.completions.has_moved();
            }
            any |= self.deliver(at, out, now);
            self.drives[at].gauge_speed(now);
        }
        any
    }

    fn deliver(&mut self, at: usize, out: &mut Outlet<Key>, now: Nanos) -> bool {
        let mut any = false;
        loop {
            any |= self.deliver_done(at, out, now);
            let next = self.drives[at].completions.done().get(self.drives[at].next).copied();
            let Some(completion) = next else { break };
            let world = self.world.clone();
            if !self.complete(&world, at, &completion, out, now) {
                return any;
            }
            self.drives[at].next += 1;
            any = true;
        }
        for i in 0..self.drives[at].completions.closed().len() {
            let completions = &self.drives[at].completions;
            let (id, blame) = (completions.closed()[i], completions.blame(i));
            self.close(at, id, blame);
            any = true;
        }
        // Nothing is left: the links must not be reported twice.
        self.drives[at].completions.clear();
        self.drives[at].next = 0;
        any
    }

    /// One completion; `false` when the port it leads to has no room.
    fn complete(
        &mut self,
        world: &World,
        at: usize,
        completion: &Completion,
        out: &mut Outlet<Key>,
        now: Nanos,
    ) -> bool {
        let ledger = &*world.ledger;
        let key = Key::from_raw(completion.id.0);
        let Some(slot) = ledger.posted(key).filter(|s| s.link() == completion.link) else {
            // Twice, too late, or of a link that it was taken from.
            ledger.count_stale();
            return true;
        };
        let lane = self.links.find(completion.link).and_then(|i| self.links.get(i));
        let aborted = lane.as_ref().is_some_and(|lane| lane.aborted);
        let stop = match &lane {
            Some(lane) if lane.life.fence.is_impossible() => Stop::Nothing,
            Some(lane) if !self.drives[lane.drive].fenced => Stop::Fence,
            _ => Stop::Death,
        };
        let spoken = ledger.verdict(slot, now, self.stage);
        let verdict = judge(completion.outcome, slot.op(), spoken, aborted, stop, self.stage);
        let port = match verdict {
            Verdict::Done => Some(OUT),
            Verdict::Failed(_) => Some(FAILED),
            Verdict::Again { .. } => Some(RETRY),
            Verdict::Fence { .. } => None,
        };
        if port.is_some_and(|port| out.room(port, key) == 0) {
            return false;
        }
        self.holding.grasp(key);
        if ledger.unpost(key).is_none() {
            self.holding.let_loose();
            return true;
        }
        self.holding.let_go(ledger, ledger.position(key));
        self.stays.end(slot, now);
        let of_nic = &self.drives[at].seat.shared.moved;
        for moved in [Some(of_nic), lane.as_ref().map(|lane| &*lane.life.moved)].into_iter().flatten() {
            match completion.outcome {
                Outcome::Done => moved.done_one(slot.op(), slot.len()),
                _ => moved.failed(),
            }
        }
        note(slot, verdict);
        if let Some(lane) = lane {
            lane.life.end(1, slot.len());
            if completion.outcome == Outcome::Begun && slot.op() == Op::Write && stop == Stop::Fence {
                // Before anybody hears of the slice: what is written after that must not be overwritten.
                lane.life.fence.demand();
                if port.is_none() {
                    self.fencing.wait(ledger, ledger.position(key), completion.link, &lane.life);
                    self.wait_for_fence(ledger.position(key), spoken.is_some(), now);
                    self.stays.begin(slot, now);
                }
            }
        }
        if let Some(port) = port {
            // Room was asked for.
            let _ = out.push(port, key);
        }
        self.holding.let_loose();
        true
    }

    /// A link is dead, and everything of it has completed.
    fn close(&mut self, at: usize, id: LinkId, blame: Blame) {
        let bereaved = self.links.find(id).and_then(|i| self.links.get(i)).and_then(|lane| lane.bereaved);
        if let Some(code) = bereaved {
            self.end_unknown(id, code);
        }
        let mut killed = false;
        if let Some(lane) = self.links.remove(id) {
            lane.life.dead.store(true, Relaxed);
            killed = lane.aborted;
        }
        self.drives[at].seat.shared.ring(Half::Post);
        self.closed.push((id, (!killed).then_some(blame)));
    }

    /// Tells control of closed links.
    fn report(&mut self) {
        while let Some((id, blame)) = self.closed.last() {
            if !self.world.tell(Event::LinkClosed(*id, *blame)) {
                break;
            }
            self.closed.pop();
        }
    }
}

impl Stage<Key> for CqReap {
    fn run(&mut self, input: &mut Batch<Key>, _: &mut Outlet<Key>, _: &mut Context) -> Flow {
        // It has no input: `check` allows none.
        debug_assert!(input.is_empty(), "cq_reap is a source");
        Flow::Done
    }

    fn poll(&mut self, out: &mut Outlet<Key>, cx: &mut Context) -> Polled {
        let mut any = self.read_mail();
        // What has completed already needs no timer: hence reap first.
        any |= self.reap(out, cx.now);
        // Of what was posted much may have completed, and waits for the next look.
        self.unwatched = if self.more { self.unwatched + 1 } else { UNWATCHED_MAX };
        if self.unwatched >= UNWATCHED_MAX {
            self.unwatched = 0;
            self.watch_posted();
        }
        self.take_back_overdue(cx.now);
        any |= self.settle(out, cx.now);
        any |= self.holding.bury(&self.world.ledger, out, FAILED);
        self.report();
        if any { Polled::Busy } else { Polled::Idle }
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        self.holding.arm(&self.world.ledger, on);
        let until = self.holding.earliest().unwrap_or(Nanos::MAX);
        for drive in &mut self.drives {
            if let Some(half) = &mut drive.half {
                half.arm(&mut ToGraph(on));
            }
            if !drive.seat.shared.posted.sleep(until) || !drive.seat.mail.is_empty() {
                on.busy();
            }
        }
        if !self.closed.is_empty() || self.fencing.is_settled() {
            on.busy();
        }
    }

    fn drain(&mut self, _: &mut Outlet<Key>, _: &mut Context) -> Drained {
        let posted: usize = self.drives.iter().filter_map(|d| d.half.as_ref()).map(|h| h.outstanding()).sum();
        match posted.max(self.holding.len()) + self.again.len() {
            0 => Drained::Empty,
            n => Drained::Holds(n),
        }
    }
}
