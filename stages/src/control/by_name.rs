//! A peer that runs another engine: found by its name there, without a control session. What it has is told by whoever finds
//! it, links to it are kept, and when the last of them has died it is found again.
//!
//! Deliberately without any traffic of its own: as long as a link lives, or nobody wants one, nobody asks whether it is there.
//! Two things are reason to ask. Links that died while work was under way, or that cannot be dialled: then it may be
//! somewhere else, or another one. And links that all ended while nothing was: it may have closed them because they
//! idled, or be gone, which is worth one question (a *probe*), so that whoever hears of peers hears of that.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use pipeline_transports::foreign::{Foreign, Found};
use pipeline_transports::transport::SessionId;
use pipeline_transports::{Error as Reason, Nanos, clock};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::dialled::{Dialled, Ended};
use super::error::Error;
use super::found::{in_place, view};
use super::links::{self, Far, Vain};
use super::reach::Foreigner;
use super::settings::backoff;
use super::shared::{Shared, lock};
use super::starts::Start;
use super::until::until;
use crate::peer::PeerView;

/// What is kept of a peer that runs another engine.
#[derive(Default)]
pub(super) struct Elsewhere {
    /// As it was found last, and the start that this is of: what holds while its directory does not answer, and as long as its
    /// view is shown, so that what it has keeps its names when links come and go.
    last: Mutex<Option<(Arc<Found>, Arc<Start>)>>,
    /// The start that it was found to be last: another one than links lead to ends those.
    start: watch::Sender<u64>,
}

/// Why links are no longer kept.
enum Lost {
    /// None could be had.
    Never,
    /// The last one has died.
    Died,
    /// All were closed while nobody used them.
    Unused,
}

impl Foreigner {
    /// What its transport can do for it.
    pub(super) fn protocol<'a>(&self, shared: &'a Shared) -> &'a dyn Foreign {
        let transport = &shared.world.transports[usize::from(self.transport)].transport;
        transport.foreign().expect("only transports that have it are named by a `Foreigner`")
    }

    async fn find(&self, shared: &Shared, by: Nanos) -> Result<Found, Reason> {
        let late = || Reason::Deadline { what: "finding", peer: self.name.clone() };
        let found = timeout(clock::until(by), self.protocol(shared).find(&self.name, by)).await;
        let mut found = found.unwrap_or_else(|_| Err(late()))?;
        // So that routes and links take the transport that has found it, whatever it is called there.
        let entry = &shared.world.transports[usize::from(self.transport)];
        (found.offer.name, found.offer.kind) = (entry.name.clone(), entry.kind.clone());
        Ok(found)
    }

    async fn probe(&self, shared: &Shared, by: Nanos) -> Result<(), Reason> {
        let late = || Reason::Deadline { what: "asking", peer: self.name.clone() };
        let told = timeout(clock::until(by), self.protocol(shared).probe(&self.name, by)).await;
        told.unwrap_or_else(|_| Err(late()))
    }
}

/// The end of the time that one step may take.
fn limit(shared: &Shared) -> Nanos {
    clock::now() + shared.settings.connect.as_nanos() as Nanos
}

impl Dialled {
    /// Finds it and, if it is there, keeps links to it until it is gone. Answers why.
    pub(super) async fn by_name(self: &Arc<Self>, shared: &Arc<Shared>, at: &Foreigner) -> Ended {
        let mut stop = shared.stop.subscribe();
        let found = tokio::select! {
            found = self.find_first(shared, at) => found,
            _ = until(&mut stop, |stop| *stop) => return Ended::before(Error::Closed),
        };
        let found = match found {
            Ok(found) => found,
            Err(error) => return Ended::before(error),
        };
        let (before, incarnation) = (self.peer.view.load().incarnation, found.incarnation);
        let far = match self.meet(shared, at, found) {
            Ok(far) => far,
            Err(error) => return Ended::before(error),
        };
        self.elsewhere.start.send_replace(incarnation);
        let mut start = self.elsewhere.start.subscribe();
        self.comes_up(shared, before);
        tracing::info!(peer = &*self.peer.label, name = at.name, at = %far.remote, "found");
        let error = tokio::select! {
            error = self.stay(shared, at, far) => error,
            _ = until(&mut start, |start| *start != incarnation) => {
                let reason = "it was started anew".to_owned();
                let error = Error::Gone { peer: self.peer.label.to_string(), reason };
                return Ended { error, stood: true, again: true };
            }
            _ = until(&mut stop, |stop| *stop) => Error::Closed,
        };
        Ended { error, stood: true, again: false }
    }

