//! A first-in-first-out list of slices, threaded through their slots: what a stage that holds work keeps them in.
//! Deliberately no storage of its own, hence no limit but the ledger's.

use std::sync::atomic::Ordering::Relaxed;

use crate::ledger::{Ledger, NIL};
use crate::reason::Code;

/// See the file's head. One holder; positions, not keys, because the holder owns them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { head: NIL, tail: NIL, len: 0 }
    }
}

impl List {
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(crate) fn head(&self) -> Option<u32> {
        (self.head != NIL).then_some(self.head)
    }

    #[inline]
    pub(crate) fn push(&mut self, ledger: &Ledger, position: u32) {
        ledger.at(position).next().store(NIL, Relaxed);
        ledger.at(position).prev().store(self.tail, Relaxed);
        match self.tail {
            NIL => self.head = position,
            tail => ledger.at(tail).next().store(position, Relaxed),
        }
        self.tail = position;
        self.len += 1;
    }

    pub(crate) fn push_front(&mut self, ledger: &Ledger, position: u32) {
        ledger.at(position).next().store(self.head, Relaxed);
        ledger.at(position).prev().store(NIL, Relaxed);
        match self.head {
            NIL => self.tail = position,
            head => ledger.at(head).prev().store(position, Relaxed),
        }
        self.head = position;
        self.len += 1;
    }

    #[inline]
    pub(crate) fn pop(&mut self, ledger: &Ledger) -> Option<u32> {
        let position = self.head()?;
        self.remove(ledger, position);
        Some(position)
    }

    /// Takes out one that is in *this* list.
    #[inline]
    pub(crate) fn remove(&mut self, ledger: &Ledger, position: u32) {
        let slot = ledger.at(position);
        let (prev, next) = (slot.prev().load(Relaxed), slot.next().load(Relaxed));
        match prev {
            NIL => self.head = next,
            _ => ledger.at(prev).next().store(next, Relaxed),
        }
        match next {
            NIL => self.tail = prev,
            _ => ledger.at(next).prev().store(prev, Relaxed),
        }
        // A key on an edge leads nowhere: see `Faults` of the transfer graph.
        slot.next().store(NIL, Relaxed);
        self.len -= 1;
    }

    /// Ends all: their holder is gone.
    pub(crate) fn abandon(&mut self, ledger: &Ledger, code: Code) {
        while let Some(position) = self.pop(ledger) {
            ledger.abandon(position, code);
        }
    }

    /// From the last to the first, as long as `wanted` says so.
    pub(crate) fn backwards(&self, ledger: &Ledger, mut wanted: impl FnMut(u32) -> bool) {
        let mut at = self.tail;
        while at != NIL && wanted(at) {
            at = ledger.at(at).prev().load(Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ledger;

    /// The list behaves as a deque does under pushes at both ends, pops and removals in the middle.
    #[test]
    fn like_a_deque() {
        let ledger = ledger(64, 1);
        let (mut list, mut model) = (List::default(), std::collections::VecDeque::new());
        let mut random = 99u32;
        for _ in 0..5_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (what, position) = (random >> 28, (random >> 16) % 64);
            let at = model.iter().position(|p| *p == position);
            match (what, at) {
                (0..=5, None) => {
                    list.push(&ledger, position);
                    model.push_back(position);
                }
                (6..=7, None) => {
                    list.push_front(&ledger, position);
                    model.push_front(position);
                }
                (8..=11, Some(at)) => {
                    list.remove(&ledger, position);
                    model.remove(at);
                }
                (12..=13, _) => assert_eq!(list.pop(&ledger), model.pop_front()),
                _ => {}
            }
            assert_eq!((list.len(), list.head()), (model.len(), model.front().copied()));
            let mut seen = Vec::new();
            list.backwards(&ledger, |p| {
                seen.push(p);
                true
            });
            assert!(seen.iter().eq(model.iter().rev()));
        }
    }
}
