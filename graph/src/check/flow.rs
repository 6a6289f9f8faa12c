//! Rules about ways in and ways out: every stage can be reached, and from every stage items can end.

use super::hops::Hops;
use super::{Complaint, Rule, Subject};

/// Every stage is entered by something that starts at `submit` or at a source.
pub(super) fn entries(hops: &Hops, found: &mut Vec<Complaint>) {
    let blueprint = hops.blueprint;
    let mut starts: Vec<usize> = Vec::new();
    for (s, stage) in blueprint.stages.iter().enumerate() {
        let mut into = hops.edges.iter().map(|e| &blueprint.edges[*e]).filter(|e| e.to == s).peekable();
        if stage.shape.contract.source {
            starts.push(s);
        } else if into.peek().is_none() {
            // One complaint at the root: what hangs below it counts as reached.
            starts.push(s);
            let text = format!("nothing enters stage `{}`", stage.name);
            let help =
                format!("add an edge `STAGE -> {0}` or `submit -> {0}`, or take the stage out", stage.name);
            found.push(Complaint::new(Rule::NoInput, Subject::Stage(s), text, help));
        } else if into.any(|e| e.from.is_none()) {
            starts.push(s);
        }
    }
    let seen = hops.reach(starts);
    for (s, _) in seen.iter().enumerate().filter(|(_, seen)| !**seen) {
        let text =
            format!("no item can reach stage `{}`: neither `submit` nor a source leads to it", hops.name(s));
        let help = "connect the loop it is in to the rest of the graph, or take it out";
        found.push(Complaint::new(Rule::Unreachable, Subject::Stage(s), text, help));
    }
}

/// From every stage an item can get to one that ends it.
pub(super) fn ends(hops: &Hops, found: &mut Vec<Complaint>) {
    let mut ends: Vec<usize> = Vec::new();
    for (s, stage) in hops.blueprint.stages.iter().enumerate() {
        let contract = &stage.shape.contract;
        let leads_on = hops.hops.iter().any(|h| h.from == s);
        // A source without wires works for others (the target side of a transport) and makes no items.
        if contract.sink || (contract.source && !leads_on) {
            ends.push(s);
        } else if !leads_on {
            ends.push(s);
            let text =
                format!("items stop at stage `{}`: no edge leaves it and it does not end them", stage.name);
            let help = format!("add an edge `{} -> STAGE`", stage.name);
            found.push(Complaint::new(Rule::DeadEnd, Subject::Stage(s), text, help));
        }
    }
    let seen = hops.reach_back(ends);
    for (s, _) in seen.iter().enumerate().filter(|(_, seen)| !**seen) {
        let text =
            format!("items at stage `{}` go round for ever: no way from it leads to an end", hops.name(s));
        let help = "wire a port inside the loop to a stage that ends items";
        found.push(Complaint::new(Rule::DeadEnd, Subject::Stage(s), text, help));
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::super::fixture::{Sketch, back, only, queue, sink, source, through};
    use super::*;

    fn rules(graph: &crate::Blueprint, rule: Rule) -> Vec<Subject> {
        check(graph).into_iter().filter(|c| c.rule == rule).map(|c| c.subject).collect()
    }

    /// A stage that nothing enters is named once; what hangs below it is not named as well.
    #[test]
    fn no_input() {
        let graph = Sketch::new()
            .pool("p", 1)
            .stage("a", Some("p"), through(&["out"]))
            .stage("b", Some("p"), through(&["out"]))
            .stage("c", Some("p"), sink())
            .edge("a -> b", queue(1))
            .edge("b -> c", queue(1))
            .build();
        assert_eq!(only(&graph, Rule::NoInput).subject, Subject::Stage(0));
    }

    /// A loop on its own, joined to nothing, is unreachable; a source makes it reachable.
    #[test]
    fn island() {
        let island = |first| {
            Sketch::new()
                .pool("p", 1)
                .stage("a", Some("p"), sink())
                .stage("x", Some("p"), first)
                .stage("y", Some("p"), through(&["out", "end"]))
                .stage("z", Some("p"), sink())
                .edge("submit -> a", queue(1))
                .edge("x -> y", queue(1))
                .edge("y -> x", back())
                .edge("y.end -> z", queue(1))
                .tokens(8)
                .build()
        };
        let unreachable = rules(&island(through(&["out"])), Rule::Unreachable);
        assert_eq!(unreachable, [Subject::Stage(1), Subject::Stage(2), Subject::Stage(3)]);
        assert_eq!(check(&island(source(&["out"]))), vec![]);
    }

    /// A stage that neither ends items nor passes them on is a dead end, and so is a loop without exit; a
    /// source without wires is not.
    #[test]
    fn dead_ends() {
        let graph = Sketch::new()
            .pool("p", 1)
            .stage("a", Some("p"), through(&["out"]))
            .stage("b", Some("p"), through(&["?out"]))
            .stage("serve", Some("p"), source(&["?failed"]))
            .edge("submit -> a", queue(1))
            .edge("a -> b", queue(1))
            .build();
        assert_eq!(only(&graph, Rule::DeadEnd).subject, Subject::Stage(1));
        let round = Sketch::new()
            .pool("p", 1)
            .stage("a", Some("p"), through(&["out"]))
            .stage("b", Some("p"), through(&["out"]))
            .edge("submit -> a", queue(1))
            .edge("a -> b", queue(1))
            .edge("b -> a", back())
            .build();
        assert_eq!(rules(&round, Rule::DeadEnd), [Subject::Stage(0), Subject::Stage(1)]);
    }
}
