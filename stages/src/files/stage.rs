//! The stage `file_serve`: a source that carries out file jobs in a pool of its own. It may block in the file
//! system, which is what its pool is for; nothing else should share that pool.

use crossbeam_channel::Receiver;
use pipeline_configs::{Facts, StageKind, Values};
use pipeline_graph::{Arming, Batch, Context, Contract, Flow, Outlet, Polled, Seat, Shape, Stage};

use super::desk::Job;
use crate::key::Key;
use crate::spec::Making;

/// Bytes copied at a time between the bounce region and a file.
const SCRATCH: usize = 256 * 1024;

pub(crate) const KIND: StageKind = StageKind {
    name: "file_serve",
    summary: "Carries out the file jobs of `dir` segments.",
    keys: &[],
    shape,
    later: None,
};

/// No ports and no input: it only polls.
fn shape(_: &Values, _: &Facts) -> Shape {
    let resident = Some("it works for peers, who do not step this node");
    let contract = Contract { source: true, sink: true, polls: true, resident, ..Contract::default() };
    Shape { ports: Vec::new(), contract }
}

pub(crate) fn build(making: &Making, seat: &Seat) -> Result<Box<dyn Stage<Key>>, String> {
    let jobs = making.world.files.attend(seat.waker.clone());
    Ok(Box::new(FileServe { jobs, scratch: vec![0; SCRATCH].into_boxed_slice() }))
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
