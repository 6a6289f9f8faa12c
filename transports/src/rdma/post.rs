//! The half that posts: work requests become lists in the device's words, one call of it a flush and link.
//!
//! Of the requests on a link every `signal_every`-th completes by itself, the last of a flush does, and whatever ends a
//! stretch of [`SIGNAL_BYTES`]; a completion speaks for those before it. What cannot be posted (an unknown region, say)
//! ends here, in its turn, and never reaches the device. A device without room (ENOMEM) is back-pressure: what it left
//! stays in its list for the next flush. Deliberately completes nothing: only the reap half does.

use std::sync::Arc;

use super::batch::{Batch, Handed, Transfer};
use super::completion::Cause;
use super::link::{Pair, PostEnd, RdmaLink, Tag};
use super::local_keys::LocalKeys;
use super::lookup::Lookup;
use super::ring::Fate;
use crate::clock::Nanos;
use crate::link::{Arming, Flushed, LinkEnd, LinkId, Post, Posted};
use crate::wr::{Op, Outcome, Refusal, WorkRequest};

/// Bytes after which a work request completes by itself: so a link that moves shows it.
const SIGNAL_BYTES: u64 = 1 << 20;
/// When a device without room is asked again, if no completion says so before: there may be none to come, because what it
/// took completes only with what it did not take.
const AGAIN_NS: Nanos = 1_000_000;

/// What post halves are told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Every how many work requests one is signalled, at least 1.
    pub(super) signal_every: u32,
    /// Work requests of a link.
    pub(super) depth: u32,
    /// The longest work request, bytes.
    pub(super) max_bytes: u32,
}

/// See the file's head.
pub(super) struct RdmaPost {
    /// By ascending id.
    links: Vec<PostLink>,
    /// Where the last one was found.
    last: usize,
    /// Those with something to hand over.
    active: Vec<LinkId>,
    /// Lists that nobody uses, the last used one on top: it is still in the cache.
    spare: Vec<Batch>,
    deaths_seen: u64,
    /// When a flush should come even if nobody rings.
    again: Option<Nanos>,
    limits: Limits,
    keys: Arc<LocalKeys>,
    /// Index of the NIC.
    nic: u16,
    pair: Arc<Pair>,
}

/// One link.
struct PostLink {
    /// What waits to be handed over; only while something does.
    batch: Option<Batch>,
    lists: Lists,
    end: PostEnd,
}

/// What makes list entries of work requests.
struct Lists {
    lookup: Lookup,
    /// Since the last one that completes by itself.
    unsignalled: u32,
    unsignalled_bytes: u64,
}

/// What became of a link's list.
enum Sent {
    All,
    /// The device had no room for the rest. `any`: it took some.
    NoRoom {
        any: bool,
    },
    Dead,
}

impl RdmaPost {
    pub(super) fn new(pair: Arc<Pair>, (keys, nic): (Arc<LocalKeys>, u16), limits: Limits) -> Self {
        Self {
            links: Vec::new(),
            last: 0,
            active: Vec::new(),
            spare: Vec::new(),
            deaths_seen: 0,
            again: None,
            limits,
            keys,
            nic,
            pair,
        }
    }

    fn find(&self, link: LinkId) -> Option<usize> {
        if self.links.get(self.last).is_some_and(|l| l.end.0.id == link) {
            return Some(self.last);
        }
        self.links.binary_search_by_key(&link, |l| l.end.0.id).ok()
    }

    /// Lets go of links that died since the last look.
    fn bury(&mut self) {
        let deaths = self.pair.bells.deaths();
        if deaths == self.deaths_seen {
            return;
        }
        self.deaths_seen = deaths;
        let (spare, active) = (&mut self.spare, &mut self.active);
        self.links.retain_mut(|link| {
            let dead = link.end.0.life.is_dead();
            if dead {
                active.retain(|id| *id != link.end.0.id);
                // What it held was of this link alone.
                spare.extend(link.batch.take().map(Batch::cleared));
            }
            !dead
        });
    }
}

impl Post for RdmaPost {
    fn adopt(&mut self, end: LinkEnd) {
        let Ok(end) = end.body.downcast::<PostEnd>() else {
            tracing::error!(link = end.id.0, "an end that is not the post end of an RDMA link: dropped");
            return;
        };
        if end.0.life.is_dead() {
            // It died on its way here, before this half counted its death: dropping it makes it quiet.
            return;
        }
        if let Err(at) = self.links.binary_search_by_key(&end.0.id, |l| l.end.0.id) {
            let lists = Lists {
                lookup: Lookup::new(&end.0, &self.keys, self.nic),
                unsignalled: 0,
                unsignalled_bytes: 0,
            };
            let link = PostLink { batch: None, lists, end: *end };
            self.links.insert(at, link);
            self.active.reserve(self.links.len());
        }
    }

    fn room(&self, link: LinkId) -> usize {
        self.find(link).map_or(0, |i| self.links[i].room())
    }

