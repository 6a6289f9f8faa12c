//! A peer that was opened here: it is reached when somebody wants it, kept, and reached again: by a control session
//! ([`super::by_session`]), after the directory was asked where it is ([`super::resolve`]) if only its name is known; or, where
//! it runs another engine, by its name there ([`super::by_name`]).
//! Deliberately one task a peer, so that a peer which cannot be reached delays nobody else.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pipeline_transports::{LinkId, Nanos, clock};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::by_name::Elsewhere;
use super::error::Error;
use super::fences::{Fences, Owed};
use super::links;
use super::nics::Paths;
use super::notices::Numbers;
use super::pulls::Places;
use super::reach::Reach;
use super::resolve::Remembered;
use super::session::Session;
use super::settings::backoff;
use super::shared::{Running, Shared, lock};
use super::until::until;
use crate::peer::{Peer, PeerId, PeerState, PeerView, SegmentView};
use crate::peer_events::PeerEvent;

/// What the log has of peers that cannot be reached, or have gone, stands under this target.
pub const LOG: &str = module_path!();

/// Nobody asks for the peer.
const IDLE: u8 = 0;
/// Slices wait for it: dial when the back-off allows.
const WANTED: u8 = 1;
/// A caller waits in `open`: dial now.
const URGENT: u8 = 2;

/// Where an opened peer stands, for those who wait in `open`.
#[derive(Clone, Debug, Default)]
pub(super) struct Status {
    /// Session and view stand.
    pub(super) up: bool,
    /// It has said that it leaves.
    pub(super) leaving: bool,
    /// Attempts that have ended; with the last one's error.
    pub(super) attempts: u64,
    pub(super) error: Option<Error>,
    /// Live links.
    pub(super) links: usize,
    /// Rounds in which every path was tried in vain; with the last reason.
    pub(super) barren: u64,
    pub(super) barren_error: Option<Error>,
}

/// How an attempt ended.
pub(super) struct Ended {
    pub(super) error: Error,
    /// The peer was up.
    pub(super) stood: bool,
    /// There is reason enough for another attempt.
    pub(super) again: bool,
}

impl Ended {
    /// It came to nothing.
    pub(super) fn before(error: Error) -> Self {
        Self { error, stood: false, again: false }
    }
}

/// See the module.
pub(super) struct Dialled {
    pub(super) id: PeerId,
    pub(super) peer: Arc<Peer>,
    pub(super) reach: Reach,
    /// Those of its listener, as far as they are known since its session stands.
    pub(super) known: Mutex<Arc<[SocketAddr]>>,
    pub(super) status: watch::Sender<Status>,
    wanted: AtomicU8,
    wake: Notify,
    /// While it stands; a peer that runs another engine never has one.
    pub(super) session: Mutex<Option<Arc<Session>>>,
    /// Links that died since the links task looked; whether they were closed because nobody used them.
    pub(super) closed: Mutex<Vec<(LinkId, bool)>>,
    /// Transports over which slices wanted a link and found none since the links task looked.
    pub(super) asked: Mutex<BTreeSet<u16>>,
    /// A caller in `open` wants a link, and there was none.
    pub(super) wants_link: AtomicBool,
    /// Which ways to it rest.
    pub(super) paths: Paths,
    /// Rung when `closed` grew, or when slices want a link.
    pub(super) links_wake: Notify,
    /// Links that died and may still write there.
    pub(super) fences: Fences,
    /// Of the notices sent to it.
    pub(super) numbers: Numbers,
    /// Where leases are that we pull from.
    pub(super) places: Places,
    /// Version of the segments' table of the view.
    pub(super) table: Mutex<u64>,
    /// What was said last of addresses that failed before the one that worked.
    pub(super) detours: Mutex<String>,
    /// Of a peer that runs another engine.
    pub(super) elsewhere: Elsewhere,
    /// Of a node that the directory knows.
    pub(super) remembered: Remembered,
}

impl Dialled {
    pub(super) fn new(id: PeerId, peer: Arc<Peer>, reach: Reach) -> Self {
        Self {
            id,
            peer,
            reach,
            known: Mutex::default(),
            status: watch::Sender::new(Status::default()),
            wanted: AtomicU8::new(IDLE),
            wake: Notify::new(),
            session: Mutex::new(None),
            closed: Mutex::default(),
            asked: Mutex::default(),
            wants_link: AtomicBool::new(false),
            paths: Paths::default(),
            links_wake: Notify::new(),
            fences: Fences::default(),
            numbers: Numbers::default(),
            places: Places::default(),
            table: Mutex::new(0),
            detours: Mutex::default(),
            elsewhere: Elsewhere::default(),
            remembered: Remembered::default(),
        }
    }

