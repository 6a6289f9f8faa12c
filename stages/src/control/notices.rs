//! Sends the notices of batches whose requests have ended, until the receiver has them or time is over.
//! Deliberately one task a notice: one whose peer is gone, or whose queue is full, waits for nobody and nobody for it.
//! Why each comes once at most: [`crate::notices`].

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pipeline_transports::control::message::NoticeMessage;
use pipeline_transports::control::{ErrorCode, Message};
use pipeline_transports::foreign::ForeignNotice;
use pipeline_transports::transport::BoxFuture;
use pipeline_transports::{Nanos, clock};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::sleep;

use super::dialled::Dialled;
use super::error::Error;
use super::reach::{Foreigner, Reach};
use super::session::Session;
use super::shared::{Shared, lock};
use crate::ledger::{Parcel, Told};
use crate::notices::WINDOW;
use crate::reason::{Code, NOTICE_STAGE, NoticeFault, Reason, Transport};

/// A notice has so much time at least, also when its batch's deadline has passed or the batch was cancelled: enough
/// for a receiver that is well to hear that requests have failed.
const GRACE_NS: Nanos = 100_000_000;
/// Pauses while the receiver is busy.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// Its own task knows when it is too late.
const NEVER: Nanos = Nanos::MAX;

/// The notices to one peer: their numbers, and whose turn it is while the peer is busy.
pub(super) struct Numbers {
    /// The next one, and those that are open.
    state: Mutex<(u64, BTreeSet<u64>)>,
    settled: Notify,
    /// Taken by the one notice that tries again at a busy peer; the others queue up behind it, first come, first served.
    /// So a full queue there costs one question in a while, not one for each notice.
    turn: Semaphore,
}

/// A number that is open while this lives.
struct Number<'a>(&'a Numbers, u64);

impl Default for Numbers {
    fn default() -> Self {
        Self { state: Mutex::new((1, BTreeSet::new())), settled: Notify::new(), turn: Semaphore::new(1) }
    }
}

impl Numbers {
    /// The next number; waits while the oldest open one is a whole window behind.
    async fn next(&self) -> Number<'_> {
        loop {
            let settled = self.settled.notified();
            {
                let (next, open) = &mut *lock(&self.state);
                if *next - open.first().unwrap_or(next) < WINDOW {
                    open.insert(*next);
                    *next += 1;
                    return Number(self, *next - 1);
                }
            }
            settled.await;
        }
    }

    /// Waits for the turn of a notice at a busy peer.
    async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.turn.acquire().await.ok()
    }

    /// Whether others stand in line there.
    fn is_busy(&self) -> bool {
        self.turn.available_permits() == 0
    }

    /// All below it are settled.
    fn settled(&self) -> u64 {
        let (next, open) = &*lock(&self.state);
        *open.first().unwrap_or(next)
    }
}

impl Drop for Number<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).1.remove(&self.1);
        self.0.settled.notify_waiters();
    }
}

/// Takes up what has become due, and lets those that are under way look whether they were cancelled.
pub(super) fn collect(shared: &Arc<Shared>) {
    let ledger = &shared.world.ledger;
    while let Some(batch) = ledger.outbox.next_due() {
        let Some(parcel) = ledger.outbox.get(batch) else { continue };
        match &parcel.to {
            // As many as there are notices: the outbox bounds them.
            Told::Peer(body) => _ = tokio::spawn(deliver(shared.clone(), batch, body.clone(), parcel)),
            Told::Here(waker) => {
                ledger.end_notice(batch, Code::DONE);
                waker.wake();
            }
        }
    }
    shared.cancels.send_if_modified(|seen| std::mem::replace(seen, ledger.cancels()) != ledger.cancels());
}

/// How far a notice has come: what is said if time runs out.
#[derive(Default)]
struct Progress(AtomicU8);

impl Progress {
    const BUSY: u8 = 1;
    const SENT: u8 = 2;

