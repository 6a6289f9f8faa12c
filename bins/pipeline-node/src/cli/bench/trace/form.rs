//! The form of a trace: one JSON object a line, as published with Mooncake's traces (docs/traces.md).
//! Deliberately strict: a replay of a trace that makes no sense would measure nothing. Other fields are ignored.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::ops::Range;
use std::path::Path;

use serde_json::{Map, Value};

/// Bytes of a line, at most.
const LINE_MAX: u64 = 16 << 20;
/// Blocks of all requests, at most: they are kept in memory.
const BLOCKS_MAX: usize = 1 << 28;
/// Tokens of a request, at most.
const TOKENS_MAX: u64 = 1 << 32;
/// The latest time, milliseconds: over thirty years.
const TIME_MAX_MS: f64 = 1e12;

/// Why a trace was not taken.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
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
    #[error("{name}: no request in it; a trace has one JSON object a line")]
    Empty {
        /// The file.
        name: String,
    },
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When it comes, nanoseconds after the first one.
    pub at_ns: u64,
    /// Where it stands in the file, from 1.
    pub line: u64,
    /// Different blocks it has.
    pub distinct: u32,
    blocks: Range<usize>,
}

/// A whole trace. Blocks are numbered from 0 in the order in which they first occur.
#[derive(Debug, Default)]
pub struct Trace {
    /// In the order of the file, which is that of time.
    pub entries: Vec<Entry>,
    /// By block: the id it has in the file.
    pub ids: Vec<u64>,
    /// Tokens of all inputs.
    pub input_tokens: u64,
    blocks: Vec<u32>,
}

impl Trace {
    /// Reads a file: all of it, or its first `limit` requests.
    ///
    /// # Errors
    /// [`TraceError`], which names the file and the line.
    pub fn read(path: &Path, limit: Option<u64>, block_tokens: u64) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Self::parse(BufReader::with_capacity(1 << 20, file), &name, limit, block_tokens),
            Err(error) => Err(TraceError::Unreadable { name, error }),
        }
    }

    /// As [`Self::read`], from anything; `name` is for messages.
    ///
    /// # Errors
    /// As there.
    pub fn parse(
        mut source: impl BufRead,
        name: &str,
        limit: Option<u64>,
        block_tokens: u64,
    ) -> Result<Self, TraceError> {
        let mut reader = Reader { block_tokens, ..Reader::default() };
        let (mut text, mut line) = (Vec::new(), 0);
        while limit.is_none_or(|limit| (reader.trace.entries.len() as u64) < limit) {
            text.clear();
            let read = source.by_ref().take(LINE_MAX + 1).read_until(b'\n', &mut text);
            let read = read.map_err(|error| TraceError::Unreadable { name: name.into(), error })?;
            if read == 0 {
                break;
            }
            line += 1;
            if text.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let taken = reader.line(&text, line);
            taken.map_err(|what| TraceError::Nonsense { name: name.into(), line, what })?;
        }
        if reader.trace.entries.is_empty() {
            return Err(TraceError::Empty { name: name.into() });
        }
        Ok(reader.trace)
    }

    /// Blocks of a request, in its order.
    pub fn blocks(&self, entry: usize) -> &[u32] {
        &self.blocks[self.entries[entry].blocks.clone()]
    }

    /// Blocks of all requests.
    pub fn asked(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Different blocks.
    pub fn distinct(&self) -> u32 {
        self.ids.len() as u32
    }

    /// Of all blocks asked for, the part that had occurred before: the hit rate of an endless cache, percent.
    pub fn seen_before_pct(&self) -> f64 {
        let all = self.asked().max(1) as f64;
        100.0 * (all - self.ids.len() as f64) / all
    }

    /// From the first request to the last, nanoseconds.
    pub fn span_ns(&self) -> u64 {
        self.entries.last().map_or(0, |entry| entry.at_ns)
    }
}

#[derive(Default)]
struct Reader {
    trace: Trace,
    numbers: HashMap<u64, u32>,
    /// By block: the last line that named it.
    named: Vec<u64>,
    block_tokens: u64,
    first_ms: Option<f64>,
    last_ms: f64,
}

