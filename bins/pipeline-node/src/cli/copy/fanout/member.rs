//! The carrier of one destination among several: has extents pulled from another destination that has them, or sends
//! them. Deliberately knows nothing of files as wholes: these are begun and committed at each destination by itself.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pipeline_node::{Error, ErrorCode, FileRequest, Peer, Pull};

use super::board::{Board, PATIENCE, Source};
use super::export::Export;
use crate::cli::copy::carry::{ByWrite, Carrier, Extent, Placed, read_exact};
use crate::cli::copy::progress::Progress;
use crate::cli::copy::session::{Bench, Session};

/// Another destination, to pull from.
#[derive(Clone)]
pub struct Neighbour {
    /// It.
    pub peer: Peer,
    /// Address that others may know it by.
    pub address: String,
    /// Segment of the copy there.
    pub segment: String,
}

/// See the file's head.
pub struct Member<'a> {
    board: &'a Board,
    index: usize,
    peer: &'a Peer,
    label: &'a str,
    way_back: Vec<usize>,
    /// By index; `None` for those that were not reached.
    neighbours: &'a [Option<Neighbour>],
    exports: Mutex<HashMap<usize, Arc<Export>>>,
    /// Neighbours that did not give what they should have, and until when they are not asked.
    avoided: Mutex<HashMap<usize, Instant>>,
    /// The node does not pull, or nothing can be pulled: all is sent.
    sends: AtomicBool,
    all: &'a Progress,
    sent: AtomicU64,
    pulled: AtomicU64,
}

/// What came of a pull.
enum Pulled {
    Done,
    /// What is known of the other one is changing just now.
    Again,
    /// Not from there now: another way.
    Elsewhere(String),
    /// Not this extent.
    Send,
    /// The destination itself failed.
    Failed(String),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Member<'a> {
    /// Destination `index`, opened as `peer`.
    pub fn new(
        board: &'a Board,
        (index, way_back): (usize, Vec<usize>),
        (peer, label): (&'a Peer, &'a str),
        neighbours: &'a [Option<Neighbour>],
        all: &'a Progress,
    ) -> Self {
        Self {
            board,
            index,
            peer,
            label,
            way_back,
            neighbours,
            exports: Mutex::default(),
            avoided: Mutex::default(),
            sends: AtomicBool::new(false),
            all,
            sent: AtomicU64::new(0),
            pulled: AtomicU64::new(0),
        }
    }

    /// Bytes that the source has sent to it, and bytes that it has pulled from others.
    pub fn moved(&self) -> (u64, u64) {
        (self.sent.load(Relaxed), self.pulled.load(Relaxed))
    }

    fn is_avoided(&self, member: usize) -> bool {
        lock(&self.avoided).get(&member).is_some_and(|until| *until > Instant::now())
    }

    /// The checksum of an extent, read here if nobody has read it yet.
    fn sum(&self, bench: &mut Bench, extent: &Extent<'_>) -> Result<u32, String> {
        let known = self.board.sum(extent.from, (extent.offset, extent.len));
        known.map_or_else(
            || {
                let bytes = &mut bench.buffer[..extent.len as usize];
                read_exact(extent.file, bytes, extent.offset)?;
                Ok(crc32c::crc32c(bytes))
            },
            Ok,
        )
    }

    /// Pulls an extent from whoever can give it; `None` when nobody can.
    fn pull(
        &self,
        session: &Session<'_>,
        bench: &mut Bench,
        extent: &Extent<'_>,
    ) -> Result<Option<u32>, String> {
        let range = (extent.offset, extent.len);
        while !self.sends.load(Relaxed) {
            let passed_over = |member| self.is_avoided(member);
            let found = self.board.source(self.index, extent.from, range, &self.way_back, &passed_over);
            let Some(source) = found else { return Ok(None) };
            let crc = self.sum(bench, extent)?;
            match self.pull_from(&source, session, bench, extent, crc) {
                Pulled::Done => return Ok(Some(crc)),
                Pulled::Failed(reason) => return Err(reason),
                Pulled::Send => return Ok(None),
                Pulled::Again => self.board.pause(),
                Pulled::Elsewhere(reason) => {
                    let other = source.member();
                    tracing::debug!(to = self.label, from = other, "not pulled: {reason}");
                    lock(&self.avoided).insert(other, Instant::now() + PATIENCE);
                }
            }
        }
        Ok(None)
    }

