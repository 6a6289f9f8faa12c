//! What holds a running node back, in words, and the key of its file that would move it: from what it measured of itself
//! over an interval.
//!
//! Rules in a table ([`RULES`]) are asked in order, and the first that applies answers; each is one file, says in words
//! when it applies, and names its thresholds. Deliberately only what figures say: nothing is tried and nothing is changed,
//! that is `tune`'s. What `docs/runbook.md` tells of each is held by a test.

#[cfg(test)]
mod fixture;
mod knob;
mod look;
mod rules;
#[cfg(test)]
mod tests;

use std::fmt;

use pipeline_configs::Config;
use pipeline_graph::Cpus;

use crate::observation::Observation;
use look::Look;

/// What holds a node back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The stage that is at fault, if it is one.
    pub stage: Option<String>,
    /// What kind of limit it is.
    pub because: Because,
    /// One sentence, with the figures that say so.
    pub words: String,
    /// The key that would move it; `None` where no key does, which `words` explain.
    pub knob: Option<Knob>,
}

/// Kinds of limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Because {
    /// Nothing is asked of the node.
    Idle,
    /// A stage's workers have no time left.
    Busy,
    /// Threads wait for CPUs: more of them want to run than there are CPUs.
    Cpu,
    /// Bytes or slices in flight are as many as the file allows.
    Window,
    /// An edge is full, or hand-overs take longer than the work.
    Queue,
    /// A peer is not there, or it or the wire to it is slower than this node.
    Peer,
    /// Waking threads up takes longer than the work.
    Sleep,
    /// The application does not submit enough.
    Application,
}

impl Because {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Idle,
        Self::Busy,
        Self::Cpu,
        Self::Window,
        Self::Queue,
        Self::Peer,
        Self::Sleep,
        Self::Application,
    ];

    /// In a word, for programs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Cpu => "cpu",
            Self::Window => "window",
            Self::Queue => "queue",
            Self::Peer => "peer",
            Self::Sleep => "sleep",
            Self::Application => "application",
        }
    }
}

/// A key of the file, as it is and as it should be tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Knob {
    /// Its path, as `--set` takes it: `pools.nic.threads`, `edges."select -> post".queue`.
    pub path: String,
    /// What it is now, as TOML.
    pub now: String,
    /// What to try, as TOML.
    pub better: String,
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} (now {})", self.path, self.better, self.now)
    }
}

/// The words, and what to try.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)?;
        match &self.knob {
            Some(knob) => write!(f, "; try {knob}"),
            None => Ok(()),
        }
    }
}

/// One rule.
pub(crate) struct Rule {
    /// What it answers.
    pub(crate) because: Because,
    /// When it applies.
    pub(crate) says: &'static str,
    /// The answer, if it applies.
    pub(crate) apply: fn(&Look<'_>) -> Option<Limit>,
}

/// All rules, in the order in which they are asked: what makes the figures of the others mean something else comes first.
pub(crate) const RULES: &[Rule] = &[
    rules::idle::RULE,
    rules::peer::GONE,
    rules::cpu::RULE,
    rules::window::TINY,
    rules::busy::RULE,
    rules::window::RULE,
    rules::queue::FULL,
    rules::lane::RULE,
    rules::application::SELDOM,
    rules::sleep::RULE,
    rules::queue::HAND_OVER,
    rules::cpu::OTHERS,
    rules::peer::SLOW,
    rules::application::RULE,
];

/// When each kind of limit is named, in words, in the order in which they are looked for.
pub fn rules() -> impl Iterator<Item = (Because, &'static str)> {
    RULES.iter().map(|rule| (rule.because, rule.says))
}

/// What holds back a node of this file, by what it measured over an interval ([`Observation::since`]) on this machine.
pub fn limit(interval: &Observation, config: &Config) -> Limit {
    let cpus = Cpus::of_process();
    let quota = cpus.quota.unwrap_or(f64::INFINITY);
    limit_on(interval, config, quota.min(cpus.allowed.len() as f64))
}

/// As [`limit`], of a process that has so many CPUs' worth of time.
pub fn limit_on(interval: &Observation, config: &Config, cpus: f64) -> Limit {
    let look = Look { interval, config, cpus };
    let answer = RULES.iter().find_map(|rule| (rule.apply)(&look));
    let mut limit = answer.expect("the last rule applies always");
    if !look.is_timed() && limit.because != Because::Idle {
        limit.words.push_str(
            "; times are not measured (`stats.enabled = false`), so much of what could be said is not",
        );
    }
    limit
}
