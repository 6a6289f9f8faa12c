//! How an application waits for its batches. Deliberately without a choice of its own: `compare` takes the one that fits the
//! file, `bench` always sleeps.

use std::time::{Duration, Instant};

use pipeline_node::{Batch, Doorbell, Engine, Options};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

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
    /// A doorbell among the descriptors of an event loop.
    Epoll,
}

/// A thread that waits, with what it needs for that.
pub struct Waiter<'a> {
    waits: Waiting,
    engine: &'a Engine,
    doorbell: Option<Doorbell>,
}

impl<'a> Waiter<'a> {
    /// For batches of this engine.
    ///
    /// # Errors
    /// Why there is no doorbell.
    pub fn new(waits: Waiting, engine: &'a Engine) -> Result<Self, String> {
        let doorbell = (waits == Waiting::Epoll).then(|| engine.doorbell()).transpose();
        Ok(Self { waits, engine, doorbell: doorbell.map_err(|e| e.to_string())? })
    }

    /// What its batches are submitted with.
    pub fn options(&self) -> Options {
        Options { notify: self.doorbell.clone(), ..Options::default() }
    }

    /// Until the batch is done or `bound` has passed; the caller looks which. At a doorbell: until any has ended.
    pub fn pause(&self, batch: &Batch, bound: Duration) {
        match (self.waits, &self.doorbell) {
            (_, Some(doorbell)) => ring_within(doorbell, bound),
            (Waiting::Poll, None) => look_until(bound, || batch.poll().is_some()),
            (Waiting::Step, None) => look_until(bound, || {
                self.engine.step();
                batch.poll().is_some()
            }),
            (Waiting::Wait | Waiting::Epoll, None) => drop(batch.wait(bound)),
        }
    }
}

/// Level-triggered: a ring that came before is seen at once.
fn ring_within(doorbell: &Doorbell, bound: Duration) {
    let bound = Timespec::try_from(bound).ok();
    // What interrupts it ends it, and the caller looks.
    let _ = poll(&mut [PollFd::new(doorbell, PollFlags::IN)], bound.as_ref());
    doorbell.take();
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
