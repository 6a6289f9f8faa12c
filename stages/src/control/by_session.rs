//! A peer of this kind, from the first connection to the end of its control session: what it has is learnt, links to it are
//! kept, its dead links are fenced. Deliberately one attempt: when to make the next one is for [`super::dialled`].

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;

use pipeline_transports::control::{Address, Message};
use pipeline_transports::{Nanos, Offer, clock};

use super::addresses;
use super::answers::Answers;
use super::connect::{Connected, connect};
use super::dialled::{Dialled, Ended};
use super::error::Error;
use super::fences;
use super::links::{self, Far};
use super::pages;
use super::session::Session;
use super::shared::{Shared, lock};
use super::starts::Learning;
use super::until::until;
use crate::peer::PeerView;

impl Dialled {
    /// Dials once and, if that works, keeps the session until it ends. Answers why. With a `name` only the node of that name
    /// is meant, and its addresses are those of anybody's choice.
    pub(super) async fn by_session(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        addresses: &[Address],
        name: Option<&str>,
    ) -> Ended {
        let mut stop = shared.stop.subscribe();
        let connected = tokio::select! {
            connected = connect(shared, &self.peer.label, addresses, name) => connected,
            _ = until(&mut stop, |stop| *stop) => return Ended::before(Error::Closed),
        };
        let connected = match connected {
            Ok(connected) => connected,
            Err(error) => {
                self.fences.out_of_reach(shared);
                return Ended::before(error.into());
            }
        };
        self.tell_detours(&connected);
        let (session, wire) =
            Session::new(&self.peer.label, connected.established, connected.remote, connected.stream);
        let session = Arc::new(session);
        let _start = shared.starts.hold(&shared.world, session.hello.incarnation);
        *lock(&self.session) = Some(session.clone());
        // Of a record any may be dead: the ways of lanes are asked of the node itself.
        let own = if name.is_none() { addresses } else { &[] };
        let mut answers = Answers::new(shared, &session, Some(self.clone()));
        let error = tokio::select! {
            reason = session.run(wire, true, &mut answers, stop) => {
                session.end(&reason);
                session.gone()
            }
            error = self.keep(shared, &session, own) => error,
            never = fences::keep(shared, self, &session) => match never {},
        };
        session.end(&error.to_string());
        // Slices may wait for their fences: one attempt is theirs.
        Ended { error, stood: true, again: !self.fences.is_empty() }
    }

    /// Names the addresses that did not work: once, not with every reconnect.
    fn tell_detours(&self, connected: &Connected) {
        let mut said = lock(&self.detours);
        if *said != connected.detours {
            said.clone_from(&connected.detours);
            if !said.is_empty() {
                tracing::warn!(peer = &*self.peer.label, via = %connected.remote, failed = *said, "reached");
            }
        }
    }

    /// Learns what the peer has, says that it is up, and keeps links to it. Only returns with an error.
    async fn keep(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        session: &Arc<Session>,
        addresses: &[Address],
    ) -> Error {
        let by = clock::now() + shared.settings.connect.as_nanos() as Nanos;
        let before = self.peer.view.load().incarnation;
        let offers = match self.learn(shared, session, by).await {
            Ok(offers) => offers,
            Err(error) => return error,
        };
        *lock(&self.known) = addresses::known(addresses, session, by).await;
        self.comes_up(shared, before);
        tracing::info!(peer = &*self.peer.label, name = session.hello.name, at = %session.remote, "up");
        let over: Infallible = links::keep(shared, self, &Far::of(session), &offers, |vain| {
            if vain.tried {
                // Every way was tried since the last round: callers in `open` need not wait for more.
                self.status.send_modify(|s| s.barren += 1);
            }
            ControlFlow::Continue(())
        })
        .await;
        match over {}
    }

    async fn learn(&self, shared: &Shared, session: &Session, by: Nanos) -> Result<Vec<Offer>, Error> {
        let mut offers = match session.request(&Message::GetOffers, by).await? {
            Message::Offers(offers) => offers,
            _ => {
                let reason = "another answer than its transports".to_owned();
                return Err(Error::Protocol { peer: session.peer.clone(), reason });
            }
        };
        // Those that speak to other engines find their peers themselves: no session stands for them.
        let is_foreign =
            |o: &Offer| shared.world.transports.iter().any(|t| t.kind == o.kind && t.is_foreign());
        offers.retain(|offer| !is_foreign(offer));
        self.load(shared, session, offers.clone(), by).await?;
        Ok(offers)
    }

    /// Replaces the view.
    async fn load(
        &self,
        shared: &Shared,
        session: &Session,
        offers: Vec<Offer>,
        by: Nanos,
    ) -> Result<(), Error> {
        let (name, incarnation) = (session.hello.name.clone(), session.hello.incarnation);
        let _start = shared.starts.hold(&shared.world, incarnation);
        let mut learning = Learning::new(&shared.world, &session.peer, incarnation, &offers);
        let mut learn =
            |transport: &str, region, len, keys: &[u8]| learning.region(transport, region, len, keys);
        let (version, segments) = pages::load(session, shared.settings.peer_regions, &mut learn, by).await?;
        drop(learning);
        let view = PeerView { name, incarnation, offers, segments, ..PeerView::default() };
        self.show(shared, view, pages::in_place)?;
        *lock(&self.table) = version;
        Ok(())
    }

    /// Loads the segments again: for a name or an offset that the view does not have.
    pub(super) async fn load_again(&self, shared: &Shared, by: Nanos) -> Result<(), Error> {
        let session = self.session()?;
        let offers = self.peer.view.load().offers.clone();
        self.load(shared, &session, offers, by).await
    }
}
