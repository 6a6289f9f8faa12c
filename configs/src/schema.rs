//! One declaration per key: parse, range check, default, documentation and schema all come from it.
//! (The idea is benthos' ConfigSpec.) Deliberately data only.

use std::collections::BTreeMap;
use std::time::Duration;

use pipeline_graph::{Shape, Subject};

use crate::config::Config;

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A size: `"64KiB"`, `65536`. Inclusive bounds, bytes.
    Bytes {
        /// Least.
        min: u64,
        /// Most.
        max: u64,
    },
    /// A time: `"20us"`, `"1s"`. Inclusive bounds, nanoseconds.
    Time {
        /// Least.
        min_ns: u64,
        /// Most.
        max_ns: u64,
    },
    /// A whole number with inclusive bounds.
    Count {
        /// Least.
        min: u64,
        /// Most.
        max: u64,
    },
    /// Bits a second, `"200Gbit/s"`. Inclusive bounds; the value is [`Value::Number`].
    Rate {
        /// Least.
        min: u64,
        /// Most.
        max: u64,
    },
    /// A share of something, `"25%"`. Inclusive bounds, percent.
    Percent {
        /// Least.
        min: u64,
        /// Most.
        max: u64,
    },
    /// `true` or `false`.
    Flag,
    /// Free text.
    Text,
    /// A path; a relative one starts at the directory of the file that says it. The value is [`Value::Text`].
    Path,
    /// `host:port`, `[v6]:port`; the value is [`Value::Text`], always with a port.
    Address,
    /// An array of addresses.
    Addresses,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One of these words, or a size.
    WordOrBytes(&'static [&'static str], u64, u64),
    /// An array of text.
    Texts,
    /// An array of some of these words.
    Words(&'static [&'static str]),
    /// An array of names of `[transports.*]`.
    Transports,
    /// One size, or a table of transport name to size.
    BytesPerTransport(&'static [&'static str], u64, u64),
    /// One of these words, or a table of name to array of text.
    WordOrTexts(&'static [&'static str]),
}

/// Whether a change of the value can be taken while the node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// At once.
    Live,
    /// The stage is rebuilt.
    Rebuild,
    /// The node must be restarted.
    Restart,
}

/// One key of a table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// What stands when the file says nothing, as it would be written; `None`: nothing (optional), see
    /// `required`.
    pub default: Option<&'static str>,
    /// Whether the file must say it.
    pub required: bool,
    /// One sentence for the documentation and the schema.
    pub doc: &'static str,
    /// Whether it changes live.
    pub change: Change,
    /// Names that it had before: read with a warning for one minor version, then taken out here.
    pub formerly: &'static [Former],
    /// What of it is read, but comes into effect with a later release.
    pub later: Option<Later>,
}

impl Key {
    /// What most keys are: never renamed, in effect. For `..Key::PLAIN` in declarations.
    pub const PLAIN: Key = Key {
        name: "",
        kind: Kind::Text,
        default: None,
        required: false,
        doc: "",
        change: Change::Restart,
        formerly: &[],
        later: None,
    };
}

/// A name that a key had before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Former {
    /// The old name.
    pub name: &'static str,
    /// Major and minor version that renamed it: this one warns, the next one does not know it.
    pub since: (u32, u32),
}

/// A setting that is read and judged, but that this release cannot carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Later {
    /// The words that come later; empty: the key as a whole.
    pub words: &'static [&'static str],
    /// What the release brings: "caller pools".
    pub brings: &'static str,
    /// Whether doing without changes what the file means, so that `run` refuses it; otherwise it only warns.
    pub refused: bool,
}

impl Later {
    /// Without it the node would do something else than the file says.
    pub const fn refused(brings: &'static str) -> Later {
        Later { words: &[], brings, refused: true }
    }

    /// Without it the node does the same, slower or less visibly.
    pub const fn harmless(brings: &'static str) -> Later {
        Later { words: &[], brings, refused: false }
    }

    /// Only these words of the key.
    pub const fn words(self, words: &'static [&'static str]) -> Later {
        Later { words, ..self }
    }
}

