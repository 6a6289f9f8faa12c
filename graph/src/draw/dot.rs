//! The graph for Graphviz: pools as boxes, inline chains as rounded boxes in them, return edges dashed.

use std::fmt::Write;

use super::{label, pool_title};
use crate::blueprint::{Blueprint, Mode, SUBMIT};
use crate::plan::grouped;

/// Draws the graph in the dot language.
pub fn dot(blueprint: &Blueprint) -> String {
    let mut out = String::from("digraph pipeline {\n  rankdir=LR;\n  node [shape=box, style=rounded];\n");
    if blueprint.edges.iter().any(|e| e.from.is_none()) {
        let _ = writeln!(out, "  submit [label={}, shape=plaintext];", quoted(SUBMIT));
    }
    let chains = grouped(blueprint);
    for (p, pool) in blueprint.pools.iter().enumerate() {
        let _ = writeln!(out, "  subgraph cluster_pool{p} {{\n    label={};", quoted(&pool_title(pool)));
        for (c, (_, members, _)) in chains.iter().enumerate().filter(|(_, (of, ..))| *of == p) {
            let chained = members.len() > 1;
            if chained {
                let _ = writeln!(
                    out,
                    "    subgraph cluster_chain{c} {{\n      label=\"\"; style=\"rounded,dotted\";"
                );
            }
            for stage in members {
                let indent = if chained { "      " } else { "    " };
                let _ = writeln!(out, "{indent}{}", node(blueprint, *stage));
            }
            if chained {
                out.push_str("    }\n");
            }
        }
        out.push_str("  }\n");
    }
    for (s, _) in blueprint.stages.iter().enumerate().filter(|(_, s)| s.pool.is_none()) {
        let _ = writeln!(out, "  {}", node(blueprint, s));
    }
    for edge in &blueprint.edges {
        let from = edge.from.map_or_else(|| "submit".to_owned(), |f| format!("s{f}"));
        let mut marks = Vec::new();
        let label = label(blueprint, edge);
        if !label.is_empty() {
            marks.push(format!("label={}", quoted(&label)));
        }
        match edge.mode {
            Mode::Inline => {}
            Mode::Queue { .. } => marks.push("penwidth=2".into()),
            // A return edge must not push its target to the right of the stages that feed it.
            Mode::Return { .. } => marks.push("style=dashed, constraint=false".into()),
        }
        let marks = if marks.is_empty() { String::new() } else { format!(" [{}]", marks.join(", ")) };
        let _ = writeln!(out, "  {from} -> s{}{marks};", edge.to);
    }
    out.push_str("}\n");
    out
}

fn node(blueprint: &Blueprint, stage: usize) -> String {
    let decl = &blueprint.stages[stage];
    let kind = if decl.kind == decl.name { String::new() } else { format!("\n{}", decl.kind) };
    let sides = if decl.shape.contract.source || decl.shape.contract.sink { ", peripheries=2" } else { "" };
    format!("s{stage} [label={}{sides}];", quoted(&format!("{}{kind}", decl.name)))
}

/// A dot string: quotes and backslashes escaped, line ends as `\n`.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::fixture::{INLINE, Sketch, back, preset, queue, sink, through};

    /// A small graph, whole: box a pool, box a chain, thick queue with its bound, dashed return.
    #[test]
    fn small_graph() {
        let graph = Sketch::new()
            .pool("p\"q", 2)
            .stage("a", Some("p\"q"), through(&["out"]))
            .stage("b", Some("p\"q"), through(&["out", "again"]))
            .stage("end", None, sink())
            .edge("submit -> a", queue(8))
            .edge("a -> b", INLINE)
            .edge("b -> end", INLINE)
            .edge("b.again -> a", back())
            .build();
        let want = r#"digraph pipeline {
  rankdir=LR;
  node [shape=box, style=rounded];
  submit [label="submit", shape=plaintext];
  subgraph cluster_pool0 {
    label="p\"q: 2 threads";
    subgraph cluster_chain0 {
      label=""; style="rounded,dotted";
      s0 [label="a"];
      s1 [label="b"];
    }
  }
  s2 [label="end", peripheries=2];
  submit -> s0 [label="queue 8", penwidth=2];
  s0 -> s1;
  s1 -> s2;
  s1 -> s0 [label="again: return", style=dashed, constraint=false];
}
"#;
        assert_eq!(dot(&graph), want);
    }

    /// Every stage is declared once and every edge drawn once, however the graph falls into pools and chains.
    #[test]
    fn complete() {
        let graph = preset();
        let drawn = dot(&graph);
        for s in 0..graph.stages.len() {
            assert_eq!(
                drawn.lines().filter(|l| l.trim_start().starts_with(&format!("s{s} ["))).count(),
                1,
                "stage {s}"
            );
        }
        assert_eq!(drawn.matches(" -> s").count(), graph.edges.len());
        assert_eq!(drawn.matches('{').count(), drawn.matches('}').count());
    }
}
