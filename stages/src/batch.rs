//! A batch in the caller's hands: poll it, wait for it, await it, cancel it, ask what became of each request.
//! Deliberately no lock and no allocation, unless it is asked for a descriptor: it is an index into the ledger.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};
use std::time::Duration;

use pipeline_transports::clock;

use crate::callbacks::OnDoneError;
use crate::delivery::{AwaitError, DescriptorError, Ticket};
use crate::leading;
use crate::ledger::{NIL, Summary};
use crate::reason::{Failure, NOTICE_STAGE, Reason, SUBMIT_STAGE};
use crate::world::World;

/// Handle of an accepted batch. Shareable between threads; awaited by `(&batch).await` ([`crate::WhenDone`]). The handle is
/// its only name: callers cannot give batches ids, so no two can share one.
///
/// In a process forked from the engine's, a batch that was not done has failed there and then
/// ([`Reason::Forked`]): it goes on in the parent, whose batch this copy does not touch.
///
/// Its slots are freed when it is dropped; if it is dropped before its end, its transfers go on (cancel it
/// first if they should not) and whoever ends the last one frees them.
pub struct Batch {
    world: Arc<World>,
    index: u32,
    len: u32,
    /// Once somebody asked for it.
    fd: OnceLock<Arc<OwnedFd>>,
}

/// Why a wait came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WaitError {
    /// The batch is not done yet.
    #[error("not done within the timeout; wait again, or cancel the batch")]
    Timeout,
    /// Asked on a thread of an engine, which would wait for itself. Answered at once, whatever the timeout; a batch
    /// that is done already is told all the same.
    #[error(
        "waiting here would deadlock: this thread runs the engine's stages; use `on_done` or `poll` instead"
    )]
    WouldDeadlock,
}

/// What became of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// It has not ended.
    Pending,
    /// All of its bytes are applied at their destination.
    Done,
    /// It ended otherwise. Some of its bytes may have been moved.
    Failed(Failure),
}

impl Batch {
    pub(crate) fn new(world: Arc<World>, index: u32, len: u32) -> Self {
        Self { world, index, len, fd: OnceLock::new() }
    }

    /// How many requests it has.
    #[allow(clippy::len_without_is_empty, reason = "an empty batch is refused")]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether it is done, and then what it came to: one load.
    pub fn poll(&self) -> Option<Summary> {
        self.world.ledger.batches.summary(self.index).or_else(|| self.forked())
    }

    /// What it is in a forked child, if it was not done.
    fn forked(&self) -> Option<Summary> {
        let child = !self.is_here();
        child.then_some(Summary { requests: self.len, failed: self.len, ..Summary::default() })
    }

    /// Whether this is the process of the engine, not a child forked from it.
    fn is_here(&self) -> bool {
        self.world.regions.origin().is_here()
    }

    /// Sleeps until it is done. Costs no CPU while it waits (with `via = ["status"]` alone nobody wakes it, and it
    /// looks 5 000 times a second).
    ///
    /// # Errors
    /// [`WaitError`]; the batch goes on.
    pub fn wait(&self, timeout: Duration) -> Result<Summary, WaitError> {
        if pipeline_graph::on_engine_thread() {
            return self.poll().ok_or(WaitError::WouldDeadlock);
        }
        if let Some(done) = self.poll() {
            return Ok(done);
        }
        let ledger = &self.world.ledger;
        let nanos = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let (by, told) = (clock::now().saturating_add(nanos), ledger.is_told());
        let summary = match self.world.callers.get() {
            None => ledger.batches.wait(self.index, by, told),
            Some(callers) => leading::wait(callers, &ledger.batches, self.index, by, told),
        };
        summary.ok_or(WaitError::Timeout)
    }

    /// Leaves a function that is run once when the batch is done, at once if it is: by a worker of the stage
    /// `callbacks`, in the pool that the file gives it. The handle may be dropped; the function stays.
    ///
    /// It may submit, and leave functions with what it has submitted; waiting there answers
    /// [`WaitError::WouldDeadlock`]. It may take its time, at the cost of those behind it. If it panics that is logged
    /// and counted ([`crate::traffic::Counts::callback_panics`]) and costs nobody else. Functions that were not begun when
    /// the engine is stopped are dropped; a drain waits for them.
    ///
    /// # Errors
    /// [`OnDoneError`]; the function was dropped.
    pub fn on_done(&self, callback: impl FnOnce(Summary) + Send + 'static) -> Result<(), OnDoneError> {
        self.world.ledger.on_done(self.index, Box::new(callback))
    }

