//! Which way a transfer to a peer would take now, and why: asked of what the stages decide by, so that it cannot say
//! anything else than they do. Deliberately only looks: nothing is sent, and nothing is waited for.

mod nics;

use std::collections::BTreeSet;

use pipeline_configs::Config;
use pipeline_graph::Mode;
use pipeline_transports::Op;

use crate::peer::{Peer, PeerId, PeerState, PeerView};
pub use crate::preference::Rejection;

use crate::preference::{self, Preference};
use crate::request_split::Sizes;
use crate::world::World;
pub use nics::{FromPlace, NicLanes, Passed};

use nics::Nics;

/// See the file's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// What the peer was opened by.
    pub label: String,
    /// The name it gave.
    pub name: String,
    /// Where it stands.
    pub state: PeerState,
    /// Whom another engine's protocol knows; `None` of a node of this kind.
    pub foreign: Option<ForeignPeer>,
    /// Its transports: name and type.
    pub offers: Vec<(String, String)>,
    /// What each stage `protocol_route` of this node decides, for both directions.
    pub routes: Vec<Route>,
    /// Bytes that may be in flight to it.
    pub window_bytes: u64,
    /// Slices that may be in flight to it.
    pub window_slices: u32,
    /// Neighbouring requests travel as one up to so many bytes; 0: each on its own.
    pub coalesce_bytes: u64,
    /// Why no lane lives, where none does: what the last dial came to.
    pub lane_error: Option<String>,
    /// The stage that reads back what was written, if the file has one: then WRITEs need a segment that allows READ, too.
    pub reads_back: Option<String>,
}

/// A peer that runs another engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignPeer {
    /// The transport that has found it.
    pub transport: String,
    /// What is spoken with it, as that transport says; empty where it says nothing.
    pub protocol: String,
}

impl ForeignPeer {
    fn of(world: &World, view: &PeerView) -> Option<Self> {
        let [offer] = view.offers.as_slice() else { return None };
        let foreign = world.transports.iter().find(|t| t.name == offer.name)?.transport.foreign()?;
        Some(Self { transport: offer.name.clone(), protocol: foreign.protocol(offer) })
    }
}

/// What one stage decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Its name in the file.
    pub stage: String,
    /// For READs.
    pub read: Decision,
    /// For WRITEs.
    pub write: Decision,
}

/// A decision for one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What is taken; `None`: such requests fail `NoRoute`.
    pub chosen: Option<Chosen>,
    /// What is not taken: name of the transport, and why.
    pub rejected: Vec<(String, Rejection)>,
}

/// Why a transport is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The first of `prefer` that suits.
    Preferred,
    /// None of `prefer` suits, and `fallback` allows it.
    Fallback,
    /// There is no `prefer`: the first of the file that suits.
    FirstDeclared,
    /// The peer runs another engine, and is named by this transport.
    OfItsName,
}

/// A transport that is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Its name in the file.
    pub transport: String,
    /// Its type.
    pub kind: String,
    /// Why this one.
    pub why: Why,
    /// Most bytes of a slice; `None`: only cut where regions end.
    pub slice_bytes: Option<u64>,
    /// The NICs that it may use, in order.
    pub nics: Vec<NicLanes>,
    /// How the stage `nic_select` chooses among them: its `policy`.
    pub policy: String,
    /// What it chooses for memory of each place that there is; of unknown place first.
    pub from: Vec<FromPlace>,
}

impl Chosen {
    /// The NIC of the link that a slice would take now from memory of which nobody knows where it lies; `None`: it would
    /// wait for a link.
    pub fn next(&self) -> Option<&str> {
        self.from.first()?.next.as_deref()
    }
}

