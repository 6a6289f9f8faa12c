//! Which of its nodes a worker has to look at in a turn, one bit each: with one item in the whole engine most of a turn
//! would else be looks at stages that have nothing.
//! Deliberately only what is known without asking a stage: rings, inline inputs, polls, and who said that it rests.

use crate::item::Item;
use crate::node::Node;

/// A set of nodes, by their index.
pub(crate) type Nodes = u64;

/// See the head of the file.
pub(crate) struct Agenda {
    /// Nodes that have something before them on an inline port.
    ready: Nodes,
    /// Those that read rings.
    rings: Nodes,
    /// Those that are polled.
    polls: Nodes,
    /// Of these, those that hold nothing: not polled before they have been run again.
    resting: Nodes,
    /// Those that only a ring of the bell can bring something to.
    unasked: Nodes,
    /// Those whose polls bring items from outside the graph.
    sources: Nodes,
    /// Those whose ports lead to rings.
    senders: Nodes,
}

/// The nodes of a set, upstream first.
#[inline]
pub(crate) fn each(mut nodes: Nodes) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let first = (nodes != 0).then(|| nodes.trailing_zeros() as usize)?;
        nodes &= nodes - 1;
        Some(first)
    })
}

/// The nodes of a set, downstream first.
#[inline]
pub(crate) fn each_back(mut nodes: Nodes) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let last = (nodes != 0).then(|| (Nodes::BITS - 1 - nodes.leading_zeros()) as usize)?;
        nodes &= !(1 << last);
        Some(last)
    })
}

impl Agenda {
    pub(crate) fn new<T: Item>(nodes: &[Node<T>]) -> Self {
        let of = |has: fn(&Node<T>) -> bool| {
            nodes.iter().enumerate().filter(|(_, node)| has(node)).fold(0, |bits, (n, _)| bits | 1 << n)
        };
        Self {
            ready: 0,
            rings: of(|node| !node.inputs.is_empty()),
            polls: of(|node| node.polls),
            resting: 0,
            unasked: 0,
            sources: of(|node| node.polls && node.brings),
            senders: of(|node| node.instance.outlet.sends()),
        }
    }

    /// Those that something was left with, or may have been.
    #[inline]
    pub(crate) fn going_on(&self) -> Nodes {
        self.ready | self.senders
    }

    #[inline]
    pub(crate) fn is_ready(&self, n: usize) -> bool {
        self.ready >> n & 1 != 0
    }

    /// Those that read rings.
    #[inline]
    pub(crate) fn rings(&self) -> Nodes {
        self.rings
    }

    /// Those whose ports lead to rings.
    #[inline]
    pub(crate) fn senders(&self) -> Nodes {
        self.senders
    }

    /// Those to be polled, but for sources.
    #[inline]
    pub(crate) fn polled(&self) -> Nodes {
        self.polls & !self.sources & !self.resting
    }

    /// Sources to be polled.
    #[inline]
    pub(crate) fn polled_sources(&self) -> Nodes {
        self.sources & !self.resting
    }

    /// These have something before them.
    #[inline]
    pub(crate) fn feed(&mut self, nodes: Nodes) {
        self.ready |= nodes;
    }

    /// A node has nothing before it any more.
    #[inline]
    pub(crate) fn done(&mut self, n: usize) {
        self.ready &= !(1 << n);
    }

    /// A node was run, and has said whether it rests.
    #[inline]
    pub(crate) fn ran(&mut self, n: usize, rests: bool) {
        self.resting = self.resting & !(1 << n) | Nodes::from(rests) << n;
    }

    /// What a node said of its next polls.
    #[inline]
    pub(crate) fn note(&mut self, n: usize, rests: bool, unasked: bool) {
        self.ran(n, rests);
        self.unasked = self.unasked & !(1 << n) | Nodes::from(unasked) << n;
    }

    /// Whether nothing comes to this worker that does not ring its bell: then it finds nothing by looking.
    #[inline]
    pub(crate) fn is_unasked(&self) -> bool {
        self.rings == 0 && self.polls != 0 && self.polls & !self.resting & !self.unasked == 0
    }
}

#[cfg(all(test, not(pipeline_loom)))]
mod tests {
    use super::*;

    fn agenda(polls: Nodes, rings: Nodes) -> Agenda {
        Agenda { ready: 0, rings, polls, resting: 0, unasked: 0, sources: 0b100, senders: 0 }
    }

    /// Who rests is passed over until it is run and keeps something; who has something before it always is looked at.
    #[test]
    fn resting_ends_with_a_run() {
        let mut agenda = agenda(0b110, 0b001);
        assert_eq!((agenda.polled(), agenda.polled_sources()), (0b010, 0b100));
        agenda.note(1, true, false);
        assert_eq!((agenda.polled(), agenda.going_on()), (0, 0));
        agenda.feed(0b10);
        assert!(agenda.is_ready(1) && agenda.going_on() == 0b10);
        agenda.ran(1, true);
        agenda.done(1);
        assert_eq!((agenda.polled(), agenda.going_on()), (0, 0));
        agenda.ran(1, false);
        assert_eq!(agenda.polled(), 0b010);
    }

    /// A worker may sleep at once when all of its stages can only be rung for, and it reads no ring.
    #[test]
    fn unasked_is_all_of_them() {
        let mut alone = agenda(0b11, 0);
        alone.note(0, true, false);
        assert!(!alone.is_unasked());
        alone.note(1, false, true);
        assert!(alone.is_unasked());
        alone.note(1, false, false);
        assert!(!alone.is_unasked());
        let mut fed = agenda(0b1, 0b1);
        fed.note(0, true, true);
        assert!(!fed.is_unasked());
    }

    /// Both ways through a set.
    #[test]
    fn both_ways() {
        assert!(each(0b10_0101).eq([0, 2, 5]) && each_back(0b10_0101).eq([5, 2, 0]));
        assert!(each(1 << 63).eq([63]) && each_back(0).next().is_none());
    }
}
