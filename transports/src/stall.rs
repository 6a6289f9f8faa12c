//! When a link counts as dead although nobody says so: work is outstanding, and nothing came and nothing
//! left for longer than a file allows. Deliberately coarse: a few looks in that time and only while work is
//! outstanding, because this is for hours, not for microseconds.

use std::time::Duration;

use crate::clock::Nanos;

/// Looks in one `stall`: a dead lane is found after one, and at most one and a half.
const LOOKS: u64 = 4;

/// When lanes are looked at.
pub(crate) struct Looks {
    /// `None`: never.
    stall_ns: Option<Nanos>,
    next: Nanos,
}

impl Looks {
    /// For lanes that may stand still for `stall`.
    pub(crate) fn every(stall: Option<Duration>) -> Self {
        let stall_ns = stall.map(|stall| Nanos::try_from(stall.as_nanos()).unwrap_or(Nanos::MAX));
        Self { stall_ns, next: 0 }
    }

    /// Whether it is time.
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        self.stall_ns.is_some() && now >= self.next
    }

    /// The lanes have been looked at.
    pub(crate) fn looked(&mut self, now: Nanos) {
        self.next = now.saturating_add(self.stall_ns.unwrap_or(0) / LOOKS);
    }

    /// When a sleep must end for the next look, if ever.
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.stall_ns.map(|_| self.next)
    }
}

/// How a lane stood at the last look.
#[derive(Default)]
pub(crate) struct Stand {
    /// What had moved, and since when it has not; `None` while nothing was outstanding.
    still: Option<(u64, Nanos)>,
}

impl Stand {
    /// A look. `moved` differs whenever something has come or left since the last one.
    pub(crate) fn is_stalled(&mut self, outstanding: bool, moved: u64, now: Nanos, looks: &Looks) -> bool {
        match self.still {
            _ if !outstanding => self.still = None,
            Some((then, since)) if then == moved => {
                return looks.stall_ns.is_some_and(|stall| now.saturating_sub(since) >= stall);
            }
            _ => self.still = Some((moved, now)),
        }
        false
    }
}

#[cfg(all(test, not(pipeline_loom)))]
mod tests {
    use super::*;

    /// A lane is dead when work was outstanding and nothing moved from one look to others for the whole time; idle and
    /// moving ones never are, and a lane that was idle is given the whole time anew.
    #[test]
    fn only_standing_still_with_work_counts() {
        let looks = Looks::every(Some(Duration::from_nanos(100)));
        let mut stand = Stand::default();
        let mut look = |outstanding, moved, now| stand.is_stalled(outstanding, moved, now, &looks);
        assert!(!look(true, 1, 0) && !look(true, 1, 99), "too early");
        assert!(look(true, 1, 100));
        assert!(!look(true, 2, 200) && !look(true, 2, 299), "it had moved");
        assert!(!look(false, 2, 1000), "nothing outstanding");
        assert!(!look(true, 2, 1001) && !look(true, 2, 1100) && look(true, 2, 1101));
    }

    /// Looks come a few times in `stall`, and never without one.
    #[test]
    fn looks_are_few() {
        let mut looks = Looks::every(Some(Duration::from_nanos(100)));
        assert!(looks.is_due(7));
        looks.looked(7);
        assert_eq!((looks.is_due(31), looks.is_due(32), looks.next()), (false, true, Some(32)));
        let never = Looks::every(None);
        assert_eq!((never.is_due(Nanos::MAX), never.next()), (false, None));
    }
}
