//! Where a request is cut: at the slice size, where a row ends, and at the seams of the remote segment. (Its local bytes
//! are in one region.)
//! Deliberately without any charge or slot: it only says which pieces would come next.

use std::sync::atomic::Ordering::Relaxed;

use pipeline_graph::BATCH;
use pipeline_transports::Span;

use crate::ledger::{Birth, Ledger, Rows, Slot};
use crate::peer::{PeerView, RegionView};
use crate::reason::{Code, Reason, StageIx};

/// A slice to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) local: Span,
    pub(super) remote: Span,
    pub(super) len: u64,
}

const NOTHING: Span = Span { region: pipeline_transports::RegionId(0), offset: 0, key: 0 };

/// The next pieces of one request.
pub(super) struct Plan<'a> {
    ledger: &'a Ledger,
    cover: &'a Slot,
    view: &'a PeerView,
    size: u64,
    stage: StageIx,
    /// How many bytes are cut.
    cut: u64,
    rows: Option<Rows>,
    next: Next,
    /// The region of the last piece.
    region: Option<&'a RegionView>,
}

/// The first byte that is not cut.
#[derive(Clone, Copy)]
struct Next {
    /// From the start of the local region.
    local: u64,
    /// From the start of the peer's segment.
    remote: u64,
    /// Up to the end of its row.
    left: u64,
}

impl Next {
    #[inline]
    fn after(cover: &Slot, rows: Option<&Rows>, cut: u64) -> Self {
        let (local, remote) = (cover.local().offset, cover.remote().offset);
        // No sum or product wraps: `submit` has checked the end of the last row on both sides.
        match rows {
            None => Self { local: local + cut, remote: remote + cut, left: cover.len() - cut },
            Some(rows) => {
                let (row, within) = (cut / rows.len, cut % rows.len);
                Self {
                    local: local + row * rows.local_stride + within,
                    remote: remote + row * rows.remote_stride + within,
                    left: rows.len - within,
                }
            }
        }
    }

    #[inline]
    fn step(&mut self, len: u64, rows: Option<&Rows>) {
        self.local += len;
        self.remote += len;
        self.left -= len;
        if self.left == 0
            && let Some(rows) = rows
        {
            // Behind the last row nobody looks: there it may wrap.
            self.local = (self.local - rows.len).wrapping_add(rows.local_stride);
            self.remote = (self.remote - rows.len).wrapping_add(rows.remote_stride);
            self.left = rows.len;
        }
    }
}

/// What a draw drew: kept by the stage, so that nothing is cleared for the many requests of one piece.
pub(super) struct Pieces {
    pieces: [Piece; BATCH],
    drawn: usize,
}

impl Pieces {
    pub(super) fn new() -> Self {
        Self { pieces: [Piece { local: NOTHING, remote: NOTHING, len: 0 }; BATCH], drawn: 0 }
    }

    pub(super) fn drawn(&self) -> &[Piece] {
        &self.pieces[..self.drawn]
    }
}

impl<'a> Plan<'a> {
    pub(super) fn new(
        ledger: &'a Ledger,
        cover: &'a Slot,
        view: &'a PeerView,
        size: u64,
        stage: StageIx,
    ) -> Self {
        let cut = ledger.request(cover.request()).cut.load(Relaxed);
        let rows = cover.rows();
        let next = Next::after(cover, rows.as_ref(), cut);
        Self { ledger, cover, view, size, stage, cut, rows, next, region: None }
    }

    /// Bytes not cut.
    pub(super) fn left(&self) -> u64 {
        self.cover.len() - self.cut
    }

    /// Whether this first piece is all there is.
    pub(super) fn is_whole(&self, piece: &Piece) -> bool {
        self.cut == 0 && piece.len == self.cover.len()
    }

    fn refuse(&self, reason: Reason) -> Code {
        Code::new(reason, self.stage)
    }

    /// The region that the next byte is in, looked up once a region.
    #[inline]
    fn region(&mut self, offset: u64) -> Result<&'a RegionView, Code> {
        if let Some(region) = self.region.filter(|r| offset.wrapping_sub(r.start) < r.len) {
            return Ok(region);
        }
        let index = self.ledger.request(self.cover.request()).segment.load(Relaxed);
        let segment = self.view.segments.get(index as usize);
        let region = segment.and_then(|s| s.region_at(offset));
        let region = region.ok_or_else(|| self.refuse(Reason::UnknownSegment))?;
        if !region.access.allows(self.cover.op()) {
            return Err(self.refuse(Reason::Denied));
        }
        self.region = Some(region);
        Ok(region)
    }

    /// The next piece. (A segment may have lost regions or rights since the request was submitted.)
    #[inline]
    pub(super) fn peek(&mut self) -> Result<Piece, Code> {
        let Next { local, remote, left } = self.next;
        let region = self.region(remote)?;
        let within = remote - region.start;
        let len = left.min(region.len - within).min(self.size);
        let limit = self.ledger.window.bytes_limit();
        if len > limit {
            return Err(self.refuse(Reason::TooLarge { asked: len, limit }));
        }
        Ok(Piece {
            local: Span { region: self.cover.local().region, offset: local, key: 0 },
            remote: Span { region: region.id, offset: within, key: region.key },
            len,
        })
    }

    /// Draws up to `slots` pieces of `bytes` bytes together, and moves the cut. An error ends it early: the
    /// next [`Self::peek`] meets it again.
    pub(super) fn draw(&mut self, slots: usize, mut bytes: u64, into: &mut Pieces) {
        let mut n = 0;
        while n < slots.min(BATCH) && self.left() > 0 {
            let Ok(piece) = self.peek() else { break };
            if piece.len > bytes {
                break;
            }
            into.pieces[n] = piece;
            bytes -= piece.len;
            self.cut += piece.len;
            self.next.step(piece.len, self.rows.as_ref());
            n += 1;
        }
        into.drawn = n;
        self.ledger.request(self.cover.request()).cut.store(self.cut, Relaxed);
    }

    /// What all slices of the request have in common.
    pub(super) fn birth(&self) -> Birth {
        let cover = self.cover;
        Birth {
            request: cover.request(),
            batch: cover.batch(),
            peer: cover.peer(),
            op: cover.op(),
            local: NOTHING,
            remote: NOTHING,
            len: 0,
            deadline: cover.deadline(),
            transport: cover.transport(),
        }
    }
}
