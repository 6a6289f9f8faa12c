//! One slot of the slice table: everything a stage may know of a slice, in two cache lines.
//! Fields are relaxed atomics: whoever holds the key owns them, and a doubled key is a counted bug instead of
//! undefined behaviour. Deliberately no pointer and no `Arc`.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use pipeline_graph::Nanos;
use pipeline_transports::{LinkId, Op, RegionId, Span, WorkRequest, WrId};

use crate::key::Key;
use crate::peer::PeerId;
use crate::reason::Code;

/// No position: end of a list.
pub const NIL: u32 = u32::MAX;

/// Where a slice stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// On the free list.
    Free,
    /// A stage or an edge has its key.
    Live,
    /// A transport has it: it comes back by its completion, or by a deadline.
    Posted,
}

impl Phase {
    fn word(self, generation: u32) -> u64 {
        u64::from(generation) << 32 | self as u64
    }
}

/// The one slot kind for slices and cover slices. Links (`next`, `wheel_*`) are positions in the table.
#[derive(Default)]
#[repr(align(128))]
pub struct Slot {
    /// Generation (high 32 bits) and phase: the word whose compare-exchange decides who may end a slice.
    word: AtomicU64,
    /// Next in whatever list its holder keeps; on the free list, the next free slot.
    pub(crate) next: AtomicU32,
    /// Previous in that list.
    pub(crate) prev: AtomicU32,
    /// Timer wheel of its holder.
    pub(crate) wheel_next: AtomicU32,
    /// Timer wheel of its holder.
    pub(crate) wheel_prev: AtomicU32,
    /// Bucket of the wheel plus one; 0: in none.
    pub(crate) wheel_at: AtomicU32,
    /// When it fires there, in ticks.
    pub(crate) wheel_tick: AtomicU64,
    request: AtomicU32,
    batch: AtomicU32,
    peer: AtomicU32,
    code: AtomicU32,
    local_region: AtomicU64,
    local_offset: AtomicU64,
    remote_region: AtomicU64,
    remote_offset: AtomicU64,
    remote_key: AtomicU64,
    len: AtomicU64,
    deadline: AtomicU64,
    link: AtomicU64,
    post_worker: AtomicU32,
    /// Op (bit 0), charged (1), strike (2), respite (3), missing (4), cut (5), rows (6), attempts (8..16), transport + 1
    /// (16..32).
    flags: AtomicU32,
}

const WRITE: u32 = 1;
const CHARGED: u32 = 1 << 1;
const STRIKE: u32 = 1 << 2;
const RESPITE: u32 = 1 << 3;
const MISSING: u32 = 1 << 4;
const CUT: u32 = 1 << 5;
const ROWS: u32 = 1 << 6;
const ATTEMPT: u32 = 1 << 8;
const ATTEMPTS: u32 = 0xff << 8;
const TRANSPORT_SHIFT: u32 = 16;
const TRANSPORT: u32 = 0xffff << TRANSPORT_SHIFT;

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

/// What a slice is born with.
#[derive(Clone, Copy, Debug)]
pub struct Birth {
    /// Position of its request.
    pub request: u32,
    /// Its batch.
    pub batch: u32,
    /// To whom.
    pub peer: PeerId,
    /// Direction.
    pub op: Op,
    /// Local bytes.
    pub local: Span,
    /// Remote bytes. A cover slice counts `offset` from the start of its segment.
    pub remote: Span,
    /// How many.
    pub len: u64,
    /// When it is too late.
    pub deadline: Nanos,
    /// Transport that was chosen before it was cut.
    pub transport: Option<u16>,
}