impl Reader {
    fn line(&mut self, text: &[u8], line: u64) -> Result<(), String> {
        if text.len() as u64 > LINE_MAX {
            return Err(format!("a line of more than {} MiB", LINE_MAX >> 20));
        }
        let object: Map<String, Value> = serde_json::from_slice(text).map_err(|e| not_json(&e))?;
        let at_ms = self.time(&object)?;
        let tokens = length(&object, "input_length")?;
        length(&object, "output_length")?;
        let ids = self.ids(&object, tokens)?;
        let start = self.trace.blocks.len();
        if start + ids.len() > BLOCKS_MAX {
            return Err(format!("more than {BLOCKS_MAX} blocks up to here; take fewer requests by --limit"));
        }
        let mut distinct = 0;
        for (i, id) in ids.iter().enumerate() {
            let id = id.as_u64().ok_or_else(|| {
                format!("`hash_ids[{i}]` is {}: a whole number from 0 to 2^64-1 is wanted", short(id))
            })?;
            let block = self.number(id);
            if std::mem::replace(&mut self.named[block as usize], line) != line {
                distinct += 1;
            }
            self.trace.blocks.push(block);
        }
        let blocks = start..self.trace.blocks.len();
        let since_ms = at_ms - *self.first_ms.get_or_insert(at_ms);
        self.trace.input_tokens += tokens;
        self.trace.entries.push(Entry { at_ns: (since_ms * 1e6) as u64, line, distinct, blocks });
        Ok(())
    }

    fn time(&mut self, object: &Map<String, Value>) -> Result<f64, String> {
        let value = field(object, "timestamp")?;
        let at = value.as_f64().filter(|at| (0.0..=TIME_MAX_MS).contains(at));
        let at = at.ok_or_else(|| {
            format!("`timestamp` is {}: milliseconds from 0 to {TIME_MAX_MS:e} are wanted", short(value))
        })?;
        if at < self.last_ms {
            let last = self.last_ms;
            return Err(format!("`timestamp` goes back from {last} to {at}; sort the lines by time"));
        }
        self.last_ms = at;
        Ok(at)
    }

    /// The blocks of an input: all it fills, and the one it begins, if the file counts that one too.
    fn ids<'a>(&self, object: &'a Map<String, Value>, tokens: u64) -> Result<&'a [Value], String> {
        let value = field(object, "hash_ids")?;
        let ids = value.as_array().ok_or_else(|| format!("`hash_ids` is {}, no list", short(value)))?;
        let (full, size) = (tokens / self.block_tokens, self.block_tokens);
        let (n, most) = (ids.len() as u64, tokens.div_ceil(size));
        if n != full && n != most {
            return Err(format!(
                "`hash_ids` has {n} blocks and `input_length` is {tokens}, which are {most} of {size} tokens; \
                 --block-tokens says how many a block has"
            ));
        }
        Ok(ids)
    }

    fn number(&mut self, id: u64) -> u32 {
        let Self { trace, numbers, named, .. } = self;
        *numbers.entry(id).or_insert_with(|| {
            trace.ids.push(id);
            named.push(0);
            // `BLOCKS_MAX` is below 2^32.
            trace.ids.len() as u32 - 1
        })
    }
}

fn not_json(error: &serde_json::Error) -> String {
    // Its line is always 1: we count them.
    let what = error.to_string();
    let what = what.split(" at line ").next().unwrap_or_default();
    format!("column {}: no JSON object: {what}", error.column())
}

fn field<'a>(object: &'a Map<String, Value>, name: &str) -> Result<&'a Value, String> {
    object.get(name).ok_or_else(|| format!("`{name}` is missing"))
}

fn length(object: &Map<String, Value>, name: &str) -> Result<u64, String> {
    let value = field(object, name)?;
    value
        .as_u64()
        .filter(|tokens| *tokens <= TOKENS_MAX)
        .ok_or_else(|| format!("`{name}` is {}: tokens from 0 to {TOKENS_MAX} are wanted", short(value)))
}

