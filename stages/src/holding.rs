//! What every stage that holds slices does with them: watch their deadlines and cancels, and let those that must
//! end leave by the port `failed`. Deliberately not the lists themselves: each stage has its own.

use std::sync::Arc;

use pipeline_graph::{Arming, Nanos, Outlet, PortId};

use crate::key::Key;
use crate::ledger::Ledger;
use crate::list::List;
use crate::reason::{Code, Reason, StageIx};
use crate::wheel::Wheel;

/// See the file's head.
pub(crate) struct Holding {
    ledger: Arc<Ledger>,
    wheel: Wheel,
    /// Cancels that were looked after.
    cancels: u64,
    /// Those that wait for room on the port `failed`.
    doomed: List,
    /// Those that are overdue or cancelled, and not judged yet: empty between two calls, unless one of them panicked.
    over: List,
    /// The one that its stage has taken out of its lists and not passed on yet.
    hand: Option<Key>,
    stage: StageIx,
}

impl Holding {
    /// Its wheel begins to turn `now`.
    pub(crate) fn new(ledger: &Arc<Ledger>, now: Nanos, stage: StageIx) -> Self {
        let wheel = Wheel::new(now);
        let (cancels, doomed, over) = (ledger.cancels(), List::default(), List::default());
        Self { ledger: ledger.clone(), wheel, cancels, doomed, over, hand: None, stage }
    }

    /// Whether nothing is held, and nothing waits to leave.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.wheel.len() == 0 && self.doomed.is_empty()
    }

    /// How many are held, with those that wait to leave.
    pub(crate) fn len(&self) -> usize {
        self.wheel.len() + self.doomed.len()
    }

    /// Watches one until its deadline. One that was cancelled on its way here is due at once: the look through the
    /// wheel may have been before it came.
    #[inline]
    pub(crate) fn hold(&mut self, ledger: &Ledger, position: u32) {
        let slot = ledger.at(position);
        let cancelled = ledger.cancels() > 0 && ledger.batches.is_cancelled(slot.batch());
        self.wheel.set(ledger, position, if cancelled { 0 } else { slot.deadline() });
    }

    /// Will watch one if it is still here at [`Self::settle`]; [`Self::let_go`] ends that.
    #[inline]
    pub(crate) fn defer(&self, ledger: &Ledger, position: u32) {
        Wheel::defer(ledger, position);
    }

    /// Watches one that was deferred and is still here.
    #[inline]
    pub(crate) fn settle(&mut self, ledger: &Ledger, position: u32) {
        if Wheel::is_deferred(ledger, position) {
            self.hold(ledger, position);
        }
    }

    /// Watches one until `at`.
    pub(crate) fn hold_until(&mut self, ledger: &Ledger, position: u32, at: Nanos) {
        self.wheel.set(ledger, position, at);
    }

    /// Watches it no longer.
    #[inline]
    pub(crate) fn let_go(&mut self, ledger: &Ledger, position: u32) {
        self.wheel.drop_entry(ledger, position);
    }

    /// Its stage takes one out of its lists, to pass it on: should it panic on the way, this one ends with it.
    #[inline]
    pub(crate) fn grasp(&mut self, key: Key) {
        self.hand = Some(key);
    }

    /// What was grasped is passed on, or back in a list.
    #[inline]
    pub(crate) fn let_loose(&mut self) {
        self.hand = None;
    }

    /// Lets one, which is in no list and not watched, leave as failed.
    pub(crate) fn doom(&mut self, ledger: &Ledger, position: u32, code: Code) {
        ledger.at(position).set_code(code);
        self.doomed.push(ledger, position);
    }

    /// One whose time has come, no longer watched. Call until `None`.
    #[inline]
    pub(crate) fn fire(&mut self, ledger: &Ledger, now: Nanos) -> Option<u32> {
        if self.wheel.len() == 0 {
            return None;
        }
        self.wheel.fire(ledger, now)
    }

    /// Hands over those whose batch was cancelled since the last look, no longer watched. Those that have a respite
    /// keep it.
    pub(crate) fn cancelled(&mut self, ledger: &Ledger, out: impl FnMut(u32)) {
        let cancels = ledger.cancels();
        if cancels != self.cancels {
            self.cancels = cancels;
            self.wheel.pick(ledger, cancelled(ledger), out);
        }
    }

    /// Dooms all that are overdue or cancelled; `unlink` takes each out of its list.
    pub(crate) fn doom_overdue(&mut self, ledger: &Ledger, now: Nanos, mut unlink: impl FnMut(u32)) {
        while let Some(position) = self.fire(ledger, now) {
            self.hand = Some(ledger.key_at(position));
            unlink(position);
            self.over.push(ledger, position);
            self.hand = None;
        }
        let cancels = ledger.cancels();
        if cancels != self.cancels {
            self.cancels = cancels;
            let (wheel, over, hand) = (&mut self.wheel, &mut self.over, &mut self.hand);
            wheel.pick(ledger, cancelled(ledger), |position| {
                *hand = Some(ledger.key_at(position));
                unlink(position);
                over.push(ledger, position);
                *hand = None;
            });
        }
        while let Some(position) = self.over.pop(ledger) {
            let late = Code::new(Reason::Deadline, self.stage);
            let code = ledger.verdict(ledger.at(position), now, self.stage).unwrap_or(late);
            self.doom(ledger, position, code);
        }
    }

    /// Lets the doomed leave while `port` has room. Whether any did.
    pub(crate) fn bury(&mut self, ledger: &Ledger, out: &mut Outlet<Key>, port: PortId) -> bool {
        let mut any = false;
        while let Some(position) = self.doomed.head() {
            let key = ledger.key_at(position);
            if out.room(port, key) == 0 {
                break;
            }
            self.hand = Some(key);
            self.doomed.remove(ledger, position);
            // Room was asked for.
            let _ = out.push(port, key);
            self.hand = None;
            any = true;
        }
        any
    }

    /// When to look next, if nothing else happens.
    pub(crate) fn earliest(&self) -> Option<Nanos> {
        self.wheel.earliest()
    }

    /// Names it to a sleep. Cancels since the last look keep the worker awake.
    pub(crate) fn arm(&self, ledger: &Ledger, on: &mut dyn Arming) {
        if let Some(at) = self.earliest() {
            on.deadline(at);
        }
        // Of no interest to who watches nothing, and does not look at them either.
        if self.wheel.len() > 0 && ledger.cancels() != self.cancels {
            on.busy();
        }
    }
}

