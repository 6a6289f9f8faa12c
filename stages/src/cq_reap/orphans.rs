//! Slices that no completion will speak for: their poster panicked while it handed them over, the reaper before this
//! one panicked while they were posted, or this one does. Deliberately all the ways in one place: each such slice ends
//! once nothing touches its memory any more.

use pipeline_transports::{LinkId, Op, Outcome};

use super::CqReap;
use crate::key::Key;
use crate::ledger::Ending;
use crate::list::List;
use crate::mail::{Event, Half, Mail};
use crate::reason::{Code, Reason};

impl CqReap {
    /// Something was posted on links that are not known here. A link is mailed here before it is mailed to the poster;
    /// if it is not in the mail either, it went down with the reaper before this one, while the poster was posting.
    pub(super) fn end_strays(&mut self) {
        self.read_mail();
        let world = self.world.clone();
        let ledger = &*world.ledger;
        let (links, mut lost) = (&mut self.links, List::default());
        let posted = |at| ledger.posted(ledger.key_at(at));
        let unknown = |at| posted(at).is_some_and(|slot| links.find(slot.link()).is_none());
        self.holding.pick(ledger, unknown, |at| lost.push(ledger, at));
        self.end_lost(lost, Code::new(Reason::StagePanic, self.stage));
    }

    /// What the poster of a closed link was handing over when it panicked, and the transport did not take.
    pub(super) fn end_unknown(&mut self, link: LinkId, code: Code) {
        self.watch_posted();
        let (world, mut left) = (self.world.clone(), List::default());
        let ledger = &*world.ledger;
        let posted = |at| ledger.posted(ledger.key_at(at));
        let of_it = |at| posted(at).is_some_and(|slot| slot.link() == link);
        self.holding.pick(ledger, of_it, |at| left.push(ledger, at));
        self.end_lost(left, code);
    }

    /// Ends slices, which are no longer watched, of links whose transport will never complete them.
    fn end_lost(&mut self, mut lost: List, code: Code) {
        let world = self.world.clone();
        while let Some(position) = lost.pop(&world.ledger) {
            let unknown = world.ledger.at(position).op() == Op::Write;
            let code = if unknown { Code::new(Reason::Undetermined, code.stage()) } else { code };
            self.end_posted(world.ledger.key_at(position), position, code);
        }
    }
}

/// A panicking `cq_reap` takes its links along: nobody posts on them any more, and control hears that they are closed.
/// Whatever was posted on them ends, watched or not; its memory is free as soon as the halves are dropped.
impl Drop for CqReap {
    fn drop(&mut self) {
        let Some(code) = self.holding.epitaph() else { return };
        for drive in &self.drives {
            self.world.mail.close(drive.seat.id(Half::Reap));
            for letter in drive.seat.mail.try_iter() {
                if let Mail::Adopt { end, life } = letter {
                    life.die_with_its_stage(drive.fenced);
                    self.closed.push((end.id, None));
                }
            }
        }
        for lane in self.links.each() {
            lane.life.die_with_its_stage(self.drives[lane.drive].fenced);
            self.closed.push((lane.id, None));
        }
        self.abandon_waiting();
        for drive in &mut self.drives {
            drive.half = None;
        }
        let ledger = &*self.world.ledger;
        for drive in &self.drives {
            drive.seat.shared.reaper_goes(ledger, code);
            let undelivered = drive.completions.done().get(drive.next..).unwrap_or_default();
            // It has been applied, and its completion is here: it is done, whoever panicked.
            let mut ending = Ending::new(ledger);
            for done in undelivered.iter().filter(|c| c.outcome == Outcome::Done) {
                let key = Key::from_raw(done.id.0);
                if let Some(slot) = ledger.posted(key).filter(|slot| slot.link() == done.link)
                    && ledger.unpost(key).is_some()
                {
                    drive.seat.shared.moved.done_one(slot.op(), slot.len());
                    if let Some(lane) = self.links.find(done.link).and_then(|i| self.links.get(i)) {
                        lane.life.moved.done_one(slot.op(), slot.len());
                    }
                    ending.end(key);
                }
            }
            ending.finish();
            drive.seat.shared.ring(Half::Post);
        }
        let links = &mut self.links;
        ledger.abandon_posted(|link| links.find(link).is_some(), code);
        self.closed.drain(..).for_each(|(link, blame)| self.world.leave(Event::LinkClosed(link, blame)));
    }
}
