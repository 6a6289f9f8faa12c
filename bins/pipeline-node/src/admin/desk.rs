//! What answers are made of: the node's tables and figures, without what keeps it running. With the last handle to an engine
//! its control thread is joined, and that is the thread which answers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pipeline_configs::Config;
use pipeline_stages::World;

use crate::observation::{Observation, Observer};

/// Who asks so soon after somebody else is told of the same look: questions in a loop cost the control thread no more looks
/// than this lets them.
const FRESH: Duration = Duration::from_millis(10);

/// See the head of the file.
pub(crate) struct Desk {
    pub(super) observer: Observer,
    pub(super) config: Arc<Config>,
    last: Mutex<Option<Look>>,
}

/// A look at the node, and when it began.
#[derive(Clone)]
pub(super) struct Look {
    pub(super) at: Instant,
    pub(super) seen: Arc<Observation>,
}

impl Desk {
    pub(crate) fn new(observer: Observer, config: Arc<Config>) -> Self {
        Self { observer, config, last: Mutex::new(None) }
    }

    pub(super) fn world(&self) -> &Arc<World> {
        &self.observer.world
    }

    /// A look at the node, just taken or a moment ago.
    pub(super) fn look(&self) -> Look {
        let now = Instant::now();
        self.look_after(now.checked_sub(FRESH).unwrap_or(now))
    }

    /// One that began at this moment or later.
    pub(super) fn look_after(&self, moment: Instant) -> Look {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(look) = &*last
            && look.at >= moment
        {
            return look.clone();
        }
        let look = Look { at: Instant::now(), seen: Arc::new(self.observer.observe()) };
        *last = Some(look.clone());
        look
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Engine;

    /// Those who ask at once are told of one look, and nobody of one that is older than a moment, or than the end of the interval
    /// that was asked for.
    #[test]
    fn looks_are_shared_for_a_moment() {
        let engine = Engine::from_toml("version = 1\nuse = \"tcp\"\n").unwrap();
        let desk = Desk::new(engine.observer(), engine.inner.config.clone());
        let first = desk.look();
        let is_first = |look: Look| Arc::ptr_eq(&look.seen, &first.seen);
        assert!(is_first(desk.look_after(first.at)));
        assert!(is_first(desk.look()) || first.at.elapsed() > FRESH);
        let (asked, end) = (Instant::now(), desk.look_after(first.at + Duration::from_nanos(1)));
        assert!(end.at >= asked && end.seen.graph.at > first.seen.graph.at);
        std::thread::sleep(FRESH);
        assert!(desk.look().at > end.at);
    }
}