    fn post(&mut self, _now: Nanos, link: LinkId, work: &[WorkRequest]) -> Posted {
        self.bury();
        let Some(at) = self.find(link) else { return Posted::default() };
        self.last = at;
        let link = &mut self.links[at];
        let taken = link.room().min(work.len());
        if taken == 0 {
            return Posted::default();
        }
        let is_new = link.batch.is_none();
        let spare = &mut self.spare;
        let depth = self.limits.depth as usize;
        let batch = link.batch.get_or_insert_with(|| spare.pop().unwrap_or_else(|| Batch::new(depth)));
        let ended_here = link.lists.take(&link.end.0, batch, &work[..taken], self.limits);
        if batch.is_empty() {
            self.spare.extend(link.batch.take());
        } else if is_new {
            self.active.push(link.end.0.id);
        }
        if ended_here {
            self.pair.bells.note_news();
            self.pair.wakes.reap.wake();
        }
        Posted { taken }
    }

    fn flush(&mut self, now: Nanos) -> Flushed {
        self.bury();
        self.again = None;
        if self.active.is_empty() {
            return Flushed::All;
        }
        let (mut moved, mut at) = (false, 0);
        while at < self.active.len() {
            let sent = self.find(self.active[at]).map_or(Sent::All, |i| self.links[i].send());
            match sent {
                Sent::All => {
                    moved = true;
                    let id = self.active.swap_remove(at);
                    let batch = self.find(id).and_then(|i| self.links[i].batch.take());
                    self.spare.extend(batch);
                }
                Sent::NoRoom { any } => {
                    moved |= any;
                    self.again = Some(now + AGAIN_NS);
                    at += 1;
                }
                // It is buried by the next look.
                Sent::Dead => at += 1,
            }
        }
        // Each hand-over has passed a sequentially consistent fence.
        if self.pair.bells.must_watch() {
            self.pair.wakes.reap.wake();
        }
        self.bury();
        match (self.active.is_empty(), moved) {
            (true, _) => Flushed::All,
            (false, true) => Flushed::Partly,
            (false, false) => Flushed::Stuck,
        }
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        self.bury();
        // What is left waits for completions, whose reaper rings, and not for ever.
        if let Some(again) = self.again
            && !self.active.is_empty()
        {
            on.deadline(again);
        }
    }
}

impl PostLink {
    fn room(&self) -> usize {
        let link = &self.end.0;
        if link.life.is_dead() { 0 } else { link.ring.room_or_starve() }
    }

    /// Hands over what waits.
    fn send(&mut self) -> Sent {
        let link = &*self.end.0;
        let Some(batch) = self.batch.as_mut().filter(|batch| !batch.is_empty()) else { return Sent::All };
        if !link.life.begin_send() {
            return Sent::Dead;
        }
        // SAFETY: not destroyed: whoever does that has killed the link and outlasted this send, and it was alive after
        // `begin_send`. Only this half posts on a live link. Local memory is pinned by whoever posted, until the completions,
        // which come from the device or after the queue pair is gone.
        let handed = unsafe { batch.hand_over(link.queue_pair.raw()) };
        let next = batch.next_name().map(|name| Tag::of(name).1);
        link.ring.note_sent(next.unwrap_or_else(|| link.ring.appended()));
        link.life.let_go();
        match handed {
            Handed::All => {
                self.lists.signalled();
                Sent::All
            }
            Handed::NoRoom { any } => {
                link.ring.starve();
                Sent::NoRoom { any }
            }
            Handed::Failed(errno) => {
                link.die(Cause::NotTaken(errno));
                Sent::Dead
            }
        }
    }
}

impl Lists {
    /// Appends work to the ring of its link, and to the list what can be posted. Whether any ended here.
    fn take(&mut self, link: &RdmaLink, batch: &mut Batch, work: &[WorkRequest], limits: Limits) -> bool {
        let (tag, inline_bytes) = (link.tag.get(), link.queue_pair.inline_bytes());
        let mut ended_here = false;
        for w in work {
            let ends = match w.len {
                1.. if w.len <= u64::from(limits.max_bytes) => self.lookup.ends(w),
                _ => Err(Outcome::Refused(Refusal::Malformed)),
            };
            let (local, remote) = match ends {
                Ok(ends) => ends,
                Err(outcome) => {
                    link.ring.append(w.id, Fate::Ended(outcome));
                    ended_here = true;
                    continue;
                }
            };
            let bytes = w.len as u32;
            self.unsignalled += 1;
            self.unsignalled_bytes += w.len;
            let signalled = self.unsignalled >= limits.signal_every || self.unsignalled_bytes >= SIGNAL_BYTES;
            if signalled {
                self.signalled();
            }
            // The CPU reads what goes inline, so its address is the process's own.
            let inline = w.op == Op::Write && bytes <= inline_bytes;
            let number = link.ring.append(w.id, Fate::Posted);
            batch.push(&Transfer {
                name: tag.name(number),
                op: w.op,
                local: if inline { local.at } else { local.address },
                lkey: local.lkey,
                remote: remote.address,
                rkey: remote.rkey,
                bytes,
                signalled,
                inline,
            });
        }
        ended_here
    }

    fn signalled(&mut self) {
        (self.unsignalled, self.unsignalled_bytes) = (0, 0);
    }
}
