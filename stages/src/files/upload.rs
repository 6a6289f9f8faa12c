//! A file being written beside its place: `.NAME.part-<random>` until its length and checksum are right, then
//! renamed. Dropping an unfinished one removes it. Deliberately without fsync: see docs/semantics.md.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use pipeline_transports::control::FileAnswer;
use pipeline_transports::{Op, Regions};

use super::error::FileError;
use super::path;
use super::root::Lease;
use crate::control::lock;

/// Runs of bytes that may wait for a gap before them to be filled.
const RUNS: usize = 4096;
/// Bytes of a name that go into the name beside it, so that it fits 255.
const NAME_KEPT: usize = 200;

/// See the module.
pub(super) struct Upload {
    pub(super) lease: Arc<Lease>,
    path: String,
    parent: Dir,
    part: String,
    name: String,
    file: File,
    len: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    runs: Runs,
    /// A write failed: what is in the file is not what the runs say.
    broken: bool,
    committed: bool,
}

impl Upload {
    /// Makes the directories above `path` and an empty file beside it, with room for `len` bytes.
    pub(super) fn begin(
        lease: Arc<Lease>,
        path: &str,
        len: u64,
        executable: bool,
    ) -> Result<Self, FileError> {
        let io = |e| FileError::io(path, "written", e);
        lease.root.allow(path, Op::Write)?;
        let (parent, name) = path::split(path::file(path)?);
        let root = &lease.root.dir;
        if parent != "." {
            root.create_dir_all(parent).map_err(io)?;
        }
        let parent = root.open_dir(parent).map_err(io)?;
        if parent.symlink_metadata(name).is_ok_and(|m| m.is_dir()) {
            return Err(FileError::IsDirectory(path.to_owned()));
        }
        let part = part_name(name)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(if executable { 0o777 } else { 0o666 });
        let file = parent.open_with(&part, &options).map_err(io)?.into_std();
        let upload = Self {
            lease,
            path: path.to_owned(),
            parent,
            part,
            name: name.to_owned(),
            file,
            len,
            state: Mutex::default(),
        };
        upload.reserve().map_err(io)?;
        Ok(upload)
    }

    /// Finds out now, not after most bytes have travelled, that there is no space.
    fn reserve(&self) -> std::io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        if self.len == 0 {
            return Ok(());
        }
        match fallocate(&self.file, FallocateFlags::empty(), 0, self.len) {
            // Some file systems cannot; then the writes will tell.
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Copies `len` bytes at `from` of the bounce region to `at` in the file.
    pub(super) fn chunk(
        &self,
        regions: &Regions,
        from: u64,
        at: u64,
        len: u64,
        scratch: &mut [u8],
    ) -> Result<(), FileError> {
        let crc = self.write(regions, from, at, len, scratch)?;
        self.came(at, len, crc)
    }

    /// As [`Self::chunk`], for bytes that must have the CRC32C `wanted`; `false` when they have another: then they do
    /// not count and may come again.
    pub(super) fn checked_chunk(
        &self,
        regions: &Regions,
        from: u64,
        (at, len, wanted): (u64, u64, u32),
        scratch: &mut [u8],
    ) -> Result<bool, FileError> {
        if self.write(regions, from, at, len, scratch)? != wanted {
            return Ok(false);
        }
        self.came(at, len, wanted).map(|()| true)
    }

    fn came(&self, at: u64, len: u64, crc: u32) -> Result<(), FileError> {
        lock(&self.state).runs.add(at, len, crc).map_err(|reason| self.mismatch(reason.to_owned()))
    }

    /// Writes bytes into the file; answers their CRC32C.
    fn write(
        &self,
        regions: &Regions,
        from: u64,
        at: u64,
        len: u64,
        scratch: &mut [u8],
    ) -> Result<u32, FileError> {
        if at.checked_add(len).is_none_or(|end| end > self.len) {
            let reason = format!("{len} bytes at {at} pass its announced length {}", self.len);
            return Err(self.mismatch(reason));
        }
        let (mut done, mut crc) = (0, 0);
        while done < len {
            let n = (len - done).min(scratch.len() as u64);
            let bytes = &mut scratch[..n as usize];
            regions.read_shared(self.lease.root.region, from + done, bytes)?;
            crc = crc32c::crc32c_append(crc, bytes);
            if let Err(e) = self.file.write_all_at(bytes, at + done) {
                lock(&self.state).broken = true;
                return Err(FileError::io(&self.path, "written", e));
            }
            done += n;
        }
        Ok(crc)
    }

    /// Copies bytes that have come to `into` of the bounce region, for another node to pull.
    pub(super) fn reread(
        &self,
        regions: &Regions,
        lease: &Lease,
        (at, len): (u64, u64),
        into: u64,
        scratch: &mut [u8],
    ) -> Result<FileAnswer, FileError> {
        lease.root.allow(&self.path, Op::Read)?;
        if !lock(&self.state).runs.cover(at, len) {
            return Err(FileError::Busy("these bytes of the upload have not come yet"));
        }
        let (mut done, mut crc) = (0, 0);
        while done < len {
            let n = (len - done).min(scratch.len() as u64);
            let bytes = &mut scratch[..n as usize];
            self.file.read_exact_at(bytes, at + done).map_err(|e| FileError::io(&self.path, "read", e))?;
            crc = crc32c::crc32c_append(crc, bytes);
            regions.write_shared(lease.root.region, into + done, bytes)?;
            done += n;
        }
        // No other bytes can take their place: an upload is written once.
        Ok(FileAnswer::Filled { len, crc32c: crc, file_len: self.len, stamp: 0 })
    }

    /// Puts the file in its place, if it is whole.
    pub(super) fn commit(&self, crc: u32) -> Result<(), FileError> {
        let mut state = lock(&self.state);
        if state.broken {
            return Err(self.mismatch("a write to it failed".to_owned()));
        }
        match state.runs.whole(self.len) {
            None => return Err(self.mismatch(format!("not all of its {} bytes have come", self.len))),
            Some(have) if have != crc => {
                return Err(self.mismatch(format!("CRC32C is {have:08x}, announced was {crc:08x}")));
            }
            Some(_) => {}
        }
        let renamed = self.parent.rename(&self.part, &self.parent, &self.name);
        renamed.map_err(|e| FileError::io(&self.path, "written", e))?;
        state.committed = true;
        Ok(())
    }

    fn mismatch(&self, reason: String) -> FileError {
        FileError::Mismatch { path: self.path.clone(), reason }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if !lock(&self.state).committed
            && let Err(e) = self.parent.remove_file(&self.part)
        {
            tracing::warn!(path = self.path, "an unfinished upload stays behind as {}: {e}", self.part);
        }
    }
}

/// Whether a name is that of an upload in progress.
pub(super) fn is_part(name: &str) -> bool {
    let hex = |h: &str| h.len() == 16 && h.bytes().all(|b| b.is_ascii_hexdigit());
    name.starts_with('.') && name.rsplit_once(".part-").is_some_and(|(_, random)| hex(random))
}

fn part_name(name: &str) -> Result<String, FileError> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|e| {
        let source = std::io::Error::other(e.to_string());
        FileError::Io { path: name.to_owned(), source }
    })?;
    let kept = (0..=name.len().min(NAME_KEPT)).rev().find(|&i| name.is_char_boundary(i)).unwrap_or(0);
    Ok(format!(".{}.part-{:016x}", &name[..kept], u64::from_le_bytes(random)))
}