/// Which of the watched ones a cancel asks for: those that have a respite keep it.
fn cancelled(ledger: &Ledger) -> impl Fn(u32) -> bool + '_ {
    |position| {
        let slot = ledger.at(position);
        ledger.batches.is_cancelled(slot.batch()) && !slot.had_respite()
    }
}

impl Holding {
    /// Takes out those that `wanted` names, no longer watched. For rare events: it looks at all.
    pub(crate) fn pick(&mut self, ledger: &Ledger, wanted: impl FnMut(u32) -> bool, out: impl FnMut(u32)) {
        self.wheel.pick(ledger, wanted, out);
    }

    /// How what its stage holds ends, should the stage panic: `None` while the engine is being stopped.
    pub(crate) fn epitaph(&self) -> Option<Code> {
        (!self.ledger.is_closing()).then(|| Code::new(Reason::StagePanic, self.stage))
    }
}

/// A stage goes while the engine runs: it has panicked. What it held ends.
impl Drop for Holding {
    fn drop(&mut self) {
        let Some(code) = self.epitaph() else { return };
        let ledger = self.ledger.clone();
        self.wheel.pick(&ledger, |_| true, |position| ledger.abandon(position, code));
        self.over.abandon(&ledger, code);
        while let Some(position) = self.doomed.pop(&ledger) {
            ledger.abandon(position, ledger.at(position).code());
        }
        if let Some(key) = self.hand {
            ledger.abandon_key(key, code);
        }
    }
}

#[cfg(test)]
mod tests {
    use pipeline_transports::{Op, RegionId, Span};

    use super::*;
    use crate::ledger::{Birth, Marks, Opening};
    use crate::peer::PeerId;

    /// A slice that comes after its stage has looked for cancelled ones is due at once; its neighbour of another batch
    /// is not.
    #[test]
    fn a_cancel_overtakes_nobody() {
        let ledger = Arc::new(crate::testing::ledger(4, 2));
        let (far, now) = (Nanos::MAX / 2, pipeline_transports::clock::now());
        for batch in 0..2 {
            let marks = Marks::default();
            ledger
                .batches
                .open(batch, Opening { len: 1, first: batch, last: batch, failed: 0, marks, at: 0 });
            let span = Span { region: RegionId(0), offset: 0 };
            ledger.at(batch).bear(&Birth {
                request: batch,
                batch,
                peer: PeerId(0),
                op: Op::Write,
                local: span,
                remote: span,
                len: 1,
                deadline: far,
                transport: None,
            });
        }
        let mut holding = Holding::new(&ledger, now, 0);
        ledger.cancel(1);
        holding.cancelled(&ledger, |_| panic!("nothing is held yet"));
        holding.hold(&ledger, 0);
        holding.hold(&ledger, 1);
        assert_eq!([holding.fire(&ledger, now), holding.fire(&ledger, now)], [Some(1), None]);
        assert_eq!(ledger.verdict(ledger.at(1), now, 0), Some(Code::new(Reason::Cancelled, 0)));
        holding.let_go(&ledger, 0);
    }
}
