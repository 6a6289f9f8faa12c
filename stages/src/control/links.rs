//! Links to a peer that is up: as many as the file says for every transport in common, dialled
//! again when they die. Deliberately without the data: an end goes to its seat and is not seen here again.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use pipeline_transports::control::{Control, Message};
use pipeline_transports::transport::{BoxFuture, SessionId};
use pipeline_transports::{Blame, Error as Reason, LinkId, Nanos, NicId, Offer, PairId, Path, clock};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::dialled::Dialled;
use super::error::Error;
use super::fences::Owed;
use super::post::{abort, deliver, seats};
use super::session::Session;
use super::settings::backoff;
use super::shared::{Known, Shared, lock, new_link};
use super::starts::counterpart;
use crate::mail::{Half, Mail, SeatId};
use crate::peer::{LinkLife, LinkRef, PeerId};
use crate::world::World;

/// Where links lead: to one start of a peer.
#[derive(Clone)]
pub(super) struct Far {
    /// Name or address of the peer, for messages.
    pub(super) peer: String,
    /// Where it was reached.
    pub(super) remote: SocketAddr,
    /// Secret name of its session; no one's where there is none.
    pub(super) id: SessionId,
    /// Which start of it.
    pub(super) incarnation: u64,
    /// Carries exchanges, and fences of links that died; a peer that runs another engine has none.
    pub(super) session: Option<Arc<Session>>,
}

impl Far {
    /// Of a session.
    pub(super) fn of(session: &Arc<Session>) -> Self {
        Self {
            peer: session.peer.clone(),
            remote: session.remote,
            id: session.id,
            incarnation: session.hello.incarnation,
            session: Some(session.clone()),
        }
    }
}

/// Asks the same transport of the peer, over the control session.
pub(super) struct Via {
    pub(super) peer: String,
    pub(super) session: Option<Arc<Session>>,
    pub(super) transport: String,
}

impl Control for Via {
    fn exchange<'a>(&'a mut self, body: &'a [u8], by: Nanos) -> BoxFuture<'a, Result<Vec<u8>, Reason>> {
        Box::pin(async move {
            let peer = self.peer.clone();
            let Some(session) = &self.session else {
                let reason = "it runs another engine, which takes no exchanges".to_owned();
                return Err(Reason::Refused { peer, reason });
            };
            let message = Message::Exchange { transport: self.transport.clone(), body: body.to_vec() };
            match session.request(&message, by).await {
                Ok(Message::Exchanged(body)) => Ok(body),
                Ok(_) => Err(Reason::Protocol { peer, reason: "another answer than to an exchange".into() }),
                Err(Error::Deadline { what, peer }) => Err(Reason::Deadline { what, peer }),
                Err(e) => Err(Reason::Refused { peer, reason: e.to_string() }),
            }
        })
    }
}

/// One link that shall exist.
struct Way {
    /// Its post seat; the reap seat has the same numbers.
    seat: SeatId,
    lane: u16,
    /// Index into the peer's offers.
    offer: usize,
    state: State,
    failures: u32,
}

enum State {
    Live(LinkId),
    Dialling,
    Waiting(Instant),
    /// Its link was closed because nobody used it: it is dialled when somebody wants it.
    Unwanted,
}

impl Way {
    /// It was tried and did not come to anything, or nobody wants it.
    fn is_vain(&self) -> bool {
        match self.state {
            State::Waiting(_) => self.failures > 0,
            State::Unwanted => true,
            State::Live(_) | State::Dialling => false,
        }
    }
}

/// That not one link lives, and none is being dialled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vain {
    /// Every way was tried, the last of them just now; else the last link has just died.
    pub(super) tried: bool,
    /// A link has lived since they are kept.
    pub(super) lived: bool,
    /// All were closed because nobody used them, and none is dialled before somebody wants it.
    pub(super) unused: bool,
}