    /// Slices wait for the peer, or for a link to it.
    pub(super) fn want(&self) {
        self.wanted.fetch_max(WANTED, Ordering::Relaxed);
        self.wake.notify_one();
        self.links_wake.notify_one();
    }

    /// One of its links died and is not fenced: that is asked for on its session, for which this is reason enough.
    pub(super) fn owe(&self, link: LinkId, owed: Owed) {
        self.fences.add(link, owed);
        if self.session().is_err() {
            self.want();
        }
    }

    /// Whether it runs another engine.
    pub(super) fn is_foreign(&self) -> bool {
        matches!(self.reach, Reach::Foreign(_))
    }

    /// Whether it can be asked for `what`, of which other engines have none.
    ///
    /// # Errors
    /// [`Error::Foreign`].
    pub(super) fn must_have(&self, what: &'static str) -> Result<(), Error> {
        match &self.reach {
            Reach::Foreign(_) => Err(Error::Foreign { peer: self.peer.label.to_string(), what }),
            Reach::Addresses(_) | Reach::Named(_) => Ok(()),
        }
    }

    /// Its session.
    ///
    /// # Errors
    /// [`Error::Gone`] while there is none.
    pub(super) fn session(&self) -> Result<Arc<Session>, Error> {
        let gone = || {
            let reason = match self.peer.reason.load_full() {
                reason if reason.is_empty() => "no session yet".to_owned(),
                reason => (*reason).clone(),
            };
            Error::Gone { peer: self.peer.label.to_string(), reason }
        };
        lock(&self.session).clone().filter(|s| !s.has_ended()).ok_or_else(gone)
    }

    /// Waits until the session stands (and a link, if `linked`). One whole attempt in vain is an error.
    pub(super) async fn open(&self, linked: bool, by: Nanos) -> Result<PeerId, Error> {
        let mut status = self.status.subscribe();
        let (attempts, barren) = {
            let s = status.borrow();
            (s.attempts, s.barren)
        };
        if !status.borrow().up {
            self.wanted.fetch_max(URGENT, Ordering::Relaxed);
            self.wake.notify_one();
        }
        if linked && status.borrow().links == 0 {
            self.wants_link.store(true, Ordering::Relaxed);
        }
        self.links_wake.notify_one();
        let wait = async {
            loop {
                {
                    let s = status.borrow_and_update();
                    match (s.up, &s.error, &s.barren_error) {
                        (true, ..) if s.leaving => return Err(self.leaving_error()),
                        (true, ..) if s.links > 0 || !linked => return Ok(self.id),
                        (true, _, Some(error)) if s.barren > barren => return Err(error.clone()),
                        (false, Some(error), _) if s.attempts > attempts => return Err(error.clone()),
                        _ => {}
                    }
                }
                status.changed().await.map_err(|_| Error::Closed)?;
            }
        };
        let late = || Error::Deadline { what: "opening", peer: self.peer.label.to_string() };
        timeout(clock::until(by), wait).await.map_err(|_| late())?
    }

    /// The peer's task: ends when the node stops.
    pub(super) async fn drive(self: Arc<Self>, shared: Arc<Shared>) {
        let mut stop = shared.stop.subscribe();
        let (mut failures, mut last) = (0, Instant::now());
        loop {
            let pause =
                if failures == 0 { Duration::ZERO } else { backoff(failures, shared.settings.backoff_max) };
            tokio::select! {
                // First: whoever stops counts what runs, and nothing is to begin after that.
                biased;
                _ = until(&mut stop, |stop| *stop) => return,
                () = self.until_wanted(last + pause) => {}
            }
            let start = Instant::now();
            let error = self.attempt(&shared).await;
            last = Instant::now();
            failures = if last - start > 2 * shared.settings.backoff_max { 0 } else { failures + 1 };
            if *stop.borrow() {
                return;
            }
            tracing::warn!(target: LOG, peer = &*self.peer.label, failures, "{error}");
        }
    }

    async fn until_wanted(&self, not_before: Instant) {
        loop {
            match self.wanted.load(Ordering::Relaxed) {
                URGENT => return,
                WANTED if Instant::now() >= not_before => return,
                WANTED => tokio::select! {
                    () = sleep_until(not_before) => {}
                    () = self.wake.notified() => {}
                },
                _ => self.wake.notified().await,
            }
        }
    }

