//! What no single table can know: the graph's own rules, the rules of the stage types, limits against workers,
//! and, as warnings, the CPUs of this machine. Each complaint is put where the file says the thing.

use pipeline_graph::{Complaint, PoolKind, Rule, Subject, check};

use crate::codes::{self, Code};
use crate::config::Config;
use crate::finding::{Finding, Report};
use crate::lower::Places;
use crate::schema::Catalog;
use crate::source::{Layer, Sources, Span};

/// Slices that a worker's free cache may hold, and what must remain for the others (DESIGN: a worker empties its
/// cache before it parks, so these are enough for all to go on).
const SLICES_PER_WORKER: u64 = 64;
const SLICES_SPARE: u64 = 32;

/// Judges a lowered file. `whole`: every stage, pool and edge could be read; otherwise rules that a missing one
/// would break are left out, because they would only repeat what was already found.
pub fn judge(
    config: &Config,
    places: &Places,
    catalog: &Catalog,
    sources: &Sources,
    allowed: &[usize],
    whole: bool,
    report: &mut Report,
) {
    for complaint in check(&config.blueprint) {
        if whole || stands_alone(complaint.rule) {
            let finding = graph_finding(&complaint, places);
            report.push(match (complaint.rule, complaint.subject, finding.place) {
                (Rule::PoolUnused, Subject::Pool(p), Some(at)) if sources.layer(at) == Layer::Preset => {
                    finding
                        .help(format!("write pools.{} = false in the file", config.blueprint.pools[p].name))
                }
                _ => finding,
            });
        }
    }
    if whole {
        for rule in &catalog.rules {
            for objection in rule(config) {
                let at = place(objection.subject, false, places);
                let finding = Finding::error(codes::GRAPH_RULE, at, objection.text);
                report.push(finding.help(objection.help));
            }
        }
        for objection in catalog.transport_rules.iter().flat_map(|rule| rule(config)) {
            let place = places.transports.get(objection.transport);
            let at = place.map_or(places.graph, |place| place.span(objection.key));
            let finding = Finding::error(codes::TRANSPORT_RULE, at, objection.text);
            report.push(finding.help(objection.help));
        }
        limits(config, places, report);
    }
    machine(config, places, allowed, report);
}

/// Rules that cannot be broken by a stage, pool or edge that is only missing because it could not be read.
fn stands_alone(rule: Rule) -> bool {
    matches!(rule, Rule::Deadlock | Rule::SubmitMode | Rule::Capacity | Rule::LoopExpands | Rule::Cpus)
}

fn code(rule: Rule) -> Code {
    match rule {
        Rule::Dangling => codes::STAGE_UNKNOWN,
        Rule::NameTaken => codes::NAME_SHARED,
        Rule::PortUnwired => codes::PORT_UNWIRED,
        Rule::PortWiredTwice => codes::PORT_TWICE,
        Rule::Capacity | Rule::Threads | Rule::PoolCrowded => codes::RANGE,
        Rule::RejectNowhere => codes::REJECT_UNWIRED,
        Rule::PoolUnused => codes::POOL_EMPTY,
        Rule::Cpus => codes::CPUS,
        Rule::CallerThreads | Rule::CallerStage => codes::CALLER,
        Rule::NotParallel => codes::NOT_PARALLEL,
        Rule::PoolMissing => codes::POOL_MISSING,
        Rule::QueueToNowhere => codes::POOL_RULE,
        Rule::InlineAcrossPools => codes::INLINE_ACROSS,
        Rule::SubmitMode => codes::ENTRY,
        Rule::NoInput | Rule::Unreachable => codes::UNREACHABLE,
        Rule::DeadEnd => codes::DEAD_END,
        Rule::Deadlock => codes::CYCLE,
        Rule::ReturnForward | Rule::ReturnUnbounded | Rule::LoopExpands => codes::RETURN_RULE,
        Rule::NoGiver | Rule::SourceUnpolled => codes::GRAPH_RULE,
    }
}

