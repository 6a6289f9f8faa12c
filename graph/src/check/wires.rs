//! Rules about single wires: both ends exist, ports are wired once, rings have room, `reject` has a way out.

use std::collections::HashMap;

use super::hops::Hops;
use super::{Complaint, MAX_CAPACITY, Rule, Subject};
use crate::blueprint::{Blueprint, FAILED, Mode, OUT, SUBMIT, StageDecl, WhenFull};

/// Ends of edges and pools of stages exist.
pub(super) fn dangling(blueprint: &Blueprint, found: &mut Vec<Complaint>) {
    let (stages, pools) = (&blueprint.stages, &blueprint.pools);
    for (i, stage) in stages.iter().enumerate() {
        if stage.pool.is_some_and(|p| p >= pools.len()) {
            let text = format!("stage `{}` names a pool that is not there", stage.name);
            let names = listed(pools.iter().map(|p| p.name.as_str()));
            found.push(Complaint::new(Rule::Dangling, Subject::Stage(i), text, format!("pools: {names}")));
        }
    }
    for (i, edge) in blueprint.edges.iter().enumerate() {
        let from = edge.from.map(|f| stages.get(f));
        let (what, known) = match from {
            Some(None) => ("starts at a stage", listed(stages.iter().map(|s| s.name.as_str()))),
            Some(Some(stage)) if edge.port >= stage.shape.ports.len() => {
                ("starts at a port", ports_of(stage))
            }
            None if edge.port != 0 => ("starts at a port", format!("`{SUBMIT}` has one port")),
            _ if edge.to >= stages.len() => {
                ("ends at a stage", listed(stages.iter().map(|s| s.name.as_str())))
            }
            _ => continue,
        };
        let text = format!("edge `{}` {what} that is not there", blueprint.edge_name(edge));
        found.push(Complaint::new(Rule::Dangling, Subject::Edge(i), text, format!("known: {known}")));
    }
}

/// Names are unique, and `submit` stays reserved.
pub(super) fn names(blueprint: &Blueprint, found: &mut Vec<Complaint>) {
    let mut seen = HashMap::new();
    for (i, pool) in blueprint.pools.iter().enumerate() {
        if let Some(first) = seen.insert(&pool.name, i) {
            let text = format!("two pools are called `{}`", pool.name);
            let complaint = Complaint::new(Rule::NameTaken, Subject::Pool(i), text, "rename one of them");
            found.push(complaint.with([Subject::Pool(first)]));
        }
    }
    let mut seen = HashMap::new();
    for (i, stage) in blueprint.stages.iter().enumerate() {
        if stage.name == SUBMIT {
            let text = format!("a stage is called `{SUBMIT}`, which is reserved for the outside");
            found.push(Complaint::new(Rule::NameTaken, Subject::Stage(i), text, "rename it"));
        }
        if let Some(first) = seen.insert(&stage.name, i) {
            let text = format!("two stages are called `{}`", stage.name);
            let complaint = Complaint::new(Rule::NameTaken, Subject::Stage(i), text, "rename one of them");
            found.push(complaint.with([Subject::Stage(first)]));
        }
    }
}

/// Every required port is wired, and none twice.
pub(super) fn ports(hops: &Hops, found: &mut Vec<Complaint>) {
    let mut first: HashMap<(Option<usize>, usize), usize> = HashMap::new();
    for &i in &hops.edges {
        let edge = &hops.blueprint.edges[i];
        let Some(&before) = first.get(&(edge.from, edge.port)) else {
            first.insert((edge.from, edge.port), i);
            continue;
        };
        let port = edge.from.map_or(SUBMIT.to_owned(), |f| port_name(&hops.blueprint.stages[f], edge.port));
        let text =
            format!("`{port}` is wired twice: `{}` and `{}`", hops.edge_name(before), hops.edge_name(i));
        let help = "an item goes one way: keep one of the two, or put a stage with two ports between";
        found.push(
            Complaint::new(Rule::PortWiredTwice, Subject::Edge(i), text, help).with([Subject::Edge(before)]),
        );
    }
    for (s, stage) in hops.blueprint.stages.iter().enumerate() {
        for (p, port) in stage.shape.ports.iter().enumerate() {
            if port.required && !first.contains_key(&(Some(s), p)) {
                let name = port_name(stage, p);
                let text = format!("`{name}` is not wired");
                let help = format!("add an edge `{name} -> STAGE`");
                found.push(Complaint::new(Rule::PortUnwired, Subject::Stage(s), text, help));
            }
        }
    }
}

