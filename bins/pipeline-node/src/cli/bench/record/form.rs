//! The form of a record of submissions, as [`pipeline_node::Engine::record_to`] writes it (docs/records.md).
//! Deliberately strict: a record that is damaged would be replayed as something that never was.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::ops::Range;
use std::path::Path;

use pipeline_node::recording::{RUNS_MAX, VERSION};
use serde::Deserialize;

use crate::cli::load::Direction;

/// Bytes of a line, at most.
const LINE_MAX: u64 = 32 << 20;
/// Requests of a batch, bytes of a request, peers, and bytes of a peer's label, at most.
const REQUESTS_MAX: u64 = 1 << 24;
const BYTES_MAX: u64 = 1 << 50;
const PEERS_MAX: usize = 4096;
const LABEL_MAX: usize = 255;
/// From the first batch to the last, at most: thirty years.
const TIME_MAX_NS: u64 = 1_000_000_000_000_000_000;

/// Why a record was not taken.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file cannot be read.
    #[error("{name}: {error}")]
    Unreadable {
        /// The file.
        name: String,
        /// The system's reason.
        error: std::io::Error,
    },
    /// A line makes no sense.
    #[error("{name}:{line}: {what}")]
    Nonsense {
        /// The file.
        name: String,
        /// From 1.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
    /// There is nothing in it.
    #[error("{name}: no batch in it; `bench --record` and `Engine::record_to` make records")]
    Empty {
        /// The file.
        name: String,
    },
}

/// Requests of a batch that follow each other and are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Direction.
    pub op: Direction,
    /// Index in [`Record::peers`].
    pub peer: u32,
    /// Bytes of a request.
    pub bytes: u64,
    /// Rows it lies in.
    pub rows: u32,
    /// How many of them.
    pub times: u32,
}

/// Requests that were submitted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// When, nanoseconds after the record began.
    pub at_ns: u64,
    /// How many requests.
    pub requests: u64,
    /// Bytes of all.
    pub bytes: u64,
    runs: Range<usize>,
}

/// A whole record.
#[derive(Debug, Default)]
pub struct Record {
    /// In the order in which they were submitted.
    pub batches: Vec<Batch>,
    /// Labels of peers, in the order in which they first occur.
    pub peers: Vec<String>,
    /// Batches that were submitted and are not in it.
    pub dropped: u64,
    /// Whether it has its last line: else whoever made it was cut off.
    pub is_whole: bool,
    runs: Vec<Run>,
}

impl Record {
    /// Reads a file.
    ///
    /// # Errors
    /// [`RecordError`], which names the file and the line.
    pub fn read(path: &Path) -> Result<Self, RecordError> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Self::parse(BufReader::with_capacity(1 << 20, file), &name),
            Err(error) => Err(RecordError::Unreadable { name, error }),
        }
    }

    /// As [`Self::read`], from anything; `name` is for messages.
    ///
    /// # Errors
    /// As there.
    pub fn parse(mut source: impl BufRead, name: &str) -> Result<Self, RecordError> {
        let (mut reader, mut text, mut line) = (Reader::default(), Vec::new(), 0);
        loop {
            text.clear();
            let read = source.by_ref().take(LINE_MAX + 1).read_until(b'\n', &mut text);
            let read = read.map_err(|error| RecordError::Unreadable { name: name.into(), error })?;
            if read == 0 {
                break;
            }
            line += 1;
            if text.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let taken = reader.line(&text);
            taken.map_err(|what| RecordError::Nonsense { name: name.into(), line, what })?;
        }
        if reader.record.batches.is_empty() {
            return Err(RecordError::Empty { name: name.into() });
        }
        Ok(reader.record)
    }

    /// Requests of a batch, in their order.
    pub fn runs(&self, batch: usize) -> &[Run] {
        &self.runs[self.batches[batch].runs.clone()]
    }

    /// Requests of all batches.
    pub fn requests(&self) -> u64 {
        self.batches.iter().map(|batch| batch.requests).sum()
    }

    /// Bytes of all batches.
    pub fn bytes(&self) -> u64 {
        self.batches.iter().map(|batch| batch.bytes).sum()
    }

    /// From the beginning to the last batch.
    pub fn span_ns(&self) -> u64 {
        self.batches.last().map_or(0, |batch| batch.at_ns)
    }

    /// `read`, `write`, or `mixed`.
    pub fn op(&self) -> &'static str {
        let first = self.runs.first().map_or(Direction::Write, |run| run.op);
        if self.runs.iter().all(|run| run.op == first) { first.name() } else { "mixed" }
    }
}

