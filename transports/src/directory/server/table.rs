//! What the embedded directory holds: values by key, each perhaps with an end, within bounds. Time comes from outside, so
//! that tests need no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use hyper::body::Bytes;

use super::Bounds;
use crate::clock::Nanos;

/// What an entry costs beside its bytes: nodes of two trees, and their slack.
const ENTRY: u64 = 256;

/// What is held at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Keys.
    pub keys: usize,
    /// Bytes, as they are bounded.
    pub bytes: u64,
}

/// Why a value was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    Keys(usize),
    Bytes(u64),
}

struct Entry {
    value: Bytes,
    end: Option<Nanos>,
}

/// See the module.
pub(super) struct Table {
    bounds: Bounds,
    entries: BTreeMap<Arc<str>, Entry>,
    /// Entries that end, the first one first.
    ends: BTreeSet<(Nanos, Arc<str>)>,
    bytes: u64,
    /// Of values that are being received.
    arriving: u64,
}

impl Table {
    pub(super) fn new(bounds: Bounds) -> Self {
        let bounds = Bounds { value: bounds.value.min(super::super::VALUE_MAX), ..bounds };
        Self { bounds, entries: BTreeMap::new(), ends: BTreeSet::new(), bytes: 0, arriving: 0 }
    }

    pub(super) fn bounds(&self) -> Bounds {
        self.bounds
    }

    pub(super) fn usage(&mut self, now: Nanos) -> Usage {
        self.expire(now);
        Usage { keys: self.entries.len(), bytes: self.bytes }
    }

    /// Room for bytes that are being received; to be given back.
    pub(super) fn reserve(&mut self, bytes: u64, now: Nanos) -> Result<(), Full> {
        self.expire(now);
        if self.bytes + self.arriving + bytes > self.bounds.bytes {
            return Err(Full::Bytes(self.bounds.bytes));
        }
        self.arriving += bytes;
        Ok(())
    }

    pub(super) fn give_back(&mut self, bytes: u64) {
        self.arriving -= bytes;
    }

    pub(super) fn get(&mut self, key: &str, now: Nanos) -> Option<Bytes> {
        self.expire(now);
        self.entries.get(key).map(|entry| entry.value.clone())
    }

    /// Takes a value, in the place of the one that is there: a node that crashed starts again under its name.
    pub(super) fn put(
        &mut self,
        key: &str,
        value: Bytes,
        end: Option<Nanos>,
        now: Nanos,
    ) -> Result<(), Full> {
        self.expire(now);
        let old = self.entries.get(key).map(|old| cost(key, &old.value));
        let bytes = self.bytes - old.unwrap_or(0) + cost(key, &value);
        if old.is_none() && self.entries.len() >= self.bounds.keys {
            return Err(Full::Keys(self.bounds.keys));
        }
        if bytes > self.bounds.bytes {
            return Err(Full::Bytes(self.bounds.bytes));
        }
        self.remove(key, now);
        let key: Arc<str> = key.into();
        self.bytes = bytes;
        self.ends.extend(end.map(|end| (end, key.clone())));
        self.entries.insert(key, Entry { value, end });
        Ok(())
    }

    pub(super) fn remove(&mut self, key: &str, now: Nanos) -> bool {
        self.expire(now);
        let Some((key, entry)) = self.entries.remove_entry(key) else { return false };
        self.bytes -= cost(&key, &entry.value);
        if let Some(end) = entry.end {
            self.ends.remove(&(end, key));
        }
        true
    }

    /// At most `most` entries and about `bytes` bytes of those that begin so, behind `after`; whether there are more.
    pub(super) fn list(
        &mut self,
        prefix: &str,
        after: Option<&str>,
        most: usize,
        bytes: u64,
        now: Nanos,
    ) -> (Vec<(Arc<str>, Bytes)>, bool) {
        self.expire(now);
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let mut listed = Vec::new();
        let mut left = bytes;
        for (key, entry) in self.entries.range::<str, _>((from, Bound::Unbounded)) {
            if !key.starts_with(prefix) {
                break;
            }
            let costs = cost(key, &entry.value);
            if listed.len() >= most || (costs > left && !listed.is_empty()) {
                return (listed, true);
            }
            left = left.saturating_sub(costs);
            listed.push((key.clone(), entry.value.clone()));
        }
        (listed, false)
    }