    /// Finds it; while its directory does not answer it is where it was found last.
    async fn find_first(&self, shared: &Shared, at: &Foreigner) -> Result<Arc<Found>, Error> {
        match at.find(shared, limit(shared)).await {
            Ok(found) => Ok(Arc::new(found)),
            Err(error @ Reason::Directory { .. }) => match &*lock(&self.elsewhere.last) {
                Some((last, _)) => {
                    tracing::warn!(peer = &*self.peer.label, "looked for where it was last: {error}");
                    Ok(last.clone())
                }
                None => Err(error.into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Takes what was found for what it has; where links lead from now on.
    fn meet(&self, shared: &Shared, at: &Foreigner, found: Arc<Found>) -> Result<Far, Error> {
        let peer = self.peer.label.to_string();
        let broken = |reason| Error::Protocol { peer: peer.clone(), reason };
        let remote = *found.addresses.first().ok_or_else(|| broken("it is reached nowhere".to_owned()))?;
        let start = shared.starts.hold(&shared.world, found.incarnation);
        let transport = &shared.world.transports[usize::from(at.transport)].transport;
        let segments = view(&found, &**transport, shared.settings.peer_regions).map_err(broken)?;
        let (name, incarnation) = (found.name.clone(), found.incarnation);
        let offers = vec![found.offer.clone()];
        let view = PeerView { name, incarnation, offers, segments, ..PeerView::default() };
        self.show(shared, view, in_place)?;
        *lock(&self.known) = found.addresses.clone();
        let before = lock(&self.elsewhere.last).replace((found, start));
        // Not under the lock: it may have been the last one that held that start.
        drop(before);
        Ok(Far { peer, remote, id: SessionId([0; 16]), incarnation, session: None })
    }

    /// Keeps links, and finds it again when they have died, as long as it is the same start. Answers why no longer.
    async fn stay(self: &Arc<Self>, shared: &Arc<Shared>, at: &Foreigner, mut far: Far) -> Error {
        let mut failures = 0;
        loop {
            let begin = Instant::now();
            let offers = self.peer.view.load().offers.clone();
            let lost = links::keep(shared, self, &far, &offers, |vain: Vain| match vain {
                Vain { unused: true, .. } => ControlFlow::Break(Lost::Unused),
                Vain { lived: true, .. } => ControlFlow::Break(Lost::Died),
                Vain { tried: true, .. } => ControlFlow::Break(Lost::Never),
                _ => ControlFlow::Continue(()),
            });
            match lost.await {
                Lost::Never => return self.no_link(),
                Lost::Died => {
                    let lasted = begin.elapsed() > 2 * shared.settings.backoff_max;
                    failures = if lasted { 1 } else { failures + 1 };
                    sleep(backoff(failures, shared.settings.backoff_max)).await;
                }
                Lost::Unused => {
                    failures = 0;
                    match at.probe(shared, limit(shared)).await {
                        Ok(()) | Err(Reason::Directory { .. }) => self.until_link_wanted().await,
                        Err(error) => return error.into(),
                    }
                }
            }
            match at.find(shared, limit(shared)).await {
                Ok(found) if found.incarnation != far.incarnation => {
                    self.elsewhere.start.send_replace(found.incarnation);
                    // Whoever polls this hears of it, and ends it.
                    return std::future::pending().await;
                }
                Ok(found) => match self.meet(shared, at, Arc::new(found)) {
                    Ok(now) => far = now,
                    Err(error) => return error,
                },
                Err(error @ Reason::Directory { .. }) => {
                    tracing::warn!(peer = &*self.peer.label, "dialled where it was last: {error}");
                }
                Err(error) => return error.into(),
            }
        }
    }

    /// Why there is no link, as far as the last one said.
    fn no_link(&self) -> Error {
        let said = self.status.borrow().barren_error.clone();
        said.unwrap_or_else(|| Error::Gone {
            peer: self.peer.label.to_string(),
            reason: "no link to it could be had".to_owned(),
        })
    }

    async fn until_link_wanted(&self) {
        loop {
            let asked = !std::mem::take(&mut *lock(&self.asked)).is_empty();
            if self.wants_link.swap(false, Ordering::Relaxed) || asked {
                return;
            }
            self.links_wake.notified().await;
        }
    }

    /// Finds it for whoever misses something in the view.
    pub(super) async fn find_again(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        at: &Foreigner,
        by: Nanos,
    ) -> Result<(), Error> {
        if !self.status.borrow().up {
            return self.open(false, by).await.map(|_| ());
        }
        let found = at.find(shared, by).await?;
        if found.incarnation == self.peer.view.load().incarnation {
            return self.meet(shared, at, Arc::new(found)).map(|_| ());
        }
        let attempts = self.status.borrow().attempts;
        self.elsewhere.start.send_replace(found.incarnation);
        let mut status = self.status.subscribe();
        let late = || Error::Deadline { what: "finding", peer: self.peer.label.to_string() };
        let ended = timeout(clock::until(by), until(&mut status, |s| s.attempts > attempts)).await;
        if !ended.map_err(|_| late())? {
            return Err(Error::Closed);
        }
        self.open(false, by).await.map(|_| ())
    }
}
