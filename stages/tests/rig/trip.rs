//! Stages that panic on demand: a spec around a spec, whose instances fail in the middle of what they do.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use pipeline_graph::{
    Arming, Batch, BuildError, Context, Contract, Drained, Flow, Outlet, Polled, Port, Seat, Spec, Stage,
};
use pipeline_stages::Key;

/// What such a panic says.
pub const TRIPPED: &str = "the trip wire of a test";

/// In which posture a stage panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posture {
    /// Half of its batch worked off.
    Halfway,
    /// As before, and the next item in its hands: popped and not passed on.
    InHand,
    /// All of its batch worked off.
    Full,
    /// After a poll.
    Poll,
}

/// Counts down to the panic: below 0 it has happened, or was never asked for.
#[derive(Clone)]
pub struct Wire(Arc<AtomicI64>);

impl Default for Wire {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(-1)))
    }
}

impl Wire {
    /// The panic comes after so many items.
    pub fn set(&self, items: usize) {
        self.0.store(items as i64, Relaxed);
    }

    /// Whether it has come.
    pub fn is_sprung(&self) -> bool {
        self.0.load(Relaxed) < 0
    }

    fn counts(&self, items: usize) -> bool {
        let before = self.0.load(Relaxed);
        if before < 0 {
            return false;
        }
        self.0.store(before - items as i64, Relaxed);
        before - (items as i64) < 0
    }
}

/// See the file's head.
pub struct Tripping {
    pub inner: Arc<dyn Spec<Key>>,
    pub posture: Posture,
    pub wire: Wire,
}

struct Instance {
    inner: Box<dyn Stage<Key>>,
    posture: Posture,
    wire: Wire,
}

impl Spec<Key> for Tripping {
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
        let (inner, posture, wire) = (self.inner.build(seat)?, self.posture, self.wire.clone());
        Ok(Box::new(Instance { inner, posture, wire }))
    }
}

impl Stage<Key> for Instance {
    fn run(&mut self, input: &mut Batch<Key>, out: &mut Outlet<Key>, cx: &mut Context) -> Flow {
        if self.posture == Posture::Poll || !self.wire.counts(input.len()) {
            return self.inner.run(input, out, cx);
        }
        let worked = if self.posture == Posture::Full { input.len() } else { input.len() / 2 };
        let mut part = Batch::new();
        for _ in 0..worked {
            input.pop().into_iter().for_each(|key| part.push(key).unwrap());
        }
        self.inner.run(&mut part, out, cx);
        assert!(part.is_empty(), "a test leaves room on every port");
        if self.posture == Posture::InHand {
            input.pop();
        }
        panic!("{TRIPPED}");
    }

    fn poll(&mut self, out: &mut Outlet<Key>, cx: &mut Context) -> Polled {
        let polled = self.inner.poll(out, cx);
        let trips = self.posture == Posture::Poll && polled == Polled::Busy && self.wire.counts(1);
        assert!(!trips, "{TRIPPED}");
        polled
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        self.inner.arm(on);
    }

    fn drain(&mut self, out: &mut Outlet<Key>, cx: &mut Context) -> Drained {
        self.inner.drain(out, cx)
    }
}
