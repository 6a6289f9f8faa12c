//! `show config --diff`: a file against a running node, value by value: what the node has that the file has not, and the
//! reverse.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use pipeline_configs::show::Shown;
use serde_json::{Value, json};

use super::super::exit::{Failure, Outcome};
use super::super::file;
use super::live::{failure, find};

/// A value and where it comes from.
type Said<'a> = (&'a str, &'a str);

/// Prints where they differ.
///
/// # Errors
/// 1 when they do, 69 when there is no such node.
pub fn run(shown: &[Shown], node: &str, as_json: bool) -> Outcome {
    let answer = find(Some(node))?.ask(&json!({ "show": "config" }), Duration::ZERO).map_err(failure)?;
    let text =
        |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let values = answer.get("values").and_then(Value::as_array).cloned().unwrap_or_default();
    let live: Vec<[String; 3]> =
        values.iter().map(|v| [text(v, "path"), text(v, "value"), text(v, "source")]).collect();
    let file: BTreeMap<&str, Said<'_>> =
        shown.iter().map(|s| (s.path.as_str(), (s.value.as_str(), s.source.as_str()))).collect();
    let live: BTreeMap<&str, Said<'_>> =
        live.iter().map(|[path, value, source]| (path.as_str(), (value.as_str(), source.as_str()))).collect();
    let differ = differences(&file, &live);
    let name = answer.get("node").and_then(Value::as_str).unwrap_or(node);
    file::print(&if as_json { objects(&differ) } else { lines(&differ, name) })?;
    match differ.len() {
        0 => Ok(()),
        1 => Err(Failure::failed(format!("a value of the file and of node `{name}` differs"))),
        n => Err(Failure::failed(format!("{n} values of the file and of node `{name}` differ"))),
    }
}

/// Path, what the file says, what the node has.
type Difference<'a> = (&'a str, Option<Said<'a>>, Option<Said<'a>>);

fn differences<'a>(
    file: &BTreeMap<&'a str, Said<'a>>,
    node: &BTreeMap<&'a str, Said<'a>>,
) -> Vec<Difference<'a>> {
    let mut paths: Vec<&str> = file.keys().chain(node.keys()).copied().collect();
    paths.sort_unstable();
    paths.dedup();
    let both = paths.into_iter().map(|path| (path, file.get(path).copied(), node.get(path).copied()));
    both.filter(|(_, file, node)| file.map(|f| f.0) != node.map(|n| n.0)).collect()
}

fn lines(differ: &[Difference<'_>], name: &str) -> String {
    let mut text = String::new();
    for (path, file, node) in differ {
        let _ = writeln!(text, "{path}");
        for (whose, said) in [("the file", file), (name, node)] {
            let _ = match said {
                Some((value, source)) => writeln!(text, "  {whose}: {value}  # {source}"),
                None => writeln!(text, "  {whose}: nothing"),
            };
        }
    }
    text
}

fn objects(differ: &[Difference<'_>]) -> String {
    let said =
        |said: &Option<Said<'_>>| said.map(|(value, source)| json!({ "value": value, "source": source }));
    let line = |(path, file, node): &Difference<'_>| {
        format!("{}\n", json!({ "path": path, "file": said(file), "node": said(node) }))
    };
    differ.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What differs in value is told with both sources, what only one side has with nothing on the other, and what only comes
    /// from somewhere else not at all.
    #[test]
    fn only_values_differ() {
        let file = BTreeMap::from([("a", ("1", "f:1:1")), ("b", ("2", "f:2:1")), ("c", ("3", "default"))]);
        let node = BTreeMap::from([("a", ("1", "default")), ("b", ("4", "--set")), ("d", ("5", "f:9:9"))]);
        let differ = differences(&file, &node);
        let text = lines(&differ, "n");
        assert_eq!(
            text,
            "b\n  the file: 2  # f:2:1\n  n: 4  # --set\nc\n  the file: 3  # default\n  n: nothing\n\
             d\n  the file: nothing\n  n: 5  # f:9:9\n"
        );
        assert_eq!(objects(&differ).lines().count(), 3);
    }
}
