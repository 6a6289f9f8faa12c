//! What the halves of this side share about a link, and what the links of one pair of workers share.
//!
//! A link dies as [`crate::life`] says. While it lives only its poster uses the queue pair; when it is dead its reaper
//! stops it, and takes it out of use once the poster cannot be in the middle of a post any more. Deliberately no work in here.

use std::sync::{Arc, Mutex, PoisonError};

use super::completion::Cause;
use super::completion_queue::CompletionQueue;
use super::device::Watch;
use super::endpoint::QueuePair;
use super::graveyard::Graveyard;
use super::remote_keys::RemoteKeys;
use super::ring::{Bells, CauseCell, Ring};
use crate::life::Life;
use crate::link::{LinkId, Wakes};

/// What the workers of one pair on one NIC share.
pub(super) struct Pair {
    pub(super) wakes: Wakes,
    pub(super) queue: Arc<CompletionQueue>,
    pub(super) bells: Bells,
    graveyard: Arc<Graveyard>,
    tags: Mutex<Tags>,
    /// Wakes the reaper when something happens to the device.
    _watch: Watch,
}

impl Pair {
    /// For workers that are woken so, whose dead queue pairs go to `graveyard`.
    pub(super) fn new(wakes: Wakes, queue: CompletionQueue, graveyard: Arc<Graveyard>) -> Self {
        let watch = queue.device().on_change(wakes.reap.clone());
        let (bells, tags) = (Bells::default(), Mutex::default());
        Self { wakes, queue: Arc::new(queue), bells, graveyard, tags, _watch: watch }
    }

    /// A tag for a new link; `None` when 2^16 have one.
    pub(super) fn tag(self: &Arc<Self>) -> Option<TagGuard> {
        let tag = self.tags.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(TagGuard { tag, pair: self.clone() })
    }
}

/// How completions name a link of their pair: index (low 16 bits) and generation, so that what comes late, of a queue
/// pair that is gone, is nobody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag(u32);

impl Tag {
    /// Place in a table of the reaper.
    pub(super) fn index(self) -> usize {
        usize::from(self.0 as u16)
    }

    /// The name of a work request for the device: its link and its number there.
    pub(super) fn name(self, number: u32) -> u64 {
        u64::from(self.0) << 32 | u64::from(number)
    }

    /// Link and number of a work request from its name.
    pub(super) fn of(name: u64) -> (Self, u32) {
        (Self((name >> 32) as u32), name as u32)
    }
}

#[derive(Default)]
struct Tags {
    free: Vec<Tag>,
    used: u32,
}

impl Tags {
    fn take(&mut self) -> Option<Tag> {
        self.free.pop().or_else(|| {
            let fresh = (self.used <= u32::from(u16::MAX)).then_some(Tag(self.used));
            self.used += u32::from(fresh.is_some());
            fresh
        })
    }

    fn give_back(&mut self, tag: Tag) {
        self.free.push(Tag(tag.0.wrapping_add(1 << 16)));
    }
}

/// A tag in use.
pub(super) struct TagGuard {
    tag: Tag,
    pair: Arc<Pair>,
}

impl TagGuard {
    /// The tag.
    pub(super) fn get(&self) -> Tag {
        self.tag
    }
}

impl Drop for TagGuard {
    fn drop(&mut self) {
        self.pair.tags.lock().unwrap_or_else(PoisonError::into_inner).give_back(self.tag);
    }
}

/// A link, seen from its dialler.
pub(super) struct RdmaLink {
    pub(super) id: LinkId,
    pub(super) peer: String,
    /// Index of the peer's NIC in its offer.
    pub(super) remote_nic: u16,
    pub(super) pair: Arc<Pair>,
    pub(super) tag: TagGuard,
    pub(super) queue_pair: QueuePair,
    /// Connected together with it, and never used.
    pub(super) idle: Box<[QueuePair]>,
    pub(super) ring: Ring,
    pub(super) life: Life,
    pub(super) cause: CauseCell,
    pub(super) keys: Arc<RemoteKeys>,
}

impl RdmaLink {
    /// Destroys its queue pairs, those that idle first: when the one that carries work is gone, all are.
    pub(super) fn destroy(&self) {
        self.idle.iter().for_each(QueuePair::destroy);
        self.queue_pair.destroy();
    }

    /// Kills it, with the reason if it is the first; harmless when it is dead already.
    pub(super) fn die(&self, cause: Cause) {
        self.cause.name(cause);
        if self.life.die() {
            self.pair.bells.note_death();
            self.pair.wakes.post.wake();
            self.pair.wakes.reap.wake();
        }
    }
}

/// The poster's share. Dropping it, whoever holds it, kills the link and falls quiet: a poster that panicked or was never
/// built can strand nobody.
pub(super) struct PostEnd(pub(super) Arc<RdmaLink>);

impl Drop for PostEnd {
    fn drop(&mut self) {
        self.0.die(Cause::Asked);
        self.0.life.fall_quiet();
        self.0.pair.bells.note_news();
        self.0.pair.wakes.reap.wake();
    }
}

/// The reaper's share. Dropping it kills the link, and when that is over nothing of the link touches local memory.
pub(super) struct ReapEnd {
    pub(super) link: Arc<RdmaLink>,
    /// Its queue pair is out of use, and somebody else destroys it.
    is_left: bool,
}

impl ReapEnd {
    /// Of this link.
    pub(super) fn new(link: Arc<RdmaLink>) -> Self {
        Self { link, is_left: false }
    }

    /// Leaves a dead link, whose queue pair is out of use, to the graveyard.
    pub(super) fn leave(mut self) {
        if !self.link.queue_pair.is_destroyed() {
            self.is_left = true;
            self.link.pair.graveyard.take(Box::new(Dead(self.link.clone())));
        }
    }
}

impl Drop for ReapEnd {
    fn drop(&mut self) {
        if !self.is_left {
            self.link.die(Cause::Asked);
            self.link.life.outlast_send();
            self.link.destroy();
        }
    }
}

/// A link that was reported closed, until its queue pair is destroyed. Its place knows the link itself for longer.
struct Dead(Arc<RdmaLink>);

impl Drop for Dead {
    fn drop(&mut self) {
        self.0.destroy();
    }
}

#[cfg(all(test, not(pipeline_loom)))]
mod tests {
    use super::*;

    /// A work request's name gives link and number back; a tag that is used again is another one at the same place.
    #[test]
    fn names_and_tags() {
        let mut tags = Tags::default();
        let (one, two) = (tags.take().unwrap(), tags.take().unwrap());
        assert_eq!((one.index(), two.index()), (0, 1));
        assert_eq!(Tag::of(two.name(u32::MAX)), (two, u32::MAX));
        tags.give_back(one);
        let again = tags.take().unwrap();
        assert_eq!(again.index(), one.index());
        assert_ne!(again, one);
        let rest = std::iter::from_fn(|| tags.take()).count();
        assert_eq!(rest, (1 << 16) - 2);
    }
}
