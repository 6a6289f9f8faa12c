//! Region tables across the wire: our pages out, a peer's pages in. Deliberately distrustful of what comes:
//! a view that is published holds ascending regions within their segment, and no more than allowed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pipeline_transports::control::page::PAGE_BYTES;
use pipeline_transports::control::{Message, RegionEntry, SegmentPage, SegmentPart, TransportKeys};
use pipeline_transports::{Nanos, RegionId};

use super::error::Error;
use super::session::Session;
use crate::peer::{RegionView, SegmentView};
use crate::segments::{Cursor, SegmentTable};

/// A page of our table, from a segment and a region of it on; `names`: of our transports, in their order.
pub(super) fn tell(table: &SegmentTable, names: &[&str], segment: u32, region: u32) -> SegmentPage {
    let page = table.page(Cursor { segment, region }, PAGE_BYTES);
    let keys = keys(&page.parts, names);
    let part = |part: crate::segments::SegmentPart| SegmentPart {
        index: part.at.segment,
        name: part.view.name,
        kind: part.view.kind,
        len: part.view.len,
        regions_total: part.regions_total,
        first: part.at.region,
        regions: part.view.regions.iter().map(entry).collect(),
    };
    SegmentPage {
        version: page.version,
        parts: page.parts.into_iter().map(part).collect(),
        keys,
        next: page.next.map(|c| (c.segment, c.region)),
    }
}

/// By transport, what is said region by region.
fn keys(parts: &[crate::segments::SegmentPart], names: &[&str]) -> Vec<TransportKeys> {
    let mut by_transport = BTreeMap::<u16, Vec<(RegionId, Vec<u8>)>>::new();
    for (region, keys) in parts.iter().flat_map(|part| part.view.regions.iter().zip(&part.keys)) {
        for (transport, keys) in keys {
            by_transport.entry(*transport).or_default().push((region.id, keys.clone()));
        }
    }
    let named = |(t, regions)| {
        let transport = (*names.get(usize::from(t))?).to_owned();
        Some(TransportKeys { transport, regions })
    };
    by_transport.into_iter().filter_map(named).collect()
}

fn entry(r: &RegionView) -> RegionEntry {
    RegionEntry { id: r.id, start: r.start, len: r.len, access: r.access }
}

fn view(r: &RegionEntry) -> RegionView {
    RegionView { id: r.id, start: r.start, len: r.len, access: r.access }
}

/// Hears what a transport of a peer wants known of a region: the transport's name there, region, length and keys.
pub(super) type Learn<'a> = &'a mut (dyn FnMut(&str, RegionId, u64, &[u8]) + Send);

/// All segments of a peer, and the version of its table. Begins again when the table changes meanwhile. `learn` hears of
/// each page as it comes, so that nobody has the keys of all regions in hand at once; it may hear of regions that are gone.
pub(super) async fn load(
    session: &Session,
    limit: usize,
    learn: Learn<'_>,
    by: Nanos,
) -> Result<(u64, Vec<Arc<SegmentView>>), Error> {
    'again: loop {
        let (mut gathered, mut at) = (Gathered { limit, ..Gathered::default() }, Some((0, 0)));
        let mut version = None;
        while let Some((segment, region)) = at {
            let page = match session.request(&Message::GetSegments { segment, region }, by).await? {
                Message::Segments(page) => page,
                _ => return Err(protocol(session, "another answer than a region page")),
            };
            if *version.get_or_insert(page.version) != page.version {
                continue 'again;
            }
            if page.next.is_some_and(|next| next <= (segment, region)) {
                return Err(protocol(session, "region pages that go round in circles"));
            }
            at = page.next;
            let keys = gathered.add(page).map_err(|reason| protocol(session, reason))?;
            for (transport, region, len, keys) in &keys {
                learn(transport, *region, *len, keys);
            }
            if !keys.is_empty() {
                // Devices' tables may take a while; others get their turn between two pages.
                tokio::task::yield_now().await;
            }
        }
        let segments = gathered.segments.into_iter().map(Arc::new).collect();
        return Ok((version.unwrap_or_default(), segments));
    }
}