/// Which bytes have come, with the checksum of each run; neighbours are merged.
#[derive(Default)]
struct Runs(BTreeMap<u64, (u64, u32)>);

impl Runs {
    fn add(&mut self, mut at: u64, mut len: u64, mut crc: u32) -> Result<(), &'static str> {
        if len == 0 {
            return Ok(());
        }
        let before = self.0.range(..=at).next_back().map(|(&s, &(l, c))| (s, l, c));
        let after = self.0.range(at..).next().map(|(&s, &(l, c))| (s, l, c));
        if before.is_some_and(|(s, l, _)| s + l > at) || after.is_some_and(|(s, ..)| at + len > s) {
            return Err("bytes came twice");
        }
        if let Some((s, l, c)) = after.filter(|(s, ..)| *s == at + len) {
            self.0.remove(&s);
            crc = crc32c::crc32c_combine(crc, c, l as usize);
            len += l;
        }
        if let Some((s, l, c)) = before.filter(|(s, l, _)| s + l == at) {
            crc = crc32c::crc32c_combine(c, crc, len as usize);
            (at, len) = (s, l + len);
        }
        if self.0.len() >= RUNS && !self.0.contains_key(&at) {
            return Err("its bytes come in too many pieces; send them more in order");
        }
        self.0.insert(at, (len, crc));
        Ok(())
    }

    /// Whether all of these bytes have come.
    fn cover(&self, at: u64, len: u64) -> bool {
        let run = self.0.range(..=at).next_back();
        at.checked_add(len).is_some_and(|end| run.is_some_and(|(start, (have, _))| start + have >= end))
    }

    /// The checksum, if exactly the bytes up to `len` have come.
    fn whole(&self, len: u64) -> Option<u32> {
        match (len, self.0.first_key_value()) {
            (0, None) => Some(0),
            (_, Some((0, &(have, crc)))) if have == len => Some(crc),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        /// In whatever order pieces come, the checksum is that of the whole, and only when all have come.
        #[test]
        fn runs_sum_up(order in proptest::sample::subsequence((0..20usize).collect::<Vec<_>>(), 20), seed: u64) {
            let bytes: Vec<u8> = (0..1000u64).map(|i| (i.wrapping_mul(seed | 1) >> 7) as u8).collect();
            let mut order = order;
            for i in (1..order.len()).rev() {
                order.swap(i, (seed.rotate_left(i as u32) % (i as u64 + 1)) as usize);
            }
            let mut runs = Runs::default();
            for (done, i) in order.iter().enumerate() {
                proptest::prop_assert!(runs.whole(1000).is_none(), "whole after {done} pieces");
                proptest::prop_assert!(!runs.cover(*i as u64 * 50 + 10, 30), "not yet");
                let piece = &bytes[i * 50..(i + 1) * 50];
                runs.add(*i as u64 * 50, 50, crc32c::crc32c(piece)).unwrap();
                proptest::prop_assert!(runs.add(*i as u64 * 50 + 49, 2, 0).is_err());
            }
            proptest::prop_assert_eq!(runs.whole(1000), Some(crc32c::crc32c(&bytes)));
            proptest::prop_assert!(runs.cover(0, 1000) && !runs.cover(1, 1000) && !runs.cover(1, u64::MAX));
            proptest::prop_assert_eq!(runs.whole(999), None);
        }
    }

    /// The name beside a file fits the file system, is hidden, and is recognised.
    #[test]
    fn part_names() {
        for name in ["a".to_owned(), "é".repeat(127), "x".repeat(255)] {
            let part = part_name(&name).unwrap();
            assert!(part.len() <= 255 && is_part(&part), "{part}");
        }
        assert!(!is_part(".bashrc") && !is_part("a.part-0123456789abcdef") && !is_part(".a.part-1"));
    }
}