    /// A descriptor for an event loop: readable as soon as the batch is done, also if it is already, and from then on. It is
    /// level-triggered and only to be polled, never read; it is made when it is first asked for and closed with the batch.
    /// Readable says that [`Self::poll`] answers. For many batches at once, one [`crate::Doorbell`].
    ///
    /// # Errors
    /// [`DescriptorError`]; without `"eventfd"` in `via` it names that.
    pub fn eventfd(&self) -> Result<BorrowedFd<'_>, DescriptorError> {
        if !self.is_here() {
            return Err(DescriptorError::Forked);
        }
        let ledger = &self.world.ledger;
        let listeners = ledger.descriptors().ok_or(DescriptorError::NotDeclared)?;
        if self.fd.get().is_none() {
            listeners.open(self.index, ledger.batches.word(self.index), &self.fd)?;
        }
        Ok(self.fd.get().expect("it was filled, by this thread or by another").as_fd())
    }

    /// As a future is polled ([`crate::WhenDone`]).
    pub(crate) fn poll_done(&self, ticket: &mut Ticket, waker: &Waker) -> Poll<Result<Summary, AwaitError>> {
        let ledger = &self.world.ledger;
        let Some(listeners) = ledger.wakers() else { return Poll::Ready(Err(AwaitError::NotDeclared)) };
        // In a forked child it is answered here, so that no lock is taken that nobody will open.
        let done = match self.poll() {
            None if !listeners.wait(self.index, ledger.batches.word(self.index), ticket, waker) => None,
            None => self.poll(),
            done => done,
        };
        done.map_or(Poll::Pending, |summary| Poll::Ready(Ok(summary)))
    }

    /// A task that has polled it is gone.
    pub(crate) fn forget_task(&self, ticket: &mut Ticket) {
        if let Some(listeners) = self.world.ledger.wakers().filter(|_| self.is_here()) {
            listeners.leave(self.index, ticket);
        }
    }

    /// Asks its slices to end; the batch is done when the last of them has, within a fraction of a second. A WRITE
    /// of which bytes have left is waited for a tenth of a second; if no answer comes its link is aborted, and it ends
    /// `Cancelled` if the target confirms within another tenth that it has let go of the link, else `Undetermined`. Other
    /// WRITEs that had begun on that link are sent again after the confirmation. A notice is given a tenth of a second as well. When the batch is done nothing touches
    /// its local buffers any more.
    pub fn cancel(&self) {
        if self.forked().is_none() {
            self.world.ledger.cancel(self.index);
        }
    }

    /// What became of each request, in the order of submission.
    pub fn results(&self) -> impl Iterator<Item = Status> + '_ {
        let ledger = &self.world.ledger;
        let (mut at, _, _) = ledger.batches.chain(self.index);
        let mut first = at;
        (0..self.len).map(move |_| {
            let request = at;
            debug_assert_ne!(request, NIL, "the chain of a batch is as long as the batch");
            at = ledger.request(request).chain.load(std::sync::atomic::Ordering::Relaxed);
            if !ledger.request(request).is_merged() {
                first = request;
            }
            self.status(request, first)
        })
    }

    /// `first`: of the run that it travels in, as a rule itself.
    fn status(&self, request: u32, first: u32) -> Status {
        let ledger = &self.world.ledger;
        let (ended, ..) = ledger.request(first).result();
        let (code, cover) = (ledger.request(request).code(), ledger.cover_of(first));
        if !ended {
            return match self.forked() {
                None => Status::Pending,
                Some(_) => Status::Failed(self.failure(Reason::Forked, cover.peer(), SUBMIT_STAGE)),
            };
        }
        match code.reason(cover.len(), ledger.window.bytes_limit()) {
            None => Status::Done,
            Some(Reason::Corrupt(_)) => {
                let found = code.noted().and_then(|at| ledger.mismatch(at, first));
                Status::Failed(self.failure(Reason::Corrupt(found), cover.peer(), code.stage()))
            }
            Some(reason) => Status::Failed(self.failure(reason, cover.peer(), code.stage())),
        }
    }

    /// What became of its notice; `None` if it has none. Done means that the peer has put it into its queue of notices.
    /// A failed one says whether the receiver may have it all the same ([`crate::reason::NoticeFault::Unanswered`]).
    pub fn notice(&self) -> Option<Status> {
        let ledger = &self.world.ledger;
        let ended = ledger.batches.summary(self.index).is_some();
        let code = ledger.batches.notice(self.index)?;
        let (first, ..) = ledger.batches.chain(self.index);
        let reason = match (ended, self.forked()) {
            (true, _) => code.reason(0, 0),
            (false, Some(_)) => Some(Reason::Forked),
            (false, None) => return Some(Status::Pending),
        };
        Some(reason.map_or(Status::Done, |reason| {
            Status::Failed(self.failure(reason, ledger.cover_of(first).peer(), NOTICE_STAGE))
        }))
    }

    fn failure(&self, reason: Reason, peer: crate::peer::PeerId, stage: u16) -> Failure {
        let peer = self.world.peers.get(peer).map_or_else(|| Arc::from("unknown"), |p| p.label.clone());
        Failure { reason, peer, stage: self.world.ledger.stage_name(stage) }
    }

    /// Frees its slots now.
    ///
    /// # Errors
    /// Gives the handle back while the batch is not done: wait for it, or cancel it and wait.
    pub fn free(self) -> Result<(), Self> {
        if self.poll().is_some() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("len", &self.len).field("summary", &self.poll()).finish()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if !self.is_here() {
            return;
        }
        let ledger = &self.world.ledger;
        // First: from then on the index may name another batch.
        ledger.forget_listeners(self.index);
        if ledger.batches.detach(self.index) {
            ledger.free_batch(self.index);
        }
    }
}
