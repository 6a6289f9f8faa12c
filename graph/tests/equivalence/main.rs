//! Edge modes never change outcomes: random graphs × random modes × random pools against a sequential walk.
//!
//! Every graph runs in three layouts (as drawn, all inline on one worker, a pool and queues for each stage).
//! `PROPTEST_CASES` raises the number of graphs.
#![allow(clippy::unwrap_used)] // Whatever is missing here is a failed test.

#[path = "../actors/mod.rs"]
mod actors;
mod genes;
mod graph;

use std::collections::BTreeMap;
use std::time::Duration;

use genes::genes;
use graph::{Layout, Run, Wiring};
use pipeline_graph::{Blueprint, Complaint, Mode, PoolKind, Rule, check};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

const LAYOUTS: [Layout; 3] = [Layout::Mixed, Layout::Inline, Layout::Queues];

/// Long enough for a starved machine; a graph of this size takes milliseconds.
const WATCHDOG: Duration = Duration::from_secs(20);

fn config() -> ProptestConfig {
    let cases = match std::env::var("PROPTEST_CASES") {
        Ok(_) => ProptestConfig::default().cases,
        Err(_) => 300,
    };
    ProptestConfig { cases, failure_persistence: None, max_shrink_time: 60_000, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    /// Whatever the check accepts runs to the end in every layout, with the outcomes and the per-port
    /// counts of a sequential walk, and drains to nothing.
    #[test]
    fn edge_modes_do_not_change_outcomes(genes in genes()) {
        let wiring = Wiring::new(&genes);
        let want = wiring.oracle();
        for layout in LAYOUTS {
            let run = Run::new(&genes, &wiring, layout, want.made);
            if check(&run.rig.blueprint).is_empty() {
                let got = run.finish(&want, genes.items, WATCHDOG).map_err(|stuck| {
                    TestCaseError::fail(format!("{layout:?}: {stuck}"))
                })?;
                prop_assert_eq!(&got, &want, "{:?}", layout);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// The check finds a deadlock exactly where taking away stages that wait for nobody does not take away
    /// all, and the cycle it prints is one.
    #[test]
    fn deadlocks_are_found_exactly(genes in genes()) {
        let wiring = Wiring::new(&genes);
        for layout in LAYOUTS {
            let graph = Run::new(&genes, &wiring, layout, 1).rig.blueprint;
            let found: Vec<Complaint> =
                check(&graph).into_iter().filter(|c| c.rule == Rule::Deadlock).collect();
            prop_assert_eq!(!found.is_empty(), is_cyclic(&graph), "{:?}", found);
            for complaint in found {
                prop_assert!(is_cycle_of(&graph, &complaint.text), "{}", complaint.text);
            }
        }
    }
}

/// Most random graphs are accepted, and every rule that the genes can break is broken by some: neither test
/// above is empty.
#[test]
fn the_genes_are_rich() {
    let mut runner = TestRunner::deterministic();
    let (mut accepted, mut broken) = (0, BTreeMap::<Rule, u32>::new());
    let (mut inline, mut ringed) = (0, 0);
    for _ in 0..400 {
        let genes = genes().new_tree(&mut runner).unwrap().current();
        let run = Run::new(&genes, &Wiring::new(&genes), Layout::Mixed, 1);
        let found = check(&run.rig.blueprint);
        accepted += u32::from(found.is_empty());
        if found.is_empty() {
            let graph = &run.rig.blueprint;
            let stolen =
                |s: usize| graph.stages[s].pool.is_some_and(|p| graph.pools[p].kind == PoolKind::Stealing);
            let into =
                |inline| graph.edges.iter().any(|e| stolen(e.to) && (e.mode == Mode::Inline) == inline);
            (inline, ringed) = (inline + u32::from(into(true)), ringed + u32::from(into(false)));
        }
        found.iter().for_each(|c| *broken.entry(c.rule).or_default() += 1);
    }
    assert!(accepted > 200, "{accepted} of 400 accepted; {broken:?}");
    assert!(inline > 40 && ringed > 40, "jobs: {inline} graphs give inline, {ringed} over rings");
    for rule in [
        Rule::Deadlock,
        Rule::InlineAcrossPools,
        Rule::QueueToNowhere,
        Rule::ReturnForward,
        Rule::LoopExpands,
    ] {
        assert!(broken.contains_key(&rule), "{rule:?} never broken: {broken:?}");
    }
}

/// Kahn's way, as a second opinion: forward edges only (these graphs wait for no resources).
fn is_cyclic(graph: &Blueprint) -> bool {
    let mut left: Vec<usize> = (0..graph.stages.len()).collect();
    loop {
        let waits = |s: usize| {
            let forward = graph.edges.iter().filter(|e| !matches!(e.mode, Mode::Return { .. }));
            forward.filter(|e| e.from == Some(s)).any(|e| left.contains(&e.to))
        };
        let still: Vec<usize> = left.iter().copied().filter(|s| waits(*s)).collect();
        if still.len() == left.len() {
            return !left.is_empty();
        }
        left = still;
    }
}

/// Whether the path in a complaint goes over forward edges and ends where it starts, at its first stage in
/// file order.
fn is_cycle_of(graph: &Blueprint, text: &str) -> bool {
    let path: Vec<usize> =
        text.rsplit(": ").next().unwrap().split(" -> ").map(|name| graph.stage(name).unwrap()).collect();
    let wired = |from, to| {
        let joins = |e: &&pipeline_graph::EdgeDecl| e.from == Some(from) && e.to == to;
        graph.edges.iter().filter(joins).any(|e| !matches!(e.mode, Mode::Return { .. }))
    };
    path[0] == path[path.len() - 1]
        && path.iter().min() == Some(&path[0])
        && path.windows(2).all(|w| wired(w[0], w[1]))
}
