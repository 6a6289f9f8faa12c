//! Pages of a node's segments: how 20 000 regions are told without one large message.
//! Deliberately stateless for the side that answers: a page says where the next one starts, and of which
//! version of the table it is.

use crate::control::WireError;
use crate::control::fields::{Fields, Put};
use crate::control::message::NAME_MAX;
use crate::memory::{Access, RegionId};

/// Most regions on a page, a segment counting as eight: about 35 KiB.
pub const PAGE_REGIONS: usize = 1024;

/// A page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentPage {
    /// Version of the table: pages of different versions do not belong together.
    pub version: u64,
    /// Parts of segments, in order.
    pub parts: Vec<SegmentPart>,
    /// Segment and region the next page starts with; `None` after the last.
    pub next: Option<(u32, u32)>,
}

/// Some regions of one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentPart {
    /// Index of the segment.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// Length of its offset space, bytes.
    pub len: u64,
    /// How many regions it has.
    pub regions_total: u32,
    /// Index of the first region below.
    pub first: u32,
    /// Regions by ascending start.
    pub regions: Vec<RegionEntry>,
}

/// One region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionEntry {
    /// Its name in the table of the node.
    pub id: RegionId,
    /// First offset in the segment.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// What the reader may do.
    pub access: Access,
    /// What transports want quoted.
    pub key: u64,
}

const REGION_BYTES: usize = 33;
const PART_BYTES: usize = 28;

impl SegmentPage {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.put_u64(self.version);
        let (segment, region) = self.next.unwrap_or((u32::MAX, u32::MAX));
        out.put_u32(segment);
        out.put_u32(region);
        out.put_u32(self.parts.len() as u32);
        for part in &self.parts {
            out.put_u32(part.index);
            out.put_bytes(part.name.as_bytes());
            out.put_bytes(part.kind.as_bytes());
            out.put_u64(part.len);
            out.put_u32(part.regions_total);
            out.put_u32(part.first);
            out.put_u32(part.regions.len() as u32);
            for region in &part.regions {
                out.put_u64(region.id.0);
                out.put_u64(region.start);
                out.put_u64(region.len);
                out.put_u8(access_code(region.access));
                out.put_u64(region.key);
            }
        }
    }

    pub(crate) fn take(f: &mut Fields<'_>) -> Result<Self, WireError> {
        let version = f.u64()?;
        let next = match (f.u32()?, f.u32()?) {
            (u32::MAX, u32::MAX) => None,
            next => Some(next),
        };
        let count = f.count(PART_BYTES)?;
        let mut parts = Vec::with_capacity(count);
        for _ in 0..count {
            parts.push(part(f)?);
        }
        Ok(Self { version, parts, next })
    }
}

fn part(f: &mut Fields<'_>) -> Result<SegmentPart, WireError> {
    let mut part = SegmentPart {
        index: f.u32()?,
        name: f.text(NAME_MAX)?,
        kind: f.text(NAME_MAX)?,
        len: f.u64()?,
        regions_total: f.u32()?,
        first: f.u32()?,
        regions: Vec::new(),
    };
    let count = f.count(REGION_BYTES)?;
    part.regions.reserve_exact(count);
    for _ in 0..count {
        let region = RegionEntry {
            id: RegionId(f.u64()?),
            start: f.u64()?,
            len: f.u64()?,
            access: access(f.u8()?)?,
            key: f.u64()?,
        };
        // Checked here once, so that nobody after us adds offsets that wrap.
        let end = region.start.checked_add(region.len);
        if region.len == 0 || end.is_none_or(|e| e > part.len) {
            return Err(WireError::Malformed("region page"));
        }
        part.regions.push(region);
    }
    Ok(part)
}

fn access_code(access: Access) -> u8 {
    match access {
        Access::Local => 0,
        Access::Read => 1,
        Access::Write => 2,
        Access::ReadWrite => 3,
    }
}

fn access(code: u8) -> Result<Access, WireError> {
    Ok(match code {
        0 => Access::Local,
        1 => Access::Read,
        2 => Access::Write,
        3 => Access::ReadWrite,
        _ => return Err(WireError::Malformed("region page")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::message::Message;

    fn page(regions: usize) -> SegmentPage {
        let entry = |i: usize| RegionEntry {
            id: RegionId(i as u64),
            start: i as u64 * 10,
            len: 10,
            access: Access::ReadWrite,
            key: 7,
        };
        let part = SegmentPart {
            index: 2,
            name: "kv".into(),
            kind: "dram".into(),
            len: regions as u64 * 10,
            regions_total: regions as u32,
            first: 0,
            regions: (0..regions).map(entry).collect(),
        };
        SegmentPage { version: 3, parts: vec![part], next: Some((2, 1024)) }
    }

    fn encode(page: &SegmentPage) -> Vec<u8> {
        let mut body = Vec::new();
        page.put(&mut body);
        body
    }

    /// A full page survives the wire and stays under the least size that every node takes.
    #[test]
    fn full_page_fits() {
        let page = page(PAGE_REGIONS);
        let body = encode(&page);
        assert!(body.len() < crate::control::hello::MESSAGE_MIN as usize - 64, "{} bytes", body.len());
        assert_eq!(Message::decode(6, &body).unwrap(), Some(Message::Segments(page)));
    }

    /// Regions that are empty, wrap, or pass their segment's end never reach a view.
    #[test]
    fn impossible_regions_are_refused() {
        for (start, len) in [(0, 0), (u64::MAX, 2), (15, 6), (0, u64::MAX)] {
            let mut page = page(2);
            page.parts[0].regions[1] = RegionEntry { start, len, ..RegionEntry::default() };
            assert!(Message::decode(6, &encode(&page)).is_err(), "{start} + {len}");
        }
    }
}
