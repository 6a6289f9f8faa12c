//! How a stage of this crate becomes a `Spec` of the graph: one frozen description for all of its workers.
//! Deliberately the same for all of them: a stage's file says only what is its own.

use std::sync::Arc;

use pipeline_configs::Config;
use pipeline_graph::{BuildError, Contract, Port, Seat, Shape, Spec, Stage};

use crate::key::Key;
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
        Arc::new(self.world.clone())
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
    /// Requests of one peer and segment spread over this many keys of `dispatch = "hash"`.
    pub(crate) spread: u64,
}

impl Spec<Key> for StageSpec {
    fn ports(&self) -> &[Port] {
        &self.shape.ports
    }

    fn contract(&self) -> Contract {
        self.shape.contract.clone()
    }

    /// Peer, segment, and number of the request modulo `spread`.
    fn key(&self, item: Key) -> u64 {
        let ledger = &self.making.world.ledger;
        let slot = ledger.at(ledger.position(item));
        let request = slot.request();
        let segment = ledger.request(request).segment.load(std::sync::atomic::Ordering::Relaxed);
        let part = u64::from(request) % self.spread;
        u64::from(slot.peer().0) << 40 ^ u64::from(segment) << 20 ^ part
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

/// Ports by name, in order; `required` says which must be wired.
pub(crate) fn ports(names: &[(&'static str, bool)]) -> Vec<Port> {
    names.iter().map(|(n, r)| if *r { Port::required(*n) } else { Port::optional(*n) }).collect()
}
