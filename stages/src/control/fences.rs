//! Dead links of a peer that may still write there: it is asked to let go of them, at once and on every session,
//! until it has confirmed, and whoever waits is told. Deliberately a task a link: one that the peer does not answer for
//! holds up no other.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use pipeline_transports::control::Message;
use pipeline_transports::transport::SessionId;
use pipeline_transports::{LinkId, Nanos, clock};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::dialled::Dialled;
use super::error::Error;
use super::session::Session;
use super::settings::backoff;
use super::shared::{Shared, lock};
use crate::fence::Unfenced;
use crate::mail::SeatId;
use crate::peer::LinkLife;

/// No session: in a fence it stands for the one that carries it.
const THIS: SessionId = SessionId([0; 16]);

/// A link that is not fenced.
pub(super) struct Owed {
    pub(super) life: Arc<LinkLife>,
    /// Whose bell to ring when it is.
    pub(super) reap: SeatId,
    /// The session it belonged to.
    pub(super) session: SessionId,
    /// The start of the peer that it led to.
    pub(super) incarnation: u64,
}

/// What to ask a peer for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Question {
    /// A lane of the session that stands.
    Lane(LinkId),
    /// All lanes of an earlier one.
    Session(SessionId),
}

/// The unfenced links of one peer. No more than it had links when the first of them died: no WRITE begins meanwhile.
#[derive(Default)]
pub(super) struct Fences {
    owed: Mutex<HashMap<LinkId, Owed>>,
    grown: Notify,
}

impl Fences {
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.owed).is_empty()
    }

    /// Adds a link.
    pub(super) fn add(&self, link: LinkId, owed: Owed) {
        lock(&self.owed).insert(link, owed);
        self.grown.notify_one();
    }

    /// The peer cannot be reached: nobody shall wait for it. Its links stay unfenced.
    pub(super) fn out_of_reach(&self, shared: &Shared) {
        for owed in lock(&self.owed).values() {
            owed.life.fence.out_of_reach();
            shared.world.mail.ring(owed.reap);
        }
    }

    /// Lets those go that are fenced, and tells all who wait.
    fn confirm(&self, shared: &Shared, which: impl Fn(LinkId, &Owed) -> bool) {
        let mut any = false;
        lock(&self.owed).retain(|link, owed| {
            let fenced = which(*link, owed);
            if fenced {
                any |= owed.life.fence.confirm();
                shared.world.mail.ring(owed.reap);
            }
            !fenced
        });
        if any {
            shared.world.peers.fenced();
            shared.fenced.notify_waiters();
        }
    }

    /// What must be asked on this session.
    fn questions(&self, session: &Session) -> Vec<Question> {
        let question = |(link, owed): (&LinkId, &Owed)| match owed.session == session.id {
            true => Question::Lane(*link),
            false => Question::Session(owed.session),
        };
        lock(&self.owed).iter().map(question).collect()
    }
}

/// Asks as long as the session stands.
pub(super) async fn keep(shared: &Arc<Shared>, dialled: &Arc<Dialled>, session: &Arc<Session>) -> Infallible {
    let (mut asking, mut asked) = (JoinSet::new(), HashSet::new());
    loop {
        // Of another start the memory is gone, and with it whatever might have been written there.
        let incarnation = session.hello.incarnation;
        dialled.fences.confirm(shared, |_, owed| owed.incarnation != incarnation);
        for question in dialled.fences.questions(session) {
            if asked.insert(question) {
                asking.spawn(ask(shared.clone(), dialled.clone(), session.clone(), question));
            }
        }
        tokio::select! {
            Some(Ok(question)) = asking.join_next() => {
                asked.remove(&question);
            }
            () = dialled.fences.grown.notified() => {}
        }
    }
}

/// Asks one question until it is confirmed, ever more slowly.
async fn ask(
    shared: Arc<Shared>,
    dialled: Arc<Dialled>,
    session: Arc<Session>,
    question: Question,
) -> Question {
    let message = match question {
        Question::Lane(link) => Message::Fence { session: THIS, link },
        Question::Session(earlier) => Message::Fence { session: earlier, link: LinkId(0) },
    };
    for failures in 1_u32.. {
        let by = clock::now() + shared.settings.connect.as_nanos() as Nanos;
        let why = match session.request(&message, by).await {
            Ok(Message::Fenced) => break,
            Ok(_) => "another answer than to a fence".to_owned(),
            Err(error) => error.to_string(),
        };
        if failures == 1 {
            tracing::warn!(peer = session.peer, "a dead link is not fenced yet: {why}");
        }
        sleep(backoff(failures, shared.settings.backoff_max)).await;
    }
    dialled.fences.confirm(&shared, |link, owed| match question {
        Question::Lane(asked) => link == asked,
        Question::Session(earlier) => owed.session == earlier,
    });
    question
}

impl Dialled {
    /// Waits until no dead link may write to that start of the peer any more; opens a session if there is none.
    pub(super) async fn fence(&self, shared: &Shared, target: &Unfenced, by: Nanos) -> Result<(), Error> {
        let mut status = self.status.subscribe();
        let wait = async {
            loop {
                let fenced = shared.fenced.notified();
                if target.links() == 0 {
                    return Ok(());
                }
                // With a session it is asked; without one, one attempt is made.
                self.open(false, by).await?;
                status.mark_unchanged();
                if !status.borrow().up {
                    continue;
                }
                tokio::select! {
                    () = fenced => {}
                    _ = status.changed() => {}
                }
            }
        };
        let late = || Error::Deadline { what: "fencing", peer: self.peer.label.to_string() };
        tokio::time::timeout(clock::until(by), wait).await.map_err(|_| late())?
    }
}
