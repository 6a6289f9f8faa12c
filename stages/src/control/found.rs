//! What a foreign peer was found to have, as every peer's view tells it. Deliberately distrustful, as of any peer: regions
//! ascend, end within 64 bits, and are not more than allowed; their transport learns of each before the view does.

use std::collections::HashSet;
use std::sync::Arc;

use pipeline_transports::Transport;
use pipeline_transports::foreign::{Found, FoundSegment};

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
