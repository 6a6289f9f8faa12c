//! A session that a peer opened, and the lanes that came with it. When it ends, its lanes are killed and
//! its files forgotten, so that a host which vanished leaves nothing behind.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pipeline_transports::control::Preamble;
use pipeline_transports::{Error as Reason, Incoming, LinkId, Nanos, NicId, PairId, clock};
use tokio::net::TcpStream;

use super::answers::Answers;
use super::links::Via;
use super::post::{abort, deliver, seats};
use super::session::{Session, Wire};
use super::shared::{Running, Shared, lock, new_link};
use crate::mail::{Half, Mail, SeatId};
use crate::peer::LinkLife;

/// See the module.
pub(super) struct Accepted {
    session: Arc<Session>,
    /// Its lanes, oldest first. A lane that its peer closed stays in the list until newer ones push it out.
    lanes: Mutex<VecDeque<(LinkId, SeatId)>>,
}

/// Runs an accepted session until it ends. It is known before this returns for the first time, so that a
/// lane which follows at once finds it.
pub(super) fn start(shared: &Arc<Shared>, session: Session, wire: Wire) {
    let session = Arc::new(session);
    let accepted = Arc::new(Accepted { session: session.clone(), lanes: Mutex::default() });
    lock(&shared.accepted).insert(session.id, accepted.clone());
    let shared = shared.clone();
    tokio::spawn(async move {
        let _running = Running::new(&shared);
        let mut answers = Answers::new(&shared, &session, true);
        tracing::info!(peer = session.peer, at = %session.remote, "session opened by peer");
        let reason = session.run(wire, false, &mut answers, shared.stop.subscribe()).await;
        tracing::info!(peer = session.peer, "session ended: {reason}");
        lock(&shared.accepted).remove(&session.id);
        for (link, seat) in std::mem::take(&mut *lock(&accepted.lanes)) {
            abort(&shared.world, seat, link);
        }
    });
}

/// Takes a lane: finds its session and transport, and hands it to a `serve` worker.
pub(super) async fn lane(shared: &Arc<Shared>, preamble: Preamble, stream: TcpStream) -> Result<(), Reason> {
    let refused = |peer: &str, reason: &str| Reason::Refused { peer: peer.into(), reason: reason.into() };
    let accepted = lock(&shared.accepted).get(&preamble.session).cloned();
    let accepted = accepted.ok_or_else(|| refused("unknown", "a lane of no session of ours"))?;
    let peer = &accepted.session.peer;
    let named = |e: &crate::world::TransportEntry| e.name == preamble.transport;
    let index = shared.world.transports.iter().position(named);
    let index = index.ok_or_else(|| refused(peer, "a lane of a transport that is not declared here"))?;
    let all = seats(&shared.world, Half::Serve, index as u16);
    if all.is_empty() {
        return Err(refused(peer, "a lane of a transport without a `serve` worker here"));
    }
    let seat = all[next() % all.len()];
    let io = |source| Reason::Io { what: format!("taking a lane of {peer}"), source };
    let incoming = Incoming {
        link: new_link(),
        peer: peer.clone(),
        stream: stream.into_std().map_err(io)?,
        hello: preamble.hello,
        nic: NicId(seat.2),
        pair: PairId(seat.3),
    };
    let id = incoming.link;
    let mut via = Via { session: accepted.session.clone(), transport: preamble.transport };
    let limit: Duration = shared.settings.connect;
    let entry = &shared.world.transports[index];
    let accepting = entry.transport.accept(incoming, &mut via, clock::now() + limit.as_nanos() as Nanos);
    let late = |_| Reason::Deadline { what: "taking a lane", peer: peer.clone() };
    let link = tokio::time::timeout(limit, accepting).await.map_err(late)??;
    if accepted.session.has_ended() {
        return Ok(());
    }
    let Some(end) = link.serve else { return Ok(()) };
    remember(shared, &accepted, id, seat);
    deliver(&shared.world, seat, Mail::Adopt { end, life: Arc::new(LinkLife::default()) }).await;
    if accepted.session.has_ended() {
        abort(&shared.world, seat, id);
    }
    Ok(())
}

fn remember(shared: &Arc<Shared>, accepted: &Accepted, link: LinkId, seat: SeatId) {
    let oldest = {
        let mut lanes = lock(&accepted.lanes);
        lanes.push_back((link, seat));
        if lanes.len() > shared.settings.links { lanes.pop_front() } else { None }
    };
    if let Some((link, seat)) = oldest {
        abort(&shared.world, seat, link);
    }
}

/// Round robin over the `serve` workers.
fn next() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