/// Explains the way to a peer; `None` for one that is not known.
pub fn explain(config: &Config, world: &World, peer: PeerId) -> Option<Explanation> {
    let target = world.peers.get(peer)?;
    let view = target.view.load_full();
    let of_kind = |kind| config.stages.iter().enumerate().filter(move |(_, stage)| stage.kind == kind);
    let sizes: Vec<_> = of_kind("request_split").map(|(at, s)| (at, Sizes::of(world, &s.values))).collect();
    let route = |(at, stage): (usize, &pipeline_configs::StageConfig)| {
        let look = Look {
            config,
            world,
            target,
            view: &view,
            preference: Preference::of(&stage.values, &world.transports),
            names_some: !stage.values.texts("prefer").is_empty(),
            sizes: sizes.first().map(|(split, sizes)| (sizes, is_behind(config, at, *split))),
        };
        Route { stage: stage.name.clone(), read: look.decide(Op::Read), write: look.decide(Op::Write) }
    };
    Some(Explanation {
        label: target.label.to_string(),
        name: view.name.clone(),
        state: target.state(),
        foreign: ForeignPeer::of(world, &view),
        offers: view.offers.iter().map(|o| (o.name.clone(), o.kind.clone())).collect(),
        routes: of_kind("protocol_route").map(route).collect(),
        window_bytes: world.ledger.window.share_bytes(),
        window_slices: world.ledger.window.share_slices(),
        coalesce_bytes: world.ledger.longest_run(),
        lane_error: Some(target.lane_error.load().to_string()).filter(|why| !why.is_empty()),
        reads_back: of_kind("read_back").next().map(|(_, stage)| stage.name.clone()),
    })
}

/// Whether one stage comes behind another one on some way forward.
fn is_behind(config: &Config, first: usize, then: usize) -> bool {
    let forward = || config.blueprint.edges.iter().filter(|e| !matches!(e.mode, Mode::Return { .. }));
    let (mut reached, mut open) = (BTreeSet::from([first]), vec![first]);
    while let Some(stage) = open.pop() {
        open.extend(
            forward().filter(|e| e.from == Some(stage)).map(|e| e.to).filter(|to| reached.insert(*to)),
        );
    }
    reached.contains(&then)
}

/// A look at one peer through one route.
struct Look<'a> {
    config: &'a Config,
    world: &'a World,
    target: &'a Peer,
    view: &'a PeerView,
    preference: Preference,
    /// Whether `prefer` names any.
    names_some: bool,
    /// How slices are cut, and whether that knows the transport.
    sizes: Option<(&'a Sizes, bool)>,
}

impl Look<'_> {
    fn decide(&self, op: Op) -> Decision {
        let transports = &self.world.transports;
        let chosen = self.preference.choose(transports, self.view, op);
        let name = |at: u16| transports[usize::from(at)].name.clone();
        let tried = self.preference.order().iter().filter(|at| Some(**at) != chosen);
        let why = |at: &u16| {
            let suits = preference::suits(&transports[usize::from(*at)], self.view, op);
            suits.err().unwrap_or(Rejection::LessPreferred)
        };
        let mut rejected: Vec<_> = tried.map(|at| (name(*at), why(at))).collect();
        rejected.extend(self.preference.barred.iter().map(|(at, why)| (name(*at), *why)));
        let unknown = self.view.offers.iter().filter(|o| transports.iter().all(|t| t.kind != o.kind));
        rejected.extend(unknown.map(|offer| (offer.name.clone(), Rejection::NotDeclared)));
        Decision { chosen: chosen.map(|at| self.chosen(at)), rejected }
    }

    fn chosen(&self, at: u16) -> Chosen {
        let entry = &self.world.transports[usize::from(at)];
        let named = self.preference.order()[..self.preference.named].contains(&at);
        let nics =
            Nics { config: self.config, world: self.world, links: &self.target.links.load(), transport: at };
        let bytes = self.sizes.map(|(sizes, routed)| sizes.of_transport(routed.then_some(at)));
        Chosen {
            transport: entry.name.clone(),
            kind: entry.kind.clone(),
            why: match (named, self.names_some) {
                _ if entry.is_foreign() => Why::OfItsName,
                (true, _) => Why::Preferred,
                (false, true) => Why::Fallback,
                (false, false) => Why::FirstDeclared,
            },
            slice_bytes: bytes.filter(|bytes| *bytes != u64::MAX),
            nics: nics.lanes(),
            policy: nics.policy().to_owned(),
            from: nics.places(bytes.unwrap_or(1)),
        }
    }
}
