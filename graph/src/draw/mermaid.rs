//! The graph for mermaid: pools as subgraphs, inline chains as subgraphs in them, return edges dotted.

use std::fmt::Write;

use super::{label, pool_title};
use crate::blueprint::{Blueprint, Mode, SUBMIT};
use crate::plan::grouped;

/// Draws the graph as a mermaid flowchart.
pub fn mermaid(blueprint: &Blueprint) -> String {
    let mut out = String::from("flowchart LR\n");
    if blueprint.edges.iter().any(|e| e.from.is_none()) {
        let _ = writeln!(out, "  submit([{}])", quoted(SUBMIT));
    }
    let chains = grouped(blueprint);
    for (p, pool) in blueprint.pools.iter().enumerate() {
        let here: Vec<_> = chains.iter().enumerate().filter(|(_, (of, ..))| *of == p).collect();
        let _ = writeln!(out, "  subgraph pool{p}[{}]", quoted(&pool_title(pool)));
        for (c, (_, members, _)) in &here {
            // A chain that fills its pool needs no second box.
            let boxed = members.len() > 1 && here.len() > 1;
            let indent = if boxed { "      " } else { "    " };
            if boxed {
                let _ = writeln!(out, "    subgraph chain{c}[\" \"]");
            }
            for stage in members {
                let _ = writeln!(out, "{indent}{}", node(blueprint, *stage));
            }
            if boxed {
                out.push_str("    end\n");
            }
        }
        out.push_str("  end\n");
    }
    for (s, _) in blueprint.stages.iter().enumerate().filter(|(_, s)| s.pool.is_none()) {
        let _ = writeln!(out, "  {}", node(blueprint, s));
    }
    for edge in &blueprint.edges {
        let from = edge.from.map_or_else(|| "submit".to_owned(), |f| format!("s{f}"));
        let arrow = match edge.mode {
            Mode::Inline => "-->",
            Mode::Queue { .. } => "==>",
            Mode::Return { .. } => "-.->",
        };
        let label = label(blueprint, edge);
        let label = if label.is_empty() { String::new() } else { format!("|{}|", quoted(&label)) };
        let _ = writeln!(out, "  {from} {arrow}{label} s{}", edge.to);
    }
    out
}

fn node(blueprint: &Blueprint, stage: usize) -> String {
    let decl = &blueprint.stages[stage];
    let text =
        if decl.kind == decl.name { decl.name.clone() } else { format!("{}\n{}", decl.name, decl.kind) };
    let ends = decl.shape.contract.source || decl.shape.contract.sink;
    if ends { format!("s{stage}[[{}]]", quoted(&text)) } else { format!("s{stage}[{}]", quoted(&text)) }
}

/// A mermaid string: its own entities for what would end it, `<br/>` for a line end.
fn quoted(text: &str) -> String {
    let plain = text.replace('&', "#amp;").replace('"', "#quot;").replace('<', "#lt;").replace('>', "#gt;");
    format!("\"{}\"", plain.replace('\n', "<br/>"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::fixture::{INLINE, Sketch, back, preset, queue, sink, through};

    /// A small graph, whole: a subgraph for the pool, a thick queue with its bound, a dotted return.
    #[test]
    fn small_graph() {
        let graph = Sketch::new()
            .pool("p", 2)
            .stage("a", Some("p"), through(&["out"]))
            .stage("b", Some("p"), through(&["out", "again"]))
            .stage("end", None, sink())
            .edge("submit -> a", queue(8))
            .edge("a -> b", INLINE)
            .edge("b -> end", INLINE)
            .edge("b.again -> a", back())
            .build();
        let want = r#"flowchart LR
  submit(["submit"])
  subgraph pool0["p: 2 threads"]
    s0["a"]
    s1["b"]
  end
  s2[["end"]]
  submit ==>|"queue 8"| s0
  s0 --> s1
  s1 --> s2
  s1 -.->|"again: return"| s0
"#;
        assert_eq!(mermaid(&graph), want);
    }

    /// Chains beside others in a pool get boxes of their own; quotes cannot break out of a label.
    #[test]
    fn chains_and_quotes() {
        let mut graph = preset();
        graph.stages[0].name = "a\"]; x".into();
        let drawn = mermaid(&graph);
        assert!(drawn.contains("    subgraph chain1[\" \"]\n      s4[\"post\"]\n"), "{drawn}");
        assert!(drawn.contains("s0[\"a#quot;]; x<br/>admit\"]"), "{drawn}");
        assert_eq!(drawn.matches("subgraph ").count(), drawn.matches(" end\n").count());
    }
}
