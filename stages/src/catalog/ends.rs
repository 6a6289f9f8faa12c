//! Rules of where slices end: `completion_notify` takes the code of a slice for what became of it, and a slice that was never
//! posted still has the one of success. Deliberately about the plain ways only: `failed` leads to an end from anywhere.

use std::collections::BTreeSet;

use pipeline_configs::{Config, Objection};
use pipeline_graph::blueprint::{FAILED, OUT};
use pipeline_graph::{EdgeDecl, Mode, Subject, WhenFull};

/// Only what was reaped is told as done; all that was reaped is told; and no full queue makes a failure of it.
pub(super) fn ends(config: &Config) -> Vec<Objection> {
    let of_kind =
        |kind| config.stages.iter().enumerate().filter(move |(_, s)| s.kind == kind).map(|(i, _)| i);
    let unposted = behind(config, of_kind("admit"));
    let mut objections = Vec::new();
    for (index, edge) in config.blueprint.edges.iter().enumerate() {
        let Some(source) = edge.from else { continue };
        let (kind, plain) = (config.stages[source].kind.as_str(), port(config, edge) != Some(FAILED));
        let mut object = |text: String, help: &str| {
            objections.push(Objection { subject: Subject::Edge(index), text, help: help.into() });
        };
        if config.stages[edge.to].kind == "completion_notify" {
            if plain && unposted.contains(&source) {
                let name = &config.stages[source].name;
                object(
                    format!("what `{name}` passes on has not been posted, and would be told as done"),
                    "lead here from `cq_reap`, and over the ports `failed`; what is to be posted goes to `wr_post`",
                );
            }
            if plain && matches!(edge.mode, Mode::Queue { when_full: WhenFull::Reject, .. }) {
                object(
                    "a full queue would make a failure of what is done".into(),
                    "write when_full = \"wait\": whoever reaps waits for room",
                );
            }
        }
        if kind == "cq_reap" && port(config, edge) == Some(OUT) {
            let onward = behind(config, [edge.to]);
            let told = of_kind("completion_notify").any(|notify| onward.contains(&notify));
            let anew = config.stages[edge.to].kind != "completion_notify" && unposted.contains(&edge.to);
            if !told || anew || matches!(edge.mode, Mode::Return { .. }) {
                object(
                    format!("what has been done goes to `{}` and is never told", config.stages[edge.to].name),
                    "lead it to `completion_notify`",
                );
            }
        }
    }
    objections
}

fn port<'a>(config: &'a Config, edge: &EdgeDecl) -> Option<&'a str> {
    let ports = &config.blueprint.stages[edge.from?].shape.ports;
    ports.get(edge.port).map(|port| port.name.as_ref())
}

/// These stages and all that they lead to by plain ways forward.
fn behind(config: &Config, first: impl IntoIterator<Item = usize>) -> BTreeSet<usize> {
    let mut reached: BTreeSet<usize> = first.into_iter().collect();
    let mut open: Vec<usize> = reached.iter().copied().collect();
    while let Some(stage) = open.pop() {
        let onward = config.blueprint.edges.iter().filter(|e| e.from == Some(stage));
        let onward =
            onward.filter(|e| !matches!(e.mode, Mode::Return { .. }) && port(config, e) != Some(FAILED));
        open.extend(onward.map(|e| e.to).filter(|to| reached.insert(*to)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use pipeline_configs::{Options, load_str};

    use crate::catalog::catalog;

    /// A way past the wire, a way back for what is done, and a queue that rejects it are objected to; the preset is not.
    #[test]
    fn objections() {
        let says = |edges: &str| {
            let file = format!("version = 1\nuse = \"pipeline\"\n[edges]\n{edges}\n");
            match load_str("t.toml", &file, &catalog(), &Options::default()) {
                Ok(_) => String::new(),
                Err(findings) => findings.to_string(),
            }
        };
        assert_eq!(says(""), "");
        for (edges, wanted) in [
            ("\"route -> notify\" = { queue = 8 }", "has not been posted"),
            ("\"retry -> notify\" = { queue = 8 }", "has not been posted"),
            ("\"reap -> notify\" = false\n\"reap -> retry\" = { queue = 8 }", "never told"),
            ("\"reap -> notify\" = { queue = 1, when_full = \"reject\" }", "make a failure"),
        ] {
            let said = says(edges);
            assert!(said.contains(wanted), "{edges}: {said}");
        }
    }
}
