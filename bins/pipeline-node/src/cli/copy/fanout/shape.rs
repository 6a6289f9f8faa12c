//! Who hands on to whom: the shapes of `--fanout`, as the way from each destination back to the source.

use clap::ValueEnum;

/// How one tree gets to several nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Shape {
    /// The source sends to each.
    #[default]
    Star,
    /// The source sends to the first, and each node hands on to the next.
    Chain,
    /// The source sends to the first, and each node hands on to two.
    Tree,
}

impl Shape {
    /// The nodes between destination `index` and the source, the nearest first. When one of them is lost, the next one
    /// stands in for it, and in the end the source.
    pub fn way_back(self, index: usize) -> Vec<usize> {
        let parent = |at: usize| match self {
            Self::Star => None,
            Self::Chain => at.checked_sub(1),
            Self::Tree => at.checked_sub(1).map(|below| below / 2),
        };
        std::iter::successors(parent(index), |at| parent(*at)).collect()
    }

    /// As it is written on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Star => "star",
            Self::Chain => "chain",
            Self::Tree => "tree",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a chain each node has one after it, in a tree at most two, in a star none; every way ends at the first node,
    /// the only one that the source sends to (all of them in a star).
    #[test]
    fn ways_back() {
        assert_eq!(Shape::Chain.way_back(3), [2, 1, 0]);
        assert_eq!(Shape::Tree.way_back(6), [2, 0]);
        assert!((0..9).all(|i| Shape::Star.way_back(i).is_empty()));
        for shape in [Shape::Chain, Shape::Tree] {
            let parents: Vec<_> = (0..64).map(|i| shape.way_back(i).first().copied()).collect();
            let most = if shape == Shape::Chain { 1 } else { 2 };
            assert_eq!(parents.iter().filter(|p| p.is_none()).count(), 1, "the source sends once");
            for node in 0..64 {
                assert!(parents.iter().filter(|p| **p == Some(node)).count() <= most);
            }
        }
        assert_eq!(Shape::Tree.way_back(62).len(), 5, "a tree is as deep as its logarithm");
    }
}
