//! A session that a peer opened, and the lanes that came with it. When it ends, its lanes are killed and
//! its files forgotten, so that a host which vanished leaves nothing behind. It is known until the last of its lanes
//! is gone, because only then is it true that nothing of it touches memory any more.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pipeline_transports::control::{ErrorCode, Message, Preamble};
use pipeline_transports::transport::SessionId;
use pipeline_transports::{Error as Reason, Incoming, LinkId, Nanos, NicId, PairId, clock};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::answers::Answers;
use super::exchanges;
use super::leaving::{self, Stay};
use super::links::Via;
use super::post::{abort, deliver, seats};
use super::session::{Session, Wire};
use super::shared::{Running, Shared, lock, new_link};
use crate::mail::{Half, Mail, SeatId};
use crate::peer::LinkLife;
use crate::peer_events::PeerEvent;

/// How long the answer to a fence may take; whoever asks comes again.
const FENCE_WAIT: Duration = Duration::from_secs(2);

/// See the module.
pub(super) struct Accepted {
    pub(super) session: Arc<Session>,
    /// What its peer has said since this node leaves.
    pub(super) stay: Mutex<Stay>,
    /// Its lanes of which something may still touch memory, by the names their dialler gave them; at most
    /// `settings.links`.
    lanes: Mutex<HashMap<LinkId, Lane>>,
    /// Rung when one of them has gone.
    gone: Notify,
}

struct Lane {
    /// Our name of it.
    id: LinkId,
    seat: SeatId,
    progress: Progress,
}

/// How far a lane has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// Its dialler has not been answered, or its end is on the way to its worker.
    Pending,
    /// As before, and it shall not be served.
    Doomed,
    /// Its worker has it, and will say when it is gone.
    Served,
}

impl Accepted {
    /// Kills one of its lanes, or all; they leave the list when nothing of them touches memory any more.
    fn kill(&self, shared: &Shared, only: Option<LinkId>) {
        for (name, lane) in lock(&self.lanes).iter_mut() {
            if only.is_some_and(|only| only != *name) {
                continue;
            }
            match lane.progress {
                Progress::Pending => lane.progress = Progress::Doomed,
                Progress::Doomed => {}
                Progress::Served => abort(&shared.world, lane.seat, lane.id),
            }
        }
    }

    /// Waits until a lane, or all of them, are gone.
    async fn until_gone(&self, only: Option<LinkId>) {
        loop {
            let gone = self.gone.notified();
            let left = match (lock(&self.lanes), only) {
                (lanes, Some(only)) => lanes.contains_key(&only),
                (lanes, None) => !lanes.is_empty(),
            };
            if !left {
                return;
            }
            gone.await;
        }
    }

    fn forget(&self, name: LinkId) {
        lock(&self.lanes).remove(&name);
        self.gone.notify_waiters();
    }
}

/// Runs an accepted session until it ends. It is known before this returns for the first time, so that a
/// lane which follows at once finds it.
pub(super) fn start(shared: &Arc<Shared>, session: Session, wire: Wire) {
    let session = Arc::new(session);
    let accepted = Arc::new(Accepted {
        session: session.clone(),
        stay: Mutex::new(Stay::Unknown),
        lanes: Mutex::default(),
        gone: Notify::new(),
    });
    lock(&shared.accepted).insert(session.id, accepted.clone());
    let shared = shared.clone();
    tokio::spawn(async move {
        let running = Running::new(&shared);
        let mut answers = Answers::new(&shared, &session, None);
        tracing::info!(peer = session.peer, at = %session.remote, "session opened by peer");
        let (hello, from) = (&session.hello, session.remote);
        let (name, incarnation) = (|| hello.name.clone(), hello.incarnation);
        shared.world.watchers.tell(|| PeerEvent::Connected { name: name(), incarnation, from });
        let reason = tokio::select! {
            reason = session.run(wire, false, &mut answers, shared.stop.subscribe()) => reason,
            never = leaving::tell(&shared, &accepted) => match never {},
        };
        tracing::info!(peer = session.peer, "session ended: {reason}");
        drop(answers);
        accepted.kill(&shared, None);
        exchanges::let_go(&shared, session.id, None).await;
        drop(running);
        accepted.until_gone(None).await;
        lock(&shared.accepted).remove(&session.id);
        shared.world.watchers.tell(|| PeerEvent::Disconnected { name: name(), incarnation, from, reason });
    });
}

/// A lane that is not served yet: whatever becomes of taking it, it does not stay in the list by mistake.
struct Candidate<'a> {
    shared: &'a Shared,
    accepted: &'a Arc<Accepted>,
    name: LinkId,
    id: LinkId,
    seat: SeatId,
}