/// Keeps all ways alive until the peer is gone (then this future is dropped), or until `vain` has enough of it.
pub(super) async fn keep<Over>(
    shared: &Arc<Shared>,
    dialled: &Arc<Dialled>,
    far: &Far,
    offers: &[Offer],
    mut vain: impl FnMut(Vain) -> ControlFlow<Over>,
) -> Over {
    let mut ways = ways(shared, offers);
    let mut lived = false;
    if ways.is_empty() {
        let error = no_transport(shared, dialled, offers);
        dialled.status.send_modify(|s| s.barren_error = Some(error));
        if let ControlFlow::Break(over) = vain(Vain { tried: true, lived, unused: false }) {
            return over;
        }
    }
    let mut dials = JoinSet::new();
    loop {
        let mut next = None;
        for (i, way) in ways.iter_mut().enumerate() {
            let State::Waiting(until) = way.state else { continue };
            if until > Instant::now() {
                next = Some(next.map_or(until, |n: Instant| n.min(until)));
                continue;
            }
            let (_, transport, nic, _) = way.seat;
            if let Some(until) = shared.nics.barred(transport, nic) {
                way.state = State::Waiting(until);
                next = Some(next.map_or(until, |n: Instant| n.min(until)));
                continue;
            }
            way.state = State::Dialling;
            let offer = offers[way.offer].clone();
            dials.spawn(dial(shared.clone(), dialled.clone(), far.clone(), way.seat, way.lane, offer, i));
        }
        let tried = tokio::select! {
            Some(Ok((i, dialled_link))) = dials.join_next() => {
                settle(shared, dialled, &mut ways[i], dialled_link);
                true
            }
            () = dialled.links_wake.notified() => {
                let died = retire(shared, dialled, &mut ways);
                revive(dialled, &mut ways);
                hurry(shared, &mut ways);
                if !died {
                    continue;
                }
                false
            }
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => continue,
        };
        lived |= ways.iter().any(|way| matches!(way.state, State::Live(_)));
        if ways.iter().all(Way::is_vain) {
            let unused = ways.iter().all(|way| matches!(way.state, State::Unwanted));
            if let ControlFlow::Break(over) = vain(Vain { tried, lived, unused }) {
                return over;
            }
        }
    }
}

/// The lanes of one transport to a peer that has it too: post seats, and a number on each.
pub(crate) fn lanes(world: &World, transport: u16) -> impl Iterator<Item = (SeatId, u16)> {
    let each = world.transports.get(usize::from(transport)).map_or(0, |t| t.transport.lanes().max(1));
    seats(world, Half::Post, transport)
        .into_iter()
        .flat_map(move |seat| (0..each).map(move |lane| (seat, lane)))
}

/// Every lane of every post worker of every transport that both sides have.
fn ways(shared: &Shared, offers: &[Offer]) -> Vec<Way> {
    let mut ways = Vec::new();
    for (t, entry) in shared.world.transports.iter().enumerate() {
        let Some(offer) = counterpart(entry, offers) else { continue };
        for (seat, lane) in lanes(&shared.world, t as u16) {
            let state = State::Waiting(Instant::now());
            ways.push(Way { seat, lane, offer, state, failures: 0 });
        }
    }
    ways
}

fn no_transport(shared: &Shared, dialled: &Dialled, offers: &[Offer]) -> Error {
    let entries = shared.world.transports.iter().enumerate();
    let posted = entries.filter(|(t, _)| !seats(&shared.world, Half::Post, *t as u16).is_empty());
    Error::NoTransport {
        peer: dialled.peer.label.to_string(),
        ours: posted.map(|(_, e)| e.kind.clone()).collect(),
        theirs: offers.iter().map(|o| o.kind.clone()).collect(),
    }
}

/// Dials one link, hands its ends to their seats, and tells how the data path finds it.
async fn dial(
    shared: Arc<Shared>,
    dialled: Arc<Dialled>,
    far: Far,
    seat: SeatId,
    lane: u16,
    offer: Offer,
    way: usize,
) -> (usize, Result<LinkRef, Error>) {
    (way, dial_inner(&shared, &dialled, &far, seat, lane, &offer).await)
}

