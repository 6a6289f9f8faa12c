//! Reading from the tree: listings in pages, and bytes of files into the bounce region.

use std::collections::BinaryHeap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use cap_std::fs::{Dir, Metadata, MetadataExt, OpenOptions, OpenOptionsExt};
use pipeline_transports::control::file_message::ENTRIES_MAX;
use pipeline_transports::control::{FileAnswer, FileEntry, FileKind};
use pipeline_transports::{Op, Regions};

use super::beside::is_part;
use super::error::FileError;
use super::path;
use super::root::{Lease, Root};
use super::unfinished::UNFINISHED;

/// Names on a page, bytes: a page stays under the least message size every node takes.
const PAGE_BYTES: usize = 32 * 1024;

/// Lists a directory, or says what a file is.
pub(super) fn list(root: &Root, at: &str, after: &str) -> Result<FileAnswer, FileError> {
    let io = |e| FileError::io(at, "listed", e);
    root.allow(at, Op::Read)?;
    let place = path::below(at)?;
    let facts =
        if place == "." { root.tree.dir.dir_metadata() } else { root.tree.dir.symlink_metadata(place) };
    let facts = facts.map_err(io)?;
    if !facts.is_dir() {
        let name = path::split(place).1.to_owned();
        let entries = vec![entry(name, Some(&facts))];
        return Ok(FileAnswer::Listing { kind: kind(&facts), entries, more: false });
    }
    let dir = root.tree.dir.open_dir(place).map_err(io)?;
    // The first page of names after `after`: a bounded heap, whatever the size of the directory.
    let mut first = BinaryHeap::with_capacity(ENTRIES_MAX + 2);
    for found in dir.entries().map_err(io)? {
        let name = found.map_err(io)?.file_name().to_string_lossy().into_owned();
        if name.as_str() > after && !is_part(&name) && name != UNFINISHED {
            first.push(name);
            if first.len() > ENTRIES_MAX + 1 {
                first.pop();
            }
        }
    }
    let names = first.into_sorted_vec();
    let (mut entries, mut bytes) = (Vec::new(), 0);
    for name in &names {
        bytes += name.len() + 16;
        if bytes > PAGE_BYTES || entries.len() == ENTRIES_MAX {
            break;
        }
        // One that vanished meanwhile, or whose name is not UTF-8, is told as something not to copy.
        entries.push(entry(name.clone(), dir.symlink_metadata(name).ok().as_ref()));
    }
    let more = entries.len() < names.len();
    Ok(FileAnswer::Listing { kind: FileKind::Directory, entries, more })
}

fn kind(facts: &Metadata) -> FileKind {
    if facts.is_file() {
        FileKind::File
    } else if facts.is_dir() {
        FileKind::Directory
    } else if facts.is_symlink() {
        FileKind::Symlink
    } else {
        FileKind::Other
    }
}

fn entry(name: String, facts: Option<&Metadata>) -> FileEntry {
    let kind = facts.map_or(FileKind::Other, kind);
    let file = facts.filter(|f| f.is_file());
    FileEntry { name, kind, len: file.map_or(0, Metadata::len), executable: file.is_some_and(is_executable) }
}

pub(super) fn is_executable(facts: &Metadata) -> bool {
    facts.mode() & 0o100 != 0
}

/// Copies bytes of a file below `dir` to `into` of the bounce region.
pub(super) fn read(
    lease: &Lease,
    dir: &Dir,
    regions: &Regions,
    at: &str,
    offset: u64,
    (into, len): (u64, u64),
    scratch: &mut [u8],
) -> Result<FileAnswer, FileError> {
    let io = |e| FileError::io(at, "read", e);
    let root = &lease.root;
    root.allow(at, Op::Read)?;
    let (file, facts) = open(dir, at)?;
    let (mut done, mut crc) = (0, 0);
    while done < len {
        let n = (len - done).min(scratch.len() as u64) as usize;
        let got = match file.read_at(&mut scratch[..n], offset.saturating_add(done)) {
            Ok(0) => break,
            Ok(got) => got,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(io(e)),
        };
        crc = crc32c::crc32c_append(crc, &scratch[..got]);
        regions.write_shared(root.region, into + done, &scratch[..got])?;
        done += got as u64;
    }
    Ok(FileAnswer::Filled { len: done, crc32c: crc, file_len: facts.len(), stamp: stamp(&facts) })
}

/// Opens a regular file for reading; never through a link.
pub(super) fn open(dir: &Dir, at: &str) -> Result<(File, Metadata), FileError> {
    let io = |e| FileError::io(at, "read", e);
    let place = path::file(at)?;
    let facts = dir.symlink_metadata(place).map_err(io)?;
    check(at, &facts)?;
    let mut options = OpenOptions::new();
    // Should it be replaced by a pipe just now, opening it must not wait for a writer.
    options.read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
    let file = dir.open_with(place, &options).map_err(io)?;
    let facts = file.metadata().map_err(io)?;
    check(at, &facts)?;
    Ok((file.into_std(), facts))
}

fn check(at: &str, facts: &Metadata) -> Result<(), FileError> {
    match kind(facts) {
        FileKind::File => Ok(()),
        FileKind::Directory => Err(FileError::IsDirectory(at.to_owned())),
        FileKind::Symlink | FileKind::Other => Err(FileError::NotAFile(at.to_owned())),
    }
}

/// Changes with the file: another inode, length or time of modification; never 0, which means that there is none.
pub(super) fn stamp(facts: &Metadata) -> u64 {
    let time = (facts.mtime() as u64).wrapping_mul(1_000_000_000).wrapping_add(facts.mtime_nsec() as u64);
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for word in [facts.ino(), facts.len(), time] {
        hash = (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
    }
    hash.max(1)
}