/// A newer table of the same start of a peer, with every segment at the index it had before: requests name a segment by
/// index, and the peer's own order changes with each name it adds. What is gone leaves an empty place without a name.
pub(super) fn in_place(before: &[Arc<SegmentView>], now: Vec<Arc<SegmentView>>) -> Vec<Arc<SegmentView>> {
    let mut now: BTreeMap<String, Arc<SegmentView>> = now.into_iter().map(|s| (s.name.clone(), s)).collect();
    let mut placed: Vec<_> = before.iter().map(|old| now.remove(&old.name).unwrap_or_default()).collect();
    placed.extend(now.into_values());
    placed
}

fn protocol(session: &Session, reason: impl Into<String>) -> Error {
    Error::Protocol { peer: session.peer.clone(), reason: reason.into() }
}

/// The keys of a page, with the lengths of their regions.
fn told(page: &SegmentPage) -> Result<Told, String> {
    if page.keys.is_empty() {
        return Ok(Vec::new());
    }
    let regions = page.parts.iter().flat_map(|part| &part.regions);
    let lens: HashMap<_, _> = regions.map(|r| (r.id, r.len)).collect();
    let mut told = Vec::new();
    for of in &page.keys {
        for (region, keys) in &of.regions {
            let len = lens.get(region).ok_or("keys of a region that is not on their page")?;
            told.push((of.transport.clone(), *region, *len, keys.clone()));
        }
    }
    Ok(told)
}

/// A view that grows by pages.
#[derive(Default)]
struct Gathered {
    segments: Vec<SegmentView>,
    regions: usize,
    limit: usize,
}

/// Transport, region, length, keys.
type Told = Vec<(String, RegionId, u64, Vec<u8>)>;

impl Gathered {
    /// Adds a page; answers what transports want known of its regions.
    fn add(&mut self, page: SegmentPage) -> Result<Told, String> {
        let told = told(&page)?;
        for part in page.parts {
            self.regions += part.regions.len();
            let announced = self.regions.max(part.regions_total as usize) + 8 * self.segments.len();
            if announced > self.limit {
                return Err(format!("{announced} regions announced; at most {} are remembered", self.limit));
            }
            self.part(part)?;
        }
        Ok(told)
    }