    fn reason(&self, cancelled: bool) -> Reason {
        match self.0.load(Relaxed) {
            Self::SENT => Reason::Notice(NoticeFault::Unanswered),
            _ if cancelled => Reason::Cancelled,
            Self::BUSY => Reason::Notice(NoticeFault::Full),
            _ => Reason::Deadline,
        }
    }
}

async fn deliver(shared: Arc<Shared>, batch: u32, body: Arc<[u8]>, parcel: Parcel) {
    let ledger = &shared.world.ledger;
    let (requests, failed) = ledger.batches.tally(batch);
    let dialled = lock(&shared.dialled).get(&parcel.peer).cloned();
    let sent = match dialled {
        None => Err(Reason::PeerGone),
        Some(dialled) => in_time(&shared, &dialled, batch, (&parcel, &body), (requests, failed)).await,
    };
    let code = sent.map_or_else(|reason| Code::new(reason, NOTICE_STAGE), |()| Code::DONE);
    ledger.end_notice(batch, code);
}

/// Sends until the receiver has it or time is over.
async fn in_time(
    shared: &Shared,
    dialled: &Dialled,
    batch: u32,
    (parcel, body): (&Parcel, &[u8]),
    tally: (u32, u32),
) -> Result<(), Reason> {
    let progress = Progress::default();
    let mut cancels = shared.cancels.subscribe();
    let mut by = parcel.deadline.max(clock::now() + GRACE_NS);
    let mut sending: BoxFuture<'_, _> = match &dialled.reach {
        Reach::Foreign(at) => Box::pin(tell(shared, dialled, at, (parcel, body), (tally.1, by), &progress)),
        Reach::Addresses(_) | Reach::Named(_) => Box::pin(send(dialled, (parcel, body), tally, &progress)),
    };
    let mut cancelled = false;
    loop {
        if !cancelled && shared.world.ledger.batches.is_cancelled(batch) {
            cancelled = true;
            by = by.min(clock::now() + GRACE_NS);
        }
        tokio::select! {
            end = &mut sending => return end,
            () = sleep(clock::until(by)) => return Err(progress.reason(cancelled)),
            _ = cancels.changed(), if !cancelled => {}
        }
    }
}

async fn send(
    dialled: &Dialled,
    (parcel, body): (&Parcel, &[u8]),
    (requests, failed): (u32, u32),
    progress: &Progress,
) -> Result<(), Reason> {
    let number = dialled.numbers.next().await;
    // The epoch under which a copy may be on its way, or may have been taken.
    let mut under = None;
    let (mut pause, mut turn) = (PAUSES.0, None);
    loop {
        if dialled.session().is_err() {
            // Nobody has to wait for this one until the next session stands.
            turn = None;
        } else if turn.is_none() && dialled.numbers.is_busy() {
            progress.0.fetch_max(Progress::BUSY, Relaxed);
            turn = dialled.numbers.turn().await;
        }
        let before = under;
        let lost = |reason| if under.is_some() { Reason::Notice(NoticeFault::Unanswered) } else { reason };
        let session = reach(dialled, failed > 0).await.map_err(lost)?;
        if session.hello.incarnation != parcel.incarnation {
            return Err(lost(Reason::StalePeer));
        }
        let mut message = NoticeMessage {
            channel: dialled.id.0,
            sequence: 0,
            settled: dialled.numbers.settled(),
            requests,
            failed,
            body: Vec::new(),
        };
        let answer = match epoch(&session, &message).await {
            Ok(epoch) if under.is_some_and(|under| under != epoch) => return Err(lost(Reason::PeerGone)),
            Ok(epoch) => {
                under = Some(epoch);
                progress.0.store(Progress::SENT, Relaxed);
                (message.sequence, message.body) = (number.1, body.to_vec());
                session.request(&Message::Notice(message), NEVER).await
            }
            Err(error) => Err(error),
        };
        match answer {
            Ok(Message::Noticed { .. }) => return Ok(()),
            Err(Error::Remote { code: ErrorCode::BUSY, .. }) => {
                // This copy was not taken; one of an earlier session may have been.
                under = before;
                let known = if before.is_some() { Progress::SENT } else { Progress::BUSY };
                progress.0.store(known, Relaxed);
                if turn.is_none() {
                    turn = dialled.numbers.turn().await;
                    continue;
                }
                sleep(pause).await;
                pause = (pause * 2).min(PAUSES.1);
            }
            Err(Error::Remote { text, .. }) => {
                tracing::warn!(peer = &*dialled.peer.label, "a notice was refused: {text}");
                return Err(Reason::Notice(NoticeFault::Unheard));
            }
            // The next session tells, or takes it.
            Err(Error::Gone { .. }) => {}
            Ok(_) | Err(_) => return Err(Reason::Transport(Transport::Failed)),
        }
    }
}

