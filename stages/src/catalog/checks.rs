//! Rules of where slices are read back and compared: `checksum` knows only what `read_back` has fetched, and what was fetched must
//! be compared, or its piece of the scratch is never free again. Deliberately about these two types only.

use pipeline_configs::schema::Value;
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
    objections.extend(scratch(config));
    objections
}

/// What is read back has room: a piece of the scratch takes a slice. As [`crate::checksum::open_scratch`] judges when a node starts.
fn scratch(config: &Config) -> Option<Objection> {
    let stages = |kind| config.stages.iter().enumerate().filter(move |(_, stage)| stage.kind == kind);
    let bytes: u64 = stages("read_back").filter_map(|(_, stage)| stage.values.number("scratch")).sum();
    let ((at, first), (_, split)) = (stages("read_back").next()?, stages("request_split").next()?);
    let longest = match split.values.0.get("slice") {
        Some(Value::Text(word)) if word == "whole" => {
            let text =
                format!("`{}` reads slices back, and whole requests have no greatest length", first.name);
            let help = format!("give stage `{}` a `slice` other than \"whole\"", split.name);
            return Some(Objection { subject: Subject::Stage(at), text, help });
        }
        Some(Value::Number(bytes)) => Some(*bytes),
        Some(Value::PerName(table)) => table.values().copied().max(),
        _ => config.transports.iter().filter_map(|transport| transport.values.number("prefers")).max(),
    };
    let longest = longest?.min(config.limits.bytes_in_flight);
    (longest > bytes).then(|| Objection {
        subject: Subject::Stage(at),
        text: format!("`{}` has a scratch of {bytes} bytes for slices of up to {longest}", first.name),
        help: format!("raise `scratch`, or lower `slice` of stage `{}`", split.name),
    })
}

#[cfg(test)]
mod tests {
    use pipeline_configs::{Options, load_str};

    use crate::catalog::catalog;

    /// The shipped way is accepted; a check of what was not read back, a read-back that nobody checks, one of what was not done,
    /// one that is sent where no link is chosen, and a scratch without room for a slice are objected to.
    #[test]
    fn objections() {
        let says_of = |stages: &str, edges: &str| {
            let file = format!(
                "version = 1\nuse = \"tcp\"\n[pools]\ncrew = {{ kind = \"stealing\", threads = 2 }}\n[stages]\n{stages}\n\
                 back.type = \"read_back\"\nback.pool = \"nic\"\ncheck = {{ type = \"checksum\", pool = \"crew\" }}\n\
                 [edges]\n\"reap -> notify\" = false\n{edges}"
            );
            match load_str("t.toml", &file, &catalog(), &Options::default()) {
                Ok(_) => String::new(),
                Err(findings) => findings.to_string(),
            }
        };
        let says = |edges: &str| says_of("", edges);
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
        for (set, wanted) in [
            ("back.scratch = \"4KiB\"", "a scratch of 4096 bytes"),
            ("split.slice = \"64MiB\"", "up to 67108864"),
            ("split.slice = \"whole\"", "no greatest length"),
        ] {
            let said = says_of(set, &with(0, way[0]));
            assert!(said.contains(wanted), "{set}: {said}");
        }
    }
}
