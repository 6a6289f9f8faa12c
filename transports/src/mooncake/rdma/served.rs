//! Which queue pairs serve whom: by the NIC here and the path of the NIC there, one set each.
//!
//! Nobody says when a node is gone, and a NIC that serves takes no CPU along that could notice. So a set stays until its peer
//! connects anew from the same NIC, or until there are as many as there may be: then the oldest goes, as Mooncake's own
//! endpoints do, and its peer connects anew when it fails. Deliberately no verbs: what serves is somebody else's.

use std::collections::HashMap;

use crate::transport::NicId;

/// See the file's head.
pub(super) struct Table<S> {
    sets: HashMap<(NicId, String), Set<S>>,
    made: u64,
}

struct Set<S> {
    /// The peer's queue pairs.
    numbers: Vec<u32>,
    serves: S,
    /// How many were made before.
    age: u64,
}

impl<S> Default for Table<S> {
    fn default() -> Self {
        Self { sets: HashMap::new(), made: 0 }
    }
}

impl<S> Table<S> {
    /// What serves these queue pairs already: a peer that has not got its answer asks again.
    pub(super) fn of(&self, nic: NicId, path: &str, numbers: &[u32]) -> Option<&S> {
        let set = self.sets.get(&(nic, path.to_owned()))?;
        (set.numbers == numbers).then_some(&set.serves)
    }

    /// Takes out what serves that NIC.
    pub(super) fn take(&mut self, nic: NicId, path: &str) -> Option<S> {
        self.sets.remove(&(nic, path.to_owned())).map(|set| set.serves)
    }

    /// Takes out the oldest of a NIC here.
    pub(super) fn take_oldest(&mut self, nic: NicId) -> Option<S> {
        let of_nic = self.sets.iter().filter(|((of, _), _)| *of == nic);
        let oldest = of_nic.min_by_key(|(_, set)| set.age)?.0.clone();
        self.sets.remove(&oldest).map(|set| set.serves)
    }

    /// Keeps what serves these queue pairs. Answers what served that NIC before, if it was not taken out.
    pub(super) fn keep(&mut self, nic: NicId, path: &str, numbers: Vec<u32>, serves: S) -> Option<S> {
        self.made += 1;
        let set = Set { numbers, serves, age: self.made };
        self.sets.insert((nic, path.to_owned()), set).map(|set| set.serves)
    }

    /// How many sets there are.
    pub(super) fn len(&self) -> usize {
        self.sets.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NIC: NicId = NicId(0);

    /// A peer that asks again with the same queue pairs finds what serves them; with others it does not, and what it had goes.
    #[test]
    fn asked_again() {
        let mut table = Table::default();
        assert!(table.keep(NIC, "a:1@n", vec![17, 18], 'x').is_none());
        assert_eq!(table.of(NIC, "a:1@n", &[17, 18]), Some(&'x'));
        for (nic, path, numbers) in
            [(NIC, "a:1@n", [17, 19]), (NicId(1), "a:1@n", [17, 18]), (NIC, "b:1@n", [17, 18])]
        {
            assert_eq!(table.of(nic, path, &numbers), None);
        }
        assert_eq!(table.keep(NIC, "a:1@n", vec![20, 21], 'y'), Some('x'));
        assert_eq!((table.len(), table.take(NIC, "a:1@n"), table.len()), (1, Some('y'), 0));
    }

    /// The oldest of a NIC goes first, and none of another NIC.
    #[test]
    fn the_oldest_goes() {
        let mut table = Table::default();
        table.keep(NicId(1), "other@n", vec![2], 'o');
        for (path, serves) in [("a@n", 'a'), ("b@n", 'b'), ("a@n", 'c')] {
            table.keep(NIC, path, vec![2], serves);
        }
        assert_eq!(
            [table.take_oldest(NIC), table.take_oldest(NIC), table.take_oldest(NIC)],
            [Some('b'), Some('c'), None]
        );
        assert_eq!(table.len(), 1);
    }
}
