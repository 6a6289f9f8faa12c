//! What only the simulator promises: faults by seed and rate, times as told, and nothing but those.

use std::collections::HashMap;
use std::os::fd::RawFd;

use pipeline_transports::sim::{Sim, SimSettings};
use pipeline_transports::{
    Access, Arming, Caps, Completions, Error, Halves, LinkId, Memory, Mover, Nanos, NicId, Op, Outcome,
    PairId, Regions, Span, Staged, Transport, WorkRequest, WrId,
};
use pipeline_transports::{RegionId, link::Cancelled};

use crate::pair::{Pair, no_wakes, unique};

/// Two nodes, one link, one pinned region on each side.
struct World {
    pair: Pair<Sim>,
    link: LinkId,
    near: RegionId,
    far: RegionId,
}

fn world(settings: SimSettings, len: u64) -> World {
    let mut pair =
        Pair::with(|incarnation, regions| Sim::new(settings.clone(), incarnation, regions).unwrap());
    let link = pair.link();
    let near = pair.initiator.add(Memory::allocate(len).unwrap(), Access::Local).unwrap();
    pair.initiator.pin(near).unwrap();
    let far = pair.target.add(Memory::allocate(len).unwrap(), Access::ReadWrite).unwrap();
    World { pair, link, near, far }
}

#[derive(Default)]
struct Armed {
    at: Option<Nanos>,
    busy: bool,
}

impl Arming for Armed {
    fn fd(&mut self, _: RawFd) {
        unreachable!("a simulator has no descriptor");
    }
    fn deadline(&mut self, at: Nanos) {
        assert!(self.at.replace(at).is_none());
    }
    fn busy(&mut self) {
        self.busy = true;
    }
}

impl World {
    fn halves(&mut self) -> &mut Halves {
        &mut self.pair.halves
    }

    fn work(&self, id: u64, op: Op, offset: u64, len: u64) -> WorkRequest {
        let span = |region| Span { region, offset };
        WorkRequest { id: WrId(id), op, local: span(self.near), remote: span(self.far), len }
    }

    /// Posts requests 0..count of `len` bytes at time 0, even ones WRITEs.
    fn post(&mut self, count: u64, len: u64) {
        for id in 0..count {
            let op = if id % 2 == 0 { Op::Write } else { Op::Read };
            let work = self.work(id, op, 0, len);
            let link = self.link;
            assert_eq!(self.halves().post.post(0, link, &[work]).taken, 1);
        }
    }

    /// Goes from event to event, as a sleeper who trusts `arm`: what completed, when.
    fn play(&mut self) -> Vec<(Nanos, u64, Outcome)> {
        let mut out = Completions::with_capacity(16);
        let (mut now, mut trace) = (0, Vec::new());
        loop {
            out.clear();
            self.halves().reap.reap(now, &mut out);
            trace.extend(out.done().iter().map(|c| (now, c.id.0, c.outcome)));
            let mut armed = Armed::default();
            self.halves().reap.arm(&mut armed);
            if out.room() == 0 || armed.busy {
                continue;
            }
            match armed.at {
                Some(at) => {
                    assert!(at > now, "armed for {at} at {now}: a sleeper would spin");
                    now = at;
                }
                None => return trace,
            }
        }
    }
}

fn wild(seed: u64) -> SimSettings {
    SimSettings {
        seed,
        queue: 1000,
        reorder_ppm: 200_000,
        loss_ppm: 100_000,
        error_ppm: 100_000,
        refuse_ppm: 100_000,
        duplicate_ppm: 100_000,
        ..SimSettings::default()
    }
}

/// The same seed and calls give the same completions at the same times; another seed gives others.
#[test]
fn a_seed_is_a_replay() {
    let trace = |seed| {
        let mut world = world(wild(seed), 4096);
        world.post(500, 64);
        world.play()
    };
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1), trace(2));
}