impl Slot {
    /// A free one that has had no life. Its generation is not 0, so that no key with nothing in it names it.
    pub(crate) fn vacant() -> Self {
        Self { word: AtomicU64::new(Phase::Free.word(1)), ..Self::default() }
    }

    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        (self.word.load(Relaxed) >> 32) as u32
    }

    /// Whether `generation` is its present life and it is in `phase`.
    #[inline]
    pub(crate) fn is(&self, generation: u32, phase: Phase) -> bool {
        self.word.load(Relaxed) == phase.word(generation)
    }

    /// Moves from one phase to the next; `false` if somebody else did, or if the key is stale. Acquire and
    /// release, because the fields pass from one owner to the next with it.
    #[inline]
    pub(crate) fn step(&self, generation: u32, from: Phase, to: Phase) -> bool {
        self.exchange(from.word(generation), to.word(generation))
    }

    /// As [`Self::step`], into the next generation: every older key is stale from here on.
    #[inline]
    pub(crate) fn step_on(&self, generation: u32, from: Phase, to: Phase) -> bool {
        self.exchange(from.word(generation), to.word(generation.wrapping_add(1)))
    }

    #[inline]
    fn exchange(&self, from: u64, to: u64) -> bool {
        self.word.compare_exchange(from, to, AcqRel, Relaxed).is_ok()
    }

    /// Fills a free slot that its taker alone has, and makes it live.
    #[inline]
    pub(crate) fn bear(&self, birth: &Birth) {
        self.wheel_at.store(0, Relaxed);
        self.next.store(NIL, Relaxed);
        self.request.store(birth.request, Relaxed);
        self.batch.store(birth.batch, Relaxed);
        self.peer.store(birth.peer.0, Relaxed);
        self.code.store(Code::DONE.raw(), Relaxed);
        self.local_region.store(birth.local.region.0, Relaxed);
        self.local_offset.store(birth.local.offset, Relaxed);
        self.set_remote(&birth.remote);
        self.len.store(birth.len, Relaxed);
        self.deadline.store(birth.deadline, Relaxed);
        self.link.store(0, Relaxed);
        let op = if birth.op == Op::Write { WRITE } else { 0 };
        let transport = birth.transport.map_or(0, |t| (u32::from(t) + 1) << TRANSPORT_SHIFT);
        self.flags.store(op | transport, Relaxed);
        self.word.store(Phase::Live.word(self.generation()), Release);
    }

    /// Position of its request.
    #[inline]
    pub fn request(&self) -> u32 {
        self.request.load(Relaxed)
    }

    /// Its batch.
    #[inline]
    pub fn batch(&self) -> u32 {
        self.batch.load(Relaxed)
    }

    /// To whom.
    #[inline]
    pub fn peer(&self) -> PeerId {
        PeerId(self.peer.load(Relaxed))
    }

    /// Direction.
    #[inline]
    pub fn op(&self) -> Op {
        if self.flags.load(Relaxed) & WRITE != 0 { Op::Write } else { Op::Read }
    }

    /// Bytes.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len.load(Relaxed)
    }

    /// A run has grown: only before anybody else has its key.
    #[inline]
    pub(crate) fn set_len(&self, len: u64) {
        self.len.store(len, Relaxed);
    }

    /// Never: a length of 0 is refused at `submit`.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// When it is too late.
    #[inline]
    pub fn deadline(&self) -> Nanos {
        self.deadline.load(Relaxed)
    }

    /// Local bytes.
    #[inline]
    pub fn local(&self) -> Span {
        Span {
            region: RegionId(self.local_region.load(Relaxed)),
            offset: self.local_offset.load(Relaxed),
            key: 0,
        }
    }

    /// Remote bytes.
    #[inline]
    pub fn remote(&self) -> Span {
        Span {
            region: RegionId(self.remote_region.load(Relaxed)),
            offset: self.remote_offset.load(Relaxed),
            key: self.remote_key.load(Relaxed),
        }
    }

    #[inline]
    pub(crate) fn set_remote(&self, remote: &Span) {
        self.remote_region.store(remote.region.0, Relaxed);
        self.remote_offset.store(remote.offset, Relaxed);
        self.remote_key.store(remote.key, Relaxed);
    }

    /// The transport chosen for it.
    #[inline]
    pub fn transport(&self) -> Option<u16> {
        ((self.flags.load(Relaxed) >> TRANSPORT_SHIFT) as u16).checked_sub(1)
    }

    #[inline]
    pub(crate) fn set_transport(&self, transport: u16) {
        let flags = self.flags.load(Relaxed) & !TRANSPORT;
        self.flags.store(flags | (u32::from(transport) + 1) << TRANSPORT_SHIFT, Relaxed);
    }

    /// The link chosen for it.
    #[inline]
    pub fn link(&self) -> LinkId {
        LinkId(self.link.load(Relaxed))
    }

    /// The post worker that owns that link.
    #[inline]
    pub fn post_worker(&self) -> u32 {
        self.post_worker.load(Relaxed)
    }

    #[inline]
    pub(crate) fn set_link(&self, link: LinkId, post_worker: u32) {
        self.link.store(link.0, Relaxed);
        self.post_worker.store(post_worker, Relaxed);
    }

    /// How it ends, as far as is known.
    #[inline]
    pub fn code(&self) -> Code {
        Code::from_raw(self.code.load(Relaxed))
    }

    #[inline]
    pub(crate) fn set_code(&self, code: Code) {
        self.code.store(code.raw(), Relaxed);
    }

    /// Whether its bytes are charged to its peer's window.
    #[inline]
    pub(crate) fn is_charged(&self) -> bool {
        self.flags.load(Relaxed) & CHARGED != 0
    }

    #[inline]
    pub(crate) fn set_charged(&self) {
        self.flags.store(self.flags.load(Relaxed) | CHARGED, Relaxed);
    }

    /// Whether it is the cover of a request that is cut into several.
    #[inline]
    pub(crate) fn is_cut(&self) -> bool {
        self.flags.load(Relaxed) & CUT != 0
    }

    #[inline]
    pub(crate) fn set_cut(&self) {
        self.flags.store(self.flags.load(Relaxed) | CUT, Relaxed);
    }

    /// Says that a cover slice stands for rows. It is never posted itself, so they lie in fields that only a posted slice
    /// needs: remote region, remote key, link.
    pub(crate) fn set_rows(&self, rows: &Rows) {
        self.remote_region.store(rows.len, Relaxed);
        self.remote_key.store(rows.local_stride, Relaxed);
        self.link.store(rows.remote_stride, Relaxed);
        self.flags.store(self.flags.load(Relaxed) | ROWS, Relaxed);
    }

    /// The rows of a strided request's cover slice.
    #[inline]
    pub(crate) fn rows(&self) -> Option<Rows> {
        if self.flags.load(Relaxed) & ROWS == 0 {
            return None;
        }
        Some(Rows {
            len: self.remote_region.load(Relaxed),
            local_stride: self.remote_key.load(Relaxed),
            remote_stride: self.link.load(Relaxed),
        })
    }

    /// Marks that the attempt that just ended was its own fault, not that of a neighbour on the link.
    pub(crate) fn set_strike(&self) {
        self.flags.store(self.flags.load(Relaxed) | STRIKE, Relaxed);
    }

    /// Counts the strike, if there is one, and answers how many there are now.
    pub(crate) fn count_strike(&self) -> u32 {
        let mut flags = self.flags.load(Relaxed);
        if flags & STRIKE != 0 {
            flags &= !STRIKE;
            if flags & ATTEMPTS != ATTEMPTS {
                flags += ATTEMPT;
            }
            self.flags.store(flags, Relaxed);
        }
        (flags & ATTEMPTS) >> 8
    }

    /// Grants a respite, once in its life: whether this was it.
    pub(crate) fn grant_respite(&self) -> bool {
        let flags = self.flags.load(Relaxed);
        self.flags.store(flags | RESPITE, Relaxed);
        flags & RESPITE == 0
    }

    /// Whether it has been granted one.
    pub(crate) fn had_respite(&self) -> bool {
        self.flags.load(Relaxed) & RESPITE != 0
    }

    /// Notes that its transport knows it no more though it has not completed: whether that was noted before.
    pub(crate) fn note_missing(&self) -> bool {
        let flags = self.flags.load(Relaxed);
        self.flags.store(flags | MISSING, Relaxed);
        flags & MISSING != 0
    }

    /// As the transport wants it.
    #[inline]
    pub(crate) fn work(&self, key: Key) -> WorkRequest {
        WorkRequest {
            id: WrId(key.raw()),
            op: self.op(),
            local: self.local(),
            remote: self.remote(),
            len: self.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slot is exactly two cache lines: 65 536 slices are 8 MiB.
    #[test]
    fn size() {
        assert_eq!(size_of::<Slot>(), 128);
    }

    /// Flags do not mix: transport, charge, strikes, respite and direction keep their values apart.
    #[test]
    fn flags_keep_apart() {
        let slot = Slot::default();
        let span = Span { region: RegionId(1), offset: 2, key: 3 };
        let birth = Birth {
            request: 1,
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
        slot.set_transport(65_533);
        slot.set_charged();
        slot.set_strike();
        assert!(!slot.had_respite() && slot.grant_respite() && slot.had_respite() && !slot.grant_respite());
        assert!(!slot.note_missing() && slot.note_missing());
        assert_eq!((slot.count_strike(), slot.count_strike()), (1, 1));
        for _ in 0..1_000 {
            slot.set_strike();
            slot.count_strike();
        }
        assert_eq!(slot.count_strike(), 255);
        assert_eq!((slot.transport(), slot.is_charged(), slot.op()), (Some(65_533), true, Op::Write));
        let rows = Rows { len: 7, local_stride: 8, remote_stride: 9 };
        slot.set_rows(&rows);
        assert_eq!((slot.rows(), slot.transport(), slot.len()), (Some(rows), Some(65_533), 9));
        slot.bear(&Birth { op: Op::Read, transport: Some(0), ..birth });
        assert_eq!((slot.rows(), slot.remote()), (None, span));
        assert!(!slot.had_respite() && !slot.note_missing());
        assert_eq!((slot.transport(), slot.is_charged(), slot.op()), (Some(0), false, Op::Read));
    }

    /// Of two that end the same life only one succeeds, and an old generation never does.
    #[test]
    fn one_end() {
        let slot = Slot::default();
        assert!(slot.step(0, Phase::Free, Phase::Live));
        assert!(slot.step_on(0, Phase::Live, Phase::Free));
        assert!(!slot.step_on(0, Phase::Live, Phase::Free));
        assert!(slot.step(1, Phase::Free, Phase::Live));
        assert!(!slot.step(0, Phase::Live, Phase::Posted));
    }
}
