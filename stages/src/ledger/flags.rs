//! What is noted of a slice in single bits, with its attempts and its transport, all in one word: written by whoever
//! holds the slice, by a load and a store. Deliberately no decisions: what follows from a bit is for the stages.

use std::sync::atomic::Ordering::Relaxed;

use pipeline_transports::Op;

use super::Slot;

// Attempts are in bits 12 to 19, the transport plus one above.
pub(super) const WRITE: u32 = 1;
pub(super) const CHARGED: u32 = 1 << 1;
const STRIKE: u32 = 1 << 2;
const RESPITE: u32 = 1 << 3;
const MISSING: u32 = 1 << 4;
const CUT: u32 = 1 << 5;
/// In a wheel.
pub(super) const WATCHED: u32 = 1 << 6;
/// Will be, if it is still here when its holder has looked at all.
const DEFERRED: u32 = 1 << 7;
/// Since when it is held is noted.
pub(super) const STAMPED: u32 = 1 << 8;
/// It stands for the rows of a strided request.
pub(super) const ROWS: u32 = 1 << 9;
/// Its other side is being read back, or has been.
pub(super) const BACK: u32 = 1 << 10;
/// And it is a WRITE itself.
pub(super) const BACK_OF_WRITE: u32 = 1 << 11;
/// What is noted of one journey with a transport, for once in it.
pub(super) const FIRST_LOOK: u32 = RESPITE | MISSING;
const ATTEMPT: u32 = 1 << 12;
const ATTEMPTS: u32 = 0xff << 12;
pub(super) const TRANSPORT_SHIFT: u32 = 20;
pub(super) const TRANSPORT: u32 = 0xfff << TRANSPORT_SHIFT;
/// Transports that a slot can name.
pub(crate) const TRANSPORTS_MAX: u16 = 0xffe;

/// How the bytes of a strided request lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    /// Bytes of a row.
    pub(crate) len: u64,
    /// From the start of a row to that of the next one, here.
    pub(crate) local_stride: u64,
    /// The same there.
    pub(crate) remote_stride: u64,
}

impl Slot<'_> {
    /// Direction.
    #[inline]
    pub fn op(&self) -> Op {
        if self.has(WRITE) { Op::Write } else { Op::Read }
    }

    /// The transport chosen for it.
    #[inline]
    pub fn transport(&self) -> Option<u16> {
        ((self.near.flags.load(Relaxed) >> TRANSPORT_SHIFT) as u16).checked_sub(1)
    }

    #[inline]
    pub(crate) fn set_transport(&self, transport: u16) {
        debug_assert!(transport <= TRANSPORTS_MAX);
        let flags = self.near.flags.load(Relaxed) & !TRANSPORT;
        self.near.flags.store(flags | (u32::from(transport) + 1) << TRANSPORT_SHIFT, Relaxed);
    }

    #[inline]
    pub(super) fn has(&self, flag: u32) -> bool {
        self.near.flags.load(Relaxed) & flag != 0
    }

    #[inline]
    pub(super) fn raise(&self, flag: u32) {
        self.near.flags.store(self.near.flags.load(Relaxed) | flag, Relaxed);
    }

    /// Whether its bytes are charged to its peer's window.
    #[inline]
    pub(crate) fn is_charged(&self) -> bool {
        self.has(CHARGED)
    }

    #[inline]
    pub(crate) fn set_charged(&self) {
        self.raise(CHARGED);
    }

    /// Whether it is the cover of a request that is cut into several.
    #[inline]
    pub(crate) fn is_cut(&self) -> bool {
        self.has(CUT)
    }

    #[inline]
    pub(crate) fn set_cut(&self) {
        self.raise(CUT);
    }

    /// Whether it is in a timer wheel.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.has(WATCHED)
    }

    #[inline]
    pub(crate) fn set_watched(&self) {
        self.near.flags.store(self.near.flags.load(Relaxed) & !DEFERRED | WATCHED, Relaxed);
    }

    /// Whether it will be in one, if it stays.
    #[inline]
    pub(crate) fn is_deferred(&self) -> bool {
        self.has(DEFERRED)
    }

    #[inline]
    pub(crate) fn set_deferred(&self) {
        self.raise(DEFERRED);
    }

    /// Whether it was in a wheel; it neither is nor will be from here on.
    #[inline]
    pub(crate) fn unwatch(&self) -> bool {
        let flags = self.near.flags.load(Relaxed);
        if flags & (WATCHED | DEFERRED) != 0 {
            self.near.flags.store(flags & !(WATCHED | DEFERRED), Relaxed);
        }
        flags & WATCHED != 0
    }

    /// Marks that the attempt that just ended was its own fault, not that of a neighbour on the link.
    pub(crate) fn set_strike(&self) {
        self.raise(STRIKE);
    }

    /// Counts the strike, if there is one, and answers how many there are now.
    pub(crate) fn count_strike(&self) -> u32 {
        let mut flags = self.near.flags.load(Relaxed);
        if flags & STRIKE != 0 {
            flags &= !STRIKE;
            if flags & ATTEMPTS != ATTEMPTS {
                flags += ATTEMPT;
            }
            self.near.flags.store(flags, Relaxed);
        }
        (flags & ATTEMPTS) / ATTEMPT
    }

    /// Grants a respite, once in its life: whether this was it.
    pub(crate) fn grant_respite(&self) -> bool {
        let is_first = !self.has(RESPITE);
        self.raise(RESPITE);
        is_first
    }

    /// Whether it has been granted one.
    pub(crate) fn had_respite(&self) -> bool {
        self.has(RESPITE)
    }

    /// Notes that its transport knows it no more though it has not completed: whether that was noted before.
    pub(crate) fn note_missing(&self) -> bool {
        let was_missing = self.has(MISSING);
        self.raise(MISSING);
        was_missing
    }
}

