//! Rules about pools of kind `caller`: no threads, and nothing in them that must go on while nobody calls.

use super::hops::Hops;
use super::pools::runs_in;
use super::{Complaint, Rule, Subject};
use crate::blueprint::PoolKind;

/// What is said of threads belongs to pools that have some, and stages that need one are not in a pool without, nor
/// reached inline from there.
pub(super) fn callers(hops: &Hops, found: &mut Vec<Complaint>) {
    let blueprint = hops.blueprint;
    let caller = |pool: usize| blueprint.pools.get(pool).filter(|p| p.kind == PoolKind::Caller);
    for i in 0..blueprint.pools.len() {
        let Some(pool) = caller(i).filter(|p| p.threads != 1 || !p.cpus.is_empty()) else { continue };
        let text =
            format!("pool `{}` is of kind `caller`: it has no threads to be counted or pinned", pool.name);
        let help = "take that out: whoever submits and waits steps its one worker";
        found.push(Complaint::new(Rule::CallerThreads, Subject::Pool(i), text, help));
    }
    for (s, pools) in runs_in(hops).iter().enumerate() {
        let stage = &blueprint.stages[s];
        let Some(why) = stage.shape.contract.resident else { continue };
        let Some(pool) = pools.iter().find_map(|p| caller(*p)) else { continue };
        let text = format!("`{}` runs in pool `{}` of kind `caller`, but {why}", stage.name, pool.name);
        let help = match stage.pool {
            Some(_) => "put it into a pool of kind `resident`",
            None => "reach it from pools of kind `resident` only, or name one for it and use a queue",
        };
        found.push(Complaint::new(Rule::CallerStage, Subject::Stage(s), text, help));
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::super::fixture::{INLINE, Sketch, anywhere, only, queue, source, through};
    use super::*;

    fn graph(why: Option<&'static str>) -> crate::Blueprint {
        let mut end = anywhere(&[]);
        end.contract.resident = why;
        let mut graph = Sketch::new()
            .pool("app", 1)
            .pool("own", 1)
            .stage("a", Some("app"), through(&["out"]))
            .stage("end", None, end)
            .stage("s", Some("own"), source(&[]))
            .edge("submit -> a", queue(1))
            .edge("a -> end", INLINE)
            .build();
        graph.stages[2].shape.contract.sink = true;
        graph.pools[0].kind = PoolKind::Caller;
        graph
    }

    /// A caller pool has one worker and no CPUs of its own; everything else about it is as in any pool.
    #[test]
    fn callers_have_no_threads() {
        assert_eq!(check(&graph(None)), vec![]);
        for (threads, cpus) in [(2, vec![]), (0, vec![]), (1, vec![3])] {
            let mut graph = graph(None);
            (graph.pools[0].threads, graph.pools[0].cpus) = (threads, cpus);
            let found = check(&graph);
            assert!(found.iter().any(|c| c.rule == Rule::CallerThreads && c.subject == Subject::Pool(0)));
        }
    }

    /// A stage that needs a thread is refused in a caller pool, and where it is only reached from one.
    #[test]
    fn some_stages_need_a_thread() {
        let reached = graph(Some("it must not sleep"));
        let complaint = only(&reached, Rule::CallerStage);
        assert_eq!(complaint.text, "`end` runs in pool `app` of kind `caller`, but it must not sleep");
        let mut own = graph(None);
        own.stages[2].shape.contract.resident = Some("it answers");
        assert_eq!(check(&own), vec![]);
        own.stages[2].pool = Some(0);
        assert!(check(&own).iter().any(|c| c.rule == Rule::CallerStage && c.subject == Subject::Stage(2)));
    }
}
