//! The deadlock rule: forward edges and resource waits have no cycle.
//!
//! A stage waits only for room in a forward edge or for a declared resource; nobody blocks in a push, sinks
//! always accept and return edges hold every token. So if these waits have no cycle, of all stages that wait
//! one is last, nothing it needs is full, and it runs. (Two bounded queues in a retry loop locked up after
//! 324 items.) Deliberately conservative: a resource given by several stages is waited for from all of them.

use std::collections::VecDeque;

use super::hops::{Hop, Hops, Via};
use super::{Complaint, Rule, Subject};

/// Every resource that is waited for is given by some stage.
pub(super) fn resources(hops: &Hops, found: &mut Vec<Complaint>) {
    let stages = &hops.blueprint.stages;
    for (s, stage) in stages.iter().enumerate() {
        for resource in &stage.shape.contract.waits_for {
            if !stages.iter().any(|g| g.shape.contract.gives.contains(resource)) {
                let text = format!("`{}` waits for `{resource}`, which no stage gives back", stage.name);
                let help = format!("add the stage that gives `{resource}` back");
                found.push(Complaint::new(Rule::NoGiver, Subject::Stage(s), text, help));
            }
        }
    }
}

/// Reports cycles until there are none, leaving out of each the edge that the complaint proposes to turn
/// into a return edge: one complaint for each edge that has to change, not one for each way round.
pub(super) fn cycles(hops: &Hops, found: &mut Vec<Complaint>) {
    let mut left: Vec<Hop> = hops.hops.iter().filter(|h| !matches!(h.via, Via::Return(_))).copied().collect();
    for start in 0..hops.blueprint.stages.len() {
        while let Some(cycle) = cycle_from(start, &left) {
            let closing = closing(&cycle);
            left.retain(|h| *h != closing);
            found.push(complain(hops, &cycle, closing));
        }
    }
}

/// The shortest cycle whose first stage in file order is `start`.
fn cycle_from(start: usize, hops: &[Hop]) -> Option<Vec<Hop>> {
    let mut came: Vec<(usize, Hop)> = Vec::new();
    let mut ahead = VecDeque::from([start]);
    while let Some(at) = ahead.pop_front() {
        for hop in hops.iter().filter(|h| h.from == at && h.to >= start) {
            if hop.to == start {
                let mut cycle = vec![*hop];
                while let Some((_, before)) = came.iter().find(|(to, _)| *to == cycle[cycle.len() - 1].from) {
                    cycle.push(*before);
                }
                cycle.reverse();
                return Some(cycle);
            }
            if !came.iter().any(|(to, _)| *to == hop.to) {
                came.push((hop.to, *hop));
                ahead.push_back(hop.to);
            }
        }
    }
    None
}

/// The edge to turn into a return edge: the last that leads back in file order, else the last edge there is;
/// a cycle of resources alone has none, and its last wait stands for it.
fn closing(cycle: &[Hop]) -> Hop {
    let edges = || cycle.iter().rev().filter(|h| matches!(h.via, Via::Forward(_)));
    let back = edges().find(|h| h.to <= h.from);
    *back.or_else(|| edges().next()).unwrap_or(&cycle[cycle.len() - 1])
}

