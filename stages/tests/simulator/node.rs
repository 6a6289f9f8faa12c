//! A node of the simulation, and what its control would do: dial links, again when they die, and kill them.

use std::sync::Arc;

use crossbeam_channel::Receiver;
use pipeline_configs::{Options, load_str};
use pipeline_graph::Spec;
use pipeline_graph::sim::{Dice, EngineId, Simulation};
use pipeline_stages::faults::Verdicts;
use pipeline_stages::mail::{Event, Half, Mail};
use pipeline_stages::peer::{LinkRef, PeerId, PeerState, PeerView, RegionView, SegmentView};
use pipeline_stages::{Client, Key, Remote, World, catalog};
use pipeline_transports::{Access, Memory, RegionId};

use crate::rig::trip::{Posture, Tripping, Wire};
use crate::rig::{self, pattern};

/// Bytes of each of a node's regions: the first half holds a pattern and is only read, the second is written.
pub const HALF: u64 = 256 << 10;

/// See the file's head.
pub struct Node {
    pub world: Arc<World>,
    pub engine: EngineId,
    pub client: Client,
    events: Receiver<Event>,
    /// What peers may reach, and what requests name on this side.
    pub shared: RegionId,
    pub local: RegionId,
    pub peer: PeerId,
    /// What panics a stage, by its name.
    pub wires: Vec<(String, Wire)>,
    /// Pairs that shall have a link and have none, and since when it may be dialled.
    pub missing: Vec<(u16, u64)>,
}

impl Node {
    /// A node of this file, without links.
    pub fn start(sim: &mut Simulation<Key>, text: &str, dice: &mut Dice) -> Self {
        let loaded = load_str("sim.toml", text, &catalog::catalog(), &Options::default());
        let config = Arc::new(loaded.unwrap_or_else(|findings| panic!("{findings}\n{text}")).config);
        let make = |t: &_, incarnation, regions: &_| catalog::transport(t, incarnation, regions).unwrap();
        let (world, events) = rig::world_in(&config, sim.time(), make);
        let mut wires = Vec::new();
        let specs: Vec<_> = catalog::specs(&config, &world).unwrap();
        let specs: Vec<Arc<dyn Spec<Key>>> = specs
            .into_iter()
            .zip(&config.blueprint.stages)
            .map(|(inner, stage)| {
                let wire = Wire::default();
                wires.push((stage.name.clone(), wire.clone()));
                let posture =
                    *dice.one_of(&[Posture::Halfway, Posture::InHand, Posture::Full, Posture::Poll]);
                Arc::new(Tripping { inner, posture, wire }) as Arc<dyn Spec<Key>>
            })
            .collect();
        let engine = sim.start(&config.blueprint, &specs, Arc::new(Verdicts(world.clone()))).unwrap();
        world.seats.attach_all(&world.transports).unwrap();
        let client = Client::new(world.clone(), Arc::new(sim.inlet(engine)), config.limits.deadline);
        let region = |access, seed| {
            let mut memory = Memory::allocate(2 * HALF).unwrap();
            memory.write(0, &pattern(HALF, seed)).unwrap();
            world.regions.add(memory, access).unwrap()
        };
        let (shared, local) = (region(Access::ReadWrite, 1), region(Access::Local, 2));
        let missing = (0..world.mail.pairs(Half::Post, 0, 0)).map(|pair| (pair, 0)).collect();
        let peer = world.peers.intern("other").unwrap();
        Self { world, engine, client, events, shared, local, peer, wires, missing }
    }

    /// What peers know of it.
    pub fn view(&self) -> PeerView {
        let region = RegionView { id: self.shared, start: 0, len: 2 * HALF, access: Access::ReadWrite };
        let segment =
            SegmentView { name: "kv".into(), kind: "dram".into(), len: 2 * HALF, regions: vec![region] };
        PeerView {
            name: self.world.name.clone(),
            incarnation: self.world.incarnation,
            offers: self.world.transports.iter().map(|t| t.transport.offer()).collect(),
            segments: vec![Arc::new(segment)],
            ..PeerView::default()
        }
    }

    /// Knows the other one.
    pub fn meet(&self, other: PeerView) {
        let peer = self.world.peers.get(self.peer).unwrap();
        peer.view.store(Arc::new(other));
        peer.set_state(PeerState::Up);
        self.world.peers.changed();
    }

    /// A place at the other node.
    pub fn remote(&self, offset: u64) -> Remote {
        let incarnation = self.world.peers.get(self.peer).unwrap().view.load().incarnation;
        Remote { peer: self.peer, incarnation, segment: 0, offset }
    }

    /// Whether control has something to do at `now`.
    pub fn has_duties(&self, now: u64) -> bool {
        !self.events.is_empty() || self.missing.iter().any(|(_, at)| *at <= now)
    }

    /// When it will have, if nothing else happens.
    pub fn next_duty(&self) -> Option<u64> {
        self.missing.iter().map(|(_, at)| *at).min()
    }

    /// Does one thing.
    pub fn do_duty(&mut self, now: u64, dice: &mut Dice) -> String {
        if let Ok(event) = self.events.try_recv() {
            return self.hear(&event, now, dice);
        }
        let Some(at) = self.missing.iter().position(|(_, at)| *at <= now) else { return "idle".into() };
        let (pair, _) = self.missing.swap_remove(at);
        let view = self.world.peers.get(self.peer).unwrap().view.load_full();
        match rig::dial(&self.world, &view, 0, pair) {
            Some(link) => {
                let mut links = self.links();
                links.push(link);
                self.publish(links);
                format!("dials pair {pair}")
            }
            None => {
                self.missing.push((pair, now + dice.between(100_000, 20_000_000)));
                format!("cannot dial pair {pair}")
            }
        }
    }

    /// What stages tell. In words without the numbers of links, which are others in each run.
    fn hear(&mut self, event: &Event, now: u64, dice: &mut Dice) -> String {
        let Event::LinkClosed(id, _) = event else { return format!("hears {event:?}") };
        let mut links = self.links();
        let Some(at) = links.iter().position(|link| link.id == *id) else {
            return "hears of a link that it does not know".into();
        };
        let pair = links.remove(at).pair.0;
        self.publish(links);
        self.missing.push((pair, now + dice.between(10_000, 3_000_000)));
        format!("hears that the link of pair {pair} is closed")
    }

    fn links(&self) -> Vec<LinkRef> {
        Vec::clone(&self.world.peers.get(self.peer).unwrap().links.load())
    }

    fn publish(&self, links: Vec<LinkRef>) {
        let peer = self.world.peers.get(self.peer).unwrap();
        peer.links.store(Arc::new(links));
        peer.set_state(PeerState::Up);
        self.world.peers.changed();
    }

    /// Kills one of its links, if it has any.
    pub fn kill_a_link(&self, dice: &mut Dice) {
        let links = self.links();
        if !links.is_empty() {
            let link = dice.one_of(&links);
            let _ = self.world.mail.post((Half::Reap, 0, 0, link.pair.0), Mail::Abort(link.id));
        }
    }
}
