//! Where a request is cut: at the slice size, where a row ends, and at the seams of the remote segment. (Its local bytes
//! are in one region.)
//! Deliberately without any charge or slot: it only says which pieces would come next.

use std::sync::atomic::Ordering::Relaxed;

use pipeline_transports::Span;

use crate::ledger::{Ledger, Part, Rows, Slot};
use crate::peer::{PeerView, RegionView};
use crate::reason::{Code, Reason, StageIx};

/// The next pieces of one request.
pub(super) struct Plan<'a> {
    ledger: &'a Ledger,
    cover: Slot<'a>,
    view: &'a PeerView,
    size: u64,
    stage: StageIx,
    /// How many bytes are cut.
    cut: u64,
    /// All bytes.
    len: u64,
    rows: Option<Rows>,
    next: Next,
    /// The most that one slice may have.
    limit: u64,
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
    fn after(cover: Slot, rows: Option<&Rows>, cut: u64) -> Self {
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

impl<'a> Plan<'a> {
    pub(super) fn new(
        ledger: &'a Ledger,
        cover: Slot<'a>,
        view: &'a PeerView,
        size: u64,
        stage: StageIx,
    ) -> Self {
        let cut = ledger.request(cover.request()).cut.load(Relaxed);
        let (len, rows, limit) = (cover.len(), cover.rows(), ledger.window.bytes_limit());
        let next = Next::after(cover, rows.as_ref(), cut);
        Self { ledger, cover, view, size, stage, cut, len, rows, next, limit, region: None }
    }

    /// Bytes not cut.
    pub(super) fn left(&self) -> u64 {
        self.len - self.cut
    }

    /// Whether this first piece is all there is.
    pub(super) fn is_whole(&self, piece: &Part) -> bool {
        self.cut == 0 && piece.len == self.len
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
        let index = self.ledger.request(self.cover.request()).segment();
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
    pub(super) fn peek(&mut self) -> Result<Part, Code> {
        let Next { local, remote, left } = self.next;
        let region = self.region(remote)?;
        let within = remote - region.start;
        let len = left.min(region.len - within).min(self.size);
        if len > self.limit {
            return Err(self.refuse(Reason::TooLarge { asked: len, limit: self.limit }));
        }
        Ok(Part { local_offset: local, remote: Span { region: region.id, offset: within }, len })
    }

    /// Draws the next piece if it has at most `bytes` bytes, and moves the cut. An error ends it early: the next
    /// [`Self::peek`] meets it again.
    #[inline]
    pub(super) fn draw(&mut self, bytes: u64) -> Option<Part> {
        if self.left() == 0 {
            return None;
        }
        let piece = self.peek().ok().filter(|piece| piece.len <= bytes)?;
        self.cut += piece.len;
        self.next.step(piece.len, self.rows.as_ref());
        Some(piece)
    }

    /// Keeps how far it was cut.
    pub(super) fn keep(&self) {
        self.ledger.request(self.cover.request()).cut.store(self.cut, Relaxed);
    }
}