async fn dial_inner(
    shared: &Arc<Shared>,
    dialled: &Arc<Dialled>,
    far: &Far,
    seat: SeatId,
    lane: u16,
    offer: &Offer,
) -> Result<LinkRef, Error> {
    let (_, transport, nic, pair) = seat;
    let entry = &shared.world.transports[transport as usize];
    let path = Path {
        link: new_link(),
        nic: NicId(nic),
        pair: PairId(pair),
        lane,
        peer: far.peer.clone(),
        address: far.remote,
        addresses: lock(&dialled.known).clone(),
        session: far.id,
        incarnation: far.incarnation,
        avoid: dialled.paths.avoid(transport, nic),
    };
    let life = LinkLife::to(&dialled.peer.view.load())
        .among(entry.transport.nics().len())
        .counted(&dialled.peer, (transport, nic, pair));
    let life = Arc::new(if far.session.is_some() { life } else { life.unfenceable() });
    let owed = Owed {
        life: life.clone(),
        reap: (Half::Reap, transport, nic, pair),
        session: far.id,
        incarnation: far.incarnation,
    };
    // Noted before anything can go wrong with it, so that the end of the session finds it.
    let _start = shared.starts.hold(&shared.world, far.incarnation);
    note(shared, path.link, Known { dialled: dialled.clone(), remote_nic: 0, adopted: false, owed, _start })?;
    let (peer, session) = (far.peer.clone(), far.session.clone());
    let mut via = Via { peer, session, transport: offer.name.clone() };
    let by = clock::now() + shared.settings.connect.as_nanos() as Nanos;
    let dialling = entry.transport.dial(&path, offer, &mut via, by);
    let late = || Reason::Deadline { what: "dialling", peer: far.peer.clone() };
    let link = tokio::time::timeout(shared.settings.connect, dialling).await.unwrap_or_else(|_| Err(late()));
    let link = link.inspect_err(|_| _ = lock(&shared.links).remove(&path.link))?;
    let remote_nic = link.remote_nic;
    let ends = [(Half::Reap, link.reap), (Half::Serve, link.serve), (Half::Post, link.post)];
    for (half, end) in ends.into_iter().filter_map(|(half, end)| Some((half, end?))) {
        let mail = Mail::Adopt { end, life: life.clone() };
        if !deliver(&shared.world, (half, transport, nic, pair), mail).await {
            lock(&shared.links).remove(&path.link);
            abort(&shared.world, (Half::Reap, transport, nic, pair), path.link);
            let reason = format!("{half:?} worker {pair} of NIC {nic} does not take links");
            return Err(Reason::Unreachable { peer: far.peer.clone(), reason }.into());
        }
        if half == Half::Reap
            && let Some(known) = lock(&shared.links).get_mut(&path.link)
        {
            (known.adopted, known.remote_nic) = (true, remote_nic);
        }
    }
    let post_worker = shared.world.mail.worker(seat).unwrap_or_default();
    let (id, nic, pair) = (path.link, path.nic, path.pair);
    Ok(LinkRef { id, transport, nic, remote_nic, pair, post_worker, life })
}

fn note(shared: &Shared, link: LinkId, known: Known) -> Result<(), Error> {
    let mut links = lock(&shared.links);
    let limit = shared.settings.links;
    if links.len() >= limit {
        return Err(Error::Limit { what: "links", limit: limit as u64 });
    }
    links.insert(link, known);
    Ok(())
}

/// Takes the outcome of a dial into account.
fn settle(shared: &Shared, dialled: &Dialled, way: &mut Way, outcome: Result<LinkRef, Error>) {
    match outcome {
        // It may have died between its mailing and now; then nobody will report it again.
        Ok(link) if lock(&shared.links).contains_key(&link.id) => {
            (way.state, way.failures) = (State::Live(link.id), 0);
            shared.nics.mark(dialled, &link);
            let mut links = Vec::clone(&dialled.peer.links.load());
            links.push(link);
            publish(shared, dialled, links);
            dialled.peer.lane_error.store(Arc::default());
        }
        Ok(_) => wait(shared, dialled, way),
        Err(error) => {
            if way.failures == 0 {
                tracing::warn!(peer = &*dialled.peer.label, lane = way.lane, "no link: {error}");
            }
            if error.is_of_nic() {
                shared.nics.local_failure(way.seat.1, way.seat.2);
            }
            dialled.peer.lane_error.store(Arc::new(error.to_string()));
            dialled.status.send_modify(|s| s.barren_error = Some(error));
            wait(shared, dialled, way);
        }
    }
}

