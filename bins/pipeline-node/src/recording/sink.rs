//! Notes become lines. The form is `docs/records.md`; whoever reads it is `cli/bench/record/form.rs`.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pipeline_stages::World;
use pipeline_stages::peer::PeerId;
use pipeline_transports::{Nanos, Op};

use super::Recorded;
use super::note::{Note, Notes, Run};

/// Version of the form.
pub const VERSION: u32 = 1;
/// Runs of equal requests in a record, at most: whoever reads it keeps them in memory.
pub const RUNS_MAX: u64 = 1 << 24;

/// See the module.
pub(super) struct Sink {
    world: Arc<World>,
    /// Names under `[peers]`.
    names: Vec<String>,
    state: Mutex<State>,
}

struct State {
    out: BufWriter<Box<dyn Write + Send>>,
    line: String,
    /// The batch before this one, or when it began.
    last: Option<Nanos>,
    runs: u64,
    recorded: Recorded,
    /// What was dropped since the last line.
    dropped: u64,
    failed: Option<io::Error>,
}

impl Sink {
    pub(super) fn new(
        writer: Box<dyn Write + Send>,
        world: Arc<World>,
        names: Vec<String>,
        now: Nanos,
    ) -> Self {
        let mut out = BufWriter::with_capacity(256 << 10, writer);
        let failed = writeln!(out, "{{\"pipeline_node_record\":{VERSION}}}").err();
        let (recorded, last) = (Recorded::default(), Some(now));
        let state = State { out, line: String::new(), last, runs: 0, recorded, dropped: 0, failed };
        Self { world, names, state: Mutex::new(state) }
    }

    /// The gap before the next batch begins at this time.
    pub(super) fn begin(&self, at: Nanos) {
        self.lock().last = Some(at);
    }

    /// Writes what waits.
    pub(super) fn write(&self, notes: &Notes) {
        let mut state = self.lock();
        while let Some(note) = notes.pop() {
            state.note(&note, |peer| self.label(peer));
        }
        let flushed = state.out.flush();
        state.keep(flushed);
    }

    /// The last line, after `lost` batches more.
    pub(super) fn end(&self, lost: u64) -> io::Result<Recorded> {
        let mut state = self.lock();
        state.recorded.dropped += lost;
        let Recorded { batches, requests, dropped } = state.recorded;
        if state.failed.is_none() {
            let end = format!(
                "{{\"end\":{{\"batches\":{batches},\"requests\":{requests},\"dropped\":{dropped}}}}}\n"
            );
            let written = state.out.write_all(end.as_bytes()).and_then(|()| state.out.flush());
            state.keep(written);
        }
        state.failed.take().map_or(Ok(state.recorded), Err)
    }

    /// Its name under `[peers]`, or a number.
    fn label(&self, peer: PeerId) -> String {
        let label = self.world.peers.get(peer).map(|peer| peer.label.clone());
        label
            .filter(|label| self.names.iter().any(|name| **name == **label))
            .map_or_else(|| format!("peer#{}", peer.0), |l| l.to_string())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn note(&mut self, note: &Note, label: impl Fn(PeerId) -> String) {
        self.dropped += note.lost;
        self.recorded.dropped += note.lost;
        if self.failed.is_some() || self.runs + note.runs.len() as u64 > RUNS_MAX {
            self.dropped += 1;
            self.recorded.dropped += 1;
            return;
        }
        let gap_ns = note.at.saturating_sub(self.last.unwrap_or(note.at));
        // Threads that submit at the same time may tell of it in another order.
        self.last = Some(self.last.map_or(note.at, |last| last.max(note.at)));
        self.line.clear();
        let _ = write!(self.line, "{{\"gap_ns\":{gap_ns},");
        if self.dropped > 0 {
            let _ = write!(self.line, "\"dropped\":{},", self.dropped);
        }
        self.line.push_str("\"requests\":[");
        for (i, run) in note.runs.iter().enumerate() {
            self.line.push_str(if i == 0 { "" } else { "," });
            push_run(&mut self.line, run, &label(run.peer));
        }
        self.line.push_str("]}\n");
        self.dropped = 0;
        self.runs += note.runs.len() as u64;
        self.recorded.batches += 1;
        self.recorded.requests += note.runs.iter().map(|run| u64::from(run.times)).sum::<u64>();
        let written = self.out.write_all(self.line.as_bytes());
        self.keep(written);
    }

    fn keep(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }
}

fn push_run(line: &mut String, run: &Run, label: &str) {
    let op = match run.op {
        Op::Read => "read",
        Op::Write => "write",
    };
    // Labels are names, which need no escape.
    let _ = write!(line, "{{\"op\":\"{op}\",\"peer\":\"{label}\",\"bytes\":{}", run.bytes);
    for (key, n) in [("rows", run.rows), ("times", run.times)] {
        if n > 1 {
            let _ = write!(line, ",\"{key}\":{n}");
        }
    }
    line.push('}');
}
