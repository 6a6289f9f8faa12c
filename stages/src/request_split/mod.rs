//! `request_split`: cuts requests into slices, as far as windows reach, in turn by peer and then by request. A ring of open
//! requests a peer; one batch a turn; a peer without window is passed over. What needs no cut goes on as its own cover slice.
//! Deliberately no look at links or transports, but for the transport that a route before it has chosen.

mod open;
mod plan;
mod rest;
mod shortage;
mod sizes;
mod straight;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use pipeline_configs::schema::Change;
use pipeline_configs::{Facts, Kind, StageKind, Values};
use pipeline_graph::{
    Arming, BATCH, Batch, Context, Contract, Drained, Flow, Nanos, Outlet, Polled, PortId, Seat, Shape, Stage,
};

use crate::holding::Holding;
use crate::key::Key;
use crate::ledger::{Ends, Part, Shard, Slot, Stamp};
use crate::peer::{PeerId, PeerView};
use crate::reason::{Code, Reason, StageIx};
use crate::spec::{Making, ports};
use crate::stays::Stays;
use crate::window::{Class, Grant, Short};
use crate::world::{Own, World};
use open::Open;
use plan::Plan;
use shortage::Shortage;
pub(crate) use sizes::Sizes;

const WORDS: &[&str] = &["auto", "whole"];
const LEAST: u64 = 512;
const MOST: u64 = 1 << 40;

/// Its entry in the catalogue.
pub const KIND: StageKind = StageKind {
    name: "request_split",
    summary: "Cuts requests into slices as far as windows reach, in turn by peer and request.",
    keys: &[pipeline_configs::Key {
        name: "slice",
        kind: Kind::BytesPerTransport(WORDS, LEAST, MOST),
        default: Some("auto"),
        required: false,
        doc: "Most bytes of a slice; auto: the size the transport likes best (before a route, the least of all \
              declared); whole: only cut where a region ends; or a table of transport to size.",
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
        contract: Contract {
            expands: true,
            holds: true,
            polls: true,
            waits_for: vec!["slices"],
            ..Contract::default()
        },
    }
}

pub(crate) fn build(making: &Making, seat: &Seat) -> Result<Box<dyn Stage<Key>>, String> {
    let world = making.own();
    let peers = making.config.limits.peers as usize;
    world.ledger.credits.add(seat.waker.clone());
    world.ledger.holders.add(seat.waker.clone());
    let shard = making.shard(seat);
    world.ledger.window.open_purse(shard.holder(), true);
    Ok(Box::new(Split {
        shard,
        short: Shortage::default(),
        ends: world.ledger.counted.of(seat),
        stays: Stays::of(seat),
        sizes: Sizes::of(&making.world, making.values()),
        open: (0..peers).map(|_| Open::default()).collect(),
        ring: VecDeque::with_capacity(peers),
        queued: vec![false; peers].into(),
        holding: Holding::new(&world.ledger, world.time.now(), making.ix()),
        ready: Batch::new(),
        stage: making.ix(),
        starved: false,
        turned: false,
        world,
    }))
}

#[repr(align(128))]
struct Split {
    world: Own,
    shard: Shard,
    /// Where it counts what it cuts.
    ends: Arc<Ends>,
    /// How long requests are open.
    stays: Stays,
    stage: StageIx,
    sizes: Sizes,
    /// Open requests by peer.
    open: Box<[Open]>,
    /// Peers that have some; each once.
    ring: VecDeque<u32>,
    /// Whether a peer is in the ring.
    queued: Box<[bool]>,
    holding: Holding,
    /// Cut, charged, and without room so far.
    ready: Batch<Key>,
    /// Somebody found no window or no slot.
    starved: bool,
    /// The windows know that.
    short: Shortage,
    /// The last run has cut something, and no poll has been since.
    turned: bool,
}

/// What came of one look at a peer.
enum Turn {
    /// Something moved on.
    Moved,
    /// No window or no slice slot.
    Starved,
    /// All of its requests have left otherwise.
    Nothing,
}

/// One turn of one peer.
struct Serving<'a> {
    view: &'a PeerView,
    now: Nanos,
    /// Slices that it may still have.
    room: usize,
    /// Window that was asked for and not used, by class.
    grants: [Grant; 2],
    /// Some found no window.
    starved: bool,
}