fn graph_finding(complaint: &Complaint, places: &Places) -> Finding {
    // These are about what the wire is made of, the others about where it goes.
    let value = matches!(complaint.rule, Rule::Capacity | Rule::RejectNowhere | Rule::SubmitMode);
    let at = match (complaint.rule, complaint.subject) {
        (Rule::PoolMissing | Rule::NotParallel, Subject::Stage(s)) => {
            places.stage_pools.get(s).copied().unwrap_or_default()
        }
        (Rule::Cpus, Subject::Pool(p)) => places
            .pool_cores
            .get(p)
            .copied()
            .flatten()
            .unwrap_or_else(|| place(complaint.subject, value, places)),
        _ => place(complaint.subject, value, places),
    };
    let finding = Finding::error(code(complaint.rule), at, complaint.text.clone());
    let finding = match complaint.rule {
        Rule::Deadlock if matches!(complaint.subject, Subject::Edge(_)) => {
            finding.label("this edge closes the cycle")
        }
        _ => finding,
    };
    let remark = match complaint.rule {
        Rule::Deadlock => "also part of the cycle",
        Rule::PortWiredTwice => "first wired here",
        Rule::NameTaken => "first named here",
        Rule::LoopExpands => "the loop comes back here",
        _ => "this belongs to it",
    };
    complaint
        .places
        .iter()
        .map(|subject| place(*subject, false, places))
        .filter(|other| *other != at)
        .fold(finding, |finding, other| finding.related(other, remark))
        .help(complaint.help.clone())
}

fn place(subject: Subject, value: bool, places: &Places) -> Span {
    let found = match subject {
        Subject::Graph => None,
        Subject::Pool(p) => places.pools.get(p).copied(),
        Subject::Stage(s) => places.stages.get(s).copied(),
        Subject::Edge(e) => places.edges.get(e).map(|edge| if value { edge.value } else { edge.hop }),
    };
    found.unwrap_or(places.graph)
}

fn limits(config: &Config, places: &Places, report: &mut Report) {
    let workers: u64 = config.blueprint.pools.iter().map(|p| p.consumers() as u64).sum();
    let least = SLICES_SPARE + SLICES_PER_WORKER * workers;
    if config.limits.slices < least {
        let message = format!(
            "`slices` = {} is too few for {workers} workers: each may keep {SLICES_PER_WORKER} free slots",
            config.limits.slices
        );
        let at = places.slices.unwrap_or(places.graph);
        let finding = Finding::error(codes::LIMITS_UNFIT, at, message);
        report.push(finding.help(format!("write slices = {least} or more, or use fewer threads")));
    }
}

/// Facts of the machine are warnings: the file may be meant for another one.
fn machine(config: &Config, places: &Places, allowed: &[usize], report: &mut Report) {
    if allowed.is_empty() {
        return;
    }
    let mut spinning = 0;
    for (index, pool) in config.blueprint.pools.iter().enumerate() {
        let at = places.pools.get(index).copied().unwrap_or(places.graph);
        let cpus = || pool.cpus.iter().chain(pool.group_cpus.iter().flatten());
        if let Some(cpu) = cpus().find(|cpu| !allowed.contains(cpu)) {
            let at = places.pool_cores.get(index).copied().flatten().unwrap_or(at);
            let message = format!("pool `{}` names CPU {cpu}, which this process may not use", pool.name);
            let finding = Finding::warning(codes::CPU_ABSENT, at, message);
            report.push(finding.help(format!("CPUs that it may use: {}", list(allowed))));
        }
        if pool.kind == PoolKind::Caller {
            continue;
        }
        if pool.workers() > allowed.len() {
            let message = format!(
                "pool `{}` has {} threads, but this process may use {} CPUs",
                pool.name,
                pool.workers(),
                allowed.len()
            );
            let finding = Finding::warning(codes::CPU_CROWDED, at, message);
            let (groups, cpus) = (pool.groups.len().max(1), allowed.len());
            let help = match cpus / groups {
                each if groups == 1 => format!("write threads = {each} or less on this machine"),
                0 => format!("it has {groups} groups of its own `per`; take `per` out to have one for all"),
                each => format!("write threads = {each} or less: that many for each of its {groups} groups"),
            };
            report.push(finding.help(help));
        }
        if pool.wait.park_ns == 0 && pool.kind == PoolKind::Resident {
            spinning += pool.workers();
        }
    }
    if spinning > allowed.len() {
        let message =
            format!("{spinning} workers never sleep, but this process may use {} CPUs", allowed.len());
        let finding = Finding::warning(codes::CPU_CROWDED, places.graph, message);
        report.push(finding.help("use wait = \"adaptive\" for some pools, or fewer threads"));
    }
}

/// CPUs as the kernel writes them.
fn list(cpus: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    let part = |(a, b): &(usize, usize)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPUs are shown as the file would list them.
    #[test]
    fn cpu_lists() {
        assert_eq!(list(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
    }
}