/// Any line: which keys it has says what it is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    pipeline_node_record: Option<u64>,
    gap_ns: Option<u64>,
    dropped: Option<u64>,
    #[serde(borrow)]
    requests: Option<Vec<RunLine<'a>>>,
    end: Option<End>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunLine<'a> {
    op: &'a str,
    peer: &'a str,
    bytes: u64,
    #[serde(default = "one")]
    rows: u64,
    #[serde(default = "one")]
    times: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    batches: u64,
    requests: u64,
    dropped: u64,
}

fn one() -> u64 {
    1
}

#[derive(Default)]
struct Reader {
    record: Record,
    numbers: HashMap<String, u32>,
    has_begun: bool,
    requests: u64,
    bytes: u64,
}

impl Reader {
    fn line(&mut self, text: &[u8]) -> Result<(), String> {
        if text.len() as u64 > LINE_MAX {
            return Err(format!("a line of more than {} MiB", LINE_MAX >> 20));
        }
        if !text.ends_with(b"\n") {
            return Err("the line is cut off; take it out to replay what is before it".into());
        }
        if !text.trim_ascii_start().starts_with(b"{") {
            return Err("no JSON object".into());
        }
        let line: Line<'_> = serde_json::from_slice(text.trim_ascii_end()).map_err(|e| not_a_line(&e))?;
        if self.record.is_whole {
            return Err("something behind the end".into());
        }
        match line {
            Line {
                pipeline_node_record: Some(version),
                gap_ns: None,
                dropped: None,
                requests: None,
                end: None,
            } => self.head(version),
            _ if !self.has_begun => {
                Err(format!("no record: the first line is {{\"pipeline_node_record\":{VERSION}}}"))
            }
            Line {
                pipeline_node_record: None,
                gap_ns: Some(gap_ns),
                dropped,
                requests: Some(requests),
                end: None,
            } => self.batch(gap_ns, dropped.unwrap_or(0), &requests),
            Line {
                pipeline_node_record: None,
                gap_ns: None,
                dropped: None,
                requests: None,
                end: Some(end),
            } => self.end(&end),
            _ => Err("neither a batch (`gap_ns` and `requests`) nor the `end`".into()),
        }
    }

    fn head(&mut self, version: u64) -> Result<(), String> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Err("a second beginning: two records in one file; split it here".into());
        }
        match version == u64::from(VERSION) {
            true => Ok(()),
            false => Err(format!("a record of version {version}; this program reads version {VERSION}")),
        }
    }

    fn batch(&mut self, gap_ns: u64, dropped: u64, requests: &[RunLine<'_>]) -> Result<(), String> {
        let at_ns = self.record.span_ns().checked_add(gap_ns).filter(|at| *at <= TIME_MAX_NS);
        let at_ns = at_ns.ok_or_else(|| format!("`gap_ns` {gap_ns} leads beyond thirty years"))?;
        let start = self.record.runs.len();
        if (start + requests.len()) as u64 > RUNS_MAX {
            return Err(format!("more than {RUNS_MAX} entries up to here"));
        }
        let (mut all, mut bytes) = (0_u64, 0_u64);
        for (i, line) in requests.iter().enumerate() {
            let run = self.run(line).map_err(|what| format!("requests[{i}]: {what}"))?;
            all += u64::from(run.times);
            bytes = run
                .bytes
                .checked_mul(u64::from(run.times))
                .and_then(|b| bytes.checked_add(b))
                .ok_or("the bytes are beyond 64 bits")?;
            self.record.runs.push(run);
        }
        if !(1..=REQUESTS_MAX).contains(&all) {
            return Err(format!("a batch of {all} requests: 1 to {REQUESTS_MAX} are wanted"));
        }
        // Sums of all batches are asked for again and again: they fit.
        let total = self.bytes.checked_add(bytes).ok_or("the bytes of all batches are beyond 64 bits")?;
        (self.requests, self.bytes) = (self.requests + all, total);
        self.record.dropped = self.record.dropped.saturating_add(dropped);
        let runs = start..self.record.runs.len();
        self.record.batches.push(Batch { at_ns, requests: all, bytes, runs });
        Ok(())
    }

    fn run(&mut self, line: &RunLine<'_>) -> Result<Run, String> {
        let within = |name: &str, value: u64, most: u64| match (1..=most).contains(&value) {
            true => Ok(value),
            false => Err(format!("`{name}` is {value}: 1 to {most} are wanted")),
        };
        let op = match line.op {
            "read" => Direction::Read,
            "write" => Direction::Write,
            _ => return Err("`op` is `read` or `write`".into()),
        };
        let bytes = within("bytes", line.bytes, BYTES_MAX)?;
        let rows = within("rows", line.rows, u64::from(u32::MAX))? as u32;
        if !bytes.is_multiple_of(u64::from(rows)) {
            return Err(format!("{bytes} bytes cannot lie in {rows} equal rows"));
        }
        let times = within("times", line.times, REQUESTS_MAX)? as u32;
        Ok(Run { op, peer: self.peer(line.peer)?, bytes, rows, times })
    }

    fn peer(&mut self, label: &str) -> Result<u32, String> {
        if let Some(number) = self.numbers.get(label) {
            return Ok(*number);
        }
        // It is printed, and names nothing but itself.
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"._-#".contains(&b);
        if label.is_empty() || label.len() > LABEL_MAX || !label.bytes().all(is_plain) {
            return Err(format!("`peer` is no name of 1 to {LABEL_MAX} letters, digits and . _ - #"));
        }
        if self.record.peers.len() >= PEERS_MAX {
            return Err(format!("more than {PEERS_MAX} peers"));
        }
        let number = self.record.peers.len() as u32;
        self.numbers.insert(label.to_owned(), number);
        self.record.peers.push(label.to_owned());
        Ok(number)
    }

    fn end(&mut self, end: &End) -> Result<(), String> {
        let there = (self.record.batches.len() as u64, self.requests);
        if (end.batches, end.requests) != there {
            let End { batches, requests, .. } = end;
            return Err(format!(
                "the end speaks of {batches} batches with {requests} requests, and there are {} with {}: lines are missing",
                there.0, there.1
            ));
        }
        if end.dropped < self.record.dropped {
            let (dropped, said) = (end.dropped, self.record.dropped);
            return Err(format!(
                "the end speaks of {dropped} batches that were dropped, and a line before it of {said}"
            ));
        }
        self.record.is_whole = true;
        self.record.dropped = end.dropped;
        Ok(())
    }
}

