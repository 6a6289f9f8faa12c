//! Rules about return edges: each closes a cycle, holds every token there can be, and nothing on the way
//! round makes tokens.
//!
//! Deliberately not asked: that the stage at its start counts attempts. That an item stops going round is the
//! stage's promise; the graph only proves that going round never stops the others.

use std::collections::BTreeMap;

use super::hops::{Hops, Via};
use super::{Complaint, Rule, Subject};

/// Checks all return edges between stages (`submit` has a rule of its own).
pub(super) fn returns(hops: &Hops, found: &mut Vec<Complaint>) {
    let mut expanding: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for hop in &hops.hops {
        let Via::Return(edge) = hop.via else { continue };
        let name = hops.edge_name(edge);
        if hops.blueprint.tokens == 0 {
            let text = format!("`{name}` must hold every item there can be, but there is no limit on items");
            let help = "set the limit on items (tokens) that may exist at once";
            found.push(Complaint::new(Rule::ReturnUnbounded, Subject::Edge(edge), text, help));
        }
        let after = hops.reach([hop.to]);
        if !after[hop.from] {
            let (to, from) = (hops.name(hop.to), hops.name(hop.from));
            let text = format!(
                "`{name}` is a return edge, but it leads forward: no way leads from `{to}` to `{from}`"
            );
            let help = "use a queue, or inline within one pool";
            found.push(Complaint::new(Rule::ReturnForward, Subject::Edge(edge), text, help));
            continue;
        }
        let before = hops.reach_back([hop.from]);
        for (s, stage) in hops.blueprint.stages.iter().enumerate() {
            if stage.shape.contract.expands && after[s] && before[s] {
                expanding.entry(s).or_default().push(edge);
            }
        }
    }
    for (s, edges) in expanding {
        let name = hops.name(s);
        let text = format!(
            "`{name}` makes more items than it takes and stands inside the loop of `{}`: an item that comes \
             back would need room for more like itself while it holds its own",
            hops.edge_name(edges[0])
        );
        let help = format!("let the return edge end behind `{name}`");
        let complaint = Complaint::new(Rule::LoopExpands, Subject::Stage(s), text, help);
        found.push(complaint.with(edges.into_iter().map(Subject::Edge)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::super::fixture::{INLINE, Sketch, back, only, preset, queue, sink, through};
    use super::*;
    use crate::{Blueprint, Mode};

    fn line(mode: Mode) -> Blueprint {
        Sketch::new()
            .pool("p", 1)
            .stage("a", Some("p"), through(&["out"]))
            .stage("b", Some("p"), through(&["out", "again"]))
            .stage("end", Some("p"), sink())
            .edge("submit -> a", queue(1))
            .edge("a -> b", INLINE)
            .edge("b -> end", mode)
            .edge("b.again -> a", back())
            .tokens(32)
            .build()
    }

    /// A return edge that closes no cycle would be a queue without back-pressure: refused.
    #[test]
    fn return_leads_back() {
        assert_eq!(check(&line(INLINE)), vec![]);
        let complaint = only(&line(back()), Rule::ReturnForward);
        assert_eq!(complaint.subject, Subject::Edge(2));
        assert!(complaint.text.ends_with("no way leads from `end` to `b`"), "{}", complaint.text);
    }

    /// Without a limit on tokens there is no capacity that is never full.
    #[test]
    fn return_needs_a_limit() {
        let mut graph = line(INLINE);
        graph.tokens = 0;
        assert_eq!(only(&graph, Rule::ReturnUnbounded).subject, Subject::Edge(3));
    }

    /// A retry that comes back before the split would cut slices of slices while all slots are held by what
    /// waits behind it: refused, naming the stage and the edge.
    #[test]
    fn no_expansion_inside_a_loop() {
        let mut graph = preset();
        let split = graph.stage("split").unwrap();
        let edge = graph.edges.iter().position(|e| matches!(e.mode, Mode::Return { .. })).unwrap();
        graph.edges[edge].to = split;
        let complaint = only(&graph, Rule::LoopExpands);
        assert_eq!((complaint.subject, complaint.places), (Subject::Stage(split), vec![Subject::Edge(edge)]));
    }
}