    /// Reaches it once and, if that works, keeps it until it is gone. Answers why.
    async fn attempt(self: &Arc<Self>, shared: &Arc<Shared>) -> Error {
        let _running = Running::new(shared);
        let ended = match &self.reach {
            Reach::Addresses(addresses) => self.by_session(shared, addresses, None).await,
            Reach::Named(name) => self.by_directory(shared, name).await,
            Reach::Foreign(at) => self.by_name(shared, at).await,
        };
        let Ended { error, stood, again } = ended;
        if stood || !matches!(error, Error::Closed) {
            self.down(shared, &error);
        }
        if again {
            self.want();
        }
        error
    }

    /// What it has is known: says that it is up. `before`: the start that was known until then.
    pub(super) fn comes_up(&self, shared: &Shared, before: u64) {
        self.wanted.store(IDLE, Ordering::Relaxed);
        self.turn(shared, PeerState::Up);
        self.status.send_modify(|s| (s.up, s.leaving, s.error, s.barren_error) = (true, false, None, None));
        let (peer, view) = (&self.peer.label, self.peer.view.load());
        let incarnation = view.incarnation;
        if before != 0 && before != incarnation {
            shared.world.watchers.tell(|| PeerEvent::Restarted { peer: peer.clone(), incarnation });
        }
        let name = || view.name.clone();
        shared.world.watchers.tell(|| PeerEvent::Up { peer: peer.clone(), name: name(), incarnation });
    }

    /// Replaces the view. Of the same start as the one before, every segment keeps its index: `in_place` says which that is.
    pub(super) fn show(
        &self,
        shared: &Shared,
        mut view: PeerView,
        in_place: impl FnOnce(&[Arc<SegmentView>], Vec<Arc<SegmentView>>) -> Vec<Arc<SegmentView>>,
    ) -> Result<(), Error> {
        let before = self.peer.view.load();
        let same = before.incarnation == view.incarnation;
        view.segments = in_place(if same { &before.segments } else { &[] }, view.segments);
        if view.segments.len() > shared.settings.peer_regions {
            let reason = "more segments made and given up than are remembered".to_owned();
            return Err(Error::Protocol { peer: self.peer.label.to_string(), reason });
        }
        view.unfenced = shared.world.peers.unfenced(view.incarnation);
        self.peer.view.store(Arc::new(view));
        self.touch(shared);
        Ok(())
    }

    /// Loads the segments again: for a name or an offset that the view does not have.
    pub(super) async fn refresh(self: &Arc<Self>, shared: &Arc<Shared>, by: Nanos) -> Result<(), Error> {
        match &self.reach {
            Reach::Addresses(_) | Reach::Named(_) => self.load_again(shared, by).await,
            Reach::Foreign(at) => self.find_again(shared, at, by).await,
        }
    }

    /// Lets stages look at the peer again.
    pub(super) fn touch(&self, shared: &Shared) {
        self.peer.version.fetch_add(1, Ordering::Release);
        shared.world.peers.changed();
    }

    fn down(&self, shared: &Arc<Shared>, error: &Error) {
        *lock(&self.session) = None;
        if self.status.borrow().up {
            let (peer, reason) = (self.peer.label.clone(), error.to_string());
            shared.world.watchers.tell(|| PeerEvent::Down { peer, reason });
        }
        self.wanted.store(IDLE, Ordering::Relaxed);
        self.peer.reason.store(Arc::new(error.to_string()));
        self.peer.links.store(Arc::default());
        // What this side lacks says nothing about the peer: slices wait on for it.
        let state = if error.is_local() { PeerState::Connecting } else { PeerState::Down };
        self.turn(shared, state);
        links::abort_all(shared, self.id);
        self.status.send_modify(|s| {
            (s.up, s.leaving, s.links, s.error) = (false, false, 0, Some(error.clone()));
            s.attempts += 1;
        });
    }

    /// It says that it leaves: nothing new is begun with it. Whether that was news.
    pub(super) fn leaves(&self, shared: &Shared) -> bool {
        if self.peer.state() != PeerState::Up {
            return false;
        }
        tracing::info!(peer = &*self.peer.label, "leaving: nothing new is begun with it");
        self.turn(shared, PeerState::Leaving);
        self.status.send_modify(|s| s.leaving = true);
        shared.world.watchers.tell(|| PeerEvent::Leaving { peer: self.peer.label.clone() });
        true
    }

    fn leaving_error(&self) -> Error {
        Error::Leaving { peer: self.peer.label.to_string() }
    }

    /// The one place where the state of a peer changes.
    fn turn(&self, shared: &Shared, state: PeerState) {
        self.peer.set_state(state);
        shared.world.peers.changed();
    }
}
