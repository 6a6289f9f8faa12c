//! The board and the alerts name metrics and labels that exist, over ranges in which there are samples.

use std::path::PathBuf;

use pipeline_node::metrics::{Kind, METRICS};

fn read(file: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// What may stand before a brace: letters, digits and underscores.
fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The labels of a metric as Prometheus has it, those of the scrape included; `None` if there is no such metric.
fn labels_of(name: &str) -> Option<Vec<&'static str>> {
    let scraped =
        |labels: &[&'static str], more: &[&'static str]| [labels, &["instance", "job"], more].concat();
    METRICS.iter().find_map(|metric| match (metric.kind, name.strip_prefix(metric.name)?) {
        (Kind::Histogram, "_bucket") => Some(scraped(metric.labels, &["le"])),
        (Kind::Histogram, "_sum" | "_count") | (Kind::Counter | Kind::Gauge, "") => {
            Some(scraped(metric.labels, &[]))
        }
        _ => None,
    })
}

/// A text without what stands in quotes.
fn unquoted(text: &str) -> String {
    text.split('"').step_by(2).collect::<Vec<_>>().join("\"\"")
}

/// Each metric of ours in a text, and the labels that it is asked for by, in braces.
fn selectors(text: &str) -> Vec<(String, Vec<String>)> {
    let (text, prefix) = (unquoted(text), "pipeline_node_");
    let starts = text.match_indices(prefix).filter(|(at, _)| !text[..*at].ends_with(is_name));
    let selector = |(at, _): (usize, &str)| {
        let rest = &text[at..];
        let (name, rest) = rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
        let braces =
            rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or("", |(inner, _)| inner);
        let label = |matcher: &str| matcher.trim().split(|c| !is_name(c)).next().map(str::to_owned);
        (name.to_owned(), braces.split(',').filter(|matcher| !matcher.is_empty()).filter_map(label).collect())
    };
    starts.map(selector).collect()
}

/// What stands between two marks, each time, as words.
fn between(text: &str, open: &str, close: &str) -> Vec<String> {
    let parts = text.split(open).skip(1).filter_map(|rest| Some(rest.split_once(close)?.0));
    parts.flat_map(|part| part.split(',')).map(|word| word.trim().to_owned()).collect()
}

/// Metrics of a text exist and have the labels that they are asked for by; how many there are.
#[track_caller]
fn all_exist(file: &str, text: &str) -> usize {
    let selectors = selectors(text);
    for (name, asked) in &selectors {
        let Some(labels) = labels_of(name) else { panic!("{file} names {name}, which is no metric") };
        for label in asked {
            assert!(labels.contains(&label.as_str()), "{file}: {name} has no label {label}");
        }
    }
    selectors.len()
}

/// An expression is summed by labels that its metrics have, `shown` are labels that are left then, and ranges hold samples of a
/// scrape a minute.
#[track_caller]
fn adds_up(file: &str, expr: &str, shown: &[String]) {
    let has: Vec<&str> = selectors(expr).iter().flat_map(|(name, _)| labels_of(name).unwrap()).collect();
    let by = between(expr, "by (", ")");
    for label in &by {
        assert!(has.contains(&label.as_str()), "{file}: nothing has the label {label}: {expr}");
    }
    for label in shown {
        let is_left = if by.is_empty() { has.contains(&label.as_str()) } else { by.contains(label) };
        assert!(is_left, "{file}: {label} is shown, and not there: {expr}");
    }
    for range in between(&unquoted(expr), "[", "]") {
        let minutes = range.strip_suffix('m').and_then(|minutes| minutes.parse::<u32>().ok());
        assert!(range == "$__rate_interval" || minutes >= Some(5), "{file}: [{range}] is short: {expr}");
    }
}

/// Every expression of the board speaks of metrics and labels that exist, every panel has one, a title, a unit and what to do about it, and
/// none lies on another.
#[test]
fn the_board_names_what_exists() {
    let text = read("pipeline-node.json");
    let board: serde_json::Value = serde_json::from_str(&text).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let (mut asked, mut ids, mut cells) = (0, Vec::new(), Vec::new());
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        let place =
            (at("y")..at("y") + at("h")).flat_map(|y| (at("x")..at("x") + at("w")).map(move |x| (x, y)));
        cells.extend(place);
        ids.push(panel["id"].as_u64().unwrap());
        if panel["type"] == "row" {
            continue;
        }
        assert!(panel["description"].as_str().is_some_and(|d| d.len() > 10), "{title}: no description");
        assert!(
            panel["fieldConfig"]["defaults"]["unit"].is_string() || panel["type"] == "table",
            "{title}: no unit"
        );
        for target in panel["targets"].as_array().unwrap() {
            let expr = target["expr"].as_str().unwrap();
            adds_up(title, expr, &between(target["legendFormat"].as_str().unwrap(), "{{", "}}"));
            let here = all_exist(title, expr);
            assert!(here > 0 && expr.contains("instance=~\"$instance\""), "{title}: {expr}");
            asked += here;
        }
    }
    let (places, panels) = (cells.len(), ids.len());
    cells.sort_unstable();
    cells.dedup();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((cells.len(), ids.len()), (places, panels), "panels or ids twice");
    assert!(asked >= 25, "{asked}");
    for (list, key) in [("annotations", "expr"), ("templating", "query")] {
        for one in board[list]["list"].as_array().unwrap() {
            let text = one[key].as_str().or_else(|| one[key]["query"].as_str()).unwrap();
            all_exist(list, text);
            adds_up(list, text, &[]);
        }
    }
}

/// Every alert speaks of metrics and labels that exist, and says what to look at next.
#[test]
fn the_alerts_name_what_exists() {
    let text = read("alerts.yml");
    assert!(all_exist("alerts.yml", &text) >= 10);
    let count = |what: &str| text.lines().filter(|line| line.trim_start().starts_with(what)).count();
    let alerts = count("- alert:");
    assert!(
        alerts >= 8 && [count("expr:"), count("summary:"), count("description:")] == [alerts; 3],
        "{alerts}"
    );
    for alert in text.split("- alert:").skip(1) {
        let (_, rest) = alert.split_once("expr:").unwrap();
        let (expr, said) = rest.split_once("labels:").unwrap();
        let expr = expr.split("for:").next().unwrap();
        let shown =
            said.split("$labels.").skip(1).map(|rest| rest.split(|c| !is_name(c)).next().unwrap().to_owned());
        adds_up("alerts.yml", expr, &shown.collect::<Vec<_>>());
    }
    assert!(all_exist("alerts.test.yml", &read("alerts.test.yml")) > 0);
}
