//! What others may reach here: published regions, by address, because that is how Mooncake names bytes.
//!
//! Serve halves look addresses up in a [`Table`] of their own, which never changes; who does not find one asks whether there
//! is a newer. So a lookup costs no lock and no counter, and a burst of registrations makes one table, not one each. Whether
//! a region is still alive and may be touched so, the table of regions says: this only gives addresses their names.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::Notify;

use super::descriptor::Buffer;
use super::handshake::LENGTH_MAX_USUAL;
use crate::memory::RegionId;
use crate::transport::Registered;

/// What an entry of a descriptor takes besides its two numbers and the name.
const ENTRY_BYTES: u64 = r#"{"addr":,"length":,"name":""},"#.len() as u64;

/// Published regions. Any thread.
#[derive(Default)]
pub(crate) struct Buffers {
    book: Mutex<Book>,
    /// Grows with every change.
    version: AtomicU64,
    changed: Notify,
}

#[derive(Default)]
struct Book {
    /// In the order of registration: others take the first for the one to begin with.
    entries: BTreeMap<u64, Entry>,
    next: u64,
    /// Digits of all addresses and lengths, as they are written.
    digits: u64,
    /// Bytes of this node's name, once it has one.
    name_bytes: Option<u64>,
    warned: bool,
    table: Option<Arc<Table>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    base: u64,
    len: u64,
    region: RegionId,
}

/// A state of [`Buffers`], by ascending address.
#[derive(Debug, Default)]
pub(crate) struct Table {
    version: u64,
    entries: Vec<Entry>,
}

impl Table {
    /// The region that has all of `[addr, addr + len)`, and where in it that begins.
    pub(crate) fn find(&self, addr: u64, len: u64) -> Option<(RegionId, u64)> {
        let after = self.entries.partition_point(|entry| entry.base <= addr);
        let entry = self.entries[..after].last()?;
        let offset = addr - entry.base;
        (offset < entry.len && len <= entry.len - offset).then_some((entry.region, offset))
    }
}

impl Buffers {
    /// What is published now, if that is not `than`.
    pub(crate) fn newer(&self, than: &Table) -> Option<Arc<Table>> {
        (self.version.load(Ordering::Acquire) != than.version).then(|| {
            let mut book = self.book();
            let version = self.version.load(Ordering::Acquire);
            let sorted = |book: &Book| {
                let mut entries: Vec<Entry> = book.entries.values().copied().collect();
                entries.sort_unstable_by_key(|entry| entry.base);
                Arc::new(Table { version, entries })
            };
            match &book.table {
                Some(table) if table.version == version => table.clone(),
                _ => {
                    let table = sorted(&book);
                    book.table = Some(table.clone());
                    table
                }
            }
        })
    }

    /// For a descriptor, under the name of this node, and which state it is.
    pub(crate) fn list(&self, name: &str) -> (u64, Vec<Buffer>) {
        let book = self.book();
        let told = |entry: &Entry| Buffer {
            addr: entry.base,
            length: entry.len,
            name: name.to_owned(),
            ..Buffer::default()
        };
        (self.version.load(Ordering::Acquire), book.entries.values().map(told).collect())
    }

    /// Which state it is.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns after a change that came since the last call returned, for one caller.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The name of this node goes with every entry from now on.
    pub(crate) fn named(&self, name: &str) {
        let mut book = self.book();
        book.name_bytes = Some(name.len() as u64);
        book.warn();
    }

    fn add(&self, base: u64, len: u64, region: RegionId) -> u64 {
        let mut book = self.book();
        let at = book.next;
        book.next += 1;
        book.digits += digits(base) + digits(len);
        book.entries.insert(at, Entry { base, len, region });
        book.warn();
        self.tell();
        at
    }

    fn remove(&self, at: u64) {
        let mut book = self.book();
        if let Some(entry) = book.entries.remove(&at) {
            book.digits -= digits(entry.base) + digits(entry.len);
            self.tell();
        }
    }

