//! Awaiting a batch from a task of any async runtime.
//! Deliberately without a runtime of its own, and without time: a timeout is the runtime's, a deadline the batch's.

use std::borrow::Borrow;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::{AwaitError, Ticket};
use crate::batch::Batch;
use crate::ledger::Summary;

/// The end of a batch, as a future: what `(&batch).await` and `batch.await` wait for.
///
/// ```no_run
/// # async fn done(batch: pipeline_stages::Batch) -> Result<(), pipeline_stages::AwaitError> {
/// let summary = (&batch).await?;
/// assert!(summary.is_done(), "{:?}", batch.results().collect::<Vec<_>>());
/// # Ok(())
/// # }
/// ```
///
/// By reference the batch stays with its owner, and any number of tasks may await it at once, each woken once; one entry
/// of memory is kept for each that waits besides the first. By value it goes with the future: dropping that before the
/// end drops the batch, whose transfers go on ([`Batch`]). So give `&batch` to a timeout, and cancel the batch then if it
/// shall end.
///
/// Needs `"waker"` in `via` of `completion_notify`. A waker is run by whoever ends the batch, as a rule a thread of the
/// engine, which goes on when it returns: it should do what wakers do, and schedule its task. One that panics is counted
/// ([`crate::traffic::Counts::callback_panics`]) and costs nobody else. It may be polled anywhere, in a callback and on a
/// thread of the engine too; also after it was ready.
pub struct WhenDone<B: Borrow<Batch>> {
    batch: B,
    ticket: Ticket,
}

impl<B: Borrow<Batch>> WhenDone<B> {
    pub(crate) fn new(batch: B) -> Self {
        Self { batch, ticket: Ticket::default() }
    }
}

impl<B: Borrow<Batch> + Unpin> Future for WhenDone<B> {
    type Output = Result<Summary, AwaitError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { batch, ticket } = self.get_mut();
        (*batch).borrow().poll_done(ticket, cx.waker())
    }
}

impl<B: Borrow<Batch>> Drop for WhenDone<B> {
    fn drop(&mut self) {
        if self.ticket != Ticket::default() {
            self.batch.borrow().forget_task(&mut self.ticket);
        }
    }
}

impl<B: Borrow<Batch>> fmt::Debug for WhenDone<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WhenDone").field(self.batch.borrow()).finish()
    }
}

impl IntoFuture for Batch {
    type Output = Result<Summary, AwaitError>;
    type IntoFuture = WhenDone<Self>;

    fn into_future(self) -> WhenDone<Self> {
        WhenDone::new(self)
    }
}

impl IntoFuture for &Batch {
    type Output = Result<Summary, AwaitError>;
    type IntoFuture = WhenDone<Self>;

    fn into_future(self) -> WhenDone<Self> {
        WhenDone::new(self)
    }
}
