//! The choice among several NICs: for each slice a NIC, by the policy, and of its lanes the one with least outstanding. What is
//! chosen for one stretch of slices is counted here first, so that they spread as if each had seen the ones before.
//! Deliberately by what goes to this peer: work that waits for a peer which has stopped says nothing about a NIC.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use pipeline_configs::{Config, Values};
use pipeline_graph::Nanos;
use pipeline_transports::{LinkId, Span};

use super::costs::Costs;
use super::mix::Lanes;
use super::policy::{Policy, saturations};
use super::reach::Reach;
use crate::ledger::NIL;
use crate::peer::LinkRef;
use crate::topology::{Ranking, Topology};

/// A NIC is behind when it has more outstanding than the one with least, by more than a quarter and this many bytes: then it
/// is given nothing until it has caught up.
const BEHIND: u64 = 512 << 10;

/// So many bytes that a NIC was given less than another one it is given later, and no more: what was long ago is forgotten.
const OWED: u64 = 64 << 20;

/// The cost of a byte on the fastest NIC.
const UNIT: u64 = 1024;

/// Blocks of memory that `hash` keeps together: a huge page, so that a NIC translates few of them.
const BLOCK_BITS: u32 = 21;

/// A link that may be chosen.
#[derive(Clone, Copy)]
struct Lane {
    /// Index in the peer's list.
    link: u32,
    /// The next one of the same NIC.
    next: u32,
    outstanding: u32,
    chosen: u32,
    bytes: u64,
}

/// A NIC, at its place in the ranking.
#[derive(Clone, Copy)]
struct Nic {
    first: u32,
    last: u32,
    /// Slices that it takes before it is saturated.
    room: u32,
    /// What a byte counts for.
    cost: u64,
    /// What its outstanding bytes count for.
    load: u64,
    /// What all bytes that it was given here count for, less what is forgotten.
    given: u64,
}

impl Nic {
    /// What its outstanding bytes and so many more count for.
    #[inline]
    fn with(&self, len: u64) -> u64 {
        self.load.saturating_add(len.saturating_mul(self.cost))
    }

    const NONE: Self = Self { first: NIL, last: NIL, room: 0, cost: 0, load: 0, given: 0 };
}

/// Whose links, to whom, for what.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) topology: &'a Topology,
    pub(super) reach: Reach,
    pub(super) links: &'a [LinkRef],
    pub(super) transport: u16,
    /// Index of the place of the local memory.
    pub(super) place: u16,
    pub(super) lanes: Lanes,
}

impl<'a> Wanted<'a> {
    fn ranking(&self) -> &'a Ranking {
        self.topology.ranking(self.transport, self.place)
    }
}

/// See the file's head.
pub(super) struct Spread {
    policy: Policy,
    /// Of each transport.
    saturated_at: Vec<u32>,
    costs: Costs,
    /// By transport and NIC: see [`Nic::given`].
    given: Vec<Vec<u64>>,
    /// Behind the NIC that was chosen last: ties go round.
    turn: usize,
    lanes: Vec<Lane>,
    nics: Vec<Nic>,
}

impl Spread {
    pub(super) fn of(config: &Config, values: &Values) -> Self {
        let policy = Policy::of(values);
        Self {
            policy,
            saturated_at: saturations(config, values),
            costs: Costs::new(policy, config.transports.len()),
            given: config.transports.iter().map(|t| vec![0; t.nics.len()]).collect(),
            turn: 0,
            lanes: Vec::new(),
            nics: Vec::new(),
        }
    }

