//! `--work` and what belongs to it, the same for every command that measures files: `sweep`, `latency`, `trace:FILE`, `record:FILE`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use pipeline_configs::suggest;

use crate::cli::load::Direction;

/// What is done, and measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// One request of 4KiB at a time, then batches of 4KiB, 64KiB and 1MiB.
    Sweep,
    /// One request of 4KiB at a time, and nothing else.
    Latency,
    /// A trace of a KV cache, replayed as fast as the file lets it; one that is made, where none is named.
    Trace(Option<PathBuf>),
    /// A record of what was submitted, played as fast as the file lets it.
    Record(PathBuf),
}

impl Work {
    /// As the option spells it.
    ///
    /// # Errors
    /// What may be written.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, file) = text.split_once(':').map_or((text, None), |(name, file)| (name, Some(file)));
        match (name, file) {
            ("sweep", None) => Ok(Self::Sweep),
            ("latency", None) => Ok(Self::Latency),
            ("trace", None) => Ok(Self::Trace(None)),
            ("trace", Some("")) => Err("name the file behind the colon: trace:FILE".into()),
            ("trace", Some(file)) => Ok(Self::Trace(Some(file.into()))),
            ("record", Some(file)) if !file.is_empty() => Ok(Self::Record(file.into())),
            ("record", _) => {
                Err("name the file behind a colon: record:FILE, as `bench --record FILE` makes it".into())
            }
            ("sweep" | "latency", Some(_)) => Err(format!("`{name}` takes no file")),
            _ => {
                let known = ["sweep", "latency", "trace", "record"];
                let near = suggest::nearest(name, known).map(|near| format!(": did you mean {near}?"));
                let near = near.unwrap_or_default();
                Err(format!(
                    "there is no work `{name}`{near} There are sweep, latency, trace:FILE and record:FILE"
                ))
            }
        }
    }
}

/// The work and its shape.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct WorkArgs {
    /// What is done: `sweep` (one request of 4KiB at a time, then batches of 4KiB, 64KiB and 1MiB), `latency` (one request of
    /// 4KiB at a time), `trace` (a trace of a KV cache, as fast as possible), `trace:FILE`, or `record:FILE` (what was submitted,
    /// as kept by `bench --record`, as fast as possible) [default: sweep].
    #[arg(long, value_name = "WORK", value_parser = Work::parse)]
    pub work: Option<Work>,
    /// Direction of sweep and latency [default: write].
    #[arg(long, value_enum)]
    pub op: Option<Direction>,
    /// Requests of a batch [default: 64, of a trace: 16].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub batch: Option<u64>,
    /// Batches in flight; requests of a trace that are open at a time [default: 4, of a trace or a record: 64].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub depth: Option<u64>,
    /// The trace, as for `bench --trace`: the same as --work trace:FILE. Without a file one is made.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Its first N requests [default: 500 of a file, all of one that is made].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
}

impl WorkArgs {
    /// What to do.
    pub fn work(&self) -> Work {
        match (&self.work, &self.trace) {
            (None | Some(Work::Trace(None)), Some(file)) => Work::Trace(Some(file.clone())),
            (Some(work), _) => work.clone(),
            (None, None) => Work::Sweep,
        }
    }

    /// Whether that is a trace.
    pub fn is_trace(&self) -> bool {
        matches!(self.work(), Work::Trace(_))
    }

    /// Whether that is a record.
    fn is_record(&self) -> bool {
        matches!(self.work(), Work::Record(_))
    }

    /// Direction.
    pub fn op(&self) -> Direction {
        self.op.unwrap_or(Direction::Write)
    }

