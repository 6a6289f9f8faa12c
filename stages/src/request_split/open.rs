//! The open requests of one peer, in two lists: those that nobody has looked at, which may be one slice each, and
//! those that are being cut. Whichever was served last lets the other go first.
//! Deliberately no window in here: it only says who is next.

use crate::ledger::Ledger;
use crate::list::List;
use crate::window::Class;

/// See the file's head.
#[derive(Clone, Copy)]
pub(super) struct Open {
    fresh: List,
    cut: List,
    first: Class,
}

impl Default for Open {
    fn default() -> Self {
        Self { fresh: List::default(), cut: List::default(), first: Class::Whole }
    }
}

impl Open {
    pub(super) fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.cut.is_empty()
    }

    /// Adds a request that just came.
    pub(super) fn push(&mut self, ledger: &Ledger, position: u32) {
        self.fresh.push(ledger, position);
    }

    /// It is one that is cut: it goes behind the others of those.
    pub(super) fn move_to_cut(&mut self, ledger: &Ledger, position: u32) {
        self.remove(ledger, position);
        ledger.at(position).set_cut();
        self.cut.push(ledger, position);
    }

    /// Takes out one that is in here.
    pub(super) fn remove(&mut self, ledger: &Ledger, position: u32) {
        self.list(if ledger.at(position).is_cut() { Class::Piece } else { Class::Whole })
            .remove(ledger, position);
    }

    /// The next one of a class.
    pub(super) fn head(&self, class: Class) -> Option<u32> {
        match class {
            Class::Whole => self.fresh.head(),
            Class::Piece => self.cut.head(),
        }
    }

    /// Whether there is at most one of a class.
    pub(super) fn is_last(&self, class: Class) -> bool {
        let list = if class == Class::Piece { &self.cut } else { &self.fresh };
        list.len() <= 1
    }

    /// In which order a turn goes through the two. The first is left half a batch while the other waits.
    pub(super) fn order(&self) -> [Class; 3] {
        match self.first {
            Class::Whole => [Class::Whole, Class::Piece, Class::Whole],
            Class::Piece => [Class::Piece, Class::Whole, Class::Piece],
        }
    }

    /// The first has had its turn, or wants none.
    pub(super) fn pass_on(&mut self) {
        self.first = if self.first == Class::Whole { Class::Piece } else { Class::Whole };
    }

    pub(super) fn pop(&mut self, ledger: &Ledger) -> Option<u32> {
        let position = self.fresh.head().or(self.cut.head())?;
        self.remove(ledger, position);
        Some(position)
    }

    fn list(&mut self, class: Class) -> &mut List {
        if class == Class::Piece { &mut self.cut } else { &mut self.fresh }
    }
}
