//! The part about NICs: what each is, which one a slice would take from memory of each place, and why not the others.
//! Deliberately by the choice of the stage itself, made for nobody.

use std::sync::atomic::Ordering::Relaxed;

use pipeline_configs::{Config, Location, Values};
use pipeline_transports::NicId;

use crate::control::lanes;
use crate::nic_select;
use crate::peer::LinkRef;
use crate::topology::Nearness;
use crate::world::World;

/// One NIC and its lanes to the peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicLanes {
    /// Its name.
    pub nic: String,
    /// The interface or device behind it; `None`: the system's routing chooses.
    pub device: Option<String>,
    /// Address that it is used by: source address or GID; `None`: the system chooses.
    pub address: Option<String>,
    /// NUMA node, if anybody knows.
    pub numa: Option<u16>,
    /// Rail, if the file says one.
    pub rail: Option<u16>,
    /// Bits per second of its port, if anybody knows.
    pub bits_per_s: Option<u64>,
    /// Bytes per second that were seen on it while it was busy; only where there are several NICs.
    pub measured_bytes_per_s: Option<u64>,
    /// Why it is not used as long as another one lives.
    pub resting: Option<String>,
    /// Lanes that there shall be to a peer.
    pub wanted: usize,
    /// Those that live.
    pub live: usize,
    /// Slices on them.
    pub outstanding: u32,
}

/// What is chosen for memory of one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromPlace {
    /// Where the local memory lies.
    pub place: Location,
    /// NICs by how near they are, the nearest first.
    pub groups: Vec<(Nearness, Vec<String>)>,
    /// The NIC of the link that a slice would take now; `None`: it would wait for a link.
    pub next: Option<String>,
    /// The others, and why they would not be taken now.
    pub passed: Vec<(String, Passed)>,
}

/// Why a NIC is passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// No lane of it lives.
    NoLane,
    /// It rests after a failure, or its port is down.
    Rests,
    /// Others are nearer.
    Farther(Nearness),
    /// It is as near; its turn comes.
    NotItsTurn,
}

impl Passed {
    /// In a word, for programs.
    pub fn word(self) -> &'static str {
        match self {
            Self::NoLane => "no_lane",
            Self::Rests => "rests",
            Self::Farther(_) => "farther",
            Self::NotItsTurn => "not_its_turn",
        }
    }

    /// In words.
    pub fn text(self) -> String {
        match self {
            Self::NoLane => "none of its lanes lives".into(),
            Self::Rests => "it rests".into(),
            Self::Farther(nearness) => {
                format!("{nearness}: used while the nearer ones are saturated or down")
            }
            Self::NotItsTurn => "as good: its turn comes".into(),
        }
    }
}

/// A look at the NICs of one transport.
pub(super) struct Nics<'a> {
    pub(super) config: &'a Config,
    pub(super) world: &'a World,
    pub(super) links: &'a [LinkRef],
    pub(super) transport: u16,
}

impl Nics<'_> {
    /// The keys of the stage that chooses.
    fn values(&self) -> &Values {
        static NO_STAGE: Values = Values(std::collections::BTreeMap::new());
        let stage = self.config.stages.iter().find(|stage| stage.kind == "nic_select");
        stage.map_or(&NO_STAGE, |stage| &stage.values)
    }

    pub(super) fn policy(&self) -> &str {
        self.values().text("policy").unwrap_or("topology")
    }

    fn of_nic(&self, nic: usize) -> impl Iterator<Item = &LinkRef> + Clone {
        let of = move |l: &&LinkRef| l.transport == self.transport && usize::from(l.nic.0) == nic;
        self.links.iter().filter(of).filter(|l| !l.life.is_dead())
    }

    fn names(&self) -> &[String] {
        self.world.transports[usize::from(self.transport)].transport.nics()
    }

    pub(super) fn lanes(&self) -> Vec<NicLanes> {
        let (world, transport) = (self.world, self.transport);
        let known = world.topology.nics(transport);
        let speeds = world.topology.speeds(transport);
        let one = |(at, name): (usize, &String)| {
            let live = self.of_nic(at);
            let facts = world.transports[usize::from(transport)].transport.nic_facts(NicId(at as u16));
            let told = known.get(at);
            let address = Some(facts.address).filter(|address| !address.is_empty());
            let bits_per_s = Some(facts.bits_per_s).filter(|bits| *bits > 0);
            let rests = || live.clone().any(|l| l.life.is_resting()).then(|| "after a failure".to_owned());
            NicLanes {
                nic: name.clone(),
                device: told.and_then(|nic| nic.device.clone()),
                address: address.or_else(|| Some(told?.address?.to_string())),
                numa: told.and_then(|nic| nic.numa()).or(facts.numa),
                rail: told.and_then(|nic| nic.rail),
                bits_per_s: told.and_then(|nic| nic.bits_per_s).or(bits_per_s),
                measured_bytes_per_s: speeds.get(at).map(|s| s.load(Relaxed)).filter(|speed| *speed > 0),
                resting: facts.resting.or_else(rests),
                wanted: lanes(world, transport).filter(|((_, _, nic, _), _)| usize::from(*nic) == at).count(),
                live: live.clone().count(),
                outstanding: live.map(|l| l.life.outstanding.load(Relaxed)).sum(),
            }
        };
        self.names().iter().enumerate().map(one).collect()
    }

    /// For each place there is; `len`: bytes of a slice.
    pub(super) fn places(&self, len: u64) -> Vec<FromPlace> {
        let topology = &self.world.topology;
        if topology.nics(self.transport).is_empty() {
            return Vec::new();
        }
        let places = topology.places().iter().enumerate();
        places.map(|(at, place)| self.place(at as u16, *place, len)).collect()
    }

    fn place(&self, at: u16, place: Location, len: u64) -> FromPlace {
        let topology = &self.world.topology;
        let stage = (self.config, self.values());
        let now = self.world.time.now();
        let next = nic_select::next(stage, topology, self.links, (self.transport, at), len, now);
        let next = next.map(|link| link.nic.0);
        let ranking = topology.ranking(self.transport, at);
        let name = |nic: u16| self.names().get(usize::from(nic)).cloned().unwrap_or_default();
        let why = |nic: u16| match self.of_nic(usize::from(nic)).all(|l| l.life.is_resting()) {
            true if self.of_nic(usize::from(nic)).next().is_none() => Passed::NoLane,
            true => Passed::Rests,
            false if next.is_some_and(|next| ranking.nearness(next) < ranking.nearness(nic)) => {
                Passed::Farther(ranking.nearness(nic))
            }
            false => Passed::NotItsTurn,
        };
        let groups = ranking.groups().map(|(near, nics)| (near, nics.iter().map(|nic| name(*nic)).collect()));
        let others = ranking.groups().flat_map(|(_, nics)| nics).filter(|nic| Some(**nic) != next);
        FromPlace {
            place,
            groups: groups.collect(),
            passed: others.map(|nic| (name(*nic), why(*nic))).collect(),
            next: next.map(name),
        }
    }
}
