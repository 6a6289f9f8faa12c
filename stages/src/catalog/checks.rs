//! Rules of where slices are read back and compared: `checksum` knows only what `read_back` has fetched, and what was fetched must
//! be compared, or its piece of the scratch is never free again. Deliberately about these two types only.

use pipeline_configs::{Config, Objection};
use pipeline_graph::Subject;
use pipeline_graph::blueprint::OUT;

/// `checksum` stands right behind `read_back`, `read_back` behind `cq_reap`, and what is read back goes where it can be sent.
pub(super) fn checks(config: &Config) -> Vec<Objection> {
    let kind = |stage: usize| config.stages[stage].kind.as_str();
    let blueprint = &config.blueprint;
    let mut objections = Vec::new();
    for (index, edge) in blueprint.edges.iter().enumerate() {
        let Some(from) = edge.from else { continue };
        let port = blueprint.stages[from].shape.ports.get(edge.port).map_or("", |port| port.name.as_ref());
        let (name, to) = (&config.stages[from].name, &config.stages[edge.to].name);
        let (text, help) = match (kind(from), port, kind(edge.to)) {
            ("read_back", OUT, "checksum") | ("cq_reap", OUT, "read_back") => continue,
            ("read_back", OUT, _) => (
                format!("what `{name}` has read back goes to `{to}`, and is never compared"),
                "lead it to a stage of type checksum",
            ),
            (_, _, "checksum") => (
                format!("`{to}` compares what was read back, and what `{name}` passes on was not"),
                "lead it to a stage of type read_back, and from there to the checksum",
            ),
            (_, _, "read_back") => (
                format!("`{to}` reads back what has been done, and what `{name}` passes on has not"),
                "lead `cq_reap` to it",
            ),
            ("read_back", "again", kind) if !["protocol_route", "nic_select"].contains(&kind) => (
                format!("`{name}` sends slices on their way again, and not over `{to}`"),
                "lead it to nic_select or protocol_route by a \"return\" edge",
            ),
            _ => continue,
        };
        objections.push(Objection { subject: Subject::Edge(index), text, help: help.into() });
    }
    objections
}

#[cfg(test)]
mod tests {
    use pipeline_configs::{Options, load_str};

    use crate::catalog::catalog;

    /// The shipped way is accepted; a check of what was not read back, a read-back that nobody checks, one of what was not done,
    /// and one that is sent where no link is chosen are objected to.
    #[test]
    fn objections() {
        let says = |edges: &str| {
            let file = format!(
                "version = 1\nuse = \"tcp\"\n[pools]\ncrew = {{ kind = \"stealing\", threads = 2 }}\n[stages]\n\
                 back = {{ type = \"read_back\", pool = \"nic\" }}\ncheck = {{ type = \"checksum\", pool = \"crew\" }}\n\
                 [edges]\n\"reap -> notify\" = false\n{edges}"
            );
            match load_str("t.toml", &file, &catalog(), &Options::default()) {
                Ok(_) => String::new(),
                Err(findings) => findings.to_string(),
            }
        };
        let way =
            ["\"reap -> back\"", "\"back.again -> select\"", "\"back -> check\"", "\"check -> notify\""];
        let with = |at: usize, edge: &'static str| {
            let mut way = way;
            way[at] = edge;
            let kinds = ["\"inline\"", "\"return\"", "\"inline\"", "\"inline\""];
            way.iter().zip(kinds).map(|(edge, kind)| format!("{edge} = {kind}\n")).collect::<String>()
        };
        assert_eq!(says(&with(0, way[0])), "");
        for (at, edge, wanted) in [
            (2, "\"back -> notify\"", "never compared"),
            (0, "\"reap -> check\"", "was not"),
            (0, "\"retry -> back\"", "has not"),
            (1, "\"back.again -> post\"", "not over `post`"),
        ] {
            let said = says(&with(at, edge));
            assert!(said.contains(wanted), "{edge}: {said}");
        }
    }
}