fn not_a_line(error: &serde_json::Error) -> String {
    // Its line is always 1: we count them.
    let what = error.to_string();
    let what = what.split(" at line ").next().unwrap_or_default();
    format!("column {}: {what}", error.column())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::draw::Draw;

    const GOOD: &str = r#"{"pipeline_node_record":1}
{"gap_ns":1000,"requests":[{"op":"write","peer":"kv-0","bytes":65536,"times":16}]}
{"gap_ns":0,"dropped":3,"requests":[{"op":"read","peer":"peer#1","bytes":4096},{"op":"write","peer":"kv-0","bytes":96,"rows":3}]}

{"end":{"batches":2,"requests":18,"dropped":3}}
    "#;

    fn parse(text: &[u8]) -> Result<Record, RecordError> {
        Record::parse(text, "r.jsonl")
    }

    /// What a good record says is what is read: times add up, peers are numbered as they come, equal requests count each.
    #[test]
    fn a_good_record() {
        let record = parse(GOOD.as_bytes()).unwrap();
        assert_eq!(record.peers, ["kv-0", "peer#1"]);
        let batches: Vec<_> = record.batches.iter().map(|b| (b.at_ns, b.requests, b.bytes)).collect();
        assert_eq!(batches, [(1000, 16, 16 * 65536), (1000, 2, 4192)]);
        assert_eq!(record.runs(1)[1], Run { op: Direction::Write, peer: 0, bytes: 96, rows: 3, times: 1 });
        assert_eq!((record.dropped, record.is_whole, record.op()), (3, true, "mixed"));
        assert_eq!((record.requests(), record.bytes(), record.span_ns()), (18, 16 * 65536 + 4192, 1000));
        let cut: String = GOOD.lines().take(2).map(|line| format!("{line}\n")).collect();
        let record = parse(cut.as_bytes()).unwrap();
        assert!(!record.is_whole && record.op() == "write");
    }

    /// Each kind of nonsense is refused with the file, the line and what is wrong.
    #[test]
    fn nonsense_is_named() {
        let batch = GOOD.lines().nth(1).unwrap();
        let cases = [
            ("{", "column 1: EOF"),
            ("[1]", "no JSON object"),
            ("{}", "neither a batch"),
            (r#"{"pipeline_node_record":1}"#, "two records in one file"),
            (&batch.replace("1000", "-1"), "integer `-1`"),
            (&batch.replace("1000", "1.5"), "floating point `1.5`"),
            (&batch.replace("1000", "1000000000000000001"), "beyond thirty years"),
            (&batch.replace("write", "push"), "requests[0]: `op` is"),
            (&batch.replace("65536", "0"), "`bytes` is 0"),
            (&batch.replace("65536", "9999999999999999"), "`bytes` is 9999999999999999"),
            (&batch.replace("\"times\":16", "\"rows\":7"), "cannot lie in 7 equal rows"),
            (&batch.replace("16}", "0}"), "`times` is 0"),
            (&batch.replace("16}", "16777217}"), "`times` is 16777217"),
            (&batch.replace("kv-0", "a b"), "`peer` is no name"),
            (&batch.replace("kv-0", ""), "`peer` is no name"),
            (&batch.replace("gap_ns", "gap"), "unknown field `gap`"),
            (
                &batch.replace(
                    ",\"requests\"",
                    ",\"end\":{\"batches\":1,\"requests\":16,\"dropped\":0},\"requests\"",
                ),
                "neither a batch",
            ),
            (r#"{"gap_ns":1,"requests":[]}"#, "a batch of 0 requests"),
            (r#"{"end":{"batches":2,"requests":16,"dropped":0}}"#, "lines are missing"),
        ];
        for (bad, what) in cases {
            let text = format!("{{\"pipeline_node_record\":1}}\n{batch}\n\n{bad}\n");
            let error = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("r.jsonl:4: ") && error.contains(what), "{bad}: {error}");
        }
        for (text, says) in [
            (batch.to_owned() + "\n", ":1: no record: the first line is"),
            (
                "{\"pipeline_node_record\":2}\n".into(),
                ":1: a record of version 2; this program reads version 1",
            ),
            (format!("{GOOD}{batch}\n"), ":6: something behind the end"),
            (GOOD.trim_end().into(), ":5: the line is cut off"),
            (
                GOOD.replace("18,\"dropped\":3", "18,\"dropped\":2"),
                ":5: the end speaks of 2 batches that were dropped",
            ),
            (String::new(), ": no batch in it"),
            ("{\"pipeline_node_record\":1}\n".into(), ": no batch in it"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
        // Each batch of these fits 64 bits, and both together do not.
        let large = batch.replace("65536", "1125899906842624").replace("\"times\":16", "\"times\":16383");
        let text = format!("{{\"pipeline_node_record\":1}}\n{large}\n{large}\n");
        let error = parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(":3: the bytes of all batches are beyond 64 bits"), "{error}");
        assert!(matches!(Record::read(Path::new("/no/such/file")), Err(RecordError::Unreadable { .. })));
    }

    /// However a file is damaged (bytes changed, cut out, doubled), it is either refused with a place in it, or what is taken of it
    /// makes sense.
    #[test]
    fn damaged_files_are_refused_or_make_sense() {
        let (mut refused, mut taken) = (0, 0);
        for seed in 0..3000 {
            let mut draw = Draw::new(seed);
            let mut bytes = GOOD.as_bytes().to_vec();
            for _ in 0..1 + draw.below(3) {
                let at = draw.below(bytes.len() as u64) as usize;
                match draw.below(4) {
                    0 => bytes[at] = draw.below(256) as u8,
                    1 => bytes[at] = b"0123456789-e.,[]{}\":\n"[draw.below(21) as usize],
                    2 => drop(bytes.drain(at..(at + 1 + draw.below(30) as usize).min(bytes.len()))),
                    _ => bytes.extend_from_within(at..),
                }
                if bytes.is_empty() {
                    bytes.push(b' ');
                }
            }
            match parse(&bytes) {
                Ok(record) => {
                    taken += 1;
                    assert!(record.batches.windows(2).all(|w| w[0].at_ns <= w[1].at_ns));
                    let runs: Vec<_> = (0..record.batches.len()).flat_map(|b| record.runs(b)).collect();
                    assert!(runs.iter().all(|run| run.bytes > 0 && (run.peer as usize) < record.peers.len()));
                    assert_eq!(runs.iter().map(|run| u64::from(run.times)).sum::<u64>(), record.requests());
                }
                Err(RecordError::Nonsense { line, what, .. }) => {
                    refused += 1;
                    let lines = bytes.split(|b| *b == b'\n').count() as u64;
                    assert!((1..=lines).contains(&line) && !what.is_empty());
                }
                Err(error) => assert!(matches!(error, RecordError::Empty { .. }), "{error}"),
            }
        }
        assert!(refused > 500 && taken > 30, "{refused} refused, {taken} taken: both are tried");
    }
}
