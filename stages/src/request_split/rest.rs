//! Whether a cutter may be left alone, or sleep: what it holds, and whether a turn would get anywhere.
//! Deliberately nothing that changes anything.

use std::sync::atomic::Ordering::Relaxed;

use super::Split;
use crate::window::{Class, Short};

impl Split {
    /// Whether it need not be polled before something comes: who keeps some of the windows must look who is short.
    pub(super) fn rests(&self) -> bool {
        self.holds_nothing() && !self.world.ledger.window.keeps(self.shard.holder())
    }

    pub(super) fn holds_nothing(&self) -> bool {
        self.ring.is_empty() && self.ready.is_empty() && self.holding.is_empty()
    }

    /// Whether a turn of some peer would get anywhere now.
    pub(super) fn could_go_on(&self) -> bool {
        self.ring.iter().any(|peer| {
            let open = &self.open[*peer as usize];
            for at in open.order().into_iter().take(2).filter_map(|class| open.head(class)) {
                match self.could_cut(at) {
                    Ok(()) => return true,
                    Err(Short::Pieces) => {}
                    Err(Short::All) => return false,
                }
            }
            false
        })
    }

    fn could_cut(&self, position: u32) -> Result<(), Short> {
        let ledger = &*self.world.ledger;
        let cover = ledger.at(position);
        let left = cover.len() - ledger.request(cover.request()).cut.load(Relaxed);
        let row = cover.rows().map_or(left, |rows| rows.len);
        let piece = self.sizes.of_slice(cover).min(row).min(ledger.window.bytes_limit());
        match cover.is_cut() {
            true if !ledger.has_slices() => Err(Short::Pieces),
            true => ledger.window.could(cover.peer(), Class::Piece, piece),
            false => ledger.window.could(cover.peer(), Class::Whole, piece),
        }
    }
}
