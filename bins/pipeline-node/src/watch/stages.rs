//! A stage that is watched: notes who runs it, and stops where it is held.

use pipeline_graph::{
    Arming, Batch, BuildError, Context, Contract, Drained, Flow, Outlet, Polled, Port, Seat, Spec, Stage,
};
use pipeline_stages::Key;
use std::sync::Arc;

use super::Watch;

/// See the file's head.
pub(super) struct Watched {
    pub(super) inner: Arc<dyn Spec<Key>>,
    pub(super) name: String,
    pub(super) watch: Watch,
}

impl Spec<Key> for Watched {
    fn ports(&self) -> &[Port] {
        self.inner.ports()
    }

    fn contract(&self) -> Contract {
        self.inner.contract()
    }

    fn key(&self, item: Key) -> u64 {
        self.inner.key(item)
    }

    fn rank(&self, item: Key) -> u64 {
        self.inner.rank(item)
    }

    fn owner(&self, item: Key) -> usize {
        self.inner.owner(item)
    }

    fn build(&self, seat: &Seat) -> Result<Box<dyn Stage<Key>>, BuildError> {
        let stage = self.inner.build(seat)?;
        let (spec, name, watch) = (self.inner.clone(), self.name.clone(), self.watch.clone());
        Ok(Box::new(Instance { stage, spec, name, watch }))
    }
}

struct Instance {
    stage: Box<dyn Stage<Key>>,
    spec: Arc<dyn Spec<Key>>,
    name: String,
    watch: Watch,
}

impl Stage<Key> for Instance {
    fn run(&mut self, input: &mut Batch<Key>, out: &mut Outlet<Key>, cx: &mut Context) -> Flow {
        self.watch.pass(&self.name);
        let keys: Vec<(u64, u64)> =
            input.iter().map(|item| (self.spec.key(item), self.spec.rank(item))).collect();
        let flow = self.stage.run(input, out, cx);
        // What it leaves is noted when it comes again.
        let taken = keys.len().saturating_sub(input.len());
        let thread = std::thread::current().id();
        let mut seen = self.watch.seen();
        for key in &keys[..taken] {
            *seen.runs.entry((self.name.clone(), thread, *key)).or_default() += 1;
        }
        flow
    }

    fn poll(&mut self, out: &mut Outlet<Key>, cx: &mut Context) -> Polled {
        self.watch.pass(&self.name);
        let polled = self.stage.poll(out, cx);
        if polled == Polled::Busy {
            self.watch.seen().polls.insert((self.name.clone(), std::thread::current().id()));
        }
        polled
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        self.stage.arm(on);
    }

    fn drain(&mut self, out: &mut Outlet<Key>, cx: &mut Context) -> Drained {
        self.stage.drain(out, cx)
    }
}