fn complain(hops: &Hops, cycle: &[Hop], closing: Hop) -> Complaint {
    let mut path: String = cycle.iter().map(|h| format!("{} -> ", hops.name(h.from))).collect();
    path.push_str(hops.name(cycle[0].from));
    let mut text = format!("these edges can fill up together and stop for ever: {path}");
    for hop in cycle {
        if let Via::Resource(resource) = hop.via {
            let (waiter, giver) = (hops.name(hop.from), hops.name(hop.to));
            text.push_str(&format!("; `{waiter}` waits for `{resource}`, which `{giver}` gives"));
        }
    }
    let place = |hop: &Hop| match hop.via {
        Via::Forward(edge) | Via::Return(edge) => Subject::Edge(edge),
        Via::Resource(_) => Subject::Stage(hop.from),
    };
    let help = match closing.via {
        Via::Forward(edge) => {
            let name = hops.edge_name(edge);
            format!("make `{name}` a \"return\" edge: it holds every item there can be and is never full")
        }
        _ => "no edge can break this: one of these stages must not wait while it holds what the other needs"
            .into(),
    };
    let others = cycle.iter().filter(|h| **h != closing).map(place);
    Complaint::new(Rule::Deadlock, place(&closing), text, help).with(others)
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::super::fixture::{INLINE, Sketch, back, only, preset, queue, sink, through, waits};
    use super::*;
    use crate::{Blueprint, Mode};

    fn retry_loop(way_back: Mode) -> Blueprint {
        Sketch::new()
            .pool("p", 1)
            .pool("q", 1)
            .stage("post", Some("p"), through(&["out"]))
            .stage("reap", Some("q"), through(&["out", "retry"]))
            .stage("retry", Some("q"), through(&["out"]))
            .stage("end", Some("q"), sink())
            .edge("submit -> post", queue(8))
            .edge("post -> reap", queue(8))
            .edge("reap -> end", INLINE)
            .edge("reap.retry -> retry", INLINE)
            .edge("retry -> post", way_back)
            .tokens(64)
            .build()
    }

    /// The naive retry loop of two bounded queues is refused, with its cycle as a path that starts at the
    /// first stage in file order; the same loop with a return edge is accepted.
    #[test]
    fn naive_retry_loop() {
        let complaint = only(&retry_loop(queue(8)), Rule::Deadlock);
        assert!(complaint.text.ends_with("for ever: post -> reap -> retry -> post"), "{}", complaint.text);
        assert_eq!(complaint.subject, Subject::Edge(4));
        assert_eq!(complaint.places, [Subject::Edge(1), Subject::Edge(3)]);
        assert!(complaint.help.starts_with("make `retry -> post` a \"return\" edge"));
        assert_eq!(check(&retry_loop(back())), vec![]);
    }

    /// Inline edges wait just as queues do: a loop of them is refused too, and so is a stage that feeds itself.
    #[test]
    fn inline_and_self_loops() {
        let mut graph = retry_loop(INLINE);
        graph.stages.iter_mut().for_each(|s| s.pool = Some(0));
        graph.edges[1].mode = INLINE;
        graph.pools.pop();
        only(&graph, Rule::Deadlock);
        let own = Sketch::new()
            .pool("p", 1)
            .stage("a", Some("p"), through(&["out", "again"]))
            .stage("end", Some("p"), sink())
            .edge("submit -> a", queue(1))
            .edge("a -> end", INLINE)
            .edge("a.again -> a", queue(1))
            .build();
        assert!(only(&own, Rule::Deadlock).text.ends_with("for ever: a -> a"));
    }

    /// A resource wait closes a cycle just as an edge does: the preset with a queue instead of its return
    /// edge is refused, although no edge leads from post to reap.
    #[test]
    fn resource_waits_count() {
        let mut graph = preset();
        let edge = graph.edges.iter().position(|e| matches!(e.mode, Mode::Return { .. })).unwrap();
        graph.edges[edge].mode = queue(64);
        let text = only(&graph, Rule::Deadlock).text;
        assert!(text.ends_with("select -> post -> retry -> select"), "{text}");
        let post = graph.stage("post").unwrap();
        graph.edges.retain(|e| !(e.from == Some(post) && e.port == 0));
        graph.stages[post].shape.ports[0].required = false;
        let text = only(&graph, Rule::Deadlock).text;
        assert!(text.contains("select -> post -> reap -> retry -> select"), "{text}");
        assert!(text.ends_with("`post` waits for `credits`, which `reap` gives"), "{text}");
    }

    /// Two stages that wait for each other's resources are refused, and told that no edge can help; a
    /// resource that nobody gives is a complaint of its own.
    #[test]
    fn resources_alone() {
        let line = |first, second| {
            Sketch::new()
                .pool("p", 1)
                .stage("a", Some("p"), first)
                .stage("b", Some("p"), second)
                .stage("end", Some("p"), sink())
                .edge("submit -> a", queue(1))
                .edge("a -> b", queue(1))
                .edge("b -> end", queue(1))
                .build()
        };
        let both = line(waits(through(&["out"]), &["x"], &["y"]), waits(through(&["out"]), &["y"], &["x"]));
        let found: Vec<_> = check(&both).into_iter().filter(|c| c.rule == Rule::Deadlock).collect();
        assert_eq!(found.len(), 2, "once over the edge, once over the resources: {found:?}");
        assert!(found[1].help.starts_with("no edge can break this"));
        let none = line(waits(through(&["out"]), &["x"], &[]), through(&["out"]));
        assert_eq!(only(&none, Rule::NoGiver).text, "`a` waits for `x`, which no stage gives back");
    }

    /// Several cycles are all reported in one run, one complaint for each edge that must change.
    #[test]
    fn every_cycle_once() {
        let graph = Sketch::new()
            .pool("p", 1)
            .stage("a", Some("p"), through(&["out"]))
            .stage("b", Some("p"), through(&["out", "back"]))
            .stage("c", Some("p"), through(&["out", "back"]))
            .stage("end", Some("p"), sink())
            .edge("submit -> a", queue(1))
            .edge("a -> b", queue(1))
            .edge("b -> c", queue(1))
            .edge("b.back -> a", queue(1))
            .edge("c.back -> b", queue(1))
            .edge("c -> end", queue(1))
            .build();
        let subjects: Vec<_> = check(&graph).iter().map(|c| c.subject).collect();
        assert_eq!(subjects, [Subject::Edge(3), Subject::Edge(4)]);
    }
}