/// Rings hold something, and what `reject` refuses has a way out.
pub(super) fn queues(hops: &Hops, found: &mut Vec<Complaint>) {
    for &i in &hops.edges {
        let edge = &hops.blueprint.edges[i];
        let Mode::Queue { capacity, when_full, .. } = edge.mode else { continue };
        let name = hops.edge_name(i);
        if capacity == 0 || capacity > MAX_CAPACITY {
            let text = format!("the queue of `{name}` holds {capacity} batches");
            let help = format!("give it 1 to {MAX_CAPACITY} batches of up to 32 items");
            found.push(Complaint::new(Rule::Capacity, Subject::Edge(i), text, help));
        }
        let Some(from) = edge.from.filter(|_| when_full == WhenFull::Reject) else { continue };
        let stage = &hops.blueprint.stages[from];
        let failed = stage.shape.ports.iter().position(|p| p.name == FAILED);
        if failed == Some(edge.port) {
            let text = format!("`{name}` rejects when it is full, but it is where rejected items go");
            let help = "let this edge wait, or make it inline";
            found.push(Complaint::new(Rule::RejectNowhere, Subject::Edge(i), text, help));
            continue;
        }
        let wired = |e: &&usize| {
            let other = &hops.blueprint.edges[**e];
            other.from == Some(from) && Some(other.port) == failed
        };
        if !hops.edges.iter().any(|e| wired(&e)) {
            let text = format!("`{name}` rejects when it is full, but rejected items have nowhere to go");
            let help = match failed {
                Some(_) => format!("wire `{}.{FAILED} -> STAGE`, or let this edge wait", stage.name),
                None => format!("`{}` has no port `{FAILED}`: let this edge wait", stage.name),
            };
            found.push(Complaint::new(Rule::RejectNowhere, Subject::Edge(i), text, help));
        }
    }
}

/// `stage`, or `stage.port` for any port but `out`.
fn port_name(stage: &StageDecl, port: usize) -> String {
    match &stage.shape.ports[port].name {
        name if name == OUT => stage.name.clone(),
        name => format!("{}.{name}", stage.name),
    }
}

