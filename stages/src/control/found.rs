//! What a foreign peer was found to have, as every peer's view tells it. Deliberately distrustful, as of any peer: regions
//! ascend, end within 64 bits, and are not more than allowed; their transport learns of each before the view does.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use pipeline_transports::foreign::{Found, FoundSegment};
use pipeline_transports::{RegionId, Transport};

use crate::ledger::SEGMENTS_MAX;
use crate::peer::{RegionView, SegmentView};

/// Its segments, once `transport` has learnt of their regions. At most `limit` regions, a segment counts as eight.
///
/// # Errors
/// What about them makes no sense.
pub(super) fn view(
    found: &Found,
    transport: &dyn Transport,
    limit: usize,
) -> Result<Vec<Arc<SegmentView>>, String> {
    let regions = found.segments.iter().map(|s| s.regions.len()).sum::<usize>();
    let announced = regions.saturating_add(8 * found.segments.len());
    if announced > limit {
        return Err(format!("it has {announced} regions; at most {limit} are remembered"));
    }
    let segments = found.segments.iter().map(|s| segment(s).map(Arc::new)).collect::<Result<_, _>>()?;
    // One region may be in several segments.
    let (mut told, mut failed) = (HashSet::with_capacity(regions), None);
    for region in found.segments.iter().flat_map(|s| &s.regions) {
        if told.insert(region.id)
            && let Err(error) = transport.learn(found.incarnation, region.id, region.len, &region.keys)
        {
            failed.get_or_insert((region.id, error));
        }
    }
    if let Some((region, error)) = failed {
        tracing::warn!(peer = found.name, ?region, "regions cannot be reached by their transport: {error}");
    }
    Ok(segments)
}

fn segment(found: &FoundSegment) -> Result<SegmentView, String> {
    let mut end = 0;
    let mut regions = Vec::with_capacity(found.regions.len());
    for region in &found.regions {
        let name = &found.name;
        if region.start < end || region.len == 0 {
            return Err(format!("regions of `{name}` out of order"));
        }
        end = region.start.checked_add(region.len).ok_or_else(|| format!("`{name}` passes 64 bits"))?;
        let (id, start, len, access) = (region.id, region.start, region.len, region.access);
        regions.push(RegionView { id, start, len, access });
    }
    Ok(SegmentView { name: found.name.clone(), kind: found.kind.clone(), len: end, regions })
}

/// What a segment is known by: not by its name where that is a number, because other engines count their buffers, and one that
/// goes moves the names of those behind it.
#[derive(PartialEq, Eq, Hash)]
enum Known {
    /// A buffer: its offsets mean bytes of this region.
    Region(RegionId),
    /// One whose offsets are addresses, which mean the same whatever is registered there.
    Name(String),
}

impl Known {
    fn of(segment: &SegmentView) -> Self {
        match segment.regions.as_slice() {
            [only] if only.start == 0 => Self::Region(only.id),
            _ => Self::Name(segment.name.clone()),
        }
    }
}

