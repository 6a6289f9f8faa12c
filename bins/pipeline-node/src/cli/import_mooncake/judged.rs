//! What a set-up says, put in order: what it rests on, keys of ours that it sets, and what is left over with the reason.
//! Of two that say the same, the later one holds.

use std::collections::BTreeMap;

use pipeline_configs::suggest;

use super::fate::{Basic, Fate, Over, Reading, Row};
use super::said::{Manner, Said};
use super::{keys, variables};

/// Why something of the set-up is not in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Nobody knows the name.
    Unknown,
    /// There is nothing of the kind here.
    Lacks,
    /// The value makes no sense here.
    Unfit,
    /// It means something over another transport only.
    Elsewhere,
    /// Something else says the same and beats it.
    Overridden,
    /// It is so without a key.
    Needless,
}

impl Kind {
    /// For JSON.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Lacks => "no_equivalent",
            Self::Unfit => "unfit",
            Self::Elsewhere => "other_transport",
            Self::Overridden => "overridden",
            Self::Needless => "not_needed",
        }
    }
}

/// What is not in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) said: Said,
    pub(super) kind: Kind,
    pub(super) why: String,
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) table: String,
    pub(super) key: String,
    /// As TOML.
    pub(super) value: String,
    /// For its comment: where it comes from.
    pub(super) why: String,
    /// What it stands for, if somebody said it.
    pub(super) said: Option<Said>,
}

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Judged {
    pub(super) basics: BTreeMap<Basic, Said>,
    pub(super) left: Vec<Left>,
    sets: Vec<(Fate, Said)>,
}

/// Puts it in order.
pub(super) fn judge(all: Vec<Said>) -> Judged {
    let mut judged = Judged::default();
    for said in all {
        match fate(&said) {
            Some(Fate::Basic(basic)) => {
                // An empty value says nothing, as in Mooncake.
                if said.value.is_empty() {
                    judged.leave(said, Kind::Needless, "it is empty");
                } else if let Some(before) = judged.basics.insert(basic, said.clone()) {
                    judged.leave(before, Kind::Overridden, &format!("{} beats it", said.from));
                }
            }
            Some(set @ Fate::Sets { table, key, .. }) => {
                let same = |(fate, _): &(Fate, Said)| matches!(fate, Fate::Sets { table: t, key: k, .. } if *t == table && *k == key);
                let before = judged.sets.iter().position(same).map(|at| judged.sets.remove(at));
                if let Some((_, before)) = before {
                    judged.leave(before, Kind::Overridden, &format!("{} beats it", said.from));
                }
                judged.sets.push((set, said));
            }
            Some(Fate::Needless(why)) => judged.leave(said, Kind::Needless, why),
            Some(Fate::Lacks(why)) => judged.leave(said, Kind::Lacks, why),
            None => {
                let why = unknown(&said);
                judged.leave(said, Kind::Unknown, &why);
            }
        }
    }
    judged
}

fn rows(manner: Manner) -> impl Iterator<Item = &'static Row> {
    let tables: [&'static [Row]; 2] = match manner {
        Manner::Variable => [variables::ENGINE, variables::STARTERS],
        Manner::Key => [keys::JSON, &[]],
        Manner::Option => [keys::OPTIONS, &[]],
    };
    tables.into_iter().flatten()
}

fn fate(said: &Said) -> Option<Fate> {
    let listed = rows(said.manner).find(|(name, _)| *name == said.name).map(|(_, fate)| *fate);
    let families = || variables::FAMILIES.iter().filter(|_| said.manner == Manner::Variable);
    listed.or_else(|| {
        families().find(|(start, _)| said.name.starts_with(start)).map(|(_, why)| Fate::Lacks(why))
    })
}

fn unknown(said: &Said) -> String {
    match suggest::nearest(&said.name, rows(said.manner).map(|(name, _)| *name)) {
        Some(name) => format!("did you mean `{name}`? Mooncake passes over what it does not know"),
        None => "Mooncake's Transfer Engine does not know it".to_owned(),
    }
}

impl Judged {
    /// Puts it to what is left over.
    pub(super) fn leave(&mut self, said: Said, kind: Kind, why: &str) {
        self.left.push(Left { said, kind, why: why.to_owned() });
    }

