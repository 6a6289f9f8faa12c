//! Slices of a transport that has several NICs: the two ways of the stage, a stretch at once and one by one, with the choice of
//! the NIC in them. Deliberately apart from the ways of one NIC, which pay nothing for this.

use std::sync::atomic::Ordering::Relaxed;

use pipeline_configs::{Config, Values};
use pipeline_graph::{BATCH, Batch, Nanos, Outlet};

use super::mix::Lanes;
use super::reach::Reach;
use super::spread::{Spread, Wanted, block_of};
use super::stretch::is_small;
use super::{Chooser, OUT, Placed, Sight, Way};
use crate::key::Key;
use crate::ledger::Slot;
use crate::peer::LinkRef;
use crate::topology::Topology;
use crate::world::World;

impl Chooser {
    /// Whether a transport has NICs to choose from.
    #[inline]
    pub(super) fn has_several(&self, transport: u16) -> bool {
        self.several.get(usize::from(transport)).is_some_and(|several| *several)
    }

    fn wanted<'a>(
        &self,
        world: &'a World,
        sight: &'a Sight,
        transport: u16,
        slot: Slot,
        lanes: Lanes,
    ) -> Wanted<'a> {
        let topology = &world.topology;
        let place = topology.place_of(&world.regions, slot.local().region, self.now);
        Wanted { topology, reach: self.reach, links: &sight.links, transport, place, lanes }
    }

    /// Sends what can go at once from the front of `input`, of which somebody has found that it may: how many.
    pub(super) fn send_stretch_over_several(
        &mut self,
        world: &World,
        sight: &Sight,
        input: &Batch<Key>,
        out: &mut Outlet<Key>,
        transport: u16,
        lanes: Lanes,
    ) -> usize {
        let ledger = &*world.ledger;
        let Some((first, slot)) = input.peek().and_then(|key| Some((key, ledger.look(key)?))) else {
            return 0;
        };
        let wanted = self.wanted(world, sight, transport, slot, lanes);
        if !self.spread.begin(&wanted, self.now) {
            return 0;
        }
        let (request, way, region, small) =
            (slot.request(), Way::of(slot), slot.local().region, is_small(first, slot));
        let goes_along = |slot: Slot| {
            Way::of(slot) == way
                && slot.transport() == Some(transport)
                && slot.local().region == region
                && ledger.request(slot.request()).incarnation.load(Relaxed) == sight.incarnation
        };
        let (mut keys, mut n) = ([Key::default(); BATCH], 0);
        for key in input.iter() {
            let Some(slot) = ledger.look(key) else { break };
            if !(slot.request() == request || goes_along(slot)) || is_small(key, slot) != small {
                break;
            }
            let chosen = self.spread.choose(&wanted, || block_of(slot.local()), slot.len());
            let Some(link) = chosen.map(|at| &sight.links[at]) else { break };
            slot.set_link(link.id, link.post_worker);
            keys[n] = key;
            n += 1;
        }
        // Counted before they are pushed: the one that takes them off may be faster.
        self.spread.publish(&sight.links);
        let went = out.push_all(OUT, &keys[..n]);
        for key in &keys[went..n] {
            let slot = ledger.at(ledger.position(*key));
            Spread::take_back(&sight.links, slot.link(), slot.len());
        }
        went
    }

    /// Chooses for one slice, and pushes; where a ring is full another link is chosen.
    pub(super) fn send_several(
        &mut self,
        world: &World,
        sight: &Sight,
        transport: u16,
        (key, slot): (Key, Slot),
        lanes: Lanes,
        out: &mut Outlet<Key>,
    ) -> Placed {
        let wanted = self.wanted(world, sight, transport, slot, lanes);
        if !self.spread.begin(&wanted, self.now) {
            return Placed::NoLink(0);
        }
        let len = slot.len();
        while let Some(at) = self.spread.choose(&wanted, || block_of(slot.local()), len) {
            let link = &sight.links[at];
            // `room` asks for the slice's owner, hence first the link.
            slot.set_link(link.id, link.post_worker);
            if out.room(OUT, key) > 0 {
                // Counted before it is pushed: the one that takes it off may be faster.
                link.life.add(1, len);
                // Room was asked for.
                let _ = out.push(OUT, key);
                return Placed::Sent;
            }
            self.spread.shut(&wanted, at, len);
        }
        Placed::NoRoom
    }
}

/// The link that a slice of so many bytes would take now if all lanes were for it, from memory of a place; by the keys of a
/// stage `nic_select`.
pub(crate) fn next<'a>(
    (config, values): (&Config, &Values),
    topology: &Topology,
    links: &'a [LinkRef],
    (transport, place): (u16, u16),
    len: u64,
    now: Nanos,
) -> Option<&'a LinkRef> {
    let wanted = Wanted { topology, reach: Reach::ALL, links, transport, place, lanes: Lanes::All };
    let mut spread = Spread::of(config, values);
    let at = spread.begin(&wanted, now).then(|| spread.choose(&wanted, || 0, len))??;
    links.get(at)
}
