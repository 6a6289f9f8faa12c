//! The front door: takes a batch whole or not at all, and tells why.
//! Deliberately linear and without system calls: a few dozen nanoseconds a request, on the caller's thread.

mod entry;
mod error;
mod inlet;
mod judge;
mod prepared;
mod tap;
mod wanted;

use std::sync::Arc;
use std::time::Duration;

use pipeline_graph::Waker;
use pipeline_transports::clock;

pub use error::SubmitError;
pub use inlet::Inlet;
pub use prepared::{Pick, PrepareError, Prepared};
pub use tap::{Listener, Tap};

use crate::batch::Batch;
use crate::delivery::{DescriptorError, Doorbell};
use crate::ledger::{Marks, Parcel, Place, Told};
use crate::request::{Options, Remote, Request};
use crate::world::World;
use entry::Header;
use wanted::{Listed, Plain, Stretch, Wanted, judge_notice};

/// Submits batches. Any thread; share it by `Arc` or clone it.
#[derive(Clone)]
pub struct Client {
    world: Arc<World>,
    inlet: Arc<dyn Inlet>,
    deadline: Duration,
    tap: Arc<Tap>,
}

impl Client {
    /// `deadline` is that of requests that name none.
    pub fn new(world: Arc<World>, inlet: Arc<dyn Inlet>, deadline: Duration) -> Self {
        let ledger = world.ledger.clone();
        inlet.ring_for_room(&Waker::new(move || ledger.line.tell()));
        Self { world, inlet, deadline, tap: Arc::default() }
    }

    /// Where all clones of it tell what they submit.
    pub fn tap(&self) -> &Arc<Tap> {
        &self.tap
    }

    /// Submits a batch: all of it, or nothing.
    ///
    /// A request whose *memory* is wrong (region not registered, range past its end, access denied, peer
    /// restarted or gone) does not keep the others from being carried out: the batch is accepted, that
    /// request has failed at once, and the batch's summary and results say so.
    ///
    /// # Errors
    /// See [`SubmitError`]; nothing was submitted then.
    pub fn submit(&self, requests: &[Request], options: Options) -> Result<Batch, SubmitError> {
        self.submit_now(&Plain(requests), &options)
    }

    /// Makes a doorbell for [`Options::notify`].
    ///
    /// # Errors
    /// [`DescriptorError`]; without `"eventfd"` in `via` it names that.
    pub fn doorbell(&self) -> Result<Doorbell, DescriptorError> {
        if !self.is_here() {
            return Err(DescriptorError::Forked);
        }
        self.world.ledger.descriptors().ok_or(DescriptorError::NotDeclared)?;
        Doorbell::new()
    }

    /// As [`Self::submit`], and control rings `done` when the requests have ended: for what control itself submits, which
    /// must not wait. The requests name one peer, and the options no notice.
    pub(crate) fn submit_telling(
        &self,
        requests: &[Request],
        options: &Options,
        done: &Waker,
    ) -> Result<Batch, SubmitError> {
        self.try_submit(&Plain(requests), options, Some(done))
    }

