//! Nodes that are watched, for whole-product tests: which thread runs which stage, for which keys, and works which links.
//! Compiled with the feature `faults` only, which no released binary has; deliberately with a lock at each note, so that
//! nothing is measured here but who does what.
//!
//! ```
//! use pipeline_node::watch::{self, Watch};
//! use pipeline_node::{Error, Source};
//!
//! let watch = Watch::default();
//! let engine = watch::start(&Source::text("test", "version = 1\nuse = \"tcp\"\n"), &watch)?;
//! assert!(watch.threads("post").is_empty(), "nothing was posted yet");
//! # drop(engine);
//! # Ok::<(), Error>(())
//! ```

mod links;
mod stages;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use pipeline_graph::Spec;
use pipeline_stages::Key;
use pipeline_transports::{LinkId, Transport};

use crate::assemble::Wrap;
use crate::engine::Engine;
use crate::error::Error;
use crate::source::Source;

/// How long a stage that is held may stop its worker: a test that has failed must not hang.
const HELD_MAX: Duration = Duration::from_secs(60);

/// What was seen. Cheap to clone: all clones are one.
#[derive(Clone, Default)]
pub struct Watch(Arc<Shared>);

#[derive(Default)]
struct Shared {
    seen: Mutex<Seen>,
    let_go: Condvar,
}

#[derive(Default)]
struct Seen {
    /// Items by stage, thread, and key and rank of `dispatch = "hash"`.
    runs: HashMap<(String, ThreadId, (u64, u64)), u64>,
    /// Threads by stage that found something in a poll.
    polls: HashSet<(String, ThreadId)>,
    /// Links by threads that posted on them.
    posts: HashSet<(LinkId, ThreadId)>,
    /// Links by threads that reaped of them.
    reaps: HashSet<(LinkId, ThreadId)>,
    held: HashSet<String>,
}

impl Watch {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Threads that have run a stage on items, or found something in its poll.
    pub fn threads(&self, stage: &str) -> HashSet<ThreadId> {
        let seen = self.seen();
        let runs = seen.runs.keys().filter(|(name, ..)| name == stage).map(|(_, thread, _)| *thread);
        let polls = seen.polls.iter().filter(|(name, _)| name == stage).map(|(_, thread)| *thread);
        runs.chain(polls).collect()
    }

    /// Items that a stage has taken, by thread, and by key and rank: what `dispatch = "hash"` deals out by.
    pub fn items(&self, stage: &str) -> Vec<(ThreadId, (u64, u64), u64)> {
        let seen = self.seen();
        let of = seen.runs.iter().filter(|((name, ..), _)| name == stage);
        of.map(|((_, thread, key), items)| (*thread, *key, *items)).collect()
    }

    /// Links by the threads that have posted on them.
    pub fn posters(&self) -> HashSet<(LinkId, ThreadId)> {
        self.seen().posts.clone()
    }

    /// Links by the threads that have reaped their completions.
    pub fn reapers(&self) -> HashSet<(LinkId, ThreadId)> {
        self.seen().reaps.clone()
    }

    /// Stops a stage: each of its workers stops before its next batch or look, as in a stage that takes very long.
    pub fn hold(&self, stage: &str) {
        self.seen().held.insert(stage.to_owned());
    }

    /// Lets it go on.
    pub fn let_go(&self, stage: &str) {
        self.seen().held.remove(stage);
        self.0.let_go.notify_all();
    }

    fn pass(&self, stage: &str) {
        let seen = self.seen();
        let held = |seen: &mut Seen| seen.held.contains(stage);
        let passed = self.0.let_go.wait_timeout_while(seen, HELD_MAX, held);
        drop(passed.unwrap_or_else(PoisonError::into_inner));
    }
}

/// As [`Engine::from_source`], watched.
///
/// # Errors
/// As there.
pub fn start(source: &Source, watch: &Watch) -> Result<Engine, Error> {
    let loaded = source.load().map_err(Error::Config)?;
    loaded.runnable().map_err(Error::Config)?;
    let stage = |name: &str, inner: Arc<dyn Spec<Key>>| -> Arc<dyn Spec<Key>> {
        Arc::new(stages::Watched { inner, name: name.to_owned(), watch: watch.clone() })
    };
    let transport = |_: &str, inner: Arc<dyn Transport>| -> Arc<dyn Transport> {
        Arc::new(links::Watched { inner, watch: watch.clone() })
    };
    Engine::start_wrapped(loaded.config, Wrap { transport: &transport, stage: &stage })
}
