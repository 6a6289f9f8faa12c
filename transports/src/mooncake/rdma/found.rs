//! What a node has, of its descriptor, as control wants to hear of it.
//!
//! Two ways to name a byte: by its address, in the segment `memory`, which has gaps where nothing is registered; and by its
//! buffer, in `buffer-0`, `buffer-1` …, from 0. Buffers may overlap (a long region of ours is several that do); in
//! `memory` the later one begins where the earlier one ends. Deliberately no sockets.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;

use super::keys;
use super::peer::Reached;
use crate::foreign::{Found, FoundRegion, FoundSegment};
use crate::memory::{Access, RegionId};
use crate::mooncake::descriptor::{Buffer, Descriptor, RDMA};
use crate::mooncake::find::MEMORY;
use crate::mooncake::region_names::RegionNames;
use crate::transport::Offer;

/// What it is made of, as far as anybody says.
const KIND: &str = "dram";

/// What a node at `addresses` has.
///
/// # Errors
/// Why it cannot be reached by RDMA.
pub(super) fn found(
    descriptor: &Descriptor,
    addresses: Arc<[SocketAddr]>,
    names: &RegionNames,
    offer: (&str, &str),
) -> Result<Found, String> {
    let reached = Reached::of(descriptor)?;
    let incarnation = start_of(&descriptor.name, &reached);
    let whole: Vec<&Buffer> = descriptor.buffers_of(RDMA).filter(|buffer| !buffer.rkey.is_empty()).collect();
    let apart = apart(&whole);
    let all: Vec<&Buffer> = whole.iter().copied().chain(&apart).collect();
    let names = names.name(incarnation, &all);
    let names =
        names.ok_or_else(|| format!("it has {} buffers: more than can be told apart", whole.len()))?;
    let (of_whole, of_apart) = names.split_at(whole.len());
    let memory = apart.iter().zip(of_apart).map(|(buffer, id)| region(*id, buffer.addr, buffer)).collect();
    let memory = FoundSegment { name: MEMORY.to_owned(), kind: KIND.to_owned(), regions: memory };
    let buffers = whole.iter().zip(of_whole).enumerate().map(|(at, (buffer, id))| FoundSegment {
        name: format!("buffer-{at}"),
        kind: KIND.to_owned(),
        regions: vec![region(*id, 0, buffer)],
    });
    let (kind, name) = offer;
    Ok(Found {
        name: descriptor.name.clone(),
        incarnation,
        addresses,
        offer: Offer { kind: kind.to_owned(), name: name.to_owned(), body: reached.encode() },
        segments: std::iter::once(memory).chain(buffers).collect(),
    })
}

/// Another start has another name, or other NICs; one that has neither is told apart by its keys, which name other regions.
fn start_of(name: &str, reached: &Reached) -> u64 {
    let mut hasher = DefaultHasher::new();
    (name, &reached.server).hash(&mut hasher);
    reached.devices.iter().for_each(|device| (&device.name, &device.gid, device.lid).hash(&mut hasher));
    hasher.finish().max(1)
}

fn region(id: RegionId, start: u64, buffer: &Buffer) -> FoundRegion {
    let (len, keys) = (buffer.length, keys::encode(buffer.addr, &buffer.rkey));
    FoundRegion { id, start, len, access: Access::ReadWrite, keys }
}

/// By ascending address, and each without what those before it have.
fn apart(buffers: &[&Buffer]) -> Vec<Buffer> {
    let mut sorted = buffers.to_vec();
    sorted.sort_by_key(|buffer| (buffer.addr, buffer.length));
    let (mut apart, mut end) = (Vec::with_capacity(sorted.len()), 0);
    for buffer in sorted {
        // A descriptor was checked: no buffer passes the end of memory.
        let (first, last) = (buffer.addr.max(end), buffer.addr + buffer.length);
        if first < last {
            apart.push(Buffer { addr: first, length: last - first, ..buffer.clone() });
            end = last;
        }
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mooncake::descriptor::{self, Device, Protocol};

    fn node(buffers: &[(u64, u64, u32)]) -> Descriptor {
        let buffer = |(addr, length, key): &(u64, u64, u32)| descriptor::Buffer {
            addr: *addr,
            length: *length,
            name: "cpu:0".into(),
            lkey: vec![*key],
            rkey: vec![*key],
            ..descriptor::Buffer::default()
        };
        let device = Device { gid: "0a".into(), lid: 0, name: "rxe0".into() };
        Descriptor {
            buffers: buffers.iter().map(buffer).collect(),
            devices: vec![device],
            name: "10.9.0.10:16241".into(),
            protocol: Protocol::One(RDMA.into()),
            ..Descriptor::default()
        }
    }

    fn look(names: &RegionNames, node: &Descriptor) -> Found {
        found(node, ["10.9.0.10:16241".parse().unwrap()].into(), names, ("mooncake_rdma", "m")).unwrap()
    }

    fn spans(segment: &FoundSegment) -> Vec<(u64, u64)> {
        segment.regions.iter().map(|region| (region.start, region.len)).collect()
    }

    /// A byte is named by its address in `memory`, and by its buffer, as the same region; keys say where it is.
    #[test]
    fn two_ways_to_name_a_byte() {
        let found = look(&RegionNames::default(), &node(&[(0x8000, 0x1000, 2), (0x1000, 0x1000, 1)]));
        let [memory, first, second] = &found.segments[..] else { panic!("{:?}", found.segments) };
        assert_eq!(
            (memory.name.as_str(), spans(memory)),
            ("memory", vec![(0x1000, 0x1000), (0x8000, 0x1000)])
        );
        assert_eq!((first.name.as_str(), spans(first)), ("buffer-0", vec![(0, 0x1000)]));
        assert_eq!((first.regions[0].id, second.regions[0].id), (memory.regions[1].id, memory.regions[0].id));
        assert_eq!(keys::decode(&first.regions[0].keys), Some((0x8000, [2].into())));
        assert_ne!(found.incarnation, 0);
    }

    /// Buffers that overlap are regions that do not: what both have is of the first, and nothing is lost.
    #[test]
    fn overlaps() {
        let found = look(
            &RegionNames::default(),
            &node(&[(0x1000, 0x3000, 1), (0x3000, 0x3000, 2), (0x3000, 0x100, 3)]),
        );
        assert_eq!(spans(&found.segments[0]), [(0x1000, 0x3000), (0x4000, 0x2000)]);
        assert_eq!(keys::decode(&found.segments[0].regions[1].keys), Some((0x4000, [2].into())));
        assert_eq!(spans(&found.segments[2]), [(0, 0x3000)]);
    }

    /// Found again, a buffer has its old name; after a restart with other keys it is the same start and has another one. A
    /// node with another name or NIC is another start.
    #[test]
    fn found_again() {
        let (names, mut told) = (RegionNames::default(), node(&[(0x1000, 0x1000, 1)]));
        let first = look(&names, &told);
        let id = |found: &Found| found.segments[1].regions[0].id;
        assert_eq!(id(&look(&names, &told)), id(&first));
        let anew = look(&names, &node(&[(0x1000, 0x1000, 2)]));
        assert_eq!(anew.incarnation, first.incarnation);
        assert_ne!(id(&anew), id(&first));
        told.devices[0].gid = "0b".into();
        assert_ne!(look(&names, &told).incarnation, first.incarnation);
    }
}