    /// Submits some of the requests that were [prepared](Self::prepare), as [`Self::submit`] would those: `..` for all, a
    /// range, or a list of indices. What may have changed since is looked at: those to a peer that was restarted, gone or
    /// is leaving, and those whose local region is not registered any more, have failed at once.
    ///
    /// # Errors
    /// As [`Self::submit`]; [`SubmitError::BadRequest`] for an index that names none, [`SubmitError::PreparedElsewhere`].
    pub fn submit_prepared<'a>(
        &self,
        prepared: &Prepared,
        pick: impl Into<Pick<'a>>,
        options: Options,
    ) -> Result<Batch, SubmitError> {
        self.submit_pick(prepared, pick.into(), options, None)
    }

    /// As [`Self::submit_prepared`], but waits for room as [`Self::submit_wait`] does.
    ///
    /// # Errors
    /// As there.
    pub fn submit_prepared_wait<'a>(
        &self,
        prepared: &Prepared,
        pick: impl Into<Pick<'a>>,
        options: Options,
        timeout: Duration,
    ) -> Result<Batch, SubmitError> {
        self.submit_pick(prepared, pick.into(), options, Some(timeout))
    }

    fn submit_pick(
        &self,
        prepared: &Prepared,
        pick: Pick<'_>,
        options: Options,
        timeout: Option<Duration>,
    ) -> Result<Batch, SubmitError> {
        if prepared.engine != self.world.incarnation {
            return Err(SubmitError::PreparedElsewhere);
        }
        let (start, end) = match pick {
            Pick::List(indices) => {
                return self.submit_either(&Listed { of: prepared, indices }, options, timeout);
            }
            Pick::All => (0, prepared.len()),
            Pick::Range(range) => (range.start as usize, range.end as usize),
        };
        let stretch = prepared.ready.get(start..end);
        let beyond = || {
            let index = prepared.len().saturating_sub(start);
            SubmitError::BadRequest { index, what: prepared::BEYOND }
        };
        self.submit_either(&Stretch(stretch.ok_or_else(beyond)?), options, timeout)
    }

    fn submit_either<W: Wanted>(
        &self,
        wanted: &W,
        options: Options,
        timeout: Option<Duration>,
    ) -> Result<Batch, SubmitError> {
        match timeout {
            None => self.submit_now(wanted, &options),
            Some(timeout) => self.wait_for_room(wanted, &options, timeout),
        }
    }

    fn submit_now<W: Wanted>(&self, wanted: &W, options: &Options) -> Result<Batch, SubmitError> {
        let submitted = self.try_submit(wanted, options, None);
        if matches!(submitted, Err(SubmitError::Busy { .. })) {
            self.world.ledger.counted.busy();
        }
        submitted
    }

    fn try_submit<W: Wanted>(
        &self,
        wanted: &W,
        options: &Options,
        done: Option<&Waker>,
    ) -> Result<Batch, SubmitError> {
        if !self.is_here() {
            return Err(SubmitError::Forked);
        }
        let ledger = &self.world.ledger;
        let (asked, limit) = (wanted.len() as u64, u64::from(ledger.requests_limit()));
        if asked > limit {
            return Err(SubmitError::TooLarge { asked, limit });
        }
        let len = wanted.len() as u32;
        if len == 0 {
            return Err(SubmitError::Empty);
        }
        wanted.check()?;
        if let Some(body) = &options.notice {
            judge_notice(wanted, body)?;
        }
        let doorbell = match &options.notify {
            None => None,
            Some(doorbell) => Some((doorbell, ledger.descriptors().ok_or(SubmitError::NoDoorbells)?)),
        };
        let busy = |what, asked, free: u32| match self.inlet.is_closed() {
            true => SubmitError::Stopped,
            false => SubmitError::Busy { what, asked, free: u64::from(free) },
        };
        let batch = ledger.batches.take().ok_or_else(|| busy("limits.batches", 1, 0))?;
        let deadline =
            u64::try_from(options.deadline.unwrap_or(self.deadline).as_nanos()).unwrap_or(u64::MAX);
        let at = self.world.time.now();
        let deadline = at.saturating_add(deadline);
        let told = match (&options.notice, done) {
            (Some(body), _) => Some(Told::Peer(body.clone())),
            (None, done) => done.cloned().map(Told::Here),
        };
        let marks = Marks { notice: told.is_some(), doorbell: doorbell.is_some() };
        if let Some(to) = told {
            let Remote { peer, incarnation, .. } = wanted.at(0).remote;
            if !ledger.outbox.put(batch, Parcel { peer, incarnation, deadline, to }) {
                ledger.batches.give(batch);
                return Err(busy("limits.notices", 1, 0));
            }
        }
        if !ledger.reserve_requests(len) {
            if marks.notice {
                ledger.outbox.remove(batch);
            }
            ledger.batches.give(batch);
            return Err(busy("limits.requests", asked, ledger.free_requests()));
        }
        if let Some((doorbell, listeners)) = doorbell {
            listeners.hang(batch, doorbell.clone());
        }
        // What control submits itself nobody asked this node for.
        let told_at = (self.tap.is_open() && done.is_none()).then(clock::now);
        entry::enter(self, wanted, Header { batch, deadline, marks, at })?;
        if let Some(told_at) = told_at {
            self.tap.tell(told_at, wanted);
        }
        Ok(Batch::new(self.world.clone(), batch, len))
    }

    /// As [`Self::submit`], but waits up to `timeout` while it is busy. On a thread of an engine, where waiting would
    /// be for ever, it answers [`SubmitError::WouldDeadlock`] instead.
    ///
    /// Those who wait are served in the order in which they came; each freed batch and each free place on the first
    /// edge wakes the first of them only. Others may find room before it for a millisecond, and with
    /// [`Self::submit`], which never waits, at any time.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn submit_wait(
        &self,
        requests: &[Request],
        options: Options,
        timeout: Duration,
    ) -> Result<Batch, SubmitError> {
        self.wait_for_room(&Plain(requests), &options, timeout)
    }

    fn wait_for_room<W: Wanted>(
        &self,
        wanted: &W,
        options: &Options,
        timeout: Duration,
    ) -> Result<Batch, SubmitError> {
        if !self.is_here() {
            return Err(SubmitError::Forked);
        }
        let by = clock::now().saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        let line = &self.world.ledger.line;
        let mut busy = None;
        if timeout.is_zero() || !line.is_due() || pipeline_graph::on_engine_thread() {
            match self.try_submit(wanted, options, None) {
                Err(error @ SubmitError::Busy { .. }) => busy = Some(error),
                end => return end,
            }
        }
        if pipeline_graph::on_engine_thread() {
            return Err(SubmitError::WouldDeadlock);
        }
        let place = line.stand();
        loop {
            if place.may_try() || busy.is_none() && clock::now() >= by {
                match self.try_submit(wanted, options, None) {
                    Err(error @ SubmitError::Busy { .. }) => busy = Some(error),
                    end => return end,
                }
            }
            let left = clock::until(by);
            if left.is_zero()
                && let Some(error) = busy.take()
            {
                self.world.ledger.counted.busy();
                return Err(error);
            }
            self.pause(&place, left);
        }
    }

    /// Sleeps until there may be room, at most `left`. With `caller` pools nothing is freed unless somebody steps: the
    /// thread leads if nobody else does, and looks every millisecond, because the line cannot rouse who leads.
    fn pause(&self, place: &Place<'_>, left: Duration) {
        let Some(callers) = self.world.callers.get() else { return place.sleep(left) };
        let nap = left.min(Duration::from_millis(1));
        match callers.lead() {
            Some(mut lead) => {
                lead.step(clock::now() + nap.as_nanos() as u64, || false);
            }
            None => place.sleep(nap),
        }
        if !callers.is_led() {
            self.world.ledger.batches.crowd.pass_on();
        }
    }

    /// Whether this is the process of the engine, not a child forked from it.
    fn is_here(&self) -> bool {
        self.world.regions.origin().is_here()
    }
}