    /// Looks at the links of a stretch; whether there is any that it may take. Those that rest count where no other lives.
    pub(super) fn begin(&mut self, wanted: &Wanted<'_>, now: Nanos) -> bool {
        self.costs.refresh(wanted.topology, now);
        if !self.collect(wanted, false) && !self.collect(wanted, true) {
            return false;
        }
        let (ranking, saturated_at) = (wanted.ranking(), self.saturated_at[usize::from(wanted.transport)]);
        let given = &mut self.given[usize::from(wanted.transport)];
        let forgotten = given.iter().copied().max().unwrap_or(0).saturating_sub(OWED * UNIT);
        for (at, nic) in self.nics.iter_mut().enumerate().filter(|(_, nic)| nic.first != NIL) {
            let given = &mut given[usize::from(ranking.at(at))];
            *given = forgotten.max(*given);
            nic.given = *given;
            nic.cost = self.costs.of(wanted.topology, wanted.transport, ranking, ranking.at(at));
            nic.load = nic.load.saturating_mul(nic.cost);
            // While small and large requests keep apart, the first lane of each NIC is for the small ones.
            match wanted.lanes {
                Lanes::First => self.lanes[nic.first as usize].next = NIL,
                Lanes::Others if nic.first != nic.last => nic.first = self.lanes[nic.first as usize].next,
                Lanes::Others | Lanes::All => {}
            }
            let mut at = nic.first;
            while let Some(lane) = self.lanes.get(at as usize) {
                nic.room = nic.room.saturating_add(saturated_at.saturating_sub(lane.outstanding));
                at = lane.next;
            }
        }
        true
    }

    /// Sorts the live links by NIC; whether there are any.
    fn collect(&mut self, wanted: &Wanted<'_>, resting: bool) -> bool {
        let ranking = wanted.ranking();
        self.lanes.clear();
        self.nics.clear();
        self.nics.resize(ranking.len(), Nic::NONE);
        for (at, link) in wanted.links.iter().enumerate() {
            let life = &*link.life;
            let suits = link.transport == wanted.transport && wanted.reach.has(link) && !life.is_dead();
            let Some(position) =
                ranking.position(link.nic.0).filter(|_| suits && life.is_resting() == resting)
            else {
                continue;
            };
            let index = self.lanes.len() as u32;
            let outstanding = life.outstanding.load(Relaxed);
            self.lanes.push(Lane { link: at as u32, next: NIL, outstanding, chosen: 0, bytes: 0 });
            let nic = &mut self.nics[usize::from(position)];
            nic.load += life.bytes.load(Relaxed);
            match self.lanes.get_mut(nic.last as usize) {
                Some(last) => last.next = index,
                None => nic.first = index,
            }
            nic.last = index;
        }
        !self.lanes.is_empty()
    }

    /// The link for a slice of so many bytes, by its index in the peer's list; `None`: all are shut.
    #[inline]
    pub(super) fn choose(&mut self, wanted: &Wanted<'_>, block: impl Fn() -> u64, len: u64) -> Option<usize> {
        let position = self.choose_nic(wanted.ranking(), block, len)?;
        self.turn = position + 1;
        let nic = &mut self.nics[position];
        nic.load = nic.with(len);
        nic.given = nic.given.saturating_add(len.saturating_mul(nic.cost));
        let at = wanted.ranking().at(position);
        self.given[usize::from(wanted.transport)][usize::from(at)] = nic.given;
        nic.room = nic.room.saturating_sub(1);
        let (mut best, mut at) = (nic.first, self.lanes[nic.first as usize].next);
        while let Some(lane) = self.lanes.get(at as usize) {
            if lane.outstanding < self.lanes[best as usize].outstanding {
                best = at;
            }
            at = lane.next;
        }
        let lane = &mut self.lanes[best as usize];
        lane.outstanding += 1;
        lane.chosen += 1;
        lane.bytes += len;
        Some(lane.link as usize)
    }

    /// By the policy, by its place in the ranking.
    #[inline]
    fn choose_nic(&self, ranking: &Ranking, block: impl Fn() -> u64, len: u64) -> Option<usize> {
        let all = 0..self.nics.len();
        if self.policy == Policy::LeastLoaded {
            return self.first_done(all.clone(), len, true).or_else(|| self.first_done(all, len, false));
        }
        let groups = || {
            let begins = std::iter::once(0).chain(ranking.ends().iter().copied());
            begins.zip(ranking.ends()).map(|(begin, end)| usize::from(begin)..usize::from(*end))
        };
        let in_group = |group: Range<usize>, room: bool| match self.policy {
            Policy::RoundRobin => self.next(group, room),
            Policy::Hash => self.rendezvous(group, block()),
            Policy::Topology | Policy::LeastLoaded => self.even(group, len, room),
        };
        // Where all are saturated the nearest ones are as good as others.
        groups()
            .find_map(|group| in_group(group, true))
            .or_else(|| groups().find_map(|group| in_group(group, false)))
    }

