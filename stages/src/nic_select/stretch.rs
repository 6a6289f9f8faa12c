//! Slices that come one after the other and go the same way, to one peer over one transport: looked at once, spread over
//! the links one by one, and sent together. Deliberately only what goes at once: what has to wait, fails or finds its
//! ring full is for the stage to take one by one.

use std::sync::atomic::Ordering::Relaxed;

use pipeline_graph::{BATCH, Batch, Outlet};
use pipeline_transports::{LinkId, Op};

use super::mix::{Lanes, SMALL};
use super::{Chooser, OUT, Reach, Sight, Way};
use crate::key::Key;
use crate::ledger::Slot;
use crate::peer::LinkRef;
use crate::world::World;

/// Links among which it spreads; slices of a peer with more are placed one by one.
const MOST: usize = 16;

impl Chooser {
    /// Sends what can go at once from the front of `input`: how many. They are still in there.
    pub(super) fn send_stretch(
        &mut self,
        world: &World,
        sight: &mut Option<Sight>,
        input: &Batch<Key>,
        out: &mut Outlet<Key>,
    ) -> usize {
        let ledger = &*world.ledger;
        let Some((first, slot)) = input.peek().and_then(|key| Some((key, ledger.look(key)?))) else {
            return 0;
        };
        let (request, way) = (slot.request(), Way::of(slot));
        // Those that wait go first.
        if self.waiting.get(way.0).is_none_or(|waiting| !waiting.slices.is_empty()) {
            return 0;
        }
        let Some(sight) = Sight::at(world, sight, way.peer()) else { return 0 };
        let is_ours =
            |slot: Slot| ledger.request(slot.request()).incarnation.load(Relaxed) == sight.incarnation;
        if !is_ours(slot) || (sight.unfenced && slot.op() == Op::Write) {
            return 0;
        }
        let is_small = is_small(first, slot);
        let lanes = self.lanes(first, slot);
        let Some(transport) = slot.transport() else { return 0 };
        if self.has_several(transport) {
            return self.send_stretch_over_several(world, sight, input, out, transport, lanes);
        }
        let Some(mut choices) = Choices::among(self.reach, &sight.links, transport, lanes) else {
            return 0;
        };
        let (mut keys, mut n) = ([Key::default(); BATCH], 0);
        for key in input.iter() {
            let Some(slot) = ledger.look(key) else { break };
            let goes_along = slot.request() == request
                || (Way::of(slot) == way && slot.transport() == Some(transport) && is_ours(slot));
            if !goes_along || self::is_small(key, slot) != is_small {
                break;
            }
            let link = choices.choose();
            slot.set_link(link.id, link.post_worker);
            keys[n] = key;
            n += 1;
        }
        // Counted before they are pushed: the one that takes them off may be faster.
        choices.publish();
        let went = out.push_all(OUT, &keys[..n]);
        for key in &keys[went..n] {
            choices.take_back(ledger.at(ledger.position(*key)).link());
        }
        went
    }
}

/// Whether it is a small request.
#[inline]
pub(super) fn is_small(key: Key, slot: Slot) -> bool {
    key.is_cover() && slot.len() <= SMALL
}

/// Links that suit, and what they have outstanding with what is chosen here.
struct Choices<'a> {
    links: &'a [LinkRef],
    at: [u32; MOST],
    load: [u32; MOST],
    chosen: [u32; MOST],
    n: usize,
}

impl<'a> Choices<'a> {
    /// `None`: there is none, or too many. Links that rest count where no other lives.
    fn among(reach: Reach, links: &'a [LinkRef], transport: u16, lanes: Lanes) -> Option<Self> {
        let of = |resting| Self::of(reach, links, transport, lanes, resting);
        of(false).or_else(|| of(true))
    }

