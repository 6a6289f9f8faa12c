//! What is wrong with a file: one finding a fault, with its place, a stable code and what to write instead.
//! Deliberately data: [`crate::render`] shows findings as text and as JSON lines.

use std::fmt;

use crate::codes::Code;
use crate::render;
use crate::source::{Sources, Span};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The file cannot be run.
    Error,
    /// It can, but somebody should look.
    Warning,
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Stable code.
    pub code: Code,
    /// How bad.
    pub severity: Severity,
    /// One line: what is wrong.
    pub message: String,
    /// Where. `None`: the file as a whole cannot be shown.
    pub place: Option<Span>,
    /// What stands after the carets.
    pub label: String,
    /// Other places that belong to it, each with a remark.
    pub related: Vec<(Span, String)>,
    /// What to write instead.
    pub help: Vec<String>,
}

impl Finding {
    /// An error at a place.
    pub fn error(code: Code, place: Span, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Error,
            message: message.into(),
            place: Some(place),
            label: String::new(),
            related: Vec::new(),
            help: Vec::new(),
        }
    }

    /// A warning at a place.
    pub fn warning(code: Code, place: Span, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, place, message) }
    }

    /// An error about something that has no text.
    pub fn placeless(code: Code, message: impl Into<String>) -> Self {
        Self { place: None, ..Self::error(code, Span::default(), message) }
    }

    /// The same, so bad that somebody should look and no worse.
    pub fn as_warning(self) -> Self {
        Self { severity: Severity::Warning, ..self }
    }

    /// With words after the carets.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// With a line of help.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    /// With a line of help if there is one.
    pub fn help_if(mut self, help: Option<String>) -> Self {
        self.help.extend(help);
        self
    }

    /// With another place.
    pub fn related(mut self, place: Span, remark: impl Into<String>) -> Self {
        self.related.push((place, remark.into()));
        self
    }
}

/// Where findings are put while a file is read.
#[derive(Debug, Default)]
pub struct Report {
    /// What was found so far.
    pub findings: Vec<Finding>,
    muted: Vec<Span>,
    /// What was said to have no effect yet, with the finding that says it and how many more there were.
    idle: Vec<(&'static str, usize, usize)>,
}

impl Report {
    /// Adds one, unless its place was muted.
    pub fn push(&mut self, finding: Finding) {
        let within = |at: Span| {
            let inside = |m: &Span| m.source == at.source && m.start <= at.start && at.end <= m.end;
            self.muted.iter().any(inside)
        };
        if !finding.place.is_some_and(within) {
            self.findings.push(finding);
        }
    }

    /// Says once what a later release brings, and counts the rest: eight NICs with four keys each are one thing to know.
    pub fn push_idle(&mut self, brings: &'static str, finding: Finding) {
        if let Some((_, _, more)) = self.idle.iter_mut().find(|(said, ..)| *said == brings) {
            *more += 1;
            return;
        }
        let before = self.findings.len();
        self.push(finding);
        if self.findings.len() > before {
            self.idle.push((brings, before, 0));
        }
    }

    /// All findings, the counted ones with their counts.
    pub fn finish(mut self) -> Vec<Finding> {
        for (_, index, more) in self.idle.iter().filter(|(_, _, more)| *more > 0) {
            let also = format!(
                "so it is with {more} more {} of this file",
                if *more == 1 { "setting" } else { "settings" }
            );
            self.findings[*index].help.push(also);
        }
        self.findings
    }

    /// What stands here has had its finding: whatever else it breaks would only repeat it.
    pub fn mute(&mut self, place: Span) {
        self.muted.push(place);
    }

    /// Whether one of them is an error.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|f| f.severity == Severity::Error)
    }
}

/// All findings of one load, sorted by place, with the texts they point into.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Sorted by text (the file before its preset), then by place.
    pub list: Vec<Finding>,
    /// The texts.
    pub sources: Sources,
}

impl Findings {
    /// Sorts by place and drops exact repetitions.
    pub fn new(mut list: Vec<Finding>, sources: Sources) -> Self {
        list.sort_by(|a, b| (a.place, a.code, &a.message).cmp(&(b.place, b.code, &b.message)));
        list.dedup();
        Self { list, sources }
    }

    /// How many are errors.
    pub fn errors(&self) -> usize {
        self.list.iter().filter(|f| f.severity == Severity::Error).count()
    }

    /// How many are warnings.
    pub fn warnings(&self) -> usize {
        self.list.len() - self.errors()
    }

    /// `3 errors, 1 warning`.
    pub fn count(&self) -> String {
        render::count(self.errors(), self.warnings())
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// As text for a terminal; ends with a line that counts them unless there are none.
    pub fn text(&self) -> String {
        render::text(self)
    }

    /// As JSON lines: one object a finding.
    pub fn json_lines(&self) -> String {
        render::json_lines(self)
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl std::error::Error for Findings {}
