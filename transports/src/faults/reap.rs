//! The reap half with faults: a completion may come later, never, twice, or as a failure.
//! Deliberately true to the order that stages rely on: a link is reported closed after the last completion that
//! will come of it.

use std::sync::Arc;

use crate::clock::Nanos;
use crate::faults::desk::{Desk, State};
use crate::faults::plan::Site;
use crate::link::{Arming, Cancelled, LinkEnd, LinkId, Reap};
use crate::wr::{Completion, Completions, Outcome, WrId};

/// See the file's head.
pub(super) struct ReapHalf {
    pub(super) inner: Box<dyn Reap>,
    pub(super) desk: Arc<Desk>,
    /// It has had links: those of a second attach that are not needed never have.
    pub(super) adopted: bool,
}

/// Its links die with it, and what was to be said of them interests nobody.
impl Drop for ReapHalf {
    fn drop(&mut self) {
        if self.adopted {
            *self.desk.state() = State::default();
        }
    }
}

impl ReapHalf {
    /// Tells what is due, as far as there is room.
    fn tell(&self, now: Nanos, out: &mut Completions) {
        let state = &mut *self.desk.state();
        while out.room() > 0 {
            let Some(at) = state.late.iter().position(|(due, _)| *due <= now) else { break };
            out.push(state.late.remove(at).1);
        }
        let late = &state.late;
        state.closed.retain(|(link, blame)| {
            let over = out.closed_room() > 0 && late.iter().all(|(_, completion)| completion.link != *link);
            if over {
                out.push_closed_by(*link, *blame);
            }
            !over
        });
    }

    /// What becomes of a completion.
    fn pass(&self, now: Nanos, completion: Completion, out: &mut Completions) {
        let fate = self.desk.judge(Site::Completion, completion.link).or_panic();
        let after = |delay: std::time::Duration| now.saturating_add(delay.as_nanos() as Nanos);
        if let Some(echo) = fate.echo {
            self.desk.state().late.push((after(echo), completion));
        }
        let told =
            if fate.fails { Completion { outcome: Outcome::Failed, ..completion } } else { completion };
        match fate.delay {
            _ if fate.lost => {}
            Some(delay) => self.desk.state().late.push((after(delay), told)),
            None => out.push(told),
        }
    }
}

impl Reap for ReapHalf {
    fn adopt(&mut self, end: LinkEnd) {
        self.adopted = true;
        self.inner.adopt(end);
    }

    fn reap(&mut self, now: Nanos, out: &mut Completions) -> usize {
        let before = out.done().len();
        if out.room() > 0 && out.closed_room() > 0 {
            let mut fresh = Completions::with_capacity(out.room().min(out.closed_room()));
            self.inner.reap(now, &mut fresh);
            if fresh.has_moved() {
                out.note_moved();
            }
            for completion in fresh.done() {
                self.pass(now, *completion, out);
            }
            for (at, link) in fresh.closed().iter().enumerate() {
                let mut state = self.desk.state();
                state.cut(*link);
                state.closed.push((*link, fresh.blame(at)));
                drop(state);
                self.desk.forget(*link);
            }
        }
        self.tell(now, out);
        out.done().len() - before
    }

    fn cancel(&mut self, link: LinkId, id: WrId) -> Cancelled {
        if self.desk.state().withdraw(id) {
            return Cancelled::Dropped;
        }
        self.inner.cancel(link, id)
    }

    fn abort(&mut self, link: LinkId) {
        self.desk.state().cut(link);
        self.inner.abort(link);
    }

    fn outstanding(&self) -> usize {
        let state = self.desk.state();
        self.inner.outstanding() + state.held.len() + state.late.len()
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        self.inner.arm(on);
        let state = self.desk.state();
        match state.late.iter().map(|(due, _)| *due).min() {
            Some(due) => on.deadline(due),
            None if !state.closed.is_empty() => on.busy(),
            None => {}
        }
    }
}
