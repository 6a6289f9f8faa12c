//! Rules about pools of kind `stealing`: a job keeps nothing, waits for nothing, and is over when its batch is.

use super::hops::Hops;
use super::{Complaint, Rule, Subject};
use crate::stage::Contract;

/// Stages in a pool that steals are `parallel`, and their contracts say nothing that is not.
pub(super) fn parallel(hops: &Hops, found: &mut Vec<Complaint>) {
    let blueprint = hops.blueprint;
    for s in (0..blueprint.stages.len()).filter(|s| blueprint.is_stolen(*s)) {
        let stage = &blueprint.stages[s];
        let Some(why) = objection(&stage.shape.contract) else { continue };
        let pool = stage.pool.map_or("?", |p| &blueprint.pools[p].name);
        let text = format!("`{}` runs in pool `{pool}` of kind `stealing`, but {why}", stage.name);
        let help = "put it into a pool of kind `resident`: jobs are for stages that keep nothing and wait for nothing";
        found.push(Complaint::new(Rule::NotParallel, Subject::Stage(s), text, help));
    }
}

/// Why a stage cannot run as jobs.
fn objection(contract: &Contract) -> Option<String> {
    if let Some(resource) = contract.waits_for.first() {
        return Some(format!("it waits for `{resource}`"));
    }
    let says = [
        (contract.source, "it makes items without input"),
        (contract.holds, "it holds items between batches"),
        (contract.polls, "it must be polled"),
        (!contract.parallel, "its type is not made for several threads at once"),
    ];
    says.iter().find(|(so, _)| *so).map(|(_, why)| (*why).to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::super::fixture::{INLINE, Sketch, back, only, queue, sink, source, through, waits};
    use super::*;
    use crate::blueprint::{Blueprint, PoolKind};
    use crate::stage::Shape;

    fn job(ports: &[&'static str]) -> Shape {
        let mut shape = through(ports);
        shape.contract.parallel = true;
        shape
    }

    /// `a` on a worker, `job` on a pool that steals, `end` where it is reached or on a worker.
    fn graph(shape: Shape, into: crate::Mode, on: crate::Mode, end: Option<&'static str>) -> Blueprint {
        let mut last = sink();
        last.contract.anywhere = true;
        let mut graph = Sketch::new()
            .pool("p", 1)
            .pool("crew", 2)
            .stage("a", Some("p"), through(&["out"]))
            .stage("job", Some("crew"), shape)
            .stage("end", end, last)
            .edge("submit -> a", queue(1))
            .edge("a -> job", into)
            .edge("job -> end", on)
            .build();
        graph.pools[1].kind = PoolKind::Stealing;
        graph
    }

    /// A parallel stage may be reached inline from any pool and go on inline where it came from, or over queues both ways.
    #[test]
    fn every_kind_of_edge() {
        for (into, on, end) in [
            (INLINE, INLINE, None),
            (INLINE, INLINE, Some("p")),
            (INLINE, queue(2), Some("p")),
            (queue(2), INLINE, None),
            (queue(2), queue(2), Some("p")),
        ] {
            assert_eq!(check(&graph(job(&["out"]), into, on, end)), vec![], "{into:?} {on:?} {end:?}");
        }
        let mut round = graph(job(&["out"]), queue(2), INLINE, Some("p"));
        let complaint = only(&round, Rule::InlineAcrossPools);
        assert_eq!(
            complaint.text,
            "`job -> end` is inline, but `job` runs in pool `crew` and `end` in pool `p`"
        );
        assert!(complaint.help.contains("make the edge into `job` inline"), "{}", complaint.help);
        (round.edges[2].mode, round.tokens) = (back(), 8);
        only(&round, Rule::ReturnForward);
    }

    /// Whatever keeps, waits or makes is refused, with what speaks against it; what only takes part is not.
    #[test]
    fn only_parallel_stages() {
        let plain = graph(through(&["out"]), INLINE, INLINE, None);
        let complaint = only(&plain, Rule::NotParallel);
        assert!(complaint.text.ends_with("`stealing`, but its type is not made for several threads at once"));
        let but = |change: fn(&mut Contract)| {
            let mut shape = job(&["out"]);
            change(&mut shape.contract);
            only(&graph(shape, INLINE, INLINE, None), Rule::NotParallel).text
        };
        assert!(but(|c| c.holds = true).ends_with("it holds items between batches"));
        assert!(but(|c| c.polls = true).ends_with("it must be polled"));
        let waiting = graph(waits(job(&["out"]), &["x"], &["x"]), INLINE, INLINE, None);
        assert!(check(&waiting).iter().any(|c| c.text.ends_with("it waits for `x`")));
        let mut made = source(&["out"]);
        made.contract.parallel = true;
        assert!(check(&graph(made, INLINE, INLINE, None)).iter().any(|c| c.rule == Rule::NotParallel));
    }

    /// A pool that has work beside the graph needs no stage.
    #[test]
    fn work_beside_the_graph() {
        let mut graph = graph(job(&["out"]), INLINE, INLINE, None);
        graph.stages[1].pool = Some(0);
        only(&graph, Rule::PoolUnused);
        graph.pools[1].beside = true;
        assert_eq!(check(&graph), vec![]);
    }
}
