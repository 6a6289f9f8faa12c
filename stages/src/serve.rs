//! `serve`: the target side of two-sided transports: answers peers, a budget at a time.
//! Deliberately brings nothing into the graph: what it serves are the peers' slices, not ours. Every lane it was handed
//! it reports once as closed, when nothing of it touches memory any more: that is what a fence waits for.

use std::collections::HashSet;
use std::sync::Arc;

use pipeline_configs::schema::Change;
use pipeline_configs::{Facts, Kind, StageKind, Values};
use pipeline_graph::{
    Arming, Batch, Context, Contract, Drained, Flow, Nanos, Outlet, Polled, Seat, Shape, Stage,
};
use pipeline_transports::{LinkId, Serve as Half, Transport};

use crate::arming::ToGraph;
use crate::key::Key;
use crate::mail::{self, Event, Mail};
use crate::seats::{self, Joined};
use crate::spec::Making;
use crate::world::World;

/// Its entry in the catalogue.
pub const KIND: StageKind = StageKind {
    name: "serve",
    summary: "Answers peers: the target side of two-sided transports.",
    keys: &[
        seats::TRANSPORTS,
        pipeline_configs::Key {
            name: "budget",
            kind: Kind::Count { min: 1, max: 65_536 },
            default: Some("64"),
            required: false,
            doc: "About how many work requests it answers before other stages of its worker have their turn.",
            change: Change::Live,
            ..pipeline_configs::Key::PLAIN
        },
    ],
    shape,
    later: None,
};

fn shape(_: &Values, _: &Facts) -> Shape {
    Shape {
        ports: Vec::new(),
        contract: Contract {
            source: true,
            sink: true,
            polls: true,
            resident: Some("it answers peers, who do not step this node"),
            ..Contract::default()
        },
    }
}

pub(crate) fn build(making: &Making, seat: &Seat) -> Result<Box<dyn Stage<Key>>, String> {
    let world = making.world.clone();
    let budget = making.values().number("budget").unwrap_or(64) as usize;
    let two_sided = |t: u16| world.transports[usize::from(t)].transport.caps().two_sided;
    let places = seats::places(making, seat).into_iter().filter(|place| two_sided(place.0));
    let join = |place| {
        let seat = world.seats.join(&world.mail, mail::Half::Serve, place, seat, making.box_size);
        let transport = world.transports[usize::from(seat.place.0)].transport.clone();
        Drive { transport, half: None, joined: false, seat, lanes: HashSet::new() }
    };
    let drives = places.map(join).collect();
    Ok(Box::new(Serve { world, budget, drives, closed: Vec::new() }))
}

struct Drive {
    transport: Arc<dyn Transport>,
    half: Option<Box<dyn Half>>,
    joined: bool,
    seat: Joined,
    /// Lanes that were handed over and not reported closed; as many as control lets peers have.
    lanes: HashSet<LinkId>,
}

impl Drive {
    /// Whether anybody is connected to it.
    fn has_peers(&self) -> bool {
        !self.lanes.is_empty() || self.half.as_ref().is_some_and(|half| half.has_guests())
    }

    fn step(&mut self, world: &World, now: Nanos, budget: usize, closed: &mut Vec<LinkId>) -> bool {
        // One that could not be made is tried again when somebody needs it.
        if self.half.is_none() && (!self.joined || !self.seat.mail.is_empty()) {
            self.joined = true;
            self.half = world.seats.serve(self.seat.place, &*self.transport);
        }
        let mut any = false;
        // A look at an empty box costs less than a try.
        while !self.seat.mail.is_empty()
            && let Ok(mail) = self.seat.mail.try_recv()
        {
            any = true;
            match (mail, &mut self.half) {
                (Mail::Adopt { end, .. }, Some(half)) => {
                    self.lanes.insert(end.id);
                    half.adopt(end);
                }
                // Without a half the end is dropped here, and that is the end of it.
                (Mail::Adopt { end, .. }, None) => closed.push(end.id),
                (Mail::Abort(link), Some(half)) => half.fence(link),
                (Mail::Abort(_), None) | (Mail::Bereaved { .. }, _) => {}
            }
        }
        let Some(half) = &mut self.half else { return any };
        let served = half.step(now, budget);
        self.seat.shared.served.add(&served);
        while let Some(link) = half.closed() {
            any = true;
            if self.lanes.remove(&link) {
                closed.push(link);
            }
        }
        // Payload that came in part is work as well: who takes it for idleness sleeps between the pieces of a stream.
        any || served.answered > 0 || served.bytes > 0 || served.more
    }
}

#[repr(align(128))]
struct Serve {
    world: Arc<World>,
    budget: usize,
    drives: Vec<Drive>,
    /// Closed lanes that control was not told of, because its channel was full.
    closed: Vec<LinkId>,
}

impl Serve {
    fn report(&mut self) {
        while let Some(link) = self.closed.last() {
            if !self.world.tell(Event::LaneClosed(*link)) {
                break;
            }
            self.closed.pop();
        }
    }
}

impl Stage<Key> for Serve {
    fn run(&mut self, input: &mut Batch<Key>, _: &mut Outlet<Key>, _: &mut Context) -> Flow {
        debug_assert!(input.is_empty(), "serve is a source");
        Flow::Done
    }

    fn poll(&mut self, _: &mut Outlet<Key>, cx: &mut Context) -> Polled {
        let mut any = false;
        for drive in &mut self.drives {
            any |= drive.step(&self.world, cx.now, self.budget, &mut self.closed);
        }
        self.report();
        match any {
            true => Polled::Busy,
            // Nobody has a lane to us: the first one is brought by mail, which rings.
            false if self.closed.is_empty() && !self.drives.iter().any(Drive::has_peers) => Polled::Unasked,
            false => Polled::Idle,
        }
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        for drive in &mut self.drives {
            if let Some(half) = &mut drive.half {
                half.arm(&mut ToGraph(on));
            }
            if !drive.seat.mail.is_empty() {
                on.busy();
            }
        }
        if !self.closed.is_empty() {
            on.busy();
        }
    }

    fn drain(&mut self, _: &mut Outlet<Key>, _: &mut Context) -> Drained {
        match self.drives.iter().filter_map(|d| d.half.as_ref()).map(|half| half.under_way()).sum() {
            0 => Drained::Empty,
            n => Drained::Holds(n),
        }
    }
}

/// A panicking `serve` takes its lanes along, those that are in the mail included.
impl Drop for Serve {
    fn drop(&mut self) {
        if self.world.ledger.is_closing() {
            return;
        }
        for drive in &mut self.drives {
            self.world.mail.close(drive.seat.id(mail::Half::Serve));
            drive.half = None;
            self.closed.extend(drive.lanes.drain());
            for letter in drive.seat.mail.try_iter() {
                if let Mail::Adopt { end, .. } = letter {
                    self.closed.push(end.id);
                }
            }
        }
        self.closed.drain(..).for_each(|link| self.world.leave(Event::LaneClosed(link)));
    }
}