    /// Under the lock, so that a state and its number belong together.
    fn tell(&self) {
        self.version.fetch_add(1, Ordering::Release);
        self.changed.notify_one();
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // A panic under this lock leaves a list that is right.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    /// Says once when the descriptor becomes longer than Mooncake reads.
    fn warn(&mut self) {
        let Some(name_bytes) = self.name_bytes else { return };
        let buffers = self.entries.len() as u64;
        let bytes = self.digits + buffers * (ENTRY_BYTES + name_bytes);
        if bytes <= LENGTH_MAX_USUAL {
            self.warned = false;
        } else if !std::mem::replace(&mut self.warned, true) {
            tracing::warn!(
                buffers,
                bytes,
                "what this node tells Mooncake peers of itself is longer than they read: they refuse more than 1 MiB unless \
                 started with MC_HANDSHAKE_MAX_LENGTH; register fewer, larger regions, or raise it there"
            );
        }
    }
}

fn digits(n: u64) -> u64 {
    u64::from(n.checked_ilog10().unwrap_or(0)) + 1
}

/// A region that may be published.
pub(crate) struct Known {
    buffers: Arc<Buffers>,
    base: u64,
    len: u64,
    region: OnceLock<RegionId>,
    published: OnceLock<u64>,
}

impl Known {
    pub(crate) fn new(buffers: Arc<Buffers>, base: u64, len: u64) -> Self {
        Self { buffers, base, len, region: OnceLock::new(), published: OnceLock::new() }
    }
}

impl Registered for Known {
    fn bind(&self, region: RegionId) {
        let bound = self.region.set(region);
        debug_assert!(bound.is_ok(), "a region has one name");
    }

    fn publish(&self, _segment: &str) {
        if let Some(region) = self.region.get() {
            self.published.get_or_init(|| self.buffers.add(self.base, self.len, *region));
        }
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        if let Some(at) = self.published.get() {
            self.buffers.remove(*at);
        }
    }
}

#[cfg(all(test, not(pipeline_loom)))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn known(buffers: &Arc<Buffers>, base: u64, len: u64, region: u64) -> Known {
        let known = Known::new(buffers.clone(), base, len);
        known.bind(RegionId(region));
        known.publish("memory");
        known
    }

    fn table(buffers: &Buffers) -> Arc<Table> {
        buffers.newer(&Table { version: u64::MAX, ..Table::default() }).unwrap()
    }

    /// An address is found in the one region that has all of the range; seams between neighbours, ranges that pass an end or
    /// wrap, and addresses between regions are not.
    #[test]
    fn ranges_are_found_in_one_region() {
        let buffers = Arc::new(Buffers::default());
        let held: Vec<_> =
            [(300, 100, 3), (100, 100, 1), (200, 50, 2)].map(|(b, l, r)| known(&buffers, b, l, r)).into();
        let table = table(&buffers);
        for (addr, len, found) in [
            (100, 100, Some((1, 0))),
            (199, 1, Some((1, 99))),
            (200, 50, Some((2, 0))),
            (399, 1, Some((3, 99))),
            (199, 2, None),
            (250, 1, None),
            (99, 1, None),
            (400, 1, None),
            (300, 101, None),
            (300, u64::MAX, None),
            (u64::MAX, u64::MAX, None),
        ] {
            assert_eq!(table.find(addr, len), found.map(|(r, o)| (RegionId(r), o)), "{addr}+{len}");
        }
        drop(held);
        assert_eq!(buffers.newer(&table).unwrap().find(100, 1), None, "gone with its registration");
    }

    /// What is only registered is nobody's; what is published comes in the order of registration, under the node's name.
    #[test]
    fn published_in_order() {
        let buffers = Arc::new(Buffers::default());
        let silent = Known::new(buffers.clone(), 50, 10);
        silent.bind(RegionId(9));
        let _held = [known(&buffers, 300, 1, 1), known(&buffers, 100, 2, 2)];
        let (version, list) = buffers.list("n:1");
        assert_eq!(list.iter().map(|b| (b.addr, b.length)).collect::<Vec<_>>(), [(300, 1), (100, 2)]);
        assert!(list.iter().all(|b| b.name == "n:1"));
        assert_eq!(version, buffers.version());
        assert!(buffers.newer(&table(&buffers)).is_none());
    }

    /// The reckoned length of the text is the one it has, so that the warning comes at the registration that crosses it.
    #[test]
    fn the_warning_comes_at_the_right_one() {
        let buffers = Arc::new(Buffers::default());
        buffers.named("127.0.0.1:15123");
        let base = 0x7f00_0000_0000u64;
        let mut held = Vec::new();
        while !buffers.book().warned {
            let i = held.len() as u64;
            held.push(known(&buffers, base + i * 4096, 4096, i));
        }
        let text = |buffers: &Buffers| serde_json::to_string(&buffers.list("127.0.0.1:15123").1).unwrap();
        // Two brackets, and no comma behind the last.
        assert!(text(&buffers).len() as u64 - 1 > LENGTH_MAX_USUAL);
        held.pop();
        assert!(text(&buffers).len() as u64 - 1 <= LENGTH_MAX_USUAL);
        assert!((10_000..20_000).contains(&held.len()), "{}", held.len());
    }
}