/// What was found of the same start later, with every segment at the index it had before, because requests name a segment by
/// index. What is gone leaves an empty place without a name. Those that no request could name are left out.
pub(super) fn in_place(before: &[Arc<SegmentView>], now: Vec<Arc<SegmentView>>) -> Vec<Arc<SegmentView>> {
    let at: HashMap<_, _> = now.iter().enumerate().map(|(at, s)| (Known::of(s), at)).collect();
    let mut now: Vec<_> = now.into_iter().map(Some).collect();
    let mut take = |old: &Arc<SegmentView>| now[*at.get(&Known::of(old))?].take();
    let mut placed: Vec<_> = before.iter().map(|old| take(old).unwrap_or_default()).collect();
    placed.extend(now.into_iter().flatten());
    placed.truncate(SEGMENTS_MAX as usize);
    placed
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipeline_transports::Access;
    use pipeline_transports::foreign::FoundRegion;

    fn of(regions: &[(u64, u64, u64)]) -> FoundSegment {
        let region = |&(id, start, len): &(u64, u64, u64)| FoundRegion {
            id: RegionId(id),
            start,
            len,
            access: Access::ReadWrite,
            keys: Vec::new(),
        };
        FoundSegment {
            name: "memory".into(),
            kind: "dram".into(),
            regions: regions.iter().map(region).collect(),
        }
    }

    /// Offsets may be addresses: regions lie anywhere in 64 bits with gaps between, are found where they are, and nothing is
    /// found in a gap; what overlaps, is empty, or ends past 64 bits never becomes a view.
    #[test]
    fn regions_by_address() {
        let (low, high) = (0x7f00_0000_0000, u64::MAX - 4096);
        let view = segment(&of(&[(1, low, 4096), (2, low + 4096, 1), (3, high, 4096)])).unwrap();
        assert_eq!(view.len, u64::MAX);
        let at = |offset| view.region_at(offset).map(|region| region.id.0);
        assert_eq!(
            [at(low), at(low + 4096), at(high), at(u64::MAX - 1)],
            [Some(1), Some(2), Some(3), Some(3)]
        );
        assert_eq!([at(0), at(low - 1), at(low + 4097), at(high - 1), at(u64::MAX)], [None; 5]);
        assert_eq!(segment(&of(&[])).unwrap().len, 0);
        assert!(segment(&of(&[(1, 0, 10), (2, 9, 1)])).unwrap_err().contains("out of order"));
        assert!(segment(&of(&[(1, 0, 0)])).unwrap_err().contains("out of order"));
        assert!(segment(&of(&[(1, u64::MAX, 1)])).unwrap_err().contains("64 bits"));
    }

    /// All of it by address, and buffer by buffer, as it was found.
    fn found(regions: &[(u64, u64)]) -> Vec<Arc<SegmentView>> {
        let region = |&(id, start): &(u64, u64)| (id, start, 10);
        let mut all: Vec<_> = regions.iter().map(region).collect();
        all.sort_by_key(|region| region.1);
        let each = regions.iter().enumerate();
        let each =
            each.map(|(at, (id, _))| FoundSegment { name: format!("buffer-{at}"), ..of(&[(*id, 0, 10)]) });
        let segments = std::iter::once(of(&all)).chain(each);
        segments.map(|s| Arc::new(segment(&s).unwrap())).collect()
    }

    /// A buffer that goes takes its index along and moves the names of those behind it, not their indices: no request that
    /// was made before means other bytes. What nobody could name is left out, and memory by address is always there.
    #[test]
    fn indices_stay() {
        let told = |views: &[Arc<SegmentView>]| -> Vec<_> {
            views
                .iter()
                .map(|s| (s.name.clone(), s.regions.iter().map(|r| r.id.0).collect::<Vec<_>>()))
                .collect()
        };
        let placed = in_place(&[], found(&[(1, 100), (2, 50), (3, 70)]));
        let names: Vec<_> = placed.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["memory", "buffer-0", "buffer-1", "buffer-2"]);
        // The first is gone, and there is another one where it was.
        let less = in_place(&placed, found(&[(2, 50), (3, 70), (4, 100)]));
        let expected = [
            ("memory", vec![2, 3, 4]),
            ("", vec![]),
            ("buffer-0", vec![2]),
            ("buffer-1", vec![3]),
            ("buffer-2", vec![4]),
        ];
        let expected: Vec<_> = expected.into_iter().map(|(name, ids)| (name.to_owned(), ids)).collect();
        assert_eq!(told(&less), expected);
        assert_eq!(told(&in_place(&less, found(&[])))[0], ("memory".to_owned(), vec![]));
        let many: Vec<_> = (0..70_000).map(|at| (at + 1, 10 * at)).collect();
        let all = in_place(&placed, found(&many));
        assert_eq!(all.len(), SEGMENTS_MAX as usize);
        assert_eq!((all[0].name.as_str(), all[0].regions.len()), ("memory", 70_000));
    }
}