/// Faults come about as often as told, each request has one fate, and only duplicates come twice.
#[test]
fn rates_are_kept() {
    let mut world = world(wild(3), 4096);
    world.post(1000, 64);
    let mut times: HashMap<u64, Vec<Outcome>> = HashMap::new();
    for (_, id, outcome) in world.play() {
        times.entry(id).or_default().push(outcome);
    }
    let count = |f: &dyn Fn(&Vec<Outcome>) -> bool| times.values().filter(|o| f(o)).count();
    let tenth = 60..140;
    assert!(tenth.contains(&(1000 - times.len())), "{} lost", 1000 - times.len());
    assert!(tenth.contains(&count(&|o| o[0] == Outcome::Failed)));
    assert!(tenth.contains(&count(&|o| matches!(o[0], Outcome::Refused(_)))));
    // Of those done, a tenth.
    let doubles = count(&|o| o.len() == 2);
    assert!((40..110).contains(&doubles), "{doubles} doubles");
    assert_eq!(count(&|o| o.len() > 2 || o.len() == 2 && *o != [Outcome::Done; 2]), 0);
    assert_eq!(world.halves().reap.outstanding(), 1000 - times.len());
}

/// Without reordering completions come in the order of posting, within the delays told; with it they do not.
#[test]
fn order_and_delay() {
    for (reorder_ppm, in_order) in [(0, true), (300_000, false)] {
        let settings = SimSettings { reorder_ppm, ..SimSettings::default() };
        let (least, most) = (settings.delay_ns_min, settings.delay_ns_max);
        let mut world = world(settings, 4096);
        world.post(200, 64);
        let trace = world.play();
        assert_eq!(trace.len(), 200);
        assert_eq!(trace.is_sorted_by_key(|(_, id, _)| *id), in_order);
        let latest = if in_order { most } else { 2 * most };
        assert!(trace.iter().all(|(at, ..)| (least..=latest).contains(at)));
    }
}

/// A link's speed is kept: so many bytes take so long, whatever the delays.
#[test]
fn speed_is_kept() {
    let settings = SimSettings { bytes_per_s: 1_000_000_000, delay_ns_max: 5_000, ..SimSettings::default() };
    let mut world = world(settings, 1 << 20);
    world.post(100, 100_000);
    let (last, ..) = *world.play().last().unwrap();
    assert_eq!(last, 100 * 100_000 + 5_000);
}

/// A lost request stays outstanding for ever; only taking it back or the death of its link ends it.
#[test]
fn lost_until_taken_back() {
    let mut world = world(SimSettings { loss_ppm: 1_000_000, ..SimSettings::default() }, 4096);
    world.post(4, 64);
    assert_eq!(world.play(), []);
    let link = world.link;
    assert_eq!(world.halves().reap.outstanding(), 4);
    assert!(world.pair.target.facts(world.far).unwrap().accesses == 0, "the target is done with them");
    assert_eq!(world.halves().reap.cancel(link, WrId(1)), Cancelled::Discarding);
    assert_eq!(world.halves().reap.cancel(link, WrId(0)), Cancelled::MustAbort);
    world.halves().reap.abort(link);
    let mut out = Completions::with_capacity(2);
    world.halves().reap.reap(u64::MAX, &mut out);
    assert_eq!((out.room(), out.closed()), (0, &[][..]), "closed only after the last completion");
    let mut ended: Vec<_> = out.done().iter().map(|c| (c.id.0, c.outcome)).collect();
    out.clear();
    world.halves().reap.reap(u64::MAX, &mut out);
    assert_eq!(out.closed(), [link]);
    ended.extend(out.done().iter().map(|c| (c.id.0, c.outcome)));
    ended.sort_by_key(|(id, _)| *id);
    assert_eq!(ended, [(0, Outcome::Begun), (2, Outcome::Begun), (3, Outcome::Begun)]);
}

/// Failed and refused requests leave the destination as it was.
#[test]
fn failures_touch_nothing() {
    for settings in [
        SimSettings { error_ppm: 1_000_000, ..SimSettings::default() },
        SimSettings { refuse_ppm: 1_000_000, ..SimSettings::default() },
    ] {
        let mut world = world(settings, 4096);
        world.pair.initiator.write_shared(world.near, 0, &[7; 64]).unwrap();
        world.post(1, 64);
        assert!(matches!(world.play()[0].2, Outcome::Failed | Outcome::Refused(_)));
        let mut got = [1; 64];
        world.pair.target.read_into(world.far, 0, &mut got).unwrap();
        assert_eq!(got, [0; 64]);
    }
}

