//! What this node answers to the requests of one session. Deliberately never on the data path and never
//! blocking: file work goes to the desk of the stage `file_serve`.

use std::sync::Arc;

use pipeline_transports::Offer;
use pipeline_transports::control::message::Traffic;
use pipeline_transports::control::{ErrorCode, FileAnswer, FileRequest, Message};
use tokio::task::JoinSet;

use super::accepted;
use super::addresses;
use super::dialled::Dialled;
use super::exchanges;
use super::leaving;
use super::pages;
use super::post::seats;
use super::pulls;
use super::session::Session;
use super::shared::Shared;
use crate::files::{FileError, FileSession};
use crate::mail::Half;
use crate::notices::Desk;
use crate::world::World;

/// Serves one session. Dropping it stops what is being served.
pub(super) struct Answers {
    shared: Arc<Shared>,
    session: Arc<Session>,
    /// The peer, on sessions we dialled.
    dialled: Option<Arc<Dialled>>,
    /// What this session holds of our files; `None` on sessions we dialled: who is called by us may not
    /// read our files or our tables.
    files: Option<Arc<FileSession>>,
    /// What we remember of its notices; only whom we serve may send some.
    notices: Option<Arc<Desk>>,
    tasks: JoinSet<()>,
}

impl Answers {
    /// For a session; `dialled`: the peer, if it was we who opened it.
    pub(super) fn new(shared: &Arc<Shared>, session: &Arc<Session>, dialled: Option<Arc<Dialled>>) -> Self {
        let files = dialled.is_none().then(|| Arc::new(FileSession::new(shared.world.clone())));
        let notices = dialled.is_none().then(|| Arc::new(Desk::new(&session.hello)));
        Self {
            shared: shared.clone(),
            session: session.clone(),
            dialled,
            files,
            notices,
            tasks: JoinSet::new(),
        }
    }

    /// Takes a request (or the number of an unknown one). Answers why the session must end, if it must.
    pub(super) fn take(&mut self, id: u32, message: Result<Message, u16>) -> Option<String> {
        while self.tasks.try_join_next().is_some() {}
        let now = match message {
            Err(kind) => Message::error(ErrorCode::UNSUPPORTED, format_args!("unknown message type {kind}")),
            Ok(Message::Ping) => Message::Pong,
            Ok(_) if self.tasks.len() >= self.shared.identity.requests_max as usize => {
                Message::error(ErrorCode::BUSY, "more requests at a time than our hello allows")
            }
            Ok(message) => {
                let (shared, session) = (self.shared.clone(), self.session.clone());
                let (files, notices) = (self.files.clone(), self.notices.clone());
                let dialled = self.dialled.clone();
                self.tasks.spawn(async move {
                    let answer = match (message, notices, dialled) {
                        (Message::Fence { session: named, link }, Some(_), _) => {
                            accepted::fence(&shared, session.id, named, link).await
                        }
                        (Message::Notice(notice), Some(desk), _) => shared.world.inbox.take(&desk, notice),
                        (Message::Exchange { transport, body }, Some(_), _) => {
                            exchanges::answer(&shared, &session, &transport, &body).await
                        }
                        (Message::Leaving { .. }, _, Some(peer)) => {
                            Message::Leaving { requests: leaving::hear(&shared, &peer).await }
                        }
                        (message, ..) => answer(&shared, files, message).await,
                    };
                    session.answer(id, &answer).await;
                });
                return None;
            }
        };
        match id == 0 || self.session.answer_now(id, &now) {
            true => None,
            false => Some("it does not read our answers".to_owned()),
        }
    }
}

async fn answer(shared: &Arc<Shared>, files: Option<Arc<FileSession>>, message: Message) -> Message {
    let world = &shared.world;
    match (message, files) {
        (Message::GetOffers, _) => Message::Offers(offers(world)),
        (Message::GetAddresses, _) => Message::Addresses(addresses::told(shared)),
        (Message::GetCpuTime, _) => Message::CpuTime { process_ns: cpu_time_ns() },
        (Message::GetTraffic, _) => Message::Traffic(traffic(world)),
        (Message::GetSegments { segment, region }, Some(_)) => {
            let names: Vec<_> = world.transports.iter().map(|t| t.name.as_str()).collect();
            Message::Segments(pages::tell(&world.segments, &names, segment, region))
        }
        (Message::File(request), Some(_)) if request.begins() && *shared.leaving.borrow() => {
            Message::error(ErrorCode::LEAVING, "the node is leaving; try again when it is back")
        }
        (Message::File(FileRequest::Pull(pull)), Some(files)) => {
            filed(pulls::pull(shared, &files, pull).await)
        }
        (Message::File(request), Some(files)) => filed(files.serve(request).await),
        (Message::Leaving { .. }, Some(_)) => {
            Message::error(ErrorCode::DENIED, "only who was called may say that it leaves")
        }
        (
            Message::GetSegments { .. }
            | Message::File(_)
            | Message::Fence { .. }
            | Message::Notice(_)
            | Message::Exchange { .. },
            None,
        ) => Message::error(ErrorCode::DENIED, "ask on a session that you opened"),
        (other, _) => {
            let text = format!("message type {} is no request", other.kind());
            Message::error(ErrorCode::UNSUPPORTED, text)
        }
    }
}

fn filed(answer: Result<FileAnswer, FileError>) -> Message {
    match answer {
        Ok(answer) => Message::Filed(answer),
        Err(error) => Message::error(error.code(), error),
    }
}

/// Our transports that can take a link: a two-sided one needs a `serve` worker, and one that speaks to another engine is for
/// its peers.
fn offers(world: &World) -> Vec<Offer> {
    let served = |t: usize| !seats(world, Half::Serve, t as u16).is_empty();
    let entries = world.transports.iter().enumerate();
    entries
        .filter(|(t, e)| !e.is_foreign() && (!e.transport.caps().two_sided || served(*t)))
        .map(|(_, e)| Offer { kind: e.kind.clone(), name: e.name.clone(), ..e.transport.offer() })
        .collect()
}

/// What moves here. A transport whose target takes no part serves unseen.
fn traffic(world: &World) -> Traffic {
    let is_whole = world.transports.iter().all(|e| e.transport.caps().two_sided);
    world.nics().iter().fold(Traffic { is_whole, ..Traffic::default() }, |sum, nic| Traffic {
        served: sum.served + nic.served_bytes_in.unwrap_or(0) + nic.served_bytes_out.unwrap_or(0),
        moved: sum.moved + nic.bytes,
        outstanding: sum.outstanding + nic.outstanding,
        ..sum
    })
}

fn cpu_time_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
