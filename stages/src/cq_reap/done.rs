//! Completions that say *done*, a batch at a time: what most are, and nothing speaks against those, however late they come.
//! Deliberately nothing else: every other outcome is judged one by one.

use pipeline_graph::{BATCH, Nanos, Outlet};
use pipeline_transports::{LinkId, Outcome};

use super::{CqReap, Drive, Lane, OUT};
use crate::key::Key;
use crate::links::Links;
use crate::traffic::{Bytes, index};

/// As many posted slices are in the cache still when they complete.
const FEW: usize = 4096;

/// Completions of one link that came one after the other.
#[derive(Default)]
struct Run {
    link: LinkId,
    ended: u32,
    bytes: Bytes,
}

impl Run {
    /// They are no longer outstanding. Adds their bytes to those of the NIC.
    #[inline]
    fn settle(&mut self, links: &mut Links<Lane>, all: &mut Bytes) {
        let (ended, bytes) = (std::mem::take(&mut self.ended), std::mem::take(&mut self.bytes));
        if ended > 0
            && let Some(lane) = links.find(self.link).and_then(|i| links.get(i))
        {
            lane.life.end(ended, bytes[0] + bytes[1]);
            lane.life.moved.done(u64::from(ended), bytes);
        }
        all[0] += bytes[0];
        all[1] += bytes[1];
    }
}

impl Drive {
    /// Tells what has completed to whoever measures the NIC.
    #[inline]
    pub(super) fn gauge_speed(&mut self, now: Nanos) {
        if let (Some(gauge), Some(half), 1..) = (&mut self.gauge, &self.half, self.done_bytes) {
            gauge.note(now, std::mem::take(&mut self.done_bytes), half.outstanding() > 0);
        }
    }
}

impl CqReap {
    /// What comes next and is done, as long as there is room: what most completions are, and nothing speaks against those.
    /// Whether any was.
    pub(super) fn deliver_done(&mut self, at: usize, out: &mut Outlet<Key>, now: Nanos) -> bool {
        let ledger = &*self.world.ledger;
        let drive = &mut self.drives[at];
        let (mut keys, mut n, mut bytes, mut lane) = ([Key::default(); BATCH], 0, [0; 2], Run::default());
        let next = &drive.completions.done()[drive.next..];
        let done =
            next.iter().take_while(|c| c.outcome == Outcome::Done).take(out.room_for_all(OUT).min(BATCH));
        if self.holding.len() > FEW {
            ledger.touch(done.clone().map(|c| Key::from_raw(c.id.0)));
        }
        for completion in done {
            let key = Key::from_raw(completion.id.0);
            let Some(slot) = ledger.unpost_of(key, completion.link) else { break };
            if slot.is_watched_or_stamped() {
                self.holding.let_go(ledger, ledger.position(key));
                self.stays.end(slot, now);
            }
            if lane.link != completion.link {
                lane.settle(&mut self.links, &mut bytes);
                lane.link = completion.link;
            }
            lane.ended += 1;
            lane.bytes[index(slot.op())] += slot.len();
            keys[n] = key;
            n += 1;
        }
        lane.settle(&mut self.links, &mut bytes);
        drive.next += n;
        drive.seat.shared.moved.done(n as u64, bytes);
        drive.done_bytes += bytes[0] + bytes[1];
        // As many as there was room for.
        out.push_all(OUT, &keys[..n]);
        n > 0
    }
}
