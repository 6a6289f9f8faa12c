//! Pages of a node's segments: how 20 000 regions are told without one large message.
//! Deliberately stateless for the side that answers: a page says where the next one starts, and of which
//! version of the table it is.

use crate::control::WireError;
use crate::control::fields::{Fields, Put};
use crate::control::message::{NAME_MAX, OFFERS_MAX};
use crate::memory::{Access, RegionId};
use crate::transport::KEYS_MAX;

/// What a page holds at most, in bytes as [`part_bytes`], [`REGION_BYTES`] and [`keys_bytes`] count them; a page of one
/// region may have more, up to [`REGION_KEYS_MAX`]. With the names of the transports it stays below the least message that
/// every node takes.
pub const PAGE_BYTES: usize = 48 * 1024;
/// Most bytes of keys of one region, over all transports.
pub const REGION_KEYS_MAX: usize = 32 * 1024;

/// A page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentPage {
    /// Version of the table: pages of different versions do not belong together.
    pub version: u64,
    /// Parts of segments, in order.
    pub parts: Vec<SegmentPart>,
    /// What transports want to know of the regions above.
    pub keys: Vec<TransportKeys>,
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
}

/// What one transport wants its counterparts to know of regions on the same page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransportKeys {
    /// The name it has on the side that tells.
    pub transport: String,
    /// Region by region; only of those for which it has anything to say.
    pub regions: Vec<(RegionId, Vec<u8>)>,
}

/// Bytes of a region on a page, without its keys.
pub const REGION_BYTES: usize = 25;
const PART_BYTES: usize = 32;
const KEYS_BYTES: usize = 12;
const TRANSPORT_BYTES: usize = 8;

/// Bytes of a part of a segment, without its regions.
pub fn part_bytes(name: &str, kind: &str) -> usize {
    PART_BYTES + name.len() + kind.len()
}

/// Bytes that the keys of one transport for one region take.
pub fn keys_bytes(keys: &[u8]) -> usize {
    KEYS_BYTES + keys.len()
}

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
            }
        }
        out.put_u32(self.keys.len() as u32);
        for keys in &self.keys {
            out.put_bytes(keys.transport.as_bytes());
            out.put_u32(keys.regions.len() as u32);
            for (region, keys) in &keys.regions {
                out.put_u64(region.0);
                out.put_bytes(keys);
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
        let count = f.count(TRANSPORT_BYTES)?;
        if count > OFFERS_MAX {
            return Err(WireError::TooLong {
                what: "region page",
                got: count as u64,
                limit: OFFERS_MAX as u64,
            });
        }
        let mut keys = Vec::with_capacity(count);
        for _ in 0..count {
            keys.push(transport_keys(f)?);
        }
        Ok(Self { version, parts, keys, next })
    }
}

fn transport_keys(f: &mut Fields<'_>) -> Result<TransportKeys, WireError> {
    let transport = f.text(NAME_MAX)?;
    let count = f.count(KEYS_BYTES)?;
    let mut regions = Vec::with_capacity(count);
    for _ in 0..count {
        regions.push((RegionId(f.u64()?), f.bytes(KEYS_MAX)?.to_vec()));
    }
    Ok(TransportKeys { transport, regions })
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
        let region =
            RegionEntry { id: RegionId(f.u64()?), start: f.u64()?, len: f.u64()?, access: access(f.u8()?)? };
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
        SegmentPage { version: 3, parts: vec![part], keys: Vec::new(), next: Some((2, 1024)) }
    }

    fn with_keys(regions: usize, keys: &[(&str, usize)]) -> SegmentPage {
        let of = |len| (0..regions).map(move |i| (RegionId(i as u64), vec![i as u8; len])).collect();
        let keys =
            keys.iter().map(|(name, len)| TransportKeys { transport: (*name).into(), regions: of(*len) });
        SegmentPage { keys: keys.collect(), ..page(regions) }
    }

    fn encode(page: &SegmentPage) -> Vec<u8> {
        let mut body = Vec::new();
        page.put(&mut body);
        body
    }

    /// Full pages, without keys and with, survive the wire and stay under the least size that every node takes, and what
    /// is counted for a page is what it takes.
    #[test]
    fn full_page_fits() {
        let head = part_bytes("kv", "dram");
        let plain = (PAGE_BYTES - head) / REGION_BYTES;
        let keyed = (PAGE_BYTES - head) / (REGION_BYTES + 2 * KEYS_BYTES + 100);
        let most = REGION_KEYS_MAX / KEYS_MAX;
        let names: Vec<String> = (0..most).map(|i| format!("{i:0>width$}", width = NAME_MAX)).collect();
        let most: Vec<_> = names.iter().map(|n| (n.as_str(), KEYS_MAX)).collect();
        for page in [page(plain), with_keys(keyed, &[("a", 70), ("b", 30)]), with_keys(1, &most)] {
            let body = encode(&page);
            assert!(body.len() < crate::control::hello::MESSAGE_MIN as usize - 64, "{} bytes", body.len());
            let of_keys = |t: &TransportKeys| t.regions.iter().map(|(_, k)| keys_bytes(k)).sum::<usize>();
            let names: usize = page.keys.iter().map(|t| TRANSPORT_BYTES + t.transport.len()).sum();
            let regions = page.parts[0].regions.len() * REGION_BYTES;
            let counted = head + regions + page.keys.iter().map(of_keys).sum::<usize>();
            assert_eq!(body.len(), counted + names + 24);
            assert_eq!(Message::decode(6, &body).unwrap(), Some(Message::Segments(page)));
        }
    }

    /// Keys that are longer than a transport's may be, more transports than a node may have, and counts that the bytes
    /// at hand cannot hold are refused, each before anything is allocated for it.
    #[test]
    fn impossible_keys_are_refused() {
        let refused = |page: &SegmentPage| Message::decode(6, &encode(page)).is_err();
        assert!(!refused(&with_keys(2, &[("a", KEYS_MAX)])));
        assert!(refused(&with_keys(2, &[("a", KEYS_MAX + 1)])));
        assert!(refused(&with_keys(1, &vec![("a", 1); OFFERS_MAX + 1])));
        assert!(refused(&with_keys(1, &[(&"a".repeat(NAME_MAX + 1), 1)])));
        let body = encode(&with_keys(1, &[("a", 4)]));
        for at in [body.len() - 8, body.len() - 20, body.len() - 29] {
            let mut lie = body.clone();
            lie[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
            assert!(Message::decode(6, &lie).is_err(), "{at}");
        }
    }

    /// The golden bytes of docs/wire.md.
    #[test]
    fn golden_bytes_of_keys() {
        let body = encode(&with_keys(1, &[("rdma", 2)]));
        let golden = [&[1, 0, 0, 0, 4, 0, 0, 0][..], b"rdma", &[1, 0, 0, 0], &[0; 8], &[2, 0, 0, 0, 0, 0]];
        assert!(body.ends_with(&golden.concat()));
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
