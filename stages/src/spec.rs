//! How a stage of this crate becomes a `Spec` of the graph: one frozen description for all of its workers.
//! Deliberately the same for all of them: a stage's file says only what is its own.

use std::sync::Arc;

use crossbeam_utils::CachePadded;
use pipeline_configs::Config;
use pipeline_graph::{BuildError, Contract, PoolKind, Port, Seat, Shape, Spec, Stage};
use pipeline_transports::RegionId;

use crate::key::Key;
use crate::ledger::{Shard, Slot};
use crate::reason::StageIx;
use crate::world::{Own, World};

/// What a stage is made from.
pub(crate) struct Making {
    /// Everything shared.
    pub(crate) world: Arc<World>,
    /// The file.
    pub(crate) config: Arc<Config>,
    /// Index of the stage in the file.
    pub(crate) stage: usize,
    /// Least slots of a letterbox.
    pub(crate) box_size: usize,
}

impl Making {
    pub(crate) fn values(&self) -> &pipeline_configs::Values {
        &self.config.stages[self.stage].values
    }

    /// For an instance to keep, and to hold on to while it works with itself.
    pub(crate) fn own(&self) -> Own {
        Arc::new(CachePadded::new(self.world.clone()))
    }

    /// The part of the ledger that the worker on a seat uses. It may hold window back for itself if it cuts as well: then it
    /// has a stage that gives it up in time, which a worker without a thread of its own could not promise.
    pub(crate) fn shard(&self, seat: &Seat) -> Shard {
        let stages = self.config.stages.iter().zip(&self.config.blueprint.stages);
        let mut pools = stages.filter(|(stage, _)| stage.kind == "request_split").map(|(_, decl)| decl.pool);
        let pool = pools.next().flatten().and_then(|p| self.config.blueprint.pools.get(p));
        let alone = pools.next().is_none();
        let holds = pool.is_some_and(|p| alone && p.kind == PoolKind::Resident && *p.name == *seat.pool);
        self.world.ledger.shard(seat, holds)
    }

    pub(crate) fn ix(&self) -> StageIx {
        StageIx::try_from(self.stage).unwrap_or(StageIx::MAX - 1)
    }
}

/// Makes the instance for one seat; the text of an error says what is wrong and what to do next.
pub(crate) type Build = fn(&Making, &Seat) -> Result<Box<dyn Stage<Key>>, String>;

/// See the file's head.
pub(crate) struct StageSpec {
    pub(crate) making: Making,
    pub(crate) shape: Shape,
    pub(crate) build: Build,
    /// Requests to one region of a peer spread over this many keys of `dispatch = "hash"`.
    pub(crate) spread: u64,
}

impl Spec<Key> for StageSpec {
    fn ports(&self) -> &[Port] {
        &self.shape.ports
    }

    fn contract(&self) -> Contract {
        self.shape.contract.clone()
    }

    /// The peer: with the rank, what an item meets the same worker by.
    fn key(&self, item: Key) -> u64 {
        let ledger = &self.making.world.ledger;
        u64::from(ledger.at(ledger.position(item)).peer().0)
    }

    /// Target region, and number of the request modulo `spread`: regions that were registered one after the other have
    /// numbers in a row, and so load workers in a row.
    fn rank(&self, item: Key) -> u64 {
        let world = &self.making.world;
        let slot = world.ledger.at(world.ledger.position(item));
        let region = slot.target().unwrap_or_else(|| region_of(world, slot)).0;
        u64::from(region as u32) * self.spread + u64::from(slot.request()) % self.spread
    }

    /// The worker that owns the slice's link.
    fn owner(&self, item: Key) -> usize {
        let ledger = &self.making.world.ledger;
        ledger.at(ledger.position(item)).post_worker() as usize
    }

    fn build(&self, seat: &Seat) -> Result<Box<dyn Stage<Key>>, BuildError> {
        (self.build)(&self.making, seat).map_err(|reason| BuildError {
            stage: seat.stage.to_string(),
            pool: seat.pool.to_string(),
            worker: seat.worker,
            reason,
        })
    }
}

/// Where the first byte of a strided request lies: its slot has no room to say so.
#[cold]
fn region_of(world: &World, slot: Slot<'_>) -> RegionId {
    let segment = world.ledger.request(slot.request()).segment();
    let view = world.peers.get(slot.peer()).map(|peer| peer.view.load());
    let segment = view.as_ref().and_then(|view| view.segments.get(segment as usize));
    segment.and_then(|s| s.region_at(slot.remote().offset)).map_or(RegionId::default(), |region| region.id)
}

/// Ports by name, in order; `required` says which must be wired.
pub(crate) fn ports(names: &[(&'static str, bool)]) -> Vec<Port> {
    names.iter().map(|(n, r)| if *r { Port::required(*n) } else { Port::optional(*n) }).collect()
}
