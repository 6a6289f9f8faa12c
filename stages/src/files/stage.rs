//! The stage `file_serve`: a source that carries out file jobs in a pool of its own. It may block in the file
//! system, which is what its pool is for; nothing else should share that pool.

use std::sync::Arc;

use crossbeam_channel::Receiver;
use pipeline_graph::{
    Arming, Batch, BuildError, Context, Contract, Flow, Outlet, Polled, Port, Seat, Shape, Spec, Stage,
};

use super::desk::Job;
use crate::key::Key;
use crate::world::World;

/// Bytes copied at a time between the bounce region and a file.
const SCRATCH: usize = 256 * 1024;

/// Describes `file_serve`.
pub struct FileServeSpec {
    world: Arc<World>,
}

impl FileServeSpec {
    /// Over the desk of a node.
    pub fn new(world: Arc<World>) -> Self {
        Self { world }
    }

    /// Ports and contract: no ports, no input; it only polls.
    pub fn shape() -> Shape {
        Shape {
            ports: Vec::new(),
            contract: Contract { source: true, sink: true, polls: true, ..Contract::default() },
        }
    }
}

impl Spec<Key> for FileServeSpec {
    fn ports(&self) -> &[Port] {
        &[]
    }

    fn contract(&self) -> Contract {
        Self::shape().contract
    }

    fn build(&self, seat: &Seat) -> Result<Box<dyn Stage<Key>>, BuildError> {
        let jobs = self.world.files.attend(seat.waker.clone());
        Ok(Box::new(FileServe { jobs, scratch: vec![0; SCRATCH].into_boxed_slice() }))
    }
}

/// One worker.
struct FileServe {
    jobs: Receiver<Job>,
    scratch: Box<[u8]>,
}

impl Stage<Key> for FileServe {
    fn run(&mut self, input: &mut Batch<Key>, _out: &mut Outlet<Key>, _cx: &mut Context) -> Flow {
        debug_assert!(input.is_empty(), "no edge leads here");
        Flow::Done
    }

    fn poll(&mut self, _out: &mut Outlet<Key>, _cx: &mut Context) -> Polled {
        match self.jobs.try_recv() {
            Ok(job) => {
                job(&mut self.scratch);
                Polled::Busy
            }
            Err(_) => Polled::Idle,
        }
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        if !self.jobs.is_empty() {
            on.busy();
        }
    }
}