impl<'a> Candidate<'a> {
    /// Lists a lane: before its dialler is answered, so that a fence which overtakes the rest finds it.
    fn list(
        shared: &'a Shared,
        accepted: &'a Arc<Accepted>,
        name: LinkId,
        seat: SeatId,
    ) -> Result<Self, String> {
        let mut lanes = lock(&accepted.lanes);
        // Asked under the lock: whoever ends the session afterwards finds the lane in the list.
        if accepted.session.has_ended() {
            return Err("a lane of a session that has ended".to_owned());
        }
        let limit = shared.settings.links;
        if lanes.len() >= limit {
            return Err(format!("it has {limit} lanes already; see `limits.links`"));
        }
        if lanes.contains_key(&name) {
            return Err(format!("a second lane of the name {}", name.0));
        }
        let id = new_link();
        lanes.insert(name, Lane { id, seat, progress: Progress::Pending });
        lock(&shared.lanes).insert(id, (accepted.clone(), name));
        Ok(Self { shared, accepted, name, id, seat })
    }

    fn is_doomed(&self) -> bool {
        let doomed = |lane: &Lane| lane.progress == Progress::Doomed;
        self.accepted.session.has_ended() || lock(&self.accepted.lanes).get(&self.name).is_some_and(doomed)
    }

    /// Its worker has it now, and will say when it is gone.
    fn served(self) {
        let doomed = self.is_doomed();
        if let Some(lane) = lock(&self.accepted.lanes).get_mut(&self.name) {
            lane.progress = Progress::Served;
        }
        if doomed {
            abort(&self.shared.world, self.seat, self.id);
        }
        std::mem::forget(self);
    }
}

impl Drop for Candidate<'_> {
    fn drop(&mut self) {
        lock(&self.shared.lanes).remove(&self.id);
        self.accepted.forget(self.name);
    }
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
    let candidate =
        Candidate::list(shared, &accepted, preamble.link, seat).map_err(|reason| refused(peer, &reason))?;
    let io = |source| Reason::Io { what: format!("taking a lane of {peer}"), source };
    let incoming = Incoming {
        link: candidate.id,
        peer: peer.clone(),
        stream: stream.into_std().map_err(io)?,
        hello: preamble.hello,
        nic: NicId(seat.2),
        pair: PairId(seat.3),
    };
    let session = accepted.session.clone();
    let mut via = Via { peer: session.peer.clone(), session: Some(session), transport: preamble.transport };
    let limit: Duration = shared.settings.connect;
    let entry = &shared.world.transports[index];
    let accepting = entry.transport.accept(incoming, &mut via, clock::now() + limit.as_nanos() as Nanos);
    let late = |_| Reason::Deadline { what: "taking a lane", peer: peer.clone() };
    let link = tokio::time::timeout(limit, accepting).await.map_err(late)??;
    let Some(end) = link.serve.filter(|_| !candidate.is_doomed()) else { return Ok(()) };
    if deliver(&shared.world, seat, Mail::Adopt { end, life: Arc::new(LinkLife::default()) }).await {
        candidate.served();
    }
    Ok(())
}

/// Lets go of a lane of this session, or of an earlier session of the same peer with all of its lanes; answers when
/// nothing of them touches memory any more. What is not known was let go of before.
pub(super) async fn fence(shared: &Shared, asking: SessionId, session: SessionId, link: LinkId) -> Message {
    let this = session == SessionId([0; 16]);
    if session == asking || this == (link == LinkId(0)) {
        return Message::error(
            ErrorCode::MALFORMED,
            "a fence names a lane of this session or an earlier session",
        );
    }
    let named = if this { asking } else { session };
    let Some(accepted) = lock(&shared.accepted).get(&named).cloned() else { return Message::Fenced };
    let only = this.then_some(link);
    if !this {
        // Its peer speaks to us on another one: it has none that it forgot.
        accepted.session.quit("its peer has opened another session");
    }
    accepted.kill(shared, only);
    let gone = async {
        exchanges::let_go(shared, named, only).await;
        accepted.until_gone(only).await;
    };
    match tokio::time::timeout(FENCE_WAIT, gone).await {
        Ok(()) => Message::Fenced,
        Err(_) => {
            Message::error(ErrorCode::BUSY, "a worker or transport has not let go of the lane; ask again")
        }
    }
}

/// A worker reports that nothing of a lane touches memory any more.
pub(super) fn closed(shared: &Shared, link: LinkId) {
    let found = lock(&shared.lanes).remove(&link);
    if let Some((accepted, name)) = found {
        accepted.forget(name);
    }
}

/// Round robin over the `serve` workers.
fn next() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
