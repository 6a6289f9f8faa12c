//! How many queue pairs each NIC may have, and who makes room when it has them all.
//!
//! A place is held from before a queue pair is made until it has been destroyed. When none is free, an idle link that
//! this side dialled goes ([`super::sieve`]); what peers dialled is theirs. Links that are gone are noticed here, by
//! whoever looks next, so that reapers need no lock.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::completion::Cause;
use super::link::{Pair, RdmaLink};
use super::offer::GONE_MAX;
use super::sieve::{Look, Sieve};
use crate::link::LinkId;
use crate::transport::SessionId;

/// Most links gone that are remembered for one start of a peer: their other ends go with the session anyway.
const GONE_KEPT: usize = 4096;

/// As many starts of peers are remembered so.
const STARTS_KEPT: usize = 1024;

/// A link that this side dialled.
struct Seated {
    link: Arc<RdmaLink>,
    session: SessionId,
    incarnation: u64,
}

/// Links that are gone, and whose other ends are not, by start of the peer.
type Gone = HashMap<u64, VecDeque<(SessionId, LinkId)>>;

#[derive(Default)]
struct Table {
    dialled: Sieve<Seated>,
    /// The pair each place is for that is held by a dial under way.
    opening: Vec<*const Pair>,
    accepted: u32,
    gone: Gone,
}

// SAFETY: the pointers are compared and never followed.
unsafe impl Send for Table {}

/// See the file's head.
pub(super) struct Places {
    /// Queue pairs at a time.
    limit: u32,
    /// Completions that a link may have outstanding.
    completions: u32,
    table: Mutex<Table>,
}

/// What asking for a place brought.
pub(super) enum Asked<T> {
    /// A place.
    Place(T),
    /// One is being made free: ask again soon.
    Soon,
    /// All links are busy.
    Full,
}

/// A place for a link that is being opened.
pub(super) struct Place {
    places: Arc<Places>,
    pair: Arc<Pair>,
}

/// A place for a queue pair that a peer dialled.
pub(super) struct AcceptedPlace(Arc<Places>);

impl Places {
    /// For `limit` queue pairs, each of which may have `completions` outstanding.
    pub(super) fn new(limit: u32, completions: u32) -> Arc<Self> {
        Arc::new(Self { limit: limit.max(1), completions: completions.max(1), table: Mutex::default() })
    }

    /// Asks for a place for a link of the workers `pair`; if there is none, makes an idle one go.
    pub(super) fn ask(self: &Arc<Self>, pair: &Arc<Pair>) -> Asked<Place> {
        let mut table = self.table();
        table.notice();
        let is_theirs = |link: &Seated| Arc::ptr_eq(&link.link.pair, pair);
        let of_pair = table.dialled.iter().filter(|link| is_theirs(link)).count()
            + table.opening.iter().filter(|of| **of == Arc::as_ptr(pair)).count();
        // Each link may complete all that it has outstanding at once, and their queue must hold it.
        let fits = of_pair as u64 * u64::from(self.completions) + u64::from(self.completions)
            <= u64::from(pair.queue.entries());
        if fits && table.taken() < self.limit {
            table.opening.push(Arc::as_ptr(pair));
            return Asked::Place(Place { places: self.clone(), pair: pair.clone() });
        }
        if table.make_room(|link| fits || is_theirs(link)) { Asked::Soon } else { Asked::Full }
    }

    /// Asks for a place for a queue pair that a peer dials.
    pub(super) fn ask_for_accepted(self: &Arc<Self>) -> Asked<AcceptedPlace> {
        let mut table = self.table();
        table.notice();
        if table.taken() < self.limit {
            table.accepted += 1;
            return Asked::Place(AcceptedPlace(self.clone()));
        }
        if table.make_room(|_| true) { Asked::Soon } else { Asked::Full }
    }

    /// Queue pairs at a time.
    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    /// Links of a session whose other ends the peer need not keep. They are named until [`Self::told`].
    pub(super) fn gone(&self, session: SessionId, incarnation: u64) -> Vec<LinkId> {
        let mut table = self.table();
        table.notice();
        let Some(gone) = table.gone.get_mut(&incarnation) else { return Vec::new() };
        // What was of other sessions went with them.
        gone.retain(|(of, _)| *of == session);
        gone.iter().take(GONE_MAX).map(|(_, link)| *link).collect()
    }

    /// The peer knows of these.
    pub(super) fn told(&self, incarnation: u64, links: &[LinkId]) {
        if let Some(gone) = self.table().gone.get_mut(&incarnation) {
            gone.retain(|(_, link)| !links.contains(link));
        }
    }

    /// A link whose other end may have been made is not opened after all.
    pub(super) fn withdraw(&self, session: SessionId, incarnation: u64, link: LinkId) {
        self.table().remember(incarnation, session, link);
    }

    /// No session to that start of a peer is left.
    pub(super) fn forget(&self, incarnation: u64) {
        self.table().gone.remove(&incarnation);
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// The link is open: it keeps the place until its queue pair is gone.
    pub(super) fn seat(self, link: Arc<RdmaLink>, session: SessionId, incarnation: u64) {
        self.places.table().dialled.insert(Seated { link, session, incarnation });
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.places.table();
        let at = table.opening.iter().position(|of| *of == Arc::as_ptr(&self.pair));
        if let Some(at) = at {
            table.opening.swap_remove(at);
        }
    }
}

impl Drop for AcceptedPlace {
    fn drop(&mut self) {
        self.0.table().accepted -= 1;
    }
}

impl Table {
    fn taken(&self) -> u32 {
        (self.dialled.len() + self.opening.len()) as u32 + self.accepted
    }

    /// Notices links whose queue pairs are gone.
    fn notice(&mut self) {
        let mut gone = Vec::new();
        self.dialled.remove(|seated| {
            let is_gone = seated.link.queue_pair.is_destroyed();
            if is_gone {
                gone.push((seated.incarnation, seated.session, seated.link.id));
            }
            is_gone
        });
        gone.into_iter().for_each(|(incarnation, session, link)| self.remember(incarnation, session, link));
    }

    fn remember(&mut self, incarnation: u64, session: SessionId, link: LinkId) {
        if self.gone.len() >= STARTS_KEPT && !self.gone.contains_key(&incarnation) {
            self.gone.clear();
        }
        let gone = self.gone.entry(incarnation).or_default();
        if gone.len() == GONE_KEPT {
            gone.pop_front();
        }
        gone.push_back((session, link));
    }

    /// Makes an idle link go, of those that `may`. Whether one goes, or is on its way already.
    fn make_room(&mut self, may: impl Fn(&Seated) -> bool) -> bool {
        if self.dialled.iter().any(|seated| may(seated) && seated.link.life.is_dead()) {
            return true;
        }
        let victim = self.dialled.evict(|seated| match &seated.link {
            _ if !may(seated) => Look::Busy,
            link if link.ring.len() > 0 => Look::Busy,
            link if link.ring.take_used() => Look::Used,
            _ => Look::Unused,
        });
        let Some(victim) = victim else { return false };
        tracing::debug!(
            peer = victim.link.peer,
            link = victim.link.id.0,
            "an idle link makes room for another"
        );
        victim.link.die(Cause::Evicted);
        // It keeps its place until its queue pair is gone.
        self.dialled.insert(victim);
        true
    }
}
