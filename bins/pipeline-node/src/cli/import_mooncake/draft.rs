//! The file: tables, keys, and after each line where it comes from; at its end what could not be said in it.

use std::fmt::Write as _;

use super::fate::TRANSPORT;
use super::judged::{Kind, Left, Line};

/// Comments begin no later than this, so that a long value does not push all of them away.
const COMMENTS_AT: usize = 44;

/// A file, and which line of text stands for which line of the set-up.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) text: String,
    /// Of each line of text, counted from 0.
    pub(super) of: Vec<Option<usize>>,
}

/// Tables in this order, others behind.
const ORDER: &[&str] = &[
    "node",
    "transports.mooncake",
    "stages.route",
    "stages.select",
    "stages.retry",
    "limits",
    "topology",
    "segments.kv",
    "log",
];

impl Draft {
    pub(super) fn new(sources: &[String], lines: &[Line]) -> Self {
        let mut draft = Self { text: String::new(), of: Vec::new() };
        let from = if sources.is_empty() { "no set-up at all".to_owned() } else { sources.join(", ") };
        draft.push(&format!("# What `pipeline-node import-mooncake` made of {from}."), None);
        draft.push("# Judge it: pipeline-node validate FILE   This machine: pipeline-node doctor FILE   Keys: docs/config.md", None);
        draft.push("version = 1", None);
        draft.push(&padded("use = \"tcp\"", 34, "a whole pipeline; this file only says what differs"), None);
        let mut tables: Vec<&str> = lines.iter().map(|line| line.table.as_str()).collect();
        let place = |table: &str| ORDER.iter().position(|t| *t == table).unwrap_or(ORDER.len());
        tables.sort_by_key(|table| place(table));
        tables.dedup();
        for table in tables {
            draft.push("", None);
            draft.push(&format!("[{table}]"), None);
            draft.table(lines.iter().enumerate().filter(|(_, line)| line.table == table));
        }
        draft.push("", None);
        draft.push("# Peers that run Mooncake, by the names of their sessions:", None);
        draft.push("# [peers]", None);
        draft.push(&format!("# decode-0 = \"{TRANSPORT}://10.0.0.2:15123\""), None);
        draft
    }

    fn table<'a>(&mut self, lines: impl Iterator<Item = (usize, &'a Line)>) {
        let said: Vec<(usize, String, &str)> = lines
            .map(|(at, line)| (at, format!("{} = {}", line.key, line.value), line.why.as_str()))
            .collect();
        let widest = said.iter().map(|(_, text, _)| text.chars().count()).max().unwrap_or(0);
        for (at, text, why) in said {
            self.push(&padded(&text, widest.min(COMMENTS_AT), why), Some(at));
        }
    }

    fn push(&mut self, line: &str, of: Option<usize>) {
        self.text.push_str(line);
        self.text.push('\n');
        self.of.push(of);
    }

    /// The file with what could not be said in it.
    pub(super) fn whole(self, left: &[Left]) -> String {
        let mut text = self.text;
        for (kinds, title) in PARTS {
            let mut some = left.iter().filter(|left| kinds.contains(&left.kind)).peekable();
            if some.peek().is_some() {
                let _ = writeln!(text, "\n# {title}");
            }
            for left in some {
                let _ = writeln!(text, "#   {}", told(left));
            }
        }
        text
    }
}

/// What is left over, the weightiest first.
const PARTS: &[(&[Kind], &str)] = &[
    (&[Kind::Unknown], "Known to nobody:"),
    (&[Kind::Unfit], "With a value that makes no sense here:"),
    (&[Kind::Lacks], "Without an equivalent here:"),
    (&[Kind::Elsewhere], "Without a meaning over this transport:"),
    (&[Kind::Needless, Kind::Overridden], "Not needed:"),
];

/// Of these a reader must know.
pub(super) const WEIGHTY: &[Kind] = &[Kind::Unknown, Kind::Unfit, Kind::Lacks];

/// One line: `MC_MTU=9000 (prefill.env:3): why`.
pub(super) fn told(left: &Left) -> String {
    let (name, whence) = left.said.from.split_once(' ').unwrap_or((&left.said.from, ""));
    let gap = if whence.is_empty() { "" } else { " " };
    format!("{name}={}{gap}{whence}: {}", shown(&left.said.name, &left.said.value), without_logins(&left.why))
}

/// A value for people; a password is not for them, and no value breaks a line.
pub(super) fn shown(name: &str, value: &str) -> String {
    if name.to_ascii_uppercase().contains("PASSWORD") {
        return "…".to_owned();
    }
    let line: String = value.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    without_logins(&line)
}

/// Without the user and the password of each address: `redis://…@HOST`.
pub(super) fn without_logins(text: &str) -> String {
    let mut rest = text;
    let mut all = String::new();
    while let Some((before, after)) = rest.split_once("://") {
        let end = after.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(after.len());
        let login = after[..end].rfind('@');
        all += before;
        all += if login.is_some() { "://…" } else { "://" };
        rest = &after[login.unwrap_or(0)..];
    }
    all + rest
}

fn padded(text: &str, width: usize, why: &str) -> String {
    let why: String = why.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{text:width$}  # {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No login of an address is told, wherever it stands in a text, and what is no address stays as it is.
    #[test]
    fn logins_are_not_told() {
        let told = [
            ("redis://u:secret@h:1/0", "redis://…@h:1/0"),
            ("http://u:se@cret@h/m and \"etcd://u:secret@g\"; a@b", "http://…@h/m and \"etcd://…@g\"; a@b"),
            ("http://h:80/metadata", "http://h:80/metadata"),
            ("P2PHANDSHAKE", "P2PHANDSHAKE"),
        ];
        for (text, shown) in told {
            assert_eq!(without_logins(text), shown);
        }
    }
}