    /// Takes out what has had its time.
    pub(super) fn expire(&mut self, now: Nanos) {
        while self.ends.first().is_some_and(|(end, _)| *end <= now) {
            let Some((_, key)) = self.ends.pop_first() else { return };
            if let Some(entry) = self.entries.remove(&*key) {
                self.bytes -= cost(&key, &entry.value);
            }
        }
    }
}

fn cost(key: &str, value: &Bytes) -> u64 {
    key.len() as u64 + value.len() as u64 + ENTRY
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(keys: usize, bytes: u64) -> Table {
        Table::new(Bounds { keys, bytes, ..Bounds::default() })
    }

    fn value(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    /// A value with an end is there until then and not after; putting it again moves its end, and without an end it stays.
    #[test]
    fn values_end() {
        let mut table = table(10, 1 << 20);
        table.put("a", value("1"), Some(100), 0).unwrap();
        table.put("b", value("2"), None, 0).unwrap();
        assert_eq!(table.get("a", 99), Some(value("1")));
        table.put("a", value("3"), Some(200), 99).unwrap();
        assert_eq!(table.get("a", 199), Some(value("3")));
        assert_eq!((table.get("a", 200), table.get("b", u64::MAX)), (None, Some(value("2"))));
        table.put("b", value("4"), Some(300), 200).unwrap();
        table.put("b", value("5"), None, 200).unwrap();
        assert_eq!(table.get("b", 301), Some(value("5")), "the earlier end is forgotten");
        assert!(table.remove("b", 301) && !table.remove("b", 301));
        assert_eq!(table.usage(301), Usage::default());
    }

    /// Bounds hold: a key too many and a byte too many are refused, replacing is not, and what ends makes room.
    #[test]
    fn bounds_hold() {
        let mut table = table(2, 2 * (ENTRY + 8));
        table.put("a", value("1234567"), Some(50), 0).unwrap();
        table.put("b", value("1234567"), None, 0).unwrap();
        assert_eq!(table.put("c", value(""), None, 0), Err(Full::Keys(2)));
        assert_eq!(table.put("b", value("12345678"), None, 0), Err(Full::Bytes(2 * (ENTRY + 8))));
        assert_eq!(table.get("b", 0), Some(value("1234567")), "a refused value takes nothing's place");
        table.put("b", value("7654321"), None, 0).unwrap();
        assert!(table.reserve(1, 0).is_err());
        assert_eq!(table.reserve(ENTRY + 8, 50), Ok(()));
        assert!(table.put("c", value("1234567"), None, 50).is_ok());
        table.give_back(ENTRY + 8);
        assert_eq!(table.usage(50), Usage { keys: 2, bytes: 2 * (ENTRY + 8) });
    }

    /// Lists are in the order of keys, end with the prefix, and go on behind the last one.
    #[test]
    fn lists() {
        let mut table = table(10, 1 << 20);
        for key in ["n/b", "n/a", "m", "n/c", "o"] {
            table.put(key, value("v"), None, 0).unwrap();
        }
        let mut list = |after, most, bytes| {
            let (found, more) = table.list("n/", after, most, bytes, 0);
            (found.iter().map(|(key, _)| key.to_string()).collect::<Vec<_>>().join(" "), more)
        };
        assert_eq!(list(None, 9, 1 << 20), ("n/a n/b n/c".into(), false));
        assert_eq!(list(None, 2, 1 << 20), ("n/a n/b".into(), true));
        assert_eq!(list(Some("n/b"), 2, 1 << 20), ("n/c".into(), false));
        assert_eq!(list(None, 9, 1), ("n/a".into(), true), "one at least, or it would never go on");
    }
}
