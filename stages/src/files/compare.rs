//! Whether a file of a segment holds the bytes that a peer has. Deliberately by SHA-256: a copy that is not made
//! because of it must be as good as one that is, and 32 bits would be wrong one time in four thousand millions.

use pipeline_transports::Op;
use pipeline_transports::control::FileAnswer;
use pipeline_transports::control::file_message::COMPARE_MAX;

use super::error::FileError;
use super::listing::{is_executable, open, stamp};
use super::part::digest_of;
use super::root::Root;

/// What a peer says of its file.
pub(super) struct Theirs {
    /// Length of the whole file, bytes.
    pub(super) file_len: u64,
    pub(super) executable: bool,
    /// The bytes that are compared.
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) digest: [u8; 32],
}

/// Compares. A file that is not there, or is none, is not the same.
pub(super) fn file(
    root: &Root,
    at: &str,
    theirs: &Theirs,
    scratch: &mut [u8],
) -> Result<FileAnswer, FileError> {
    root.allow(at, Op::Read)?;
    bounded(theirs.len)?;
    let (file, facts) = match open(&root.tree.dir, at) {
        Ok(opened) => opened,
        Err(
            FileError::NotFound(_)
            | FileError::NotDirectory(_)
            | FileError::IsDirectory(_)
            | FileError::NotAFile(_),
        ) => return Ok(FileAnswer::Same { same: false, stamp: 0 }),
        Err(e) => return Err(e),
    };
    let stamp = stamp(&facts);
    let inside = theirs.offset.checked_add(theirs.len).is_some_and(|end| end <= theirs.file_len);
    if !inside || facts.len() != theirs.file_len || is_executable(&facts) != theirs.executable {
        return Ok(FileAnswer::Same { same: false, stamp });
    }
    let io = |e| FileError::io(at, "read", e);
    let (have, _) = digest_of(&file, theirs.offset, theirs.len, scratch).map_err(io)?;
    Ok(FileAnswer::Same { same: have == Some(theirs.digest), stamp })
}

/// A peer may not occupy a worker for longer than so many bytes take.
pub(super) fn bounded(len: u64) -> Result<(), FileError> {
    if len <= COMPARE_MAX {
        return Ok(());
    }
    Err(FileError::Limit { what: "bytes compared at a time", limit: COMPARE_MAX })
}