/// A value for a message, however long it is.
fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::draw::Draw;

    const GOOD: &str = r#"{"timestamp": 27482, "input_length": 1100, "output_length": 52, "hash_ids": [46, 47, 9]}
{"timestamp": 30535, "input_length": 1024, "output_length": 26, "hash_ids": [46, 47]}
{"timestamp": 30535, "input_length": 600, "output_length": 1, "hash_ids": [18446744073709551615]}
"#;

    fn parse(text: &[u8]) -> Result<Trace, TraceError> {
        Trace::parse(text, "t.jsonl", None, 512)
    }

    /// Lines of the published form are taken: time counts from the first, blocks are numbered as they occur, a partial
    /// last block may be counted or not, and other fields and blank lines are nothing.
    #[test]
    fn the_published_form() {
        let text = GOOD.replace("26, ", "26, \"turn\": 3, ") + "\r\n";
        let trace = parse(text.as_bytes()).unwrap();
        assert_eq!(
            trace.entries.iter().map(|e| e.at_ns).collect::<Vec<_>>(),
            [0, 3_053_000_000, 3_053_000_000]
        );
        assert_eq!(
            (trace.blocks(0), trace.blocks(1), trace.blocks(2)),
            (&[0, 1, 2][..], &[0, 1][..], &[3][..])
        );
        assert_eq!(trace.ids, [46, 47, 9, u64::MAX]);
        assert_eq!((trace.asked(), trace.distinct(), trace.input_tokens), (6, 4, 2724));
        assert!((trace.seen_before_pct() - 100.0 * 2.0 / 6.0).abs() < 1e-9);
    }

    /// A limit takes the first requests, and what comes after them is not even read.
    #[test]
    fn limits() {
        let text = format!("{GOOD}nonsense");
        assert_eq!(Trace::parse(text.as_bytes(), "t", Some(3), 512).unwrap().entries.len(), 3);
        assert_eq!(Trace::parse(text.as_bytes(), "t", Some(1), 512).unwrap().distinct(), 3);
        assert!(Trace::parse(text.as_bytes(), "t", Some(4), 512).is_err());
    }

    /// Each kind of nonsense is refused with the file, the line and what is wrong.
    #[test]
    fn nonsense_is_named() {
        let line = GOOD.lines().next().unwrap();
        let cases = [
            ("{", "no JSON object: EOF"),
            ("[1]", "no JSON object: invalid type"),
            (&line.replace("27482", "-1"), "`timestamp` is -1"),
            (&line.replace("27482", "1e13"), "`timestamp` is 1e13".trim_end_matches("1e13")),
            (&line.replace("27482", "1e400"), "number out of range"),
            (&line.replace("27482", "\"now\""), "`timestamp` is \"now\""),
            (&line.replace("timestamp", "time"), "`timestamp` is missing"),
            (&line.replace("1100", "-4"), "`input_length` is -4"),
            (&line.replace("1100", "99999999999999"), "`input_length` is 99999999999999"),
            (&line.replace(" 52", " 1.5"), "`output_length` is 1.5"),
            (&line.replace("output_length", "out"), "`output_length` is missing"),
            (&line.replace("[46, 47, 9]", "7"), "`hash_ids` is 7, no list"),
            (&line.replace("9]", "-9]"), "`hash_ids[2]` is -9"),
            (&line.replace("9]", "18446744073709551616]"), "`hash_ids[2]` is 1.8"),
            (&line.replace("9]", "9, 8, 7, 6]"), "has 6 blocks and `input_length` is 1100, which are 3"),
            (&line.replace("27482", "1"), "goes back from 27482 to 1"),
        ];
        for (bad, what) in cases {
            let text = format!("{line}\n\n{bad}\n");
            let error = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("t.jsonl:3: ") && error.contains(what), "{bad}: {error}");
        }
        for empty in ["", "\n \n"] {
            assert!(matches!(parse(empty.as_bytes()), Err(TraceError::Empty { .. })));
        }
        assert!(matches!(
            Trace::read(Path::new("/no/such/file"), None, 512),
            Err(TraceError::Unreadable { .. })
        ));
    }

    /// However a file is damaged (bytes changed, cut out, doubled), it is either refused with a place in it, or what is
    /// taken of it makes sense.
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
                Ok(trace) => {
                    taken += 1;
                    assert!(trace.entries.windows(2).all(|w| w[0].at_ns <= w[1].at_ns));
                    let blocks = (0..trace.entries.len()).flat_map(|e| trace.blocks(e)).copied();
                    assert_eq!(blocks.clone().count() as u64, trace.asked());
                    assert!(blocks.clone().all(|b| b < trace.distinct()));
                    let most = blocks.max().map_or(0, |b| b + 1);
                    assert_eq!(most, trace.distinct(), "no block without a request");
                }
                Err(TraceError::Nonsense { line, what, .. }) => {
                    refused += 1;
                    let lines = bytes.split(|b| *b == b'\n').count() as u64;
                    assert!((1..=lines).contains(&line) && !what.is_empty());
                }
                Err(error) => assert!(matches!(error, TraceError::Empty { .. }), "{error}"),
            }
        }
        assert!(refused > 500 && taken > 30, "{refused} refused, {taken} taken: both are tried");
    }
}