#[cfg(test)]
mod tests {
    use pipeline_transports::{LinkId, RegionId, Span};

    use super::*;
    use crate::ledger::Birth;
    use crate::peer::PeerId;
    use crate::testing::ledger;

    /// Flags do not mix: transport, charge, strikes, respite, watch, direction, link and worker keep their values apart.
    #[test]
    fn flags_keep_apart() {
        let ledger = ledger(1, 1);
        let slot = ledger.at(0);
        let span = Span { region: RegionId(1), offset: 2 };
        let birth = Birth {
            request: 0,
            batch: 2,
            peer: PeerId(3),
            op: Op::Write,
            local: span,
            remote: span,
            len: 9,
            deadline: 10,
            transport: None,
        };
        slot.bear(&birth);
        assert_eq!((slot.transport(), slot.is_charged(), slot.count_strike()), (None, false, 0));
        assert_eq!((slot.batch(), slot.peer(), slot.deadline(), slot.remote()), (2, PeerId(3), 10, span));
        slot.set_transport(TRANSPORTS_MAX);
        slot.set_charged();
        slot.set_strike();
        slot.set_link(LinkId((1 << 48) - 1), 0xffff);
        assert!(!slot.had_respite() && slot.grant_respite() && slot.had_respite() && !slot.grant_respite());
        assert!(!slot.note_missing() && slot.note_missing());
        slot.set_deferred();
        assert!(slot.is_deferred() && !slot.is_watched() && !slot.unwatch() && !slot.is_deferred());
        slot.set_watched();
        assert!(slot.is_watched() && slot.unwatch() && !slot.unwatch());
        assert_eq!((slot.count_strike(), slot.count_strike()), (1, 1));
        for _ in 0..1_000 {
            slot.set_strike();
            slot.count_strike();
        }
        assert_eq!(
            (slot.count_strike(), slot.link(), slot.post_worker()),
            (255, LinkId((1 << 48) - 1), 0xffff)
        );
        assert_eq!((slot.transport(), slot.is_charged(), slot.op()), (Some(TRANSPORTS_MAX), true, Op::Write));
        let rows = Rows { len: 7, local_stride: 8, remote_stride: 9 };
        slot.set_rows(&rows);
        assert_eq!((slot.rows(), slot.transport(), slot.len()), (Some(rows), Some(TRANSPORTS_MAX), 9));
        slot.bear(&Birth { op: Op::Read, transport: Some(0), ..birth });
        assert!(!slot.had_respite() && !slot.note_missing() && slot.rows().is_none());
        assert_eq!((slot.transport(), slot.is_charged(), slot.op()), (Some(0), false, Op::Read));
        assert_eq!((slot.remote(), slot.link(), slot.post_worker()), (span, LinkId(0), 0));
    }
}
