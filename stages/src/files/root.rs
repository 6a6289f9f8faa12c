//! A `dir` segment as its node sees it: a directory that nothing leaves, and a bounce region leased out in
//! ranges so that two clients never share bytes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use pipeline_configs::PullFrom;
use pipeline_transports::{Access, Op, RegionId};

use super::error::FileError;
use super::tree::Tree;
use crate::control::lock;

/// Leases start and end at multiples of this.
const GRAIN: u64 = 4096;

/// See the module.
pub struct Root {
    pub(super) name: String,
    pub(super) tree: Arc<Tree>,
    /// The bounce region: the first and only region of the segment.
    pub(super) region: RegionId,
    access: Access,
    /// From which nodes its uploads may be pulled.
    pub(super) pull: PullFrom,
    free: Mutex<Ranges>,
}

/// A leased range of the bounce region; dropping it gives it back.
pub(super) struct Lease {
    /// Its number in its session.
    pub(super) id: u32,
    pub(super) root: Arc<Root>,
    pub(super) start: u64,
    pub(super) len: u64,
}

impl Root {
    /// Opens the directory `path`; `region` has `len` bytes.
    ///
    /// # Errors
    /// The system's reason why the directory cannot be opened.
    pub fn open(
        name: &str,
        path: &Path,
        region: RegionId,
        len: u64,
        access: Access,
    ) -> std::io::Result<Self> {
        let tree = Tree::open(path)?;
        let free = Mutex::new(Ranges::new(len));
        Ok(Self { name: name.to_owned(), tree, region, access, pull: PullFrom::default(), free })
    }

    /// The same, with uploads that may be pulled from other nodes than those that are known.
    #[must_use]
    pub fn pulling(self, pull: PullFrom) -> Self {
        Self { pull, ..self }
    }

    /// Whether peers may read or write files here.
    pub(super) fn allow(&self, path: &str, op: Op) -> Result<(), FileError> {
        if self.access.allows(op) {
            return Ok(());
        }
        let what = if op == Op::Read { "read" } else { "written" };
        let reason = format!("segment `{}` does not give that access", self.name);
        Err(FileError::Denied { path: path.to_owned(), what, reason })
    }

    /// Leases up to `wanted` bytes, as number `id` of a session.
    pub(super) fn lease(self: &Arc<Self>, id: u32, wanted: u64) -> Result<Lease, FileError> {
        let full =
            FileError::Busy("the bounce region is leased out; raise the segment's `buffer` or try later");
        let (start, len) = lock(&self.free).take(wanted).ok_or(full)?;
        Ok(Lease { id, root: self.clone(), start, len })
    }
}

impl Lease {
    /// Where a range of the lease starts in the region, if it lies inside.
    pub(super) fn at(&self, offset: u64, len: u64) -> Result<u64, FileError> {
        let end = offset.checked_add(len).filter(|end| *end <= self.len);
        end.map(|_| self.start + offset).ok_or(FileError::NoLease(self.id))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        lock(&self.root.free).give(self.start, self.len);
    }
}

/// Free ranges by start, merged.
struct Ranges {
    free: BTreeMap<u64, u64>,
}

impl Ranges {
    fn new(len: u64) -> Self {
        let len = len / GRAIN * GRAIN;
        Self { free: (len > 0).then_some((0, len)).into_iter().collect() }
    }

    /// At most half of the largest free range, so that there is always some left for the next client.
    fn take(&mut self, wanted: u64) -> Option<(u64, u64)> {
        let (&start, &len) = self.free.iter().max_by_key(|(_, len)| **len)?;
        let wanted = wanted.max(1).checked_next_multiple_of(GRAIN).unwrap_or(u64::MAX);
        let take = wanted.min((len / 2 / GRAIN * GRAIN).max(GRAIN));
        self.free.remove(&start);
        if len > take {
            self.free.insert(start + take, len - take);
        }
        Some((start, take))
    }

    fn give(&mut self, mut start: u64, mut len: u64) {
        if let Some(after) = self.free.remove(&(start + len)) {
            len += after;
        }
        if let Some((&before, &before_len)) = self.free.range(..start).next_back()
            && before + before_len == start
        {
            start = before;
            len += before_len;
        }
        self.free.insert(start, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Leases never overlap, many clients fit, and all given back is one whole range again.
    #[test]
    fn ranges_are_disjoint_and_come_back() {
        let mut ranges = Ranges::new(16 << 20);
        let mut taken = Vec::new();
        while let Some(range) = ranges.take(u64::MAX) {
            taken.push(range);
        }
        assert!(taken.len() > 10 && taken[0].1 == 8 << 20);
        let mut sorted = taken.clone();
        sorted.sort();
        assert!(sorted.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0));
        assert_eq!(taken.iter().map(|r| r.1).sum::<u64>(), 16 << 20);
        for (i, (start, len)) in taken.into_iter().enumerate() {
            ranges.give(start, len);
            assert!(!ranges.free.is_empty(), "{i}");
        }
        assert_eq!(ranges.free, BTreeMap::from([(0, 16 << 20)]));
        assert_eq!(ranges.take(1), Some((0, GRAIN)));
    }
}