fn ports_of(stage: &StageDecl) -> String {
    listed(stage.shape.ports.iter().map(|p| p.name.as_ref()))
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|n| format!("`{n}`")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Sketch, only, queue, reject, sink, through};
    use super::*;
    use crate::blueprint::EdgeDecl;

    fn pair(ports: &[&'static str]) -> Sketch {
        Sketch::new()
            .pool("p", 1)
            .stage("a", Some("p"), through(ports))
            .stage("b", Some("p"), sink())
            .edge("submit -> a", queue(1))
    }

    /// Indexes that lead nowhere are complaints that list what is there, and never a panic.
    #[test]
    fn dangling_ends() {
        let mut graph = pair(&["out"]).edge("a -> b", queue(1)).build();
        let good = graph.edges[1].clone();
        graph.edges.push(EdgeDecl { from: Some(9), ..good.clone() });
        graph.edges.push(EdgeDecl { port: 3, ..good.clone() });
        graph.edges.push(EdgeDecl { to: 7, ..good });
        graph.stages[1].pool = Some(4);
        let found: Vec<_> = super::super::check(&graph);
        let text: Vec<_> =
            found.iter().filter(|c| c.rule == Rule::Dangling).map(|c| c.text.as_str()).collect();
        assert_eq!(
            text,
            [
                "stage `b` names a pool that is not there",
                "edge `#9 -> b` starts at a stage that is not there",
                "edge `a.#3 -> b` starts at a port that is not there",
                "edge `a -> #7` ends at a stage that is not there",
            ]
        );
        assert_eq!(found[1].help, "known: `a`, `b`");
    }

    /// Two of a name are refused, and so is a stage called `submit`.
    #[test]
    fn names_are_unique() {
        let graph = pair(&["out"]).edge("a -> b", queue(1)).pool("p", 1).stage("b", Some("p"), sink());
        let mut graph = graph.build();
        graph.stages[0].name = "submit".into();
        let found: Vec<_> =
            super::super::check(&graph).into_iter().filter(|c| c.rule == Rule::NameTaken).collect();
        let subjects: Vec<_> = found.iter().map(|c| c.subject).collect();
        assert_eq!(subjects, [Subject::Pool(1), Subject::Stage(0), Subject::Stage(2)]);
        assert_eq!(found[2].places, [Subject::Stage(1)]);
    }

    /// A required port without a wire is named as the file would write it.
    #[test]
    fn required_port() {
        let graph = pair(&["out", "late"]).edge("a -> b", queue(1)).build();
        let complaint = only(&graph, Rule::PortUnwired);
        assert_eq!(
            (complaint.subject, complaint.text.as_str()),
            (Subject::Stage(0), "`a.late` is not wired")
        );
        assert_eq!(complaint.help, "add an edge `a.late -> STAGE`");
    }

    /// There is no fan-out: a second wire from one port is refused, also from `submit`.
    #[test]
    fn no_fan_out() {
        let graph = pair(&["out"]).edge("a -> b", queue(1)).edge("a -> b", queue(2)).build();
        let complaint = only(&graph, Rule::PortWiredTwice);
        assert_eq!((complaint.subject, complaint.places[0]), (Subject::Edge(2), Subject::Edge(1)));
        let graph = pair(&["out"]).edge("a -> b", queue(1)).edge("submit -> b", queue(2)).build();
        assert_eq!(
            only(&graph, Rule::PortWiredTwice).text,
            "`submit` is wired twice: `submit -> a` and `submit -> b`"
        );
    }

    /// A queue holds at least one batch, and not so many that starting would eat the machine.
    #[test]
    fn capacity_bounds() {
        for (capacity, bad) in [(0, true), (1, false), (MAX_CAPACITY, false), (MAX_CAPACITY + 1, true)] {
            let graph = pair(&["out"]).edge("a -> b", queue(capacity)).build();
            assert_eq!(
                super::super::check(&graph).iter().any(|c| c.rule == Rule::Capacity),
                bad,
                "{capacity}"
            );
        }
    }

    /// `reject` wants a wired `failed` port, cannot sit on that port's own wire, and is free at `submit`.
    #[test]
    fn reject_needs_a_way_out() {
        let graph = pair(&["out"]).edge("a -> b", reject(1)).build();
        assert!(only(&graph, Rule::RejectNowhere).help.contains("no port `failed`"));
        let graph = pair(&["out", "?failed"]).edge("a -> b", reject(1)).build();
        assert!(only(&graph, Rule::RejectNowhere).help.contains("wire `a.failed -> STAGE`"));
        let both =
            pair(&["out", "failed"]).edge("a -> b", reject(1)).edge("a.failed -> b", reject(1)).build();
        assert_eq!(only(&both, Rule::RejectNowhere).subject, Subject::Edge(2));
        let mut fine =
            pair(&["out", "failed"]).edge("a -> b", reject(1)).edge("a.failed -> b", queue(1)).build();
        fine.edges[0].mode = reject(1);
        assert_eq!(super::super::check(&fine), vec![]);
    }
}