/// What came of one request.
enum Step {
    /// So many slices.
    Cut(usize),
    /// It has to be cut, which is another list.
    Moved,
    /// No window.
    Short(Short),
}

impl Split {
    fn take(&mut self, world: &World, key: Key) {
        let ledger = &*world.ledger;
        let Some(slot) = ledger.live(key) else { return };
        let (position, peer) = (ledger.position(key), slot.peer().0);
        let Some(list) = self.open.get_mut(peer as usize) else {
            return self.holding.doom(ledger, position, Code::new(Reason::PeerGone, self.stage));
        };
        if !std::mem::replace(&mut self.queued[peer as usize], true) {
            self.ring.push_back(peer);
        }
        list.push(ledger, position);
        self.holding.defer(ledger, position);
    }

    /// One batch of one peer; passes over those that cannot go on.
    fn turn(&mut self, world: &World, out: &mut Outlet<Key>, now: Nanos) -> Polled {
        if !self.flush_ready(out) {
            return Polled::Idle;
        }
        let turn = self.pick(world, out, now);
        self.short.note(&world.ledger.window, self.starved, now);
        turn
    }

    fn pick(&mut self, world: &World, out: &mut Outlet<Key>, now: Nanos) -> Polled {
        self.starved = false;
        for _ in 0..self.ring.len() {
            let Some(peer) = self.ring.pop_front() else { break };
            let turn = self.serve(world, PeerId(peer), out, now);
            self.queued[peer as usize] = !self.open[peer as usize].is_empty();
            if self.queued[peer as usize] {
                self.ring.push_back(peer);
            }
            match turn {
                Turn::Moved => return Polled::Busy,
                Turn::Starved => self.starved = true,
                Turn::Nothing => {}
            }
        }
        Polled::Idle
    }

    fn flush_ready(&mut self, out: &mut Outlet<Key>) -> bool {
        while let Some(key) = self.ready.peek() {
            if out.push(OUT, key).is_err() {
                return false;
            }
            self.ready.pop();
        }
        true
    }

    /// Up to a batch of slices for one peer, from as many of its requests as that takes. The window is asked
    /// once for all of them; what is not used goes back at the end.
    fn serve(&mut self, world: &World, peer: PeerId, out: &mut Outlet<Key>, now: Nanos) -> Turn {
        let Some(target) = world.peers.get(peer) else { return Turn::Starved };
        let view = target.view.load();
        let mut turn = Serving { view: &view, now, room: BATCH, grants: [Grant::NONE; 2], starved: false };
        for (i, class) in self.open[peer.0 as usize].order().into_iter().enumerate() {
            let most = if i == 0 { BATCH / 2 } else { BATCH };
            let none = self.open[peer.0 as usize].head(class).is_none();
            let done = none || self.serve_class(world, peer, class, most, &mut turn, out);
            if i == 0 && done {
                self.open[peer.0 as usize].pass_on();
            }
            if !done {
                break;
            }
        }
        for (class, grant) in [Class::Whole, Class::Piece].into_iter().zip(turn.grants) {
            world.ledger.release(self.shard, peer, class, grant);
            if grant.bytes > 0 {
                // Another worker may have found it gone.
                world.ledger.credits.ring_awaited();
            }
        }
        self.holding.bury(&world.ledger, out, FAILED);
        match (turn.room < BATCH, turn.starved) {
            (true, _) => Turn::Moved,
            (false, true) => Turn::Starved,
            (false, false) => Turn::Nothing,
        }
    }

    /// Serves requests of one class with up to `most` slices; `false` when nothing more may go, of any class.
    fn serve_class(
        &mut self,
        world: &World,
        peer: PeerId,
        class: Class,
        most: usize,
        turn: &mut Serving<'_>,
        out: &mut Outlet<Key>,
    ) -> bool {
        let least = turn.room.saturating_sub(most);
        while turn.room > least && self.ready.is_empty() {
            let Some(position) = self.open[peer.0 as usize].head(class) else { break };
            let step = match self.objection(world, world.ledger.at(position), turn.view, turn.now) {
                Some(code) => Err(code),
                None => self.cut(world, position, turn.room - least, turn, out),
            };
            match step {
                Ok(Step::Cut(used)) => turn.room -= used,
                // It comes up again, in the list it belongs to.
                Ok(Step::Moved) => {}
                Ok(Step::Short(short)) => {
                    turn.starved = true;
                    return short == Short::Pieces;
                }
                Err(code) => {
                    self.leave(world, position, turn.now);
                    self.holding.doom(&world.ledger, position, code);
                    turn.room -= 1;
                }
            }
        }
        true
    }

