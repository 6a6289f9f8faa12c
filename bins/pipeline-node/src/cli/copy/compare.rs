//! Whether a file here and a file at the peer are the same, by SHA-256 of its chunks. The same question both ways:
//! the digest is of what is here, the peer reads what is there.

use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Sender, bounded};
use pipeline_node::{Compared, FileAnswer, FileRequest};
use sha2::{Digest, Sha256};

use super::carry::read_exact;
use super::session::{Bench, Session};

/// A file at the peer, and what it would have to be like.
#[derive(Clone, Debug)]
pub struct There {
    /// Segment.
    pub segment: String,
    /// Path in it.
    pub path: String,
    /// Bytes.
    pub len: u64,
    /// Whether it may be executed.
    pub executable: bool,
}

/// What a chunk that was compared came to: the stamp of the file there, if it is the same.
pub type Found = Option<u64>;

/// Compares a file of one chunk at most.
///
/// # Errors
/// Why it cannot be read here, or the peer's reason.
pub fn small(session: &Session<'_>, bench: &mut Bench, file: &File, there: &There) -> Result<Found, String> {
    chunk(session, bench, file, there, 0, there.len)
}

fn chunk(
    session: &Session<'_>,
    bench: &mut Bench,
    file: &File,
    there: &There,
    offset: u64,
    len: u64,
) -> Result<Found, String> {
    let bytes = &mut bench.buffer[..len as usize];
    read_exact(file, bytes, offset)?;
    let found = ask(session, there, (offset, len), Sha256::digest(bytes).into())?;
    Ok(found)
}

/// Asks whether bytes of a file there have this digest.
///
/// # Errors
/// The peer's reason.
pub fn ask(
    session: &Session<'_>,
    there: &There,
    (offset, len): (u64, u64),
    digest: [u8; 32],
) -> Result<Found, String> {
    let of = Compared::File {
        segment: there.segment.clone(),
        path: there.path.clone(),
        file_len: there.len,
        executable: there.executable,
    };
    match session.ask(FileRequest::Compare { of, offset, len, digest })? {
        FileAnswer::Same { same, stamp } => Ok(same.then_some(stamp)),
        other => Err(format!("unexpected answer {other:?}")),
    }
}

/// Chunks of a large file that are compared by several workers.
pub struct Check {
    file: Arc<File>,
    there: There,
    /// All chunks must be of one file.
    stamp: u64,
    left: AtomicU64,
    differs: AtomicBool,
    trouble: Mutex<Option<String>>,
    done: Sender<()>,
}

/// Compares a file of several chunks: `offer` hands them to the workers, each of which calls [`Check::chunk`].
///
/// # Errors
/// As [`small`].
pub fn large(
    session: &Session<'_>,
    file: &Arc<File>,
    there: &There,
    mut offer: impl FnMut(Arc<Check>, u64, u64) -> Result<(), String>,
) -> Result<Found, String> {
    // Length and mode alone tell most that are not the same.
    let Some(stamp) = ask(session, there, (0, 0), Sha256::digest([]).into())? else { return Ok(None) };
    if there.len == 0 {
        return Ok(Some(stamp));
    }
    let (done, ended) = bounded(1);
    let check = Arc::new(Check {
        file: file.clone(),
        there: there.clone(),
        stamp,
        left: AtomicU64::new(there.len.div_ceil(session.chunk)),
        differs: AtomicBool::new(false),
        trouble: Mutex::default(),
        done,
    });
    let mut offset = 0;
    while offset < there.len {
        let len = session.chunk.min(there.len - offset);
        offer(check.clone(), offset, len)?;
        offset += len;
    }
    // The last chunk says so; workers take what is offered until nobody offers any more.
    let _ = ended.recv();
    match check.trouble.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(reason) => Err(reason),
        None => Ok((!check.differs.load(Ordering::Relaxed)).then_some(stamp)),
    }
}

impl Check {
    /// Compares one chunk.
    pub fn chunk(&self, session: &Session<'_>, bench: &mut Bench, offset: u64, len: u64) {
        if !self.differs.load(Ordering::Relaxed) {
            let found = chunk(session, bench, &self.file, &self.there, offset, len);
            if !matches!(found, Ok(Some(stamp)) if stamp == self.stamp) {
                self.differs.store(true, Ordering::Relaxed);
            }
            if let Err(reason) = found {
                *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
            }
        }
        // What the others have stored is seen by whoever is told.
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let _ = self.done.send(());
        }
    }
}
