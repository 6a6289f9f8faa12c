//! What will happen when: the simulator's agenda. Deliberately bounded: room is made when a link is adopted,
//! and what is taken back leaves at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::clock::Nanos;
use crate::link::LinkId;
use crate::wr::WrId;

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Happening {
    /// The request in this slot reaches the target.
    Begin(u32),
    /// It ends.
    End(u32),
    /// A completion that came before comes again.
    Echo(WrId),
}

/// Ordered by time, then by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Event {
    pub(super) at: Nanos,
    pub(super) serial: u64,
    pub(super) link: LinkId,
    pub(super) what: Happening,
}

/// See the file's head.
#[derive(Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Reverse<Event>>,
    numbered: u64,
    most: usize,
}

impl Agenda {
    /// Makes room for `more` events at once than before.
    pub(super) fn widen(&mut self, more: usize) {
        self.most += more;
        self.heap.reserve(self.most - self.heap.len());
    }

    /// A new number: of events at one time the one with the lower number comes first.
    pub(super) fn number(&mut self) -> u64 {
        self.numbered += 1;
        self.numbered
    }

    pub(super) fn plan(&mut self, at: Nanos, serial: u64, link: LinkId, what: Happening) {
        self.heap.push(Reverse(Event { at, serial, link, what }));
    }

    /// When the next one is due.
    pub(super) fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse(event)| event.at)
    }

    /// The next one that is due.
    pub(super) fn due(&mut self, now: Nanos) -> Option<Event> {
        if self.next_at()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(event)| event)
    }

    /// Strikes the events of one slot.
    pub(super) fn strike(&mut self, link: LinkId, slot: u32) {
        self.heap.retain(|Reverse(event)| {
            event.link != link || !matches!(event.what, Happening::Begin(s) | Happening::End(s) if s == slot)
        });
    }

    /// Strikes all events of a link, which had room for `room`.
    pub(super) fn close(&mut self, link: LinkId, room: usize) {
        self.heap.retain(|Reverse(event)| event.link != link);
        self.most -= room;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events come by time, those of one time by their number; struck ones do not come.
    #[test]
    fn order_and_striking() {
        let mut agenda = Agenda::default();
        agenda.widen(8);
        let (a, b) = (LinkId(1), LinkId(2));
        agenda.plan(20, 1, a, Happening::End(0));
        agenda.plan(10, 2, b, Happening::Begin(3));
        agenda.plan(10, 3, a, Happening::Begin(1));
        agenda.plan(10, 4, a, Happening::Echo(WrId(1)));
        agenda.strike(a, 1);
        assert_eq!(agenda.next_at(), Some(10));
        let mut next = |now| agenda.due(now).map(|event| (event.link, event.what));
        assert_eq!(next(9), None);
        assert_eq!(next(15), Some((b, Happening::Begin(3))));
        assert_eq!(next(15), Some((a, Happening::Echo(WrId(1)))));
        assert_eq!(next(15), None);
        agenda.close(a, 8);
        assert_eq!(agenda.next_at(), None);
    }
}
