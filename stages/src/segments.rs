//! The node's own segments: named, ordered lists of regions in one offset space each, told to peers in pages.
//! Deliberately apart from the region table: this says what things are called, that one what they are.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use pipeline_transports::control::page::{REGION_BYTES, REGION_KEYS_MAX, keys_bytes, part_bytes};
use pipeline_transports::transport::KEYS_MAX;
use pipeline_transports::{Access, RegionId};

use crate::peer::{RegionView, SegmentView};

/// Why the table was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// The name is taken.
    #[error("segment `{0}` exists already; choose another name or remove it first")]
    Exists(String),
    /// The name is not known.
    #[error("there is no segment `{0}`")]
    Unknown(String),
    /// Names are what a file may say: 1 to 64 of `[A-Za-z0-9._-]`.
    #[error("`{0}` is no name for a segment; use 1 to 64 of A-Z a-z 0-9 . _ -")]
    BadName(String),
    /// The table is full.
    #[error("limit reached: {0} segments; remove one first")]
    Full(usize),
    /// The offset space of the segment is used up.
    #[error("segment `{0}` has no offsets left for {1} bytes")]
    TooLong(String, u64),
    /// Transports want more told of a region than a page holds.
    #[error(
        "{bytes} bytes of keys of one region for segment `{segment}`; at most {KEYS_MAX} a transport and {REGION_KEYS_MAX} in all are told: use fewer NICs or larger regions"
    )]
    Keys {
        /// Where it should have gone.
        segment: String,
        /// Bytes of all keys.
        bytes: usize,
    },
}

/// What transports want their counterparts to know of a region: index in [`crate::world::World::transports`], and the
/// transport's own bytes. Only of those that want anything.
pub type RegionKeys = Vec<(u16, Vec<u8>)>;

/// Where a page of regions starts: index of the segment, in order of names, and of the region in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// Index of the segment.
    pub segment: u32,
    /// Index of the region in it.
    pub region: u32,
}

/// Some regions of one segment.
#[derive(Clone, Debug, Default)]
pub struct SegmentPart {
    /// Where they stand.
    pub at: Cursor,
    /// How many regions the segment has.
    pub regions_total: u32,
    /// Name, kind, whole length, and these regions only.
    pub view: SegmentView,
    /// Of each of them.
    pub keys: Vec<RegionKeys>,
}

/// A page of the table.
#[derive(Clone, Debug, Default)]
pub struct SegmentPage {
    /// The table's version when the page was made: pages of different versions do not belong together.
    pub version: u64,
    /// Parts, in order.
    pub parts: Vec<SegmentPart>,
    /// Where the next page starts; `None` after the last.
    pub next: Option<Cursor>,
}

#[derive(Default)]
struct Table {
    version: u64,
    segments: BTreeMap<String, Segment>,
}

struct Segment {
    view: SegmentView,
    /// As long as the view's regions.
    keys: Vec<RegionKeys>,
}

impl Segment {
    /// What of it fits from `at` on (one region at least if it is `alone`), and the index of the first region that does not.
    fn part(&self, at: Cursor, used: &mut usize, max: usize, alone: bool) -> (SegmentPart, usize) {
        let first = at.region as usize;
        let mut end = first;
        for keys in &self.keys[first..] {
            let bytes = REGION_BYTES + keys.iter().map(|(_, k)| keys_bytes(k)).sum::<usize>();
            if *used + bytes > max && !(alone && end == first) {
                break;
            }
            *used += bytes;
            end += 1;
        }
        let view = SegmentView {
            regions: self.view.regions[first..end].to_vec(),
            name: self.view.name.clone(),
            kind: self.view.kind.clone(),
            ..self.view
        };
        let regions_total = self.keys.len() as u32;
        (SegmentPart { at, regions_total, view, keys: self.keys[first..end].to_vec() }, end)
    }
}

/// All segments of this node. Its lock is taken by control, by registration and by `submit` of requests
/// that name a segment of our own; never per slice.
pub struct SegmentTable {
    table: RwLock<Table>,
    limit: usize,
}

impl SegmentTable {
    /// A table for `limit` segments.
    pub fn new(limit: usize) -> Self {
        Self { table: RwLock::default(), limit }
    }