/// Without moving bytes a terabyte is checked like any other size and touches no page.
#[test]
fn sparse_terabytes() {
    let len = 1 << 40;
    let mut world = world(SimSettings { moves_bytes: false, ..SimSettings::default() }, len);
    let (whole, over) = (world.work(1, Op::Write, 0, len), world.work(2, Op::Write, 1, len));
    let link = world.link;
    assert_eq!(world.halves().post.post(0, link, &[whole, over]).taken, 2);
    let mut ended: Vec<_> = world.play().iter().map(|(_, id, outcome)| (*id, *outcome)).collect();
    ended.sort_by_key(|(id, _)| *id);
    // The second does not even fit the initiator's own region.
    assert_eq!(ended, [(1, Outcome::Done), (2, Outcome::Failed)]);
}

/// Nothing happens before its time, and a request begins halfway: before that it can be dropped, from then
/// on the target's region is in use.
#[test]
fn begins_halfway() {
    let settings = SimSettings { delay_ns_min: 1000, delay_ns_max: 1000, ..SimSettings::default() };
    let mut world = world(settings, 4096);
    world.post(2, 64);
    let link = world.link;
    let mut out = Completions::with_capacity(4);
    world.halves().reap.reap(499, &mut out);
    assert_eq!(world.pair.target.facts(world.far).unwrap().accesses, 0);
    assert_eq!(world.halves().reap.cancel(link, WrId(0)), Cancelled::Dropped);
    world.halves().reap.reap(500, &mut out);
    assert_eq!(world.pair.target.facts(world.far).unwrap().accesses, 1);
    assert!(matches!(world.pair.target.remove(world.far), Err(Error::Busy(..))));
    world.halves().reap.reap(999, &mut out);
    assert_eq!(out.done().iter().map(|c| (c.id.0, c.outcome)).collect::<Vec<_>>(), [(0, Outcome::NotBegun)]);
    world.halves().reap.reap(1000, &mut out);
    assert_eq!(out.done()[1].outcome, Outcome::Done);
    assert_eq!(world.pair.target.facts(world.far).unwrap().accesses, 0);
}

/// Without `direct` bytes arrive whole through a staging buffer, also those that are longer than it, and each work
/// request that was applied is counted with its bytes; with `direct` nothing is staged, and it passes for a device.
#[test]
fn staging_is_counted() {
    let len = 200_000;
    let bytes: Vec<u8> = (0..len).map(|i| (i * 7 % 251) as u8).collect();
    for (direct, mover, copies) in [(false, Mover::Cpu, 3), (true, Mover::Device, 0)] {
        let mut world = world(SimSettings { direct, ..SimSettings::default() }, len);
        let caps = world.pair.near.caps();
        assert_eq!((caps.direct, caps.mover), (direct, mover));
        assert_eq!(world.pair.near.staged(), Staged::default());
        world.pair.initiator.write_shared(world.near, 0, &bytes).unwrap();
        world.post(3, len);
        assert!(world.play().iter().all(|(.., outcome)| *outcome == Outcome::Done));
        let mut there = vec![0; len as usize];
        world.pair.target.read_shared(world.far, 0, &mut there).unwrap();
        assert!(there == bytes, "direct = {direct}");
        assert_eq!(world.pair.near.staged(), Staged { copies, bytes: copies * len });
    }
}

/// Settings that mean nothing are refused with their numbers; capabilities say what was set.
#[test]
fn settings_are_checked() {
    let regions = std::sync::Arc::new(Regions::new(1));
    let make = |settings| Sim::new(settings, unique(), regions.clone());
    let bad = [
        SimSettings { delay_ns_min: 10, delay_ns_max: 9, ..SimSettings::default() },
        SimSettings { loss_ppm: 600_000, error_ppm: 400_001, ..SimSettings::default() },
        SimSettings { duplicate_ppm: 1_000_001, ..SimSettings::default() },
        SimSettings { queue: 0, ..SimSettings::default() },
    ];
    for settings in bad {
        assert!(matches!(make(settings), Err(Error::BadArgument(_))));
    }
    let sim = make(SimSettings { direct: false, ..SimSettings::default() }).unwrap();
    let caps: &Caps = sim.caps();
    assert!(!caps.direct && !caps.two_sided && caps.fenced);
    assert!(sim.attach(NicId(0), PairId(0), no_wakes()).unwrap().serve.is_none());
}
