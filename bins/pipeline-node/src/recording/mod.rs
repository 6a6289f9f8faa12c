//! A record of what an application submits: sizes, gaps, peers and batches, no payload and no addresses. `bench --replay` plays
//! it; its form is `docs/records.md`.
//!
//! Whoever submits puts a short note into a bounded buffer and goes on; every 20 ms the control thread has a thread of its pool
//! write them. A note for which there is no room is counted, and the record says where. Deliberately not what became of the
//! requests: a record is what was asked for, on a node that answered as it did.

mod note;
mod sink;

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pipeline_stages::client::Tap;
use pipeline_transports::clock;

use crate::engine::Engine;
use crate::error::Error;
use note::Notes;
use sink::Sink;

pub use sink::{RUNS_MAX, VERSION};

/// How often what was noted is written.
const EVERY: Duration = Duration::from_millis(20);

/// What a record has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Batches in it.
    pub batches: u64,
    /// Requests of those.
    pub requests: u64,
    /// Batches that are not in it: the buffer, or the record, was full.
    pub dropped: u64,
}

/// A record that is being made, of everything the application submits to its engine. Dropping it ends it as
/// [`Self::finish`] does, and says errors in the log.
pub struct Recording {
    tap: Arc<Tap>,
    shared: Arc<Shared>,
    is_finished: bool,
}

struct Shared {
    notes: Arc<Notes>,
    sink: Sink,
}

impl Shared {
    fn write(&self) {
        self.sink.write(&self.notes);
    }
}

impl Recording {
    /// Leaves out what is submitted until [`Self::resume`], and the time until then.
    pub fn pause(&self) {
        self.tap.set_open(false);
    }

    /// Goes on after [`Self::pause`]. The gap before the next batch begins now.
    pub fn resume(&self) {
        self.shared.write();
        self.shared.sink.begin(clock::now());
        self.tap.set_open(true);
    }

    /// Ends it: what was noted is written, with a last line that says how much there is.
    ///
    /// # Errors
    /// The first error of the writer; what came after it is not in the record.
    pub fn finish(mut self) -> io::Result<Recorded> {
        self.end()
    }

    fn end(&mut self) -> io::Result<Recorded> {
        self.is_finished = true;
        self.tap.detach();
        self.shared.write();
        self.shared.sink.end(self.shared.notes.take_lost())
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if !self.is_finished
            && let Err(error) = self.end()
        {
            tracing::warn!("the record of submissions is not complete: {error}");
        }
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording").finish_non_exhaustive()
    }
}

impl Engine {
    /// Records what is submitted to this engine from now on, through all of its clones, until the answer is dropped: sizes,
    /// gaps, peers and batches, in the form of `docs/records.md`. A peer is written by its name under `[peers]`; those that
    /// were opened by an address are `peer#0`, `peer#1`, and so on.
    ///
    /// It costs each submission a lock and a note of some 40 bytes for each run of equal requests, and nothing while nothing is
    /// recorded. `writer` is written to by another thread, which it should not block for long: what is submitted meanwhile
    /// is noted up to some MiB, then dropped and counted.
    ///
    /// ```
    /// use pipeline_node::{Engine, Options, Request};
    /// use std::time::Duration;
    ///
    /// let kv = "segments.kv = { kind = \"dram\", size = \"64KiB\", access = \"read_write\" }\n";
    /// let holder = Engine::from_toml(&format!("version = 1\nuse = \"tcp\"\n{kv}"))?;
    /// let engine = Engine::from_toml("version = 1\nuse = \"tcp\"\n")?;
    /// let page = engine.allocate(4096)?;
    /// let kv = engine.open(&holder.local_address().to_string())?.segment("kv")?;
    /// let file = std::env::temp_dir().join(format!("record-{}.jsonl", std::process::id()));
    ///
    /// let recording = engine.record_to_file(&file)?;
    /// engine.submit(&[Request::read(&page, 0, kv.at(0), 4096)], Options::default())?.wait(Duration::from_secs(10))?;
    /// assert_eq!(recording.finish()?.requests, 1);
    /// let record = std::fs::read_to_string(&file)?;
    /// assert!(record.contains(r##"{"op":"read","peer":"peer#0","bytes":4096}"##));
    /// # std::fs::remove_file(&file)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Recording`] while another record is being made.
    pub fn record_to(&self, writer: impl Write + Send + 'static) -> Result<Recording, Error> {
        self.record(|| Ok(Box::new(writer)))
    }

    /// As [`Self::record_to`], to a file, which is made or emptied.
    ///
    /// # Errors
    /// As there, and when the file cannot be made.
    pub fn record_to_file(&self, path: impl AsRef<Path>) -> Result<Recording, Error> {
        let path = path.as_ref();
        let failed = |e: io::Error| Error::Recording(format!("{}: {e}", path.display()));
        self.record(|| Ok(Box::new(File::create(path).map_err(failed)?)))
    }

    /// Opens what it writes to only when no other record is being made: that may be of the same file.
    fn record(
        &self,
        open: impl FnOnce() -> Result<Box<dyn Write + Send>, Error>,
    ) -> Result<Recording, Error> {
        self.here()?;
        let tap = self.inner.client.tap().clone();
        let notes = Arc::new(Notes::default());
        if !tap.attach(notes.clone()) {
            return Err(Error::Recording(
                "another record is being made of this engine; finish it first".into(),
            ));
        }
        let writer = open().inspect_err(|_| tap.detach())?;
        let names = self.config().peers.iter().map(|(name, _)| name.clone()).collect();
        let sink = Sink::new(writer, self.inner.world.clone(), names, clock::now());
        let shared = Arc::new(Shared { notes, sink });
        self.inner.control.spawn(keep_writing(Arc::downgrade(&shared)));
        tap.set_open(true);
        Ok(Recording { tap, shared, is_finished: false })
    }
}

async fn keep_writing(shared: Weak<Shared>) {
    loop {
        tokio::time::sleep(EVERY).await;
        let Some(shared) = shared.upgrade() else { return };
        // Disks may be slow, and control must not be.
        let _ = tokio::task::spawn_blocking(move || shared.write()).await;
    }
}
