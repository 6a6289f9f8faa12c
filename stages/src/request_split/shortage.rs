//! How long a cutter finds no window: told to the windows, so that others give up what they keep, and counted, so that a
//! reader sees whether it is the windows that hold a node back.

use pipeline_graph::Nanos;

use crate::window::Window;

/// How much of it is told late, at most, while the worker runs.
const NOTED_NS: Nanos = 1_000_000;

/// One cutter's.
#[derive(Default)]
pub(super) struct Shortage {
    /// Since when it has not been counted; `None` while there is none.
    since: Option<Nanos>,
}

impl Shortage {
    /// The last turn has found no window for somebody, or has. A spinning worker looks without end while it is short: then the
    /// time is counted now and then.
    pub(super) fn note(&mut self, window: &Window, starved: bool, now: Nanos) {
        match (self.since, starved) {
            (Some(since), true) if now.saturating_sub(since) < NOTED_NS => {}
            (Some(since), _) => {
                window.was_short(now.saturating_sub(since));
                self.since = starved.then_some(now);
                if !starved {
                    window.say_short(false);
                }
            }
            (None, true) => {
                self.since = Some(now);
                window.say_short(true);
            }
            (None, false) => {}
        }
    }

    /// The cutter goes.
    pub(super) fn end(&mut self, window: &Window) {
        if self.since.take().is_some() {
            window.say_short(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time without window is counted from the look that found none to the one that found some, and now and then meanwhile;
    /// the windows know of it all the while, and not longer than the cutter lives.
    #[test]
    fn counts_time_without_window() {
        let (window, mut shortage) = (Window::new(1, 1, 100, 1), Shortage::default());
        let mut at = |now, starved| {
            shortage.note(&window, starved, now);
            (window.short_ns(), window.is_short())
        };
        assert_eq!(at(5, false), (0, false));
        assert_eq!([at(10, true), at(20, true)], [(0, true); 2]);
        assert_eq!([at(110, false), at(120, false)], [(100, false); 2]);
        assert_eq!(at(200, true), (100, true));
        assert_eq!(at(200 + NOTED_NS, true), (100 + NOTED_NS, true));
        shortage.end(&window);
        assert!(!window.is_short());
    }
}
