//! Where a request is cut: at the slice size, where the local region ends, and at the seams of the remote segment.
//! Deliberately without any charge or slot: it only says which pieces would come next.

use std::sync::atomic::Ordering::Relaxed;

use pipeline_graph::BATCH;
use pipeline_transports::Span;

use crate::ledger::{Birth, Ledger, Slot};
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
    /// First byte not cut.
    cut: u64,
    /// The region of the last piece.
    region: Option<&'a RegionView>,
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
        Self { ledger, cover, view, size, stage, cut, region: None }
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
        let (local, far) = (self.cover.local(), self.cover.remote());
        // Neither sum wraps: `submit` has checked both ranges.
        let offset = far.offset + self.cut;
        let region = self.region(offset)?;
        let within = offset - region.start;
        let len = self.left().min(region.len - within).min(self.size);
        let limit = self.ledger.window.bytes_limit();
        if len > limit {
            return Err(self.refuse(Reason::TooLarge { asked: len, limit }));
        }
        Ok(Piece {
            local: Span { region: local.region, offset: local.offset + self.cut, key: 0 },
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
