//! Which lanes are for what while small and large requests go to one peer: the first for the small ones, the others
//! for the rest. Bytes that a socket has taken cannot be overtaken, and a socket takes megabytes.
//! Deliberately nothing when only one kind is seen: then all lanes are for it.

use pipeline_graph::Nanos;

/// A request of up to this many bytes, one slice, is small.
pub(super) const SMALL: u64 = 64 << 10;

/// How long one of either kind is remembered.
const SEEN_NS: Nanos = 1_000_000_000;

/// What a slice may use of its peer's lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lanes {
    All,
    First,
    Others,
}

/// When small and large ones were last seen.
#[derive(Clone, Copy, Default)]
pub(super) struct Mix {
    seen: [Option<Nanos>; 2],
}

impl Mix {
    /// Notes one, and says where it may go.
    #[inline]
    pub(super) fn lanes(&mut self, is_small: bool, now: Nanos) -> Lanes {
        self.seen[usize::from(is_small)] = Some(now);
        let other = self.seen[usize::from(!is_small)];
        match other.is_some_and(|at| now.saturating_sub(at) < SEEN_NS) {
            false => Lanes::All,
            true if is_small => Lanes::First,
            true => Lanes::Others,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Either kind alone has all lanes; while both are seen they keep apart, and for a while after the last of one.
    #[test]
    fn they_keep_apart() {
        let mut mix = Mix::default();
        assert_eq!([mix.lanes(false, 5), mix.lanes(false, 6)], [Lanes::All; 2]);
        assert_eq!((mix.lanes(true, 7), mix.lanes(false, 8)), (Lanes::First, Lanes::Others));
        assert_eq!(mix.lanes(true, 8 + SEEN_NS), Lanes::All);
        assert_eq!(mix.lanes(false, 7 + SEEN_NS + SEEN_NS), Lanes::Others);
    }
}
