//! The reap half of the simulator: lets happen what is due at the time it is handed.
//! Deliberately without a clock: between two calls nothing happens.

use std::sync::Arc;

use crate::clock::Nanos;
use crate::inproc::ReapEnd;
use crate::link::{Arming, Cancelled, LinkEnd, LinkId, Reap, Waker};
use crate::memory::Regions;
use crate::sim::events::{Agenda, Event, Happening};
use crate::sim::open::Open;
use crate::sim::settings::SimSettings;
use crate::sim::staging::{Copies, Tally};
use crate::wr::{Completion, Completions, Op, Outcome, WrId};

/// See the file's head.
pub(super) struct ReapHalf {
    regions: Arc<Regions>,
    /// Owner of the post half: rung when a full link has room again, and when a link dies.
    poster: Waker,
    settings: Arc<SimSettings>,
    links: Vec<Open>,
    agenda: Agenda,
    /// The poster must hear of room or a death.
    ring: bool,
    copies: Copies,
}

impl ReapHalf {
    pub(super) fn new(
        regions: Arc<Regions>,
        poster: Waker,
        settings: Arc<SimSettings>,
        staged: Arc<Tally>,
    ) -> Self {
        let copies = Copies::new(&settings, staged);
        Self { regions, poster, settings, links: Vec::new(), agenda: Agenda::default(), ring: false, copies }
    }

    fn index(&self, link: LinkId) -> Option<usize> {
        self.links.iter().position(|open| open.id == link)
    }

    fn ring(&mut self) {
        if std::mem::take(&mut self.ring) {
            self.poster.wake();
        }
    }

    fn complete(&mut self, index: usize, id: WrId, outcome: Outcome, out: &mut Completions) {
        let open = &self.links[index];
        out.push(Completion { id, link: open.id, outcome });
        self.ring |= open.lane.give_back();
    }

    /// Takes over what was posted and sees who has died.
    fn look(&mut self) {
        for open in &mut self.links {
            while let Some((slot, begins)) = open.pull(&self.settings) {
                let serial = self.agenda.number();
                self.agenda.plan(begins, serial, open.id, Happening::Begin(slot));
            }
            if open.watch.node().is_gone() && !open.lane.is_dead() {
                open.lane.kill();
                self.ring = true;
            }
            if open.lane.is_dead() && !open.struck {
                self.agenda.close(open.id, room_of(open));
                open.struck = true;
            }
        }
    }

    /// One event.
    fn happen(&mut self, event: Event, out: &mut Completions) {
        let Some(index) = self.index(event.link) else { return };
        let open = &mut self.links[index];
        let (slot, outcome) = match event.what {
            Happening::Echo(id) => {
                open.echoes -= 1;
                return out.push(Completion { id, link: event.link, outcome: Outcome::Done });
            }
            Happening::Begin(slot) => match open.watch.node().regions() {
                Some(target) => (slot, open.begin(slot, &self.regions, &target)),
                None => {
                    // Its node is going this moment: the next look finds the link dead and ends the rest.
                    open.lane.kill();
                    self.ring = true;
                    return;
                }
            },
            Happening::End(slot) => match open.end(slot, &mut self.copies) {
                // Lost: it keeps its slot until somebody takes it back.
                None => return,
                ended => (slot, ended),
            },
        };
        let Some(outcome) = outcome else {
            if let Some(due) = open.due(slot) {
                // With the number of its posting: what is due together completes in the order of posting.
                self.agenda.plan(due, event.serial, event.link, Happening::End(slot));
            }
            return;
        };
        let item = open.take(slot);
        if let Some(after) = item.echo_ns
            && outcome == Outcome::Done
            && open.echoes < open.lane.capacity()
        {
            open.echoes += 1;
            let at = event.at.saturating_add(after);
            self.agenda.plan(at, event.serial, event.link, Happening::Echo(item.work.id));
        }
        self.complete(index, item.work.id, outcome, out);
    }

    /// Completes what needs no time: requests taken back, and those of dead links.
    fn settle(&mut self, out: &mut Completions) {
        for index in 0..self.links.len() {
            while out.room() > 0 {
                let open = &mut self.links[index];
                if let Some(id) = open.dropped.pop_front() {
                    self.complete(index, id, Outcome::NotBegun, out);
                } else if open.struck
                    && let Some((id, outcome)) = open.fail_one(&mut self.copies)
                {
                    self.complete(index, id, outcome, out);
                } else {
                    break;
                }
            }
        }
    }
}

/// Events a link may have on the agenda: one a request, and its echo.
fn room_of(open: &Open) -> usize {
    2 * open.lane.capacity()
}

impl Reap for ReapHalf {
    fn adopt(&mut self, end: LinkEnd) {
        let Ok(body) = end.body.downcast::<ReapEnd>() else {
            debug_assert!(false, "the end of another transport was mailed here");
            return;
        };
        let open = Open::new(end.id, *body, self.settings.seed);
        self.agenda.widen(room_of(&open));
        self.links.push(open);
    }

    fn reap(&mut self, now: Nanos, out: &mut Completions) -> usize {
        let before = out.done().len();
        self.look();
        self.settle(out);
        while out.room() > 0
            && let Some(event) = self.agenda.due(now)
        {
            self.happen(event, out);
        }
        self.links.retain(|open| {
            let over = open.struck && open.lane.outstanding() == 0 && out.closed_room() > 0;
            if over {
                out.push_closed(open.id);
            }
            !over
        });
        self.ring();
        out.done().len() - before
    }

    fn cancel(&mut self, link: LinkId, id: WrId) -> Cancelled {
        self.look();
        let Some(index) = self.index(link) else { return Cancelled::NotHere };
        let open = &mut self.links[index];
        let answer = match open.find(id) {
            None => Cancelled::NotHere,
            Some((_, item)) if item.begun && item.work.op == Op::Write => Cancelled::MustAbort,
            Some((slot, item)) => {
                let begun = item.begun;
                self.agenda.strike(link, slot);
                open.take(slot);
                if begun {
                    self.ring |= open.lane.give_back();
                    Cancelled::Discarding
                } else {
                    open.dropped.push_back(id);
                    Cancelled::Dropped
                }
            }
        };
        self.ring();
        answer
    }

    fn abort(&mut self, link: LinkId) {
        let Some(index) = self.index(link) else { return };
        self.links[index].lane.kill();
        self.poster.wake();
    }

    fn outstanding(&self) -> usize {
        self.links.iter().map(|open| open.lane.outstanding()).sum()
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        let hurry = |open: &Open| {
            let unseen = open.lane.outstanding() != open.known();
            unseen || !open.dropped.is_empty() || open.lane.is_dead() || open.watch.node().is_gone()
        };
        if self.links.iter().any(hurry) {
            on.busy();
        }
        if let Some(at) = self.agenda.next_at() {
            on.deadline(at);
        }
    }
}

impl Drop for ReapHalf {
    fn drop(&mut self) {
        self.links.clear();
        self.poster.wake();
    }
}