    /// The lease at another destination that this one pulls from, made when it is needed first.
    fn export(&self, other: usize, neighbour: &Neighbour, chunk: u64) -> Result<Option<Arc<Export>>, Error> {
        let mut exports = lock(&self.exports);
        if let Some(export) = exports.get(&other) {
            return Ok(Some(export.clone()));
        }
        let export = Export::open(&neighbour.peer, &neighbour.segment, chunk)?.map(Arc::new);
        exports.extend(export.clone().map(|export| (other, export)));
        Ok(export)
    }

    fn pull_from(
        &self,
        source: &Source,
        session: &Session<'_>,
        bench: &Bench,
        extent: &Extent<'_>,
        crc: u32,
    ) -> Pulled {
        let other = source.member();
        let Some(neighbour) = &self.neighbours[other] else { return Pulled::Elsewhere("not reached".into()) };
        let export = match self.export(other, neighbour, session.chunk) {
            Ok(Some(export)) => export,
            Ok(None) => return Pulled::Elsewhere("no room in its `buffer`".into()),
            Err(error) => return Pulled::Elsewhere(error.to_string()),
        };
        let Some(slot) = export.slot() else { return Pulled::Elsewhere("its export has ended".into()) };
        match slot.fill(source, (extent.offset, extent.len), crc) {
            Ok(true) => {}
            // It is being committed: in a moment the board has its place.
            Err(error) if error.code() == Some(ErrorCode::NO_UPLOAD) => return Pulled::Again,
            Ok(false) => return Pulled::Elsewhere("it has other bytes".into()),
            Err(error) => return Pulled::Elsewhere(error.to_string()),
        }
        let pull = Pull {
            upload: extent.upload,
            file_offset: extent.offset,
            lease_offset: bench.lease_offset,
            len: extent.len,
            crc32c: crc,
            peer: neighbour.address.clone(),
            token: export.token,
            token_offset: slot.offset,
            within_ms: PATIENCE.as_millis() as u32,
        };
        match self.peer.files(FileRequest::Pull(pull)) {
            Ok(_) => Pulled::Done,
            Err(error) => self.judge(session, &error),
        }
    }

    /// What an error of this destination means for the extent.
    fn judge(&self, session: &Session<'_>, error: &Error) -> Pulled {
        match error.code() {
            Some(ErrorCode::UPSTREAM) => Pulled::Elsewhere(error.to_string()),
            Some(ErrorCode::BUSY) => Pulled::Send,
            Some(ErrorCode::DENIED | ErrorCode::UNSUPPORTED | ErrorCode::LIMIT) => {
                // Said once: it is a setting, not an accident.
                if !self.sends.swap(true, Relaxed) {
                    self.all.say(&format!("{}: all of it is sent from here: {error}", self.label));
                }
                Pulled::Send
            }
            _ => Pulled::Failed(session.trouble(error)),
        }
    }
}

impl Carrier for Member<'_> {
    fn carry(&self, session: &Session<'_>, bench: &mut Bench, extent: &Extent<'_>) -> Result<u32, String> {
        let pulled = if self.way_back.is_empty() { None } else { self.pull(session, bench, extent)? };
        let (crc, count) = match pulled {
            Some(crc) => (crc, &self.pulled),
            None => (ByWrite.carry(session, bench, extent)?, &self.sent),
        };
        count.fetch_add(extent.len, Relaxed);
        self.all.bytes(extent.len);
        self.board.came(self.index, extent.from, extent.upload, (extent.offset, extent.len), crc);
        Ok(crc)
    }

    fn there(&self, extent: &Extent<'_>, crc: u32) {
        self.all.resumed(extent.len);
        self.board.came(self.index, extent.from, extent.upload, (extent.offset, extent.len), crc);
    }

    fn whole(&self, from: &Path, to: &Placed) {
        self.board.whole(self.index, from, to);
    }

    fn missed(&self, from: &Path) {
        self.board.missed(self.index, from);
    }
}