    fn part(&mut self, part: SegmentPart) -> Result<(), String> {
        if part.index as usize == self.segments.len() && part.first == 0 {
            let last = self.segments.last();
            if last.is_some_and(|last| last.name >= part.name) {
                return Err("segments out of order".to_owned());
            }
            let (name, kind) = (part.name.clone(), part.kind.clone());
            self.segments.push(SegmentView { name, kind, len: part.len, regions: Vec::new() });
        }
        let known = self.segments.len();
        let segment = match self.segments.last_mut() {
            Some(s) if part.index as usize + 1 == known && s.name == part.name && s.len == part.len => s,
            _ => return Err("region pages that do not fit together".to_owned()),
        };
        if part.first as usize != segment.regions.len() {
            return Err("region pages that do not fit together".to_owned());
        }
        for region in &part.regions {
            let end = segment.regions.last().map_or(0, |r| r.start + r.len);
            if region.start < end {
                return Err(format!("regions of segment `{}` out of order", segment.name));
            }
            segment.regions.push(view(region));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipeline_transports::{Access, RegionId};

    fn gather(table: &SegmentTable, limit: usize) -> Result<Vec<SegmentView>, String> {
        let mut gathered = Gathered { limit, ..Gathered::default() };
        let mut at = Some((0, 0));
        while let Some((segment, region)) = at {
            let page = tell(table, &["tcp", "rdma"], segment, region);
            at = page.next;
            for (transport, region, _, keys) in gathered.add(page)? {
                assert_eq!((transport.as_str(), keys), ("rdma", vec![region.0 as u8; 90]));
            }
        }
        Ok(gathered.segments)
    }

    /// Field case B40: 20 000 regions of one segment, with keys of eight NICs each and with empty and small neighbours,
    /// arrive as they are.
    #[test]
    fn many_regions() {
        let table = SegmentTable::new(300);
        for i in 0..200 {
            table.create(&format!("a{i:03}"), "dram").unwrap();
        }
        table.create("kv", "dram").unwrap();
        for i in 0..20_000 {
            table.append("kv", RegionId(i), 4096, Access::Read, vec![(1, vec![i as u8; 90])]).unwrap();
        }
        table.remove_region(RegionId(77));
        let segments = gather(&table, 1 << 20).unwrap();
        assert_eq!(segments.len(), 201);
        assert_eq!(segments[200].regions, table.view("kv").unwrap().regions);
        assert_eq!(segments[200].region_at(19_999 * 4096).unwrap().id, RegionId(19_999));
        assert!(segments[200].region_at(77 * 4096).is_none());
        assert!(gather(&table, 10_000).unwrap_err().contains("at most 10000"));
    }

    /// Pages that lie (out of order, overlapping, of a segment that was not begun) never become a view.
    #[test]
    fn lies_are_refused() {
        let region = |start| RegionEntry { start, len: 10, ..RegionEntry::default() };
        let part = SegmentPart {
            name: "kv".into(),
            len: 100,
            regions_total: 2,
            regions: vec![region(0), region(10)],
            ..SegmentPart::default()
        };
        let add = |change: &dyn Fn(&mut SegmentPart)| {
            let mut part = part.clone();
            change(&mut part);
            let mut gathered = Gathered { limit: 1000, ..Gathered::default() };
            gathered.add(SegmentPage { parts: vec![part], ..SegmentPage::default() })
        };
        assert!(add(&|_| {}).is_ok());
        assert!(add(&|p| p.index = 1).is_err());
        assert!(add(&|p| p.first = 1).is_err());
        assert!(add(&|p| p.regions[1].start = 9).is_err());
        assert!(add(&|p| p.regions_total = u32::MAX).unwrap_err().contains("announced"));
        let keys = |id| TransportKeys { transport: "rdma".into(), regions: vec![(RegionId(id), vec![1])] };
        let page =
            |id| SegmentPage { parts: vec![part.clone()], keys: vec![keys(id)], ..SegmentPage::default() };
        let mut gathered = Gathered { limit: 1000, ..Gathered::default() };
        assert!(gathered.add(page(7)).unwrap_err().contains("not on their page"));
        assert_eq!(gathered.add(page(0)).unwrap(), [("rdma".to_owned(), RegionId(0), 10, vec![1])]);
    }

    /// A name that comes before the others, or one that goes, moves no segment to another index, and an index that was
    /// given up never means another segment.
    #[test]
    fn indices_stay() {
        let view =
            |name: &str, len| Arc::new(SegmentView { name: name.into(), len, ..SegmentView::default() });
        let before = vec![view("kv", 1), view("weights", 2)];
        let grown = in_place(&before, vec![view("a", 3), view("kv", 9), view("weights", 2)]);
        let told = |views: &[Arc<SegmentView>]| -> Vec<_> {
            views.iter().map(|s| (s.name.clone(), s.len)).collect()
        };
        assert_eq!(told(&grown), [("kv".into(), 9), ("weights".into(), 2), ("a".into(), 3)]);
        let less = in_place(&grown, vec![view("a", 3), view("weights", 2)]);
        assert_eq!(told(&less), [(String::new(), 0), ("weights".into(), 2), ("a".into(), 3)]);
        let again = in_place(&less, vec![view("a", 3), view("kv", 4), view("weights", 2)]);
        assert_eq!(told(&again)[0], (String::new(), 0));
        assert_eq!(told(&again)[3], ("kv".into(), 4));
    }
}