fn wait(shared: &Shared, dialled: &Dialled, way: &mut Way) {
    way.failures += 1;
    // One of another engine may have all the links that it takes. Where none lives, it is found again before a dial.
    let longest = match dialled.is_foreign() {
        true => shared.settings.rest_max,
        false => shared.settings.backoff_max,
    };
    way.state = State::Waiting(Instant::now() + backoff(way.failures, longest));
}

/// Takes dead links out of the list. Whether there were any.
fn retire(shared: &Shared, dialled: &Dialled, ways: &mut [Way]) -> bool {
    let closed = std::mem::take(&mut *lock(&dialled.closed));
    if closed.is_empty() {
        return false;
    }
    for way in ways.iter_mut() {
        let State::Live(id) = way.state else { continue };
        match closed.iter().find(|(link, _)| *link == id) {
            Some((_, true)) => way.state = State::Unwanted,
            Some((_, false)) => wait(shared, dialled, way),
            None => {}
        }
    }
    let mut links = Vec::clone(&dialled.peer.links.load());
    links.retain(|l| closed.iter().all(|(link, _)| *link != l.id));
    publish(shared, dialled, links);
    true
}

/// Ways whose links were closed because nobody used them are dialled again where somebody wants one: over a transport of
/// which slices found no link, and over any if there is not one at all.
fn revive(dialled: &Dialled, ways: &mut [Way]) {
    let asked = std::mem::take(&mut *lock(&dialled.asked));
    let lives = |w: &Way| !matches!(w.state, State::Unwanted | State::Waiting(_));
    let none = dialled.wants_link.swap(false, Relaxed) && !ways.iter().any(lives);
    let linked: BTreeSet<u16> = ways.iter().filter(|w| lives(w)).map(|w| w.seat.1).collect();
    for way in ways.iter_mut().filter(|w| matches!(w.state, State::Unwanted)) {
        if none || asked.contains(&way.seat.1) && !linked.contains(&way.seat.1) {
            way.state = State::Waiting(Instant::now());
        }
    }
}

/// Somebody waits: ways that failed before are tried again now, if not one of them lives.
fn hurry(shared: &Shared, ways: &mut [Way]) {
    if ways.iter().any(|w| matches!(w.state, State::Live(_))) {
        return;
    }
    let soon = Instant::now() + backoff(1, shared.settings.backoff_max);
    for way in ways {
        if let State::Waiting(until) = &mut way.state {
            *until = soon.min(*until);
        }
    }
}

fn publish(shared: &Shared, dialled: &Dialled, links: Vec<LinkRef>) {
    let count = links.len();
    dialled.peer.links.store(Arc::new(links));
    dialled.status.send_modify(|s| s.links = count);
    dialled.touch(shared);
}

/// The session of a peer has ended: every link of it is killed by the worker that owns it, and reported by it.
pub(super) fn abort_all(shared: &Arc<Shared>, peer: PeerId) {
    let mut gone = Vec::new();
    lock(&shared.links).retain(|link, known| {
        let stays = known.dialled.id != peer;
        if !stays {
            gone.push((*link, known.owed.reap));
        }
        // Those that were being dialled nobody will report.
        stays || known.adopted
    });
    for (link, seat) in gone {
        abort(&shared.world, seat, link);
    }
}

/// A worker reports that a link we dialled is dead and empty.
pub(super) fn closed(shared: &Shared, link: LinkId, blame: Option<Blame>) {
    let found = lock(&shared.links).remove(&link);
    let Some(Known { dialled, remote_nic, owed, .. }) = found else { return };
    shared.nics.blame(&dialled, owed.reap, remote_nic, blame.unwrap_or_default());
    let transport = &shared.world.transports[usize::from(owed.reap.1)].transport;
    let evicted = transport.evicts() || dialled.is_foreign();
    let unused = blame == Some(Blame::Nobody) && evicted;
    if owed.life.fence.is_unfenced() {
        dialled.owe(link, owed);
    }
    lock(&dialled.closed).push((link, unused));
    dialled.links_wake.notify_one();
}
