//! A first-in-first-out list of slices, threaded through their slots: what a stage that holds work keeps them in.
//! Deliberately no storage of its own, hence no limit but the ledger's.

use std::sync::atomic::Ordering::Relaxed;

use crate::ledger::{Ledger, NIL};

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

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn head(&self) -> Option<u32> {
        (self.head != NIL).then_some(self.head)
    }

    pub(crate) fn push(&mut self, ledger: &Ledger, position: u32) {
        ledger.at(position).next.store(NIL, Relaxed);
        match self.head {
            NIL => self.head = position,
            _ => ledger.at(self.tail).next.store(position, Relaxed),
        }
        self.tail = position;
        self.len += 1;
    }

    pub(crate) fn pop(&mut self, ledger: &Ledger) -> Option<u32> {
        let position = self.head()?;
        self.head = ledger.at(position).next.load(Relaxed);
        self.len -= 1;
        if self.head == NIL {
            self.tail = NIL;
        }
        Some(position)
    }

    /// Takes out those that `keep` refuses, in order. For rare events: it walks the whole list.
    pub(crate) fn retain(&mut self, ledger: &Ledger, mut keep: impl FnMut(u32) -> bool) {
        let mut kept = Self::default();
        while let Some(position) = self.pop(ledger) {
            if keep(position) {
                kept.push(ledger, position);
            }
        }
        *self = kept;
    }
}
