//! The links that a post or reap worker owns, found by their names: for each slice, so it must be quick.
//! Deliberately bounded by `limits.links`; all memory is taken at start.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use pipeline_transports::LinkId;

const RECENT: usize = 64;

/// Spreads the names of links, which this process counts up: nobody else has a say in them.
#[derive(Default)]
struct ByNumber(u64);

impl Hasher for ByNumber {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(self.0 << 8 | u64::from(*b)));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ spread >> 32;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// See the file's head.
pub(crate) struct Links<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
    by_id: HashMap<LinkId, u32, BuildHasherDefault<ByNumber>>,
    /// Looked at first: a link by the low bits of its name.
    recent: [(LinkId, u32); RECENT],
}

impl<T> Links<T> {
    pub(crate) fn with_capacity(limit: usize) -> Self {
        Self {
            slots: Vec::with_capacity(limit),
            free: Vec::with_capacity(limit),
            by_id: HashMap::with_capacity_and_hasher(limit, BuildHasherDefault::default()),
            recent: [(LinkId(u64::MAX), 0); RECENT],
        }
    }

    /// Index of a link.
    #[inline]
    pub(crate) fn find(&mut self, id: LinkId) -> Option<u32> {
        let recent = &mut self.recent[id.0 as usize % RECENT];
        if recent.0 == id {
            return Some(recent.1);
        }
        let index = *self.by_id.get(&id)?;
        *recent = (id, index);
        Some(index)
    }

    #[inline]
    pub(crate) fn get(&mut self, index: u32) -> Option<&mut T> {
        self.slots.get_mut(index as usize)?.as_mut()
    }

    pub(crate) fn each(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten()
    }

    pub(crate) fn insert(&mut self, id: LinkId, link: T) -> u32 {
        let index = self.free.pop().unwrap_or(self.slots.len() as u32);
        if index as usize == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[index as usize] = Some(link);
        self.by_id.insert(id, index);
        index
    }

    /// Lets go of those that are not wanted any more.
    pub(crate) fn retain(&mut self, wanted: impl Fn(&T) -> bool) {
        let (slots, free) = (&mut self.slots, &mut self.free);
        self.by_id.retain(|_, index| {
            let stays = slots[*index as usize].as_ref().is_some_and(&wanted);
            if !stays {
                slots[*index as usize] = None;
                free.push(*index);
            }
            stays
        });
        self.recent.fill((LinkId(u64::MAX), 0));
    }

    pub(crate) fn remove(&mut self, id: LinkId) -> Option<T> {
        let index = self.by_id.remove(&id)?;
        let recent = &mut self.recent[id.0 as usize % RECENT];
        if recent.0 == id {
            recent.0 = LinkId(u64::MAX);
        }
        self.free.push(index);
        self.slots[index as usize].take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Links with names that share low bits do not take each other's place, and a removed one is not found.
    #[test]
    fn found_by_name_only() {
        let mut links = Links::with_capacity(4);
        for id in [1, 65, 129] {
            links.insert(LinkId(id), id);
        }
        for id in [1, 65, 129, 65, 1] {
            let index = links.find(LinkId(id)).unwrap();
            assert_eq!(links.get(index), Some(&mut { id }));
        }
        assert_eq!(links.remove(LinkId(65)), Some(65));
        assert_eq!((links.find(LinkId(65)), links.remove(LinkId(65))), (None, None));
        let index = links.insert(LinkId(7), 7);
        assert_eq!((links.find(LinkId(7)), links.find(LinkId(193))), (Some(index), None));
        links.retain(|id| *id != 1);
        assert_eq!((links.find(LinkId(1)), links.find(LinkId(7))), (None, Some(index)));
        assert_eq!(links.each().count(), 2);
        links.insert(LinkId(8), 8);
        assert_eq!((links.slots.len(), links.find(LinkId(129)).is_some()), (3, true));
    }
}
