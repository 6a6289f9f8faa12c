//! The board and the alerts name metrics and labels that exist.

use std::path::PathBuf;

use pipeline_node::metrics::{Kind, METRICS};

fn read(file: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Names of ours in a text.
fn names(text: &str) -> Vec<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_name(c)).filter(|word| word.starts_with("pipeline_node_"));
    words.map(str::to_owned).collect()
}

#[track_caller]
fn all_exist(file: &str, text: &str) -> usize {
    let names = names(text);
    for name in &names {
        let is = |metric: &pipeline_node::metrics::Metric| match metric.kind {
            Kind::Histogram => {
                let rest = name.strip_prefix(metric.name);
                rest.is_some_and(|rest| ["_bucket", "_sum", "_count"].contains(&rest))
            }
            Kind::Counter | Kind::Gauge => name == metric.name,
        };
        assert!(METRICS.iter().any(is), "{file} names {name}, which is no metric");
    }
    names.len()
}

/// Every expression of the board speaks of metrics that exist, every panel has one, a title, a unit and what to do about it, and
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
    all_exist("pipeline-node.json", &text);
}

/// Every alert speaks of metrics that exist, and says what to look at next.
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
    assert_eq!(all_exist("alerts.test.yml", &read("alerts.test.yml")) > 0, alerts > 0);
}
