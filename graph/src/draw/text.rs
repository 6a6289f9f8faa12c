//! The graph for a terminal: one block a pool, one line a wire.

use std::fmt::Write;

use super::{mode, pool_title, port};
use crate::blueprint::{Blueprint, EdgeDecl, Mode, OUT, SUBMIT, StageDecl};

/// Draws the graph as text, 7-bit clean.
pub fn text(blueprint: &Blueprint) -> String {
    let mut out = String::new();
    let outside: Vec<_> = blueprint.edges.iter().filter(|e| e.from.is_none()).collect();
    if !outside.is_empty() {
        let _ = writeln!(out, "{SUBMIT}");
        wires(&mut out, blueprint, &outside);
        out.push('\n');
    }
    for (p, pool) in blueprint.pools.iter().enumerate() {
        let _ = writeln!(out, "[{}]", pool_title(pool));
        block(&mut out, blueprint, |stage| stage.pool == Some(p));
        out.push('\n');
    }
    if blueprint.stages.iter().any(|s| s.pool.is_none()) {
        let _ = writeln!(out, "[no pool: runs where it is reached]");
        block(&mut out, blueprint, |stage| stage.pool.is_none());
        out.push('\n');
    }
    out.push_str("--> inline   ==> queue   ~~> return\n");
    out
}

fn block(out: &mut String, blueprint: &Blueprint, here: impl Fn(&StageDecl) -> bool) {
    for (s, stage) in blueprint.stages.iter().enumerate().filter(|(_, s)| here(s)) {
        let contract = &stage.shape.contract;
        let marks = [(contract.source, "source"), (contract.sink, "sink")];
        let marks: Vec<_> = marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark).collect();
        let kind = if stage.kind == stage.name { String::new() } else { format!(" : {}", stage.kind) };
        let marks = if marks.is_empty() { String::new() } else { format!(" ({})", marks.join(", ")) };
        let _ = writeln!(out, "  {}{kind}{marks}", stage.name);
        let leaving: Vec<_> = blueprint.edges.iter().filter(|e| e.from == Some(s)).collect();
        wires(out, blueprint, &leaving);
    }
}

fn wires(out: &mut String, blueprint: &Blueprint, edges: &[&EdgeDecl]) {
    let from =
        |e: &EdgeDecl| port(blueprint, e).unwrap_or(if e.from.is_some() { OUT } else { "" }).to_owned();
    let to =
        |e: &EdgeDecl| blueprint.stages.get(e.to).map_or_else(|| format!("#{}", e.to), |s| s.name.clone());
    let wide = |text: &dyn Fn(&EdgeDecl) -> String| edges.iter().map(|e| text(e).len()).max().unwrap_or(0);
    let (from_width, to_width) = (wide(&from), wide(&to));
    for edge in edges {
        let (arrow, note) = match edge.mode {
            Mode::Inline => ("-->", String::new()),
            Mode::Queue { .. } => ("==>", format!("  [{}]", mode(&edge.mode))),
            Mode::Return { .. } => ("~~>", format!("  [{}]", mode(&edge.mode))),
        };
        let line = format!("    {:from_width$} {arrow} {:to_width$}{note}", from(edge), to(edge));
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::fixture::preset;

    /// The preset as a terminal shows it, whole: pools, marks, ports, modes and bounds.
    #[test]
    fn preset_text() {
        let mut graph = preset();
        graph.stages[4].kind = "wr_post".into();
        let want = "\
submit
     ==> admit  [queue 1024, hash]

[front: 1 thread]
  admit
    out    --> split
    failed --> notify
  split
    out    --> route
    failed --> notify
  route
    out    --> select
    failed --> notify
  select
    out    ==> post    [queue 64, owner]
    failed --> notify

[nic: 2 threads (eth0, eth1)]
  post : wr_post
    retry  --> retry
    failed --> notify
  reap (source)
    out    --> notify
    retry  --> retry
    failed --> notify
  serve (source)
  retry
    out    ~~> select  [return]
    failed --> notify

[files: 1 thread]
  files (source)

[no pool: runs where it is reached]
  notify (sink)

--> inline   ==> queue   ~~> return
";
        assert_eq!(text(&graph), want);
    }
}