/// Gives it to a peer that runs another engine: once, because nothing there tells a second copy from a second notice, and
/// only of requests that ended well, because it can say nothing else.
async fn tell(
    shared: &Shared,
    dialled: &Dialled,
    at: &Foreigner,
    (parcel, body): (&Parcel, &[u8]),
    (failed, by): (u32, Nanos),
    progress: &Progress,
) -> Result<(), Reason> {
    use pipeline_transports::Error as Said;
    if failed > 0 {
        return Err(Reason::Notice(NoticeFault::Withheld));
    }
    if dialled.peer.view.load().incarnation != parcel.incarnation {
        return Err(Reason::StalePeer);
    }
    let notice = ForeignNotice { name: shared.world.name.clone(), body: body.to_vec() };
    progress.0.store(Progress::SENT, Relaxed);
    let error = match at.protocol(shared).notify(&at.name, &notice, by).await {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    tracing::warn!(peer = &*dialled.peer.label, "a notice was not taken: {error}");
    Err(match error {
        Said::BadArgument(_) => Reason::Notice(NoticeFault::Unfit),
        Said::Refused { .. } => Reason::Notice(NoticeFault::Unheard),
        Said::Deadline { .. } => Reason::Notice(NoticeFault::Unanswered),
        Said::UnknownName { .. } | Said::Directory { .. } | Said::Unreachable { .. } => Reason::PeerGone,
        _ => Reason::Transport(Transport::Failed),
    })
}

/// The session, as soon as it stands; `once`: one whole attempt in vain is enough.
async fn reach(dialled: &Dialled, once: bool) -> Result<Arc<Session>, Reason> {
    let mut status = dialled.status.subscribe();
    let attempts = status.borrow().attempts;
    loop {
        if let Ok(session) = dialled.session() {
            return Ok(session);
        }
        if once && status.borrow_and_update().attempts > attempts {
            return Err(Reason::PeerGone);
        }
        dialled.want();
        // The other side of the channel lives as long as the peer.
        let _ = status.changed().await;
    }
}

/// Since when the receiver remembers us, asked once a session.
async fn epoch(session: &Session, probe: &NoticeMessage) -> Result<u64, Error> {
    let ask = || async {
        match session.request(&Message::Notice(probe.clone()), NEVER).await? {
            Message::Noticed { epoch } => Ok(epoch),
            _ => {
                let reason = "another answer than to a notice".to_owned();
                Err(Error::Protocol { peer: session.peer.clone(), reason })
            }
        }
    };
    session.remembered.get_or_try_init(ask).await.copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers count up from 1; the oldest open one bounds how far they run ahead, and is what the receiver is told to
    /// be settled below.
    #[test]
    fn numbers_keep_within_the_window() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let numbers = Numbers::default();
            assert_eq!(numbers.settled(), 1);
            let oldest = numbers.next().await;
            let second = numbers.next().await;
            assert_eq!((oldest.1, second.1, numbers.settled()), (1, 2, 1));
            for n in 3..=WINDOW {
                assert_eq!(numbers.next().await.1, n);
            }
            let ahead = tokio::time::timeout(Duration::from_millis(20), numbers.next()).await;
            assert!(ahead.is_err(), "a whole window ahead");
            let (next, ()) = tokio::join!(numbers.next(), async {
                tokio::task::yield_now().await;
                drop(oldest);
            });
            assert_eq!((next.1, numbers.settled()), (WINDOW + 1, 2));
        });
    }
}