    #[inline]
    fn of(reach: Reach, links: &'a [LinkRef], transport: u16, lanes: Lanes, resting: bool) -> Option<Self> {
        let mut choices = Self { links, at: [0; MOST], load: [0; MOST], chosen: [0; MOST], n: 0 };
        for (at, link) in links.iter().enumerate() {
            let life = &*link.life;
            if link.transport != transport
                || !reach.has(link)
                || life.is_dead()
                || life.is_resting() != resting
            {
                continue;
            }
            *choices.at.get_mut(choices.n)? = at as u32;
            choices.load[choices.n] = life.outstanding.load(Relaxed);
            choices.n += 1;
        }
        match lanes {
            Lanes::First => choices.n = choices.n.min(1),
            Lanes::Others if choices.n > 1 => {
                choices.n -= 1;
                choices.at.copy_within(1.., 0);
                choices.load.copy_within(1.., 0);
            }
            Lanes::Others | Lanes::All => {}
        }
        (choices.n > 0).then_some(choices)
    }

    /// The link with the least outstanding; counts one more for it.
    #[inline]
    fn choose(&mut self) -> &'a LinkRef {
        let mut best = 0;
        for i in 1..self.n {
            if self.load[i] < self.load[best] {
                best = i;
            }
        }
        self.load[best] += 1;
        self.chosen[best] += 1;
        &self.links[self.at[best] as usize]
    }

    fn publish(&self) {
        for i in (0..self.n).filter(|i| self.chosen[*i] > 0) {
            self.links[self.at[i] as usize].life.outstanding.fetch_add(self.chosen[i], Relaxed);
        }
    }

    /// One that was counted did not go.
    #[cold]
    fn take_back(&self, id: LinkId) {
        if let Some(link) = self.links.iter().find(|link| link.id == id) {
            link.life.outstanding.fetch_sub(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pipeline_transports::{NicId, PairId};

    use super::*;
    use crate::peer::LinkLife;

    fn links(outstanding: &[u32]) -> Vec<LinkRef> {
        let link = |(id, n): (usize, &u32)| {
            let life = Arc::new(LinkLife::default());
            life.outstanding.store(*n, Relaxed);
            let (id, pair) = (LinkId(id as u64), PairId(0));
            LinkRef {
                id,
                transport: u16::from(id.0 == 3),
                nic: NicId(0),
                remote_nic: 0,
                pair,
                post_worker: 0,
                life,
            }
        };
        outstanding.iter().enumerate().map(link).collect()
    }

    /// Each goes to the live link of its transport with the least outstanding, as if they came one by one; what is
    /// published, less what is taken back, is what was chosen.
    #[test]
    fn least_first() {
        let links = links(&[5, 0, 3, 0]);
        let mut choices = Choices::among(Reach::ALL, &links, 0, Lanes::All).unwrap();
        let chosen: Vec<u64> = (0..6).map(|_| choices.choose().id.0).collect();
        assert_eq!(chosen, [1, 1, 1, 1, 2, 1]);
        choices.publish();
        choices.take_back(LinkId(1));
        let outstanding: Vec<u32> = links.iter().map(|l| l.life.outstanding.load(Relaxed)).collect();
        assert_eq!(outstanding, [5, 4, 4, 0]);
        // One that rests is chosen where no other lives, and only there.
        links[1].life.resting.store(true, Relaxed);
        assert_eq!(Choices::among(Reach::ALL, &links, 0, Lanes::All).unwrap().choose().id, LinkId(2));
        assert_eq!(Choices::among(Reach::ALL, &links[1..2], 0, Lanes::All).unwrap().choose().id, LinkId(1));
        links[1].life.dead.store(true, Relaxed);
        assert_eq!(Choices::among(Reach::ALL, &links, 0, Lanes::All).unwrap().choose().id, LinkId(2));
        assert!(Choices::among(Reach::ALL, &links, 7, Lanes::All).is_none());
    }

    /// While small and large ones keep apart, the first link is for the small ones only; with one link all use it.
    #[test]
    fn lanes_keep_apart() {
        let links = links(&[9, 1, 0]);
        let all = |lanes| {
            let mut choices = Choices::among(Reach::ALL, &links, 0, lanes).unwrap();
            (0..20).map(|_| choices.choose().id.0).collect::<std::collections::BTreeSet<_>>()
        };
        assert!(all(Lanes::First).iter().eq(&[0]) && all(Lanes::Others).iter().eq(&[1, 2]));
        assert_eq!(Choices::among(Reach::ALL, &links[..1], 0, Lanes::Others).unwrap().choose().id, LinkId(0));
    }
}
