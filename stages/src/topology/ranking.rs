//! The NICs of one transport in the order in which memory of one place wants them, in groups of equally near ones.
//! Deliberately made at start for every place there is: the data path looks up a number.

use super::nearness::Nearness;

/// See the file's head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranking {
    /// NICs, the nearest first; within a group in the order of the file, or of the list that made the group.
    order: Vec<u16>,
    /// For each group, where the next one begins in `order`.
    ends: Vec<u16>,
    /// For each NIC, its place in `order`.
    position: Vec<u16>,
    /// For each NIC, how near it is.
    nearness: Vec<Nearness>,
}

impl Ranking {
    /// From how near each NIC is, index by index.
    #[cfg(test)]
    pub(crate) fn new(nearness: Vec<Nearness>) -> Self {
        Self::listed(nearness, |_| 0)
    }

    /// From how near each NIC is, index by index; of equally near ones that with the lower place in a list comes first.
    pub(super) fn listed(nearness: Vec<Nearness>, place: impl Fn(u16) -> usize) -> Self {
        let mut order: Vec<u16> = (0..nearness.len() as u16).collect();
        order.sort_by_key(|nic| (nearness[usize::from(*nic)], place(*nic)));
        let (mut ends, mut position) = (Vec::new(), vec![0; order.len()]);
        for (at, nic) in order.iter().enumerate() {
            position[usize::from(*nic)] = at as u16;
            let next = order.get(at + 1).map(|next| nearness[usize::from(*next)]);
            if next != Some(nearness[usize::from(*nic)]) {
                ends.push(at as u16 + 1);
            }
        }
        Self { order, ends, position, nearness }
    }

    /// How many NICs there are.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Where a NIC stands in the order.
    #[inline]
    pub(crate) fn position(&self, nic: u16) -> Option<u16> {
        self.position.get(usize::from(nic)).copied()
    }

    /// The NIC at a place in the order.
    #[inline]
    pub(crate) fn at(&self, position: usize) -> u16 {
        self.order[position]
    }

    /// Where groups end in the order, the nearest first.
    #[inline]
    pub(crate) fn ends(&self) -> &[u16] {
        &self.ends
    }

    /// How near a NIC is.
    pub fn nearness(&self, nic: u16) -> Nearness {
        self.nearness.get(usize::from(nic)).copied().unwrap_or(Nearness::Unlisted)
    }

    /// The groups, the nearest first.
    pub fn groups(&self) -> impl Iterator<Item = (Nearness, &[u16])> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        let of = |(begin, end): (u16, &u16)| &self.order[usize::from(begin)..usize::from(*end)];
        begins.zip(&self.ends).map(of).map(|nics| (self.nearness(nics[0]), nics))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NICs come by nearness and then as the file has them; groups are those of equal nearness; positions lead back.
    #[test]
    fn groups_in_order() {
        use Nearness::{Far, Node, Unknown};
        let ranking = Ranking::new(vec![Far(21), Node, Unknown, Node, Far(12)]);
        let groups: Vec<(Nearness, Vec<u16>)> =
            ranking.groups().map(|(near, nics)| (near, nics.to_vec())).collect();
        assert_eq!(groups, [(Node, vec![1, 3]), (Unknown, vec![2]), (Far(12), vec![4]), (Far(21), vec![0])]);
        assert_eq!(ranking.ends(), [2, 3, 4, 5]);
        for nic in 0..5 {
            assert_eq!(ranking.at(usize::from(ranking.position(nic).unwrap())), nic);
        }
        assert_eq!((ranking.position(5), ranking.len()), (None, 5));
        assert_eq!(Ranking::new(Vec::new()).groups().count(), 0);
    }
}