    /// What was asked for and means nothing for this work, with what to do.
    pub fn without_meaning(&self) -> Option<&'static str> {
        let (work, is_trace) = (self.work(), self.is_trace());
        if !is_trace && self.trace.is_some() {
            return Some("--trace is for --work trace; leave one of the two out");
        }
        if matches!(self.work, Some(Work::Trace(Some(_)))) && self.trace.is_some() {
            return Some("--trace and --work trace:FILE both name a trace; leave one of the two out");
        }
        if !is_trace && self.limit.is_some() {
            return Some("--limit counts requests of a trace; add --work trace, or leave it out");
        }
        if is_trace && self.op.is_some() {
            return Some(
                "--op is for sweep and latency: a trace says itself what is read and written; leave it out",
            );
        }
        if self.is_record() && (self.op.is_some() || self.batch.is_some()) {
            return Some("--op and --batch are in the record already; leave them out");
        }
        if work == Work::Latency && (self.batch.is_some() || self.depth.is_some()) {
            return Some(
                "--batch and --depth are for sweep and trace: latency is one request at a time; leave them out",
            );
        }
        None
    }

    /// Requests of a batch.
    pub fn batch(&self) -> u64 {
        self.batch.unwrap_or(if self.is_trace() { 16 } else { 64 })
    }

    /// Batches, or requests of a trace, at a time.
    pub fn depth(&self) -> u64 {
        self.depth.unwrap_or(if self.is_trace() || self.is_record() { 64 } else { 4 })
    }
}

/// Seconds of a cell.
///
/// # Errors
/// What may be written.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(s) if (0.01..=600.0).contains(&s) => Ok(s),
        _ => Err("a number of seconds from 0.01 to 600".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(words: &[&str]) -> WorkArgs {
        use clap::{Command, FromArgMatches as _};
        let command = WorkArgs::augment_args(Command::new("x"));
        let matches = command.try_get_matches_from([&["x"][..], words].concat()).unwrap();
        WorkArgs::from_arg_matches(&matches).unwrap()
    }

    /// Work is named as documented; what is none says what there is, and what is nearly one is asked for.
    #[test]
    fn work_is_named() {
        assert_eq!(Work::parse("sweep"), Ok(Work::Sweep));
        assert_eq!(Work::parse("trace:a:b.jsonl"), Ok(Work::Trace(Some("a:b.jsonl".into()))));
        assert!(Work::parse("seep").unwrap_err().contains("did you mean sweep?"));
        assert_eq!(Work::parse("record:r.jsonl"), Ok(Work::Record("r.jsonl".into())));
        for wrong in ["", "trace:", "latency:x", "bench", "record", "record:"] {
            assert!(Work::parse(wrong).is_err(), "{wrong}");
        }
        let trace = Work::Trace(Some("x".into()));
        let same = [&["--trace", "x"][..], &["--work", "trace:x"], &["--work", "trace", "--trace", "x"]];
        assert!(
            same.iter().all(|words| args(words).work() == trace && args(words).without_meaning().is_none())
        );
    }

    /// What means nothing for the work is refused by name; what means something is taken, the defaults always.
    #[test]
    fn options_belong_to_their_work() {
        for (words, option) in [
            (&["--limit", "3"][..], "--limit"),
            (&["--work", "latency", "--limit", "3"], "--limit"),
            (&["--work", "sweep", "--trace", "x"], "--trace"),
            (&["--work", "trace:y", "--trace", "x"], "--trace"),
            (&["--work", "trace", "--op", "write"], "--op"),
            (&["--trace", "x", "--op", "read"], "--op"),
            (&["--work", "latency", "--batch", "2"], "--batch"),
            (&["--work", "record:x", "--batch", "2"], "--batch"),
            (&["--work", "record:x", "--op", "read"], "--op"),
            (&["--work", "record:x", "--limit", "2"], "--limit"),
            (&["--work", "latency", "--depth", "2"], "--depth"),
        ] {
            let why = args(words).without_meaning();
            assert!(
                why.is_some_and(|why| why.starts_with(option) || why.contains(option)),
                "{words:?}: {why:?}"
            );
        }
        for words in [
            &[][..],
            &["--batch", "2", "--depth", "3", "--op", "read"],
            &["--work", "latency", "--op", "read"],
            &["--work", "trace", "--limit", "3", "--batch", "2", "--depth", "3"],
            &["--trace", "x", "--limit", "3"],
            &["--work", "record:x", "--depth", "3"],
        ] {
            assert_eq!(args(words).without_meaning(), None, "{words:?}");
        }
    }

    /// Seconds are bounded, so that what is told beforehand holds.
    #[test]
    fn seconds_are_bounded() {
        assert_eq!(seconds("0.3"), Ok(0.3));
        assert!(["0", "601", "x", "nan", "-1"].iter().all(|wrong| seconds(wrong).is_err()));
    }
}