    /// Those of a group that live (and have room), beginning behind the one that was chosen last.
    #[inline]
    fn candidates(&self, group: Range<usize>, room: bool) -> impl Iterator<Item = usize> {
        let turn = self.turn.clamp(group.start, group.end);
        let suits = move |at: &usize| self.nics[*at].first != NIL && (!room || self.nics[*at].room > 0);
        (turn..group.end).chain(group.start..turn).filter(suits)
    }

    #[inline]
    fn next(&self, group: Range<usize>, room: bool) -> Option<usize> {
        self.candidates(group, room).next()
    }

    /// Of those that are not behind the one that was given least: so NICs of equal speed get equal shares, although at each moment
    /// one or the other is ahead, and slower ones get what they can carry.
    #[inline]
    fn even(&self, group: Range<usize>, len: u64, room: bool) -> Option<usize> {
        let candidates = || self.candidates(group.clone(), room);
        let least = candidates().map(|at| self.nics[at].with(len)).min()?;
        let most = least.saturating_add((least / 4).max(UNIT * BEHIND.max(len.saturating_mul(2))));
        candidates().filter(|at| self.nics[*at].with(len) <= most).min_by_key(|at| self.nics[*at].given)
    }

    /// The one that would be done first.
    #[inline]
    fn first_done(&self, group: Range<usize>, len: u64, room: bool) -> Option<usize> {
        self.candidates(group, room).min_by_key(|at| self.nics[*at].with(len))
    }

    /// Always the same one for the same block of memory, as long as it lives: saturated or not.
    fn rendezvous(&self, group: Range<usize>, block: u64) -> Option<usize> {
        let live = group.filter(|at| self.nics[*at].first != NIL);
        live.max_by_key(|at| mixed(block ^ (*at as u64 + 1).wrapping_mul(0xd6e8_feb8_6659_fd93)))
    }

    /// A link's ring is full: it takes nothing more of this stretch. What was just chosen for it goes elsewhere.
    #[cold]
    pub(super) fn shut(&mut self, wanted: &Wanted<'_>, link: usize, len: u64) {
        let nic = usize::from(wanted.links[link].nic.0);
        let given = &mut self.given[usize::from(wanted.transport)][nic];
        let slot =
            wanted.ranking().position(wanted.links[link].nic.0).map(|at| &mut self.nics[usize::from(at)]);
        if let Some(slot) = slot {
            slot.given = slot.given.saturating_sub(len.saturating_mul(slot.cost));
            *given = slot.given;
        }
        let Some(shut) = self.lanes.iter().position(|lane| lane.link as usize == link) else { return };
        let next = self.lanes[shut].next;
        self.lanes[shut].chosen -= 1;
        self.lanes[shut].bytes -= len;
        for lane in &mut self.lanes {
            if lane.next == shut as u32 {
                lane.next = next;
            }
        }
        for nic in &mut self.nics {
            if nic.first == shut as u32 {
                nic.first = next;
            }
        }
    }

    /// Tells the links what was chosen for them.
    pub(super) fn publish(&self, links: &[LinkRef]) {
        for lane in self.lanes.iter().filter(|lane| lane.chosen > 0) {
            links[lane.link as usize].life.add(lane.chosen, lane.bytes);
        }
    }

    /// One that was told did not go.
    #[cold]
    pub(super) fn take_back(links: &[LinkRef], id: LinkId, len: u64) {
        if let Some(link) = links.iter().find(|link| link.id == id) {
            link.life.end(1, len);
        }
    }
}

/// The block of local memory that a slice begins in: what `hash` goes by.
#[inline]
pub(super) fn block_of(local: Span) -> u64 {
    local.region.0 ^ (local.offset >> BLOCK_BITS).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The last steps of MurmurHash3.
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits = (bits ^ bits >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^ bits >> 33
}

#[cfg(test)]
#[path = "tests/spread.rs"]
mod tests;