    /// Adds an empty segment.
    ///
    /// # Errors
    /// [`SegmentError`]: taken, no name, or the table is full.
    pub fn create(&self, name: &str, kind: &str) -> Result<(), SegmentError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
            return Err(SegmentError::BadName(name.to_owned()));
        }
        let mut table = self.write();
        if table.segments.contains_key(name) {
            return Err(SegmentError::Exists(name.to_owned()));
        }
        if table.segments.len() >= self.limit {
            return Err(SegmentError::Full(self.limit));
        }
        let view = SegmentView { name: name.to_owned(), kind: kind.to_owned(), ..SegmentView::default() };
        table.segments.insert(name.to_owned(), Segment { view, keys: Vec::new() });
        table.version += 1;
        Ok(())
    }

    /// Appends a region, with what transports want told of it; answers its first offset in the segment.
    ///
    /// # Errors
    /// [`SegmentError`]: no such segment, its offsets are used up, or there is too much to tell.
    pub fn append(
        &self,
        name: &str,
        id: RegionId,
        len: u64,
        access: Access,
        keys: RegionKeys,
    ) -> Result<u64, SegmentError> {
        let bytes = keys.iter().map(|(_, k)| keys_bytes(k)).sum();
        if bytes > REGION_KEYS_MAX || keys.iter().any(|(_, k)| k.len() > KEYS_MAX) {
            return Err(SegmentError::Keys { segment: name.to_owned(), bytes });
        }
        let mut table = self.write();
        let segment = table.segments.get_mut(name).ok_or_else(|| SegmentError::Unknown(name.to_owned()))?;
        let view = &mut segment.view;
        let start = view.len;
        let full = || SegmentError::TooLong(name.to_owned(), len);
        view.len = start.checked_add(len).ok_or_else(full)?;
        view.regions.push(RegionView { id, start, len, access });
        segment.keys.push(keys);
        table.version += 1;
        Ok(start)
    }

    /// Takes a region out of the segment that lists it. The offsets of the others stay, so that a peer with
    /// an older view never reaches other bytes than it meant: where the region was, there is a gap.
    pub fn remove_region(&self, id: RegionId) -> bool {
        let mut table = self.write();
        let mut found = false;
        for segment in table.segments.values_mut() {
            while let Some(at) = segment.view.regions.iter().position(|r| r.id == id) {
                segment.view.regions.remove(at);
                segment.keys.remove(at);
                found = true;
            }
        }
        table.version += u64::from(found);
        found
    }

    /// Takes a segment away; its regions stay registered.
    pub fn remove(&self, name: &str) -> Option<SegmentView> {
        let mut table = self.write();
        let gone = table.segments.remove(name)?;
        table.version += 1;
        Some(gone.view)
    }

    /// A copy of one segment.
    pub fn view(&self, name: &str) -> Option<SegmentView> {
        self.read().segments.get(name).map(|s| s.view.clone())
    }

    /// The region of segment `name` that holds `offset`.
    pub fn region_at(&self, name: &str, offset: u64) -> Option<RegionView> {
        self.read().segments.get(name)?.view.region_at(offset).copied()
    }

    /// Names and kinds, by name.
    pub fn names(&self) -> Vec<(String, String)> {
        self.read().segments.values().map(|s| (s.view.name.clone(), s.view.kind.clone())).collect()
    }

    /// Which segments list each of these regions.
    pub fn listing(&self, regions: &HashSet<RegionId>) -> HashMap<RegionId, Vec<String>> {
        let mut listing: HashMap<RegionId, Vec<String>> = HashMap::new();
        for segment in self.read().segments.values() {
            for region in segment.view.regions.iter().filter(|region| regions.contains(&region.id)) {
                listing.entry(region.id).or_default().push(segment.view.name.clone());
            }
        }
        listing
    }

    /// Grows with every change.
    pub fn version(&self) -> u64 {
        self.read().version
    }

    /// What `max_bytes` hold from `from` on, and one thing at least.
    pub fn page(&self, from: Cursor, max_bytes: usize) -> SegmentPage {
        let table = self.read();
        let mut page = SegmentPage { version: table.version, ..SegmentPage::default() };
        let mut used = 0;
        for (i, segment) in table.segments.values().enumerate().skip(from.segment as usize) {
            let first = if i == from.segment as usize { from.region as usize } else { 0 };
            let at = Cursor { segment: i as u32, region: first.min(segment.keys.len()) as u32 };
            let head = part_bytes(&segment.view.name, &segment.view.kind);
            if !page.parts.is_empty() && used + head > max_bytes {
                page.next = Some(at);
                return page;
            }
            used += head;
            let (part, end) = segment.part(at, &mut used, max_bytes, page.parts.is_empty());
            if !part.keys.is_empty() || segment.keys.is_empty() || page.parts.is_empty() {
                page.parts.push(part);
            }
            if end < segment.keys.len() {
                page.next = Some(Cursor { segment: i as u32, region: end as u32 });
                return page;
            }
        }
        page
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(table: &SegmentTable, max: usize) -> Vec<(String, Vec<(u64, usize)>)> {
        let (mut out, mut from) = (Vec::<(String, Vec<_>)>::new(), Cursor::default());
        loop {
            let page = table.page(from, max);
            let keys =
                page.parts.iter().flat_map(|p| &p.keys).flatten().map(|(_, k)| keys_bytes(k)).sum::<usize>();
            let regions: usize = page.parts.iter().map(|p| p.view.regions.len()).sum();
            let heads: usize = page.parts.iter().map(|p| part_bytes(&p.view.name, "dram")).sum();
            let bytes = keys + regions * REGION_BYTES + heads;
            assert!(bytes <= max || regions + page.parts.len() <= 2, "{bytes} bytes on a page of {max}");
            for part in page.parts {
                let ids = part.view.regions.iter().zip(&part.keys).map(|(r, k)| (r.id.0, k.len()));
                match out.last_mut() {
                    Some((name, have)) if *name == part.view.name => have.extend(ids),
                    _ => out.push((part.view.name.clone(), ids.collect())),
                }
            }
            match page.next {
                Some(next) => from = next,
                None => return out,
            }
        }
    }

    /// Whatever the page size, the pages of a table put together are the table, empty segments and keys included, and no
    /// page with more than one region is larger than allowed.
    #[test]
    fn pages_make_the_whole() {
        let table = SegmentTable::new(4);
        for (name, count) in [("a", 5), ("b", 0), ("c", 3), ("d", 0)] {
            table.create(name, "dram").unwrap();
            for i in 0..count {
                let keys = (0..i as u16).map(|t| (t, vec![t as u8; 20])).collect();
                table.append(name, RegionId(i), 10, Access::Read, keys).unwrap();
            }
        }
        let whole = ids(&table, 10_000);
        assert_eq!(whole.len(), 4);
        assert_eq!(whole[0], ("a".to_owned(), vec![(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]));
        for max in 1..800 {
            assert_eq!(ids(&table, max), whole, "page size {max}");
        }
        assert_eq!(table.create("e", "dram"), Err(SegmentError::Full(4)));
    }

    /// Removing a region leaves a gap and moves no other; offsets never wrap; names are checked.
    #[test]
    fn offsets_are_stable() {
        let table = SegmentTable::new(2);
        table.create("kv", "dram").unwrap();
        assert_eq!(table.create("kv", "dram"), Err(SegmentError::Exists("kv".into())));
        assert_eq!(table.create("../kv", "dram"), Err(SegmentError::BadName("../kv".into())));
        for i in 0..3 {
            assert_eq!(table.append("kv", RegionId(i), 10, Access::ReadWrite, Vec::new()), Ok(i * 10));
        }
        let before = table.version();
        assert!(table.remove_region(RegionId(1)) && !table.remove_region(RegionId(1)));
        assert_eq!(table.version(), before + 1);
        assert!(table.region_at("kv", 15).is_none());
        assert_eq!(table.region_at("kv", 25).map(|r| r.id), Some(RegionId(2)));
        assert_eq!(table.append("kv", RegionId(9), 1, Access::Read, Vec::new()), Ok(30));
        let error = table.append("kv", RegionId(8), u64::MAX, Access::Read, Vec::new());
        assert_eq!(error, Err(SegmentError::TooLong("kv".into(), u64::MAX)));
        assert!(table.append("no", RegionId(8), 1, Access::Read, Vec::new()).is_err());
        let keys = vec![(0, vec![1; KEYS_MAX + 1])];
        let error = table.append("kv", RegionId(8), 1, Access::Read, keys);
        assert!(matches!(error, Err(SegmentError::Keys { .. })));
        let keys = (0..32).map(|t| (t, vec![1; KEYS_MAX])).collect();
        assert!(table.append("kv", RegionId(8), 1, Access::Read, keys).is_err());
    }
}
