//! How an application waits for its batches. Deliberately without a choice of its own: `compare` takes the one that fits the
//! file, `bench` always sleeps.

use std::time::{Duration, Instant};

use pipeline_node::{Batch, Engine};

/// Looks between two yields of a thread that polls, as workers of ours that spin do it: whoever else wants the CPU gets it.
const LOOKS: u32 = 16;

/// What a thread does until a batch is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// `Batch::wait`: sleeps, and is woken. In an engine with pools of kind `caller` it steps them first.
    Wait,
    /// `Batch::poll` in a loop.
    Poll,
    /// `Engine::step` and `Batch::poll` in a loop.
    Step,
}

impl Waiting {
    /// Until the batch is done or `bound` has passed; the caller looks which.
    pub fn pause(self, engine: &Engine, batch: &Batch, bound: Duration) {
        match self {
            Self::Wait => drop(batch.wait(bound)),
            Self::Poll => look_until(bound, || batch.poll().is_some()),
            Self::Step => look_until(bound, || {
                engine.step();
                batch.poll().is_some()
            }),
        }
    }
}

fn look_until(bound: Duration, mut is_done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !(0..LOOKS).any(|_| {
        std::hint::spin_loop();
        is_done()
    }) {
        if begin.elapsed() >= bound {
            return;
        }
        std::thread::yield_now();
    }
}
