//! The plan as aligned text, for `validate`.

use std::fmt::Write;

use super::{ChainPlan, Plan};
use crate::blueprint::{Dispatch, Wait, WhenFull};
use crate::clock::Nanos;

impl Plan {
    /// The plan as text. `items` is what the reader calls an item, in the plural.
    pub fn text(&self, items: &str) -> String {
        let mut out = String::new();
        let threads = self.threads.iter().map(|t| {
            let cpu = t.cpu.map_or_else(|| "any cpu".to_owned(), |c| format!("cpu {c}"));
            let wait = if t.steals { "carries out jobs, sleeps without".to_owned() } else { wait(&t.wait) };
            vec![t.name.clone(), format!("pool {}", t.pool), format!("group {}", t.group), cpu, wait]
        });
        table(&mut out, &format!("threads ({})", self.threads.len()), threads.collect());
        let callers = self.callers.iter().map(|t| {
            let who = "no threads: whoever submits and waits steps it".to_owned();
            vec![t.name.clone(), format!("pool {}", t.pool), format!("group {}", t.group), who, wait(&t.wait)]
        });
        table(&mut out, "caller", callers.collect());
        let chains = self.chains.iter().map(|c| vec![c.pool.clone(), chain(c)]);
        table(&mut out, "chains, each without a queue inside", chains.collect());
        let queues = self.queues.iter().map(|q| {
            let bound = format!("{} batches ≤ {} {items}", q.batches * q.rings, q.items_max);
            let rings =
                if q.rings == 1 { "1 ring".into() } else { format!("{} rings × {}", q.rings, q.batches) };
            let rule = format!("{}, when full {}", dispatch(q.dispatch), when_full(q.when_full));
            vec![q.edge.clone(), bound, rings, bytes(q.bytes), rule]
        });
        table(&mut out, "queues", queues.collect());
        let returns = self.returns.iter().map(|r| {
            let rings =
                if r.rings == 1 { "1 ring".into() } else { format!("{} rings × {}", r.rings, r.items) };
            let rule = format!("{}, never full", dispatch(r.dispatch));
            vec![r.edge.clone(), format!("all {} {items}", r.items), rings, bytes(r.bytes), rule]
        });
        table(&mut out, "return edges", returns.collect());
        let _ = writeln!(out, "memory of all edges: {}", bytes(self.bytes));
        out
    }
}

/// A heading and rows in aligned columns; nothing at all without rows.
fn table(out: &mut String, heading: &str, rows: Vec<Vec<String>>) {
    if rows.is_empty() {
        return;
    }
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let _ = writeln!(out, "{heading}");
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, w)| format!("{cell:<w$}")).collect();
        let _ = writeln!(out, "  {}", cells.join("  ").trim_end());
    }
}

fn chain(chain: &ChainPlan) -> String {
    let stages = chain.stages.join(if chain.linear { " -> " } else { ", " });
    if chain.reaches.is_empty() { stages } else { format!("{stages} (+ {})", chain.reaches.join(", ")) }
}

pub(crate) fn dispatch(dispatch: Dispatch) -> &'static str {
    match dispatch {
        Dispatch::Any => "any",
        Dispatch::Owner => "owner",
        Dispatch::Hash => "hash",
    }
}

pub(crate) fn when_full(when_full: WhenFull) -> &'static str {
    match when_full {
        WhenFull::Wait => "wait",
        WhenFull::Reject => "reject",
    }
}

/// How a worker waits, such as `spin 20us, yield 50us, park`.
pub(crate) fn wait(wait: &Wait) -> String {
    let mut steps = Vec::new();
    let forever = wait.park_ns == 0;
    let phases = [("spin", wait.spin_ns), ("yield", wait.yield_ns)];
    steps.extend(phases.iter().filter(|(_, ns)| *ns > 0).map(|(name, ns)| format!("{name} {}", time(*ns))));
    steps.push(if forever { "never sleep".into() } else { format!("park {}", time(wait.park_ns)) });
    if wait.adaptive { format!("adaptive: {}", steps.join(", ")) } else { steps.join(", ") }
}

fn time(ns: Nanos) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let whole = units.iter().find(|(unit, _)| ns > 0 && ns.is_multiple_of(*unit));
    whole.map_or_else(|| format!("{ns}ns"), |(unit, name)| format!("{}{name}", ns / unit))
}

/// A size with one decimal in its largest unit, for people: `5.3 MiB`.
pub fn bytes(bytes: u64) -> String {
    let units = [(1u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.iter().find(|(unit, _)| bytes >= *unit);
    unit.map_or_else(
        || format!("{bytes} B"),
        |(unit, name)| format!("{:.1} {name}", bytes as f64 / *unit as f64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blueprint::PoolKind;
    use crate::check::fixture::preset;

    /// A caller pool is told apart from threads, and as what it is.
    #[test]
    fn callers_are_no_threads() {
        let mut graph = preset();
        graph.pools[0].kind = PoolKind::Caller;
        let text = Plan::new(&graph).text("slices");
        let front =
            "caller\n  front  pool front  group front  no threads: whoever submits and waits steps it";
        assert!(text.starts_with("threads (3)\n  nic/0") && text.contains(front), "{text}");
    }

    /// The printed plan of the preset, whole: columns line up, and queues are given in batches and items.
    #[test]
    fn preset_text() {
        let mut graph = preset();
        graph.pools[0].wait.adaptive = true;
        graph.pools[0].wait.spin_ns = 0;
        graph.pools[2].wait.park_ns = 0;
        graph.pools[1].cpus = vec![3];
        let want = "\
threads (4)
  front  pool front  group front  any cpu  adaptive: yield 50us, park 1s
  nic/0  pool nic    group eth0   cpu 3    spin 20us, yield 50us, park 1s
  nic/1  pool nic    group eth1   cpu 3    spin 20us, yield 50us, park 1s
  files  pool files  group files  any cpu  spin 20us, yield 50us, never sleep
chains, each without a queue inside
  front  admit -> split -> route -> select (+ notify)
  nic    post, reap, retry (+ notify)
  nic    serve
  files  files
queues
  submit -> admit  1024 batches ≤ 32768 slices  1 ring        280.0 KiB  hash, when full wait
  select -> post   128 batches ≤ 4096 slices    2 rings × 64  35.0 KiB   owner, when full wait
return edges
  retry -> select  all 327680 slices  1 ring  5.0 MiB  any, never full
memory of all edges: 5.3 MiB
";
        assert_eq!(Plan::new(&graph).text("slices"), want);
    }

    /// Times and sizes are printed in their largest whole or readable unit.
    #[test]
    fn units() {
        assert_eq!(
            [time(0), time(1_500), time(20_000), time(3_000_000_000)],
            ["0ns", "1500ns", "20us", "3s"]
        );
        assert_eq!(
            [bytes(0), bytes(1023), bytes(1536), bytes(3 << 40)],
            ["0 B", "1023 B", "1.5 KiB", "3.0 TiB"]
        );
    }
}