    /// What speaks against cutting on.
    fn objection(&self, world: &World, cover: Slot, view: &PeerView, now: Nanos) -> Option<Code> {
        let request = world.ledger.request(cover.request());
        if !request.code().is_done() && request.merged() == 0 {
            // A part of it has failed: the rest would only cost the others. (Of a run the rest is other requests.)
            return Some(request.code());
        }
        if request.incarnation.load(Relaxed) != view.incarnation {
            return Some(Code::new(Reason::StalePeer, self.stage));
        }
        world.ledger.verdict(cover, now, self.stage)
    }

    /// Takes a request out of the ring.
    fn leave(&mut self, world: &World, position: u32, now: Nanos) {
        let cover = world.ledger.at(position);
        self.open[cover.peer().0 as usize].remove(&world.ledger, position);
        self.holding.let_go(&world.ledger, position);
        self.stays.end(cover, now);
        if cover.rows().is_some() {
            self.stays.since(world.ledger.batches.submitted_at(cover.batch()), now);
        }
    }

    /// Cuts up to `most` slices off a request, or lets it go on whole.
    fn cut(
        &mut self,
        world: &World,
        position: u32,
        most: usize,
        turn: &mut Serving<'_>,
        out: &mut Outlet<Key>,
    ) -> Result<Step, Code> {
        let ledger = &*world.ledger;
        let cover = ledger.at(position);
        let (size, peer) = (self.sizes.of_slice(cover), cover.peer());
        let mut plan = Plan::new(ledger, cover, turn.view, size, self.stage);
        let first = plan.peek()?;
        let is_whole = plan.is_whole(&first);
        let class = if is_whole { Class::Whole } else { Class::Piece };
        if !is_whole && !cover.is_cut() {
            self.open[peer.0 as usize].move_to_cut(ledger, position);
            return Ok(Step::Moved);
        }
        let grant = &mut turn.grants[class as usize];
        if grant.slices == 0 || grant.bytes < first.len {
            let mut want = Grant { bytes: size.saturating_mul(most as u64), slices: most as u32 };
            if self.open[peer.0 as usize].is_last(class) {
                // No other could use more.
                want = want.up_to(plan.left(), first.len);
            }
            match ledger.window.acquire_by(self.shard.holder(), peer, class, first.len, want) {
                Ok(more) => grant.add(more),
                Err(short) => return Ok(Step::Short(short)),
            }
        }
        if is_whole {
            grant.bytes -= first.len;
            grant.slices -= 1;
            self.pass(world, position, &first, turn.now, out);
            return Ok(Step::Cut(1));
        }
        let most = most.min(grant.slices as usize).min(plan.left().div_ceil(first.len) as usize);
        let (mut slots, mut keys) = ([0; BATCH], [Key::default(); BATCH]);
        let (got, heritage, mut used) =
            (ledger.take_slices(self.shard, &mut slots[..most]), cover.heritage(), 0);
        while used < got
            && let Some(part) = plan.draw(grant.bytes)
        {
            let slot = ledger.at(slots[used]);
            slot.bear_part(heritage, &part);
            keys[used] = Key::slice(slots[used], slot.generation());
            grant.bytes -= part.len;
            used += 1;
        }
        ledger.give_slices(self.shard, &slots[used..got]);
        grant.slices -= used as u32;
        if used == 0 {
            // No slot: those that are one slice need none.
            return Ok(Step::Short(Short::Pieces));
        }
        plan.keep();
        let finished = plan.left() == 0;
        // The cover slice counts as one until it is wholly cut: then the last slice counts in its place.
        ledger.request(cover.request()).add_slices(used as u32 - u32::from(finished));
        if finished {
            self.leave(world, position, turn.now);
            // Its slices count in its place: the key that brought it names nothing any more.
            ledger.renew(ledger.key_at(position));
        } else {
            self.open[peer.0 as usize].move_to_cut(ledger, position);
        }
        self.emit(&keys[..used], out);
        Ok(Step::Cut(used))
    }