/// A typed value of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Bytes or a count.
    Number(u64),
    /// A time.
    Time(Duration),
    /// A flag.
    Flag(bool),
    /// Text or a word.
    Text(String),
    /// An array of text, words or names.
    Texts(Vec<String>),
    /// A table of name to size.
    PerName(BTreeMap<String, u64>),
    /// A table of name to array of text.
    TextsPerName(BTreeMap<String, Vec<String>>),
}

/// The typed values of one table: every key that has a value, from file, preset or default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values(pub BTreeMap<&'static str, Value>);

impl Values {
    /// A number (bytes, count), if the key has one.
    pub fn number(&self, key: &str) -> Option<u64> {
        match self.0.get(key) {
            Some(Value::Number(n)) => Some(*n),
            _ => None,
        }
    }

    /// A time, if the key has one.
    pub fn time(&self, key: &str) -> Option<Duration> {
        match self.0.get(key) {
            Some(Value::Time(t)) => Some(*t),
            _ => None,
        }
    }

    /// A flag; false when absent.
    pub fn flag(&self, key: &str) -> bool {
        matches!(self.0.get(key), Some(Value::Flag(true)))
    }

    /// Text or a word, if the key has one.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.0.get(key) {
            Some(Value::Text(t)) => Some(t),
            _ => None,
        }
    }

    /// An array; empty when absent.
    pub fn texts(&self, key: &str) -> &[String] {
        match self.0.get(key) {
            Some(Value::Texts(t)) => t,
            _ => &[],
        }
    }
}

/// What a stage type may look at to know its own ports: the file, never the machine.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Names of the declared transports, in the order of the file.
    pub transports: Vec<String>,
}

/// A stage type: one entry of the catalogue.
#[derive(Clone, Copy)]
pub struct StageKind {
    /// The word after `type =`.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Its keys besides `type` and `pool`.
    pub keys: &'static [Key],
    /// Ports and contract, given its values.
    pub shape: fn(&Values, &Facts) -> Shape,
    /// `Some(what brings it)`: validates, but `run` refuses (it comes with a later release).
    pub later: Option<&'static str>,
}

/// A transport type: one entry of the catalogue.
#[derive(Clone, Copy)]
pub struct TransportKind {
    /// The word after `type =`.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Its keys besides `type` and `nics`.
    pub keys: &'static [Key],
    /// Preferred work request size, bytes: the meaning of `slice = "auto"`.
    pub preferred_bytes: u64,
    /// It speaks to peers that run another engine: those are named `TRANSPORT://NAME` in `[peers]`.
    pub foreign: bool,
    /// `Some(what brings it)`: validates, but `run` refuses (it comes with a later release).
    pub later: Option<&'static str>,
}

/// What a rule of the stage types has against a file that breaks none of the graph's own rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection {
    /// What it is about.
    pub subject: Subject,
    /// What is wrong: one line, no full stop.
    pub text: String,
    /// What to write instead: one line, no full stop.
    pub help: String,
}

/// What a rule of the transport types has against settings each of which could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingObjection {
    /// Index of the transport.
    pub transport: usize,
    /// The key that it is about; one that the file does not say stands for the transport.
    pub key: &'static str,
    /// What is wrong: one line, no full stop.
    pub text: String,
    /// What to write instead: one line, no full stop.
    pub help: String,
}

/// Everything that a file may name as a `type`.
#[derive(Clone, Default)]
pub struct Catalog {
    /// Stage types.
    pub stages: Vec<StageKind>,
    /// Transport types.
    pub transports: Vec<TransportKind>,
    /// Rules about the order of stages that neither the graph nor a single table can know ("one `request_split` on
    /// every way from `admit` to `wr_post`"). Asked only when every stage, pool and edge could be read.
    pub rules: Vec<fn(&Config) -> Vec<Objection>>,
    /// Rules about settings of transports that their single values cannot know. Asked as `rules` are.
    pub transport_rules: Vec<fn(&Config) -> Vec<SettingObjection>>,
}