    /// The lines that were said key by key, for this transport; what means nothing over it is left over.
    pub(super) fn lines(&mut self, over: Over) -> Vec<Line> {
        let mut lines = Vec::new();
        for (fate, said) in std::mem::take(&mut self.sets) {
            let Fate::Sets { table, key, over: only, reading } = fate else { continue };
            if only != Over::Any && only != over {
                let what = if only == Over::Tcp { "TCP" } else { "RDMA" };
                self.leave(said, Kind::Elsewhere, &format!("it means something over {what} only"));
                continue;
            }
            match read(reading, &said.value) {
                Some(value) => lines.push(Line {
                    table: table.to_owned(),
                    key: key.to_owned(),
                    value,
                    why: said.from.clone(),
                    said: Some(said),
                }),
                None => match reading {
                    Reading::Is(_) => self.leave(said, Kind::Needless, "it is off, as it is here"),
                    _ => self.leave(said, Kind::Unfit, "its value cannot be read"),
                },
            }
        }
        lines
    }
}

/// A value as TOML; what its bounds are says the file's own check.
fn read(reading: Reading, value: &str) -> Option<String> {
    let number = || value.trim().parse::<u64>().ok();
    Some(match reading {
        Reading::Number | Reading::Bytes => number()?.to_string(),
        Reading::Word => format!("\"{}\"", number()?),
        Reading::Seconds => format!("\"{}s\"", number()?),
        Reading::Flag => is_on(value).to_string(),
        Reading::Is(what) => is_on(value).then(|| format!("\"{what}\""))?,
        Reading::Level => {
            let levels = [("TRACE", "trace"), ("INFO", "info"), ("WARNING", "warn"), ("ERROR", "error")];
            let value = value.to_ascii_uppercase();
            let level = levels.iter().find(|(theirs, _)| *theirs == value)?.1;
            format!("\"{level}\"")
        }
    })
}

/// As Mooncake reads a switch.
pub(super) fn is_on(value: &str) -> bool {
    ["1", "true", "yes", "on"].contains(&value.trim().to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str, value: &str) -> Said {
        Said { manner: Manner::Variable, name: name.into(), value: value.into(), from: name.into() }
    }

    /// A later word beats an earlier one, and both are told; what is misspelt comes with the name that was meant, what is
    /// for the other transport with which.
    #[test]
    fn everything_has_a_place() {
        let said = [
            ("MC_TCP_MAX_CONNECTIONS_PER_PEER", "2"),
            ("MC_TCP_LANES_PER_PEER", "8"),
            ("MC_MTU", "1024"),
            ("MC_SLICE_TIMOUT", "3"),
            ("MC_ELSE_WHERE_ENTIRELY", "3"),
            ("MC_STORE_CLUSTER_ID", "c"),
            ("MC_TCP_PROTO", "2"),
        ];
        let mut judged = judge(said.map(|(n, v)| variable(n, v)).to_vec());
        let lines = judged.lines(Over::Tcp);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!((lines[0].key.as_str(), lines[0].value.as_str()), ("lanes", "8"));
        let kinds: Vec<(&str, Kind)> =
            judged.left.iter().map(|left| (left.said.name.as_str(), left.kind)).collect();
        let wanted = [
            ("MC_TCP_MAX_CONNECTIONS_PER_PEER", Kind::Overridden),
            ("MC_SLICE_TIMOUT", Kind::Unknown),
            ("MC_ELSE_WHERE_ENTIRELY", Kind::Unknown),
            ("MC_STORE_CLUSTER_ID", Kind::Lacks),
            ("MC_MTU", Kind::Elsewhere),
            ("MC_TCP_PROTO", Kind::Needless),
        ];
        assert_eq!(kinds, wanted);
        assert!(judged.left[1].why.contains("`MC_SLICE_TIMEOUT`"), "{}", judged.left[1].why);
    }

    /// No name stands in the tables twice, and each is one that the readers let through.
    #[test]
    fn tables_are_sound() {
        for manner in [Manner::Variable, Manner::Key, Manner::Option] {
            let mut names: Vec<&str> = rows(manner).map(|(name, _)| *name).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count);
        }
        let text: String = rows(Manner::Variable).map(|(name, _)| format!("{name}=1\n")).collect();
        let read = super::super::said::of_lines(&text, "all").unwrap();
        assert_eq!(read.len(), rows(Manner::Variable).count());
    }

    /// Values are written as the file's keys want them.
    #[test]
    fn values() {
        assert_eq!(read(Reading::Seconds, "30").as_deref(), Some("\"30s\""));
        assert_eq!(read(Reading::Word, "4096").as_deref(), Some("\"4096\""));
        assert_eq!(read(Reading::Flag, "0").as_deref(), Some("false"));
        assert_eq!(read(Reading::Is("v1"), "1").as_deref(), Some("\"v1\""));
        assert_eq!(read(Reading::Level, "Warning").as_deref(), Some("\"warn\""));
        assert_eq!(read(Reading::Number, "-1"), None);
    }
}