    /// Lets a request that is one slice go on as it is.
    fn pass(&mut self, world: &World, position: u32, piece: &Part, now: Nanos, out: &mut Outlet<Key>) {
        let cover = world.ledger.at(position);
        self.leave(world, position, now);
        cover.set_charged();
        cover.set_remote(&piece.remote);
        self.emit(&[world.ledger.key_at(position)], out);
    }

    #[inline]
    fn emit(&mut self, keys: &[Key], out: &mut Outlet<Key>) {
        let went = if self.ready.is_empty() { out.push_all(OUT, keys) } else { 0 };
        self.ends.cut(keys.len());
        if went < keys.len() {
            // At most a batch is cut before the next flush of `ready`.
            self.ready.extend(&keys[went..]);
        }
    }
}

impl Stage<Key> for Split {
    fn run(&mut self, input: &mut Batch<Key>, out: &mut Outlet<Key>, cx: &mut Context) -> Flow {
        let world = self.world.clone();
        if !self.turned_straight(&world, input, out, cx.now) {
            for key in input.iter() {
                self.take(&world, key);
            }
            if let Some((which, stands_for)) = self.stays.one_of(input.len())
                && let Some(cover) = input.iter().nth(which).and_then(|key| world.ledger.look(key))
            {
                cover.stamp(Stamp::new(cx.now, stands_for));
            }
            self.turned = self.turn(&world, out, cx.now) == Polled::Busy;
            // Most have gone on by now; the others are watched.
            if !self.ring.is_empty() {
                for key in input.iter().filter(|key| world.ledger.look(*key).is_some()) {
                    self.holding.settle(&world.ledger, world.ledger.position(key));
                }
            }
            input.clear();
        }
        if self.rests() { Flow::Rests } else { Flow::Done }
    }

    fn poll(&mut self, out: &mut Outlet<Key>, cx: &mut Context) -> Polled {
        let world = self.world.clone();
        let ledger = &*world.ledger;
        if ledger.window.is_short() {
            ledger.give_up_window(self.shard);
        }
        let (open, stays) = (&mut self.open, &self.stays);
        self.holding.doom_overdue(ledger, cx.now, |position| {
            open[ledger.at(position).peer().0 as usize].remove(ledger, position);
            stays.end(ledger.at(position), cx.now);
        });
        let buried = self.holding.bury(ledger, out, FAILED);
        // What came just now has had this turn: no more is cut than in a turn without, or links fill up meanwhile.
        let moved = !std::mem::take(&mut self.turned) && self.turn(&world, out, cx.now) == Polled::Busy;
        match moved || buried {
            true => Polled::Busy,
            false if self.rests() => Polled::Resting,
            false => Polled::Idle,
        }
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        let ledger = &*self.world.ledger;
        ledger.give_up_window(self.shard);
        self.holding.arm(ledger, on);
        if self.starved {
            ledger.credits.await_ring();
            // What came back before the bell was awaited rings nobody: look once more.
            if self.could_go_on() {
                on.busy();
            }
        }
    }

    fn drain(&mut self, _: &mut Outlet<Key>, _: &mut Context) -> Drained {
        match self.holding.len() + self.ready.len() {
            0 => Drained::Empty,
            n => Drained::Holds(n),
        }
    }
}

impl Drop for Split {
    fn drop(&mut self) {
        self.world.ledger.window.open_purse(self.shard.holder(), false);
        self.short.end(&self.world.ledger.window);
        let Some(code) = self.holding.epitaph() else { return };
        let ledger = &*self.world.ledger;
        while let Some(key) = self.ready.pop() {
            ledger.abandon(ledger.position(key), code);
        }
        for list in &mut self.open {
            while let Some(position) = list.pop(ledger) {
                self.holding.let_go(ledger, position);
                ledger.abandon(position, code);
            }
        }
    }
}
