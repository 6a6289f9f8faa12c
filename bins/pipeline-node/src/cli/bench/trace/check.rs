//! `--check`: a thread that compares every byte of every block that was read, while it lies where it came to, and then
//! zeroes it. Deliberately beside the loop that is measured: it takes a CPU, whose time is told and not counted.

use std::collections::VecDeque;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};

use super::bytes::{Bytes, Scratch};

/// Blocks on their way to the thread and back; more wait in the loop, at most as many as there are slots.
const LENGTH: usize = 256;

/// What is to be done with a slot.
#[derive(Clone, Copy, Debug)]
pub enum Task {
    /// Compare it with a block, and zero it.
    Compare {
        /// The slot.
        slot: u32,
        /// The block.
        block: u32,
    },
    /// Zero it: what it holds is no block, or was written and is known.
    Wipe {
        /// The slot.
        slot: u32,
    },
}

/// What became of it.
struct Answer {
    slot: u32,
    wrong: Result<u64, String>,
}

/// The thread, and what it was given. Slots are held by whoever gives them until they come back.
pub struct Checker<'s> {
    tasks: Sender<Task>,
    answers: Receiver<Answer>,
    thread: ScopedJoinHandle<'s, u64>,
    backlog: VecDeque<Task>,
    out: usize,
    /// Bytes that were wrong so far.
    pub wrong: u64,
}

impl<'s> Checker<'s> {
    /// Starts it.
    pub fn start<'env>(scope: &'s Scope<'s, 'env>, bytes: Bytes<'env>) -> Self {
        let (tasks, inbox) = bounded(LENGTH);
        // Never full: what is out is bounded by both.
        let (outbox, answers) = bounded(2 * LENGTH);
        let thread = scope.spawn(move || {
            let mut scratch = Scratch::new();
            for task in inbox {
                let answer = carry_out(&bytes, task, &mut scratch);
                if outbox.send(answer).is_err() {
                    break;
                }
            }
            let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
        });
        Self { tasks, answers, thread, backlog: VecDeque::new(), out: 0, wrong: 0 }
    }

    /// Gives it a slot, which must be held until [`Self::back`] has named it.
    pub fn give(&mut self, task: Task) {
        self.backlog.push_back(task);
    }

    /// Slots that it has not given back.
    pub fn pending(&self) -> usize {
        self.backlog.len() + self.out
    }

    /// A slot that it is done with, if there is one; waits for it for `patience`.
    ///
    /// # Errors
    /// Why it could not look.
    pub fn back(&mut self, patience: Duration) -> Result<Option<u32>, String> {
        while self.out < LENGTH
            && let Some(task) = self.backlog.pop_front()
        {
            match self.tasks.try_send(task) {
                Ok(()) => self.out += 1,
                Err(TrySendError::Full(task)) => {
                    self.backlog.push_front(task);
                    break;
                }
                Err(TrySendError::Disconnected(_)) => return Err("the thread of --check has ended".into()),
            }
        }
        let answer = match patience.is_zero() {
            true => self.answers.try_recv().ok(),
            false => self.answers.recv_timeout(patience).ok(),
        };
        let Some(Answer { slot, wrong }) = answer else { return Ok(None) };
        self.out -= 1;
        self.wrong += wrong?;
        Ok(Some(slot))
    }

    /// Ends it, and answers the CPU time it has used, nanoseconds, and the wrong bytes it found.
    pub fn finish(self) -> (u64, u64) {
        drop(self.tasks);
        (self.thread.join().unwrap_or(0), self.wrong)
    }
}

fn carry_out(bytes: &Bytes<'_>, task: Task, scratch: &mut Scratch) -> Answer {
    let (slot, compared) = match task {
        Task::Compare { slot, block } => (slot, bytes.wrong(slot, block, scratch)),
        Task::Wipe { slot } => (slot, Ok(0)),
    };
    let wrong = compared.and_then(|wrong| bytes.wipe(slot, scratch).map(|()| wrong));
    Answer { slot, wrong }
}
