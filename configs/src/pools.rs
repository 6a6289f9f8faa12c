//! `[pools.NAME]`: threads, what they are pinned to, and how they wait.

use pipeline_graph::near::Near;
use pipeline_graph::{PoolDecl, PoolKind, Wait};

use crate::body::{self, Body, Form};
use crate::codes;
use crate::cpu_list::{self, Cores};
use crate::finding::Finding;
use crate::names;
use crate::schema::{Change, Key, Kind};
use crate::source::{Layer, Span};
use crate::tree::{Entry, Table, Tree};
use crate::value::Scope;
use crate::wait;

/// Keys of a pool. `wait` is read apart: it is a word or a table.
pub const KEYS: &[Key] = &[
    Key {
        name: "kind",
        kind: Kind::Word(&["resident", "caller", "stealing"]),
        default: Some("resident"),
        required: false,
        doc: "Whose threads: `resident` are the engine's own, named and pinned on request; `caller`: the application's, which step it whenever they submit and wait (not for stages that must go on without them: serve, file_serve, callbacks); `stealing`: the engine's own as well, that carry out single batches of heavy stages for whoever reaches those stages (only for stages that keep nothing and wait for nothing: checksum), and the work that `[limits] register` gives them.",
        change: Change::Restart,
        ..Key::PLAIN
    },
    Key {
        name: "threads",
        kind: Kind::Count { min: 1, max: 1024 },
        default: None,
        required: false,
        doc: "Threads (of each group, with `per`). Without it: one for each CPU that `cores` lists, one with `per`, else as many as this process may use CPUs (affinity mask and cgroup quota, rounded up).",
        change: Change::Restart,
        ..Key::PLAIN
    },
    Key {
        name: "per",
        kind: Kind::Word(&["nic", "numa"]),
        default: None,
        required: false,
        doc: "One group of threads for each NIC of each transport (`nic`), or for each NUMA node that has CPUs for this process (`numa`), whose threads are pinned to CPUs of their node.",
        change: Change::Restart,
        ..Key::PLAIN
    },
    Key {
        name: "cores",
        kind: Kind::Text,
        default: None,
        required: false,
        doc: "CPUs to pin the threads to, one each, round robin: `all` (that this process may use), a list such as `0-3,8`, those of a NUMA node (`numa:1`), or those near a NIC (`nic:eth0`); of places those that this process may use. Without it threads are not pinned.",
        change: Change::Restart,
        ..Key::PLAIN
    },
];

/// What is known of the machine; the default is nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Machine<'a> {
    /// CPUs that this process may use.
    pub cpus: &'a [usize],
    /// How many threads of it can run at once.
    pub budget: usize,
    /// What CPUs are near to.
    pub near: Option<&'a Near>,
}

/// Names that threads of the engine already have.
const RESERVED: &[&str] = &["control", "resolver"];

/// A pool as read.
pub struct ReadPool {
    /// What the engine gets.
    pub decl: PoolDecl,
    /// Where its name stands.
    pub name_span: Span,
    /// Where its CPUs are listed.
    pub cores_span: Option<Span>,
}

/// Reads all of them, in the order of the file. `groups` are those of a `per = "nic"` pool, `machine` what is
/// known of the CPUs. `None`: there is no table of pools that could be read.
pub fn read(
    root: &Table,
    groups: &[String],
    machine: Machine<'_>,
    scope: &mut Scope<'_>,
) -> Option<Vec<ReadPool>> {
    let Some(entry) = root.get("pools") else {
        let finding = Finding::error(codes::KEY_MISSING, scope.file, "the file declares no pools");
        scope.report.push(finding.help("add [pools.main] with threads = 1, or use = \"tcp\" at the top"));
        return None;
    };
    let Tree::Table(table) = &entry.node.value else {
        let message = format!("[pools] must be a table, not {}", entry.node.value.type_name());
        let finding = Finding::error(codes::TYPE, entry.node.span, message);
        scope.report.push(finding.help("write pools.NAME = { threads = 1 }"));
        return None;
    };
    let place = |cores: &Cores, at, scope: &mut Scope<'_>| cpus_of(cores, at, root, machine, scope);
    Some(table.entries.iter().map(|pool| one(pool, groups, machine, &place, scope)).collect())
}

/// A pool that cannot be read still stands for its name, so that its stages are not called homeless.
fn one(
    entry: &Entry,
    groups: &[String],
    machine: Machine<'_>,
    place: &dyn Fn(&Cores, Span, &mut Scope<'_>) -> Vec<usize>,
    scope: &mut Scope<'_>,
) -> ReadPool {
    names::check("pool", &entry.key, entry.key_span, scope.report);
    if RESERVED.contains(&entry.key.as_str()) {
        let message = format!("`{}` is reserved: the engine has threads of that name", entry.key);
        let finding = Finding::error(codes::NAME, entry.key_span, message);
        scope.report.push(finding.help("give the pool another name"));
    }
    let form = Form { also: &["wait"], ..Form::new(format!("pool `{}`", entry.key), KEYS) };
    let body = body::read_node(&entry.node, entry.key_span, &form, scope).unwrap_or_default();
    let said = |key: &str| body.values.text(key);
    let cores_span = body.spans.get("cores").copied();
    if said("kind") == Some("caller") {
        return ReadPool {
            decl: callers(entry, &body, groups, scope),
            name_span: entry.key_span,
            cores_span: None,
        };
    }
    let cpus = match (said("cores"), cores_span) {
        (Some(said), Some(at)) => {
            cpu_list::read(said, at, scope.report).map_or_else(Vec::new, |cores| place(&cores, at, scope))
        }
        _ => Vec::new(),
    };
    let listed = cpus.len();
    let usual = match said("per") {
        None if listed == 0 => machine.budget,
        Some("numa") => 1,
        _ => listed,
    };
    let threads = body.values.number("threads").map_or(usual.max(1), |n| usize::try_from(n).unwrap_or(1));
    let kind = if said("kind") == Some("stealing") { PoolKind::Stealing } else { PoolKind::Resident };
    let (groups, group_cpus, cpus) = match said("per") {
        Some("numa") => {
            let (nodes, cpus_of_nodes) = nodes_of(machine, &cpus);
            (nodes, cpus_of_nodes, Vec::new())
        }
        _ => (groups_of(&body, groups), Vec::new(), cpus),
    };
    let (name, wait) = (entry.key.clone(), wait_of(entry, scope));
    let said_wait = entry.node.as_table().and_then(|table| table.get("wait"));
    let is_own = |said: &&Entry| scope.sources.layer(said.key_span) != Layer::Preset;
    if let (PoolKind::Stealing, Some(said)) = (kind, said_wait.filter(is_own)) {
        let message = format!("`wait` of pool `{name}` has no effect: it is of kind `stealing`");
        let help = "take it out: such threads look for jobs for a moment, and sleep";
        scope.report.push(Finding::warning(codes::WAIT_UNUSED, said.key_span, message).help(help));
    }
    let decl = PoolDecl { name, kind, threads, groups, wait, cpus, group_cpus, beside: false };
    ReadPool { decl, name_span: entry.key_span, cores_span }
}

/// The groups of a `per = "numa"` pool, and the CPUs of each: those that its node has, this process may use, and `cores`
/// names if it names any. Where nothing is known of the machine, or it has no nodes, it is one node of all CPUs.
fn nodes_of(machine: Machine<'_>, cores: &[usize]) -> (Vec<String>, Vec<Vec<usize>>) {
    let is_meant = |cpu: &usize| {
        (machine.cpus.is_empty() || machine.cpus.contains(cpu)) && (cores.is_empty() || cores.contains(cpu))
    };
    let numbers = machine.near.map(Near::numa_nodes).unwrap_or_default();
    let cpus_of = |node: u32| machine.near.and_then(|near| near.numa(node)).unwrap_or_default();
    let node = |node: u32| {
        let cpus: Vec<usize> = cpus_of(node).into_iter().filter(is_meant).collect();
        // A node of memory only, or one that this process may not run on.
        (!cpus.is_empty()).then(|| (format!("numa{node}"), cpus))
    };
    let nodes: Vec<_> = numbers.into_iter().filter_map(node).collect();
    if nodes.is_empty() {
        let all = if cores.is_empty() { machine.cpus } else { cores };
        return (vec!["numa0".to_owned()], vec![all.to_vec()]);
    }
    nodes.into_iter().unzip()
}

/// The CPUs that `cores` stands for. A place that has none here is a warning, and its threads are not pinned: the file may be
/// meant for another machine, and `run` refuses it on this one.
fn cpus_of(cores: &Cores, at: Span, root: &Table, machine: Machine<'_>, scope: &mut Scope<'_>) -> Vec<usize> {
    let (what, found, help) = match (cores, machine.near) {
        (Cores::All, _) => return machine.cpus.to_vec(),
        (Cores::List(list), _) => return list.clone(),
        (Cores::Numa(_) | Cores::Nic(_), None) => return Vec::new(),
        (Cores::Numa(node), Some(near)) => {
            let nodes: Vec<_> = near.numa_nodes().iter().map(|n| format!("\"numa:{n}\"")).collect();
            let help = match nodes.is_empty() {
                true => "this machine knows no NUMA nodes: write \"all\"".to_owned(),
                false => format!("write \"all\", or one of {}", nodes.join(", ")),
            };
            (format!("NUMA node {node}"), near.numa(*node), help)
        }
        (Cores::Nic(name), Some(near)) => {
            let device = device_of(root, name);
            let help = "the kernel tells CPUs only of an interface with a device of its own (see \
                        /sys/class/net/NAME/device): write \"all\", a list, or \"numa:0\"";
            (format!("NIC `{device}`"), near.device(&device), help.to_owned())
        }
    };
    let is_allowed = |cpu: &usize| machine.cpus.is_empty() || machine.cpus.contains(cpu);
    let cpus: Vec<usize> = found.iter().flatten().copied().filter(is_allowed).collect();
    if cpus.is_empty() {
        let (why, help) = match found {
            None => ("this machine tells no CPUs near it", help),
            Some(_) => (
                "of the CPUs near it this process may use none",
                "widen the mask (taskset -c, --cpuset-cpus of the container), or write \"all\"".to_owned(),
            ),
        };
        let finding = Finding::warning(codes::CPU_NOWHERE, at, format!("`cores`: {what}: {why}"));
        scope.report.push(finding.help(help));
    }
    cpus
}

/// The interface of a NIC: what its table says, else its name.
fn device_of(root: &Table, name: &str) -> String {
    let table = root.get("nics").and_then(|nics| nics.node.as_table()?.get(name)?.node.as_table());
    match table.and_then(|nic| nic.get("device")).map(|device| &device.node.value) {
        Some(Tree::Text(device)) => device.clone(),
        _ => name.to_owned(),
    }
}

/// A pool without threads: what only threads have is refused.
fn callers(entry: &Entry, body: &Body, groups: &[String], scope: &mut Scope<'_>) -> PoolDecl {
    for key in ["threads", "cores"] {
        let Some(at) = body.spans.get(key) else { continue };
        let message =
            format!("pool `{}` is of kind `caller` and has no threads: `{key}` means nothing", entry.key);
        let help =
            "take it out (`false` removes what a preset says): whoever submits and waits steps the pool";
        scope.report.push(Finding::error(codes::CALLER, *at, message).help(help));
    }
    let (groups, wait) = (groups_of(body, groups), wait_of(entry, scope));
    let (kind, name, none) = (PoolKind::Caller, entry.key.clone(), Vec::new());
    PoolDecl { name, kind, threads: 1, groups, wait, cpus: none, group_cpus: Vec::new(), beside: false }
}

fn groups_of(body: &Body, groups: &[String]) -> Vec<String> {
    if body.values.text("per") == Some("nic") { groups.to_vec() } else { Vec::new() }
}

fn wait_of(entry: &Entry, scope: &mut Scope<'_>) -> Wait {
    match entry.node.as_table().and_then(|table| table.get("wait")) {
        Some(said) => wait::read(&entry.key, &said.node, scope),
        None => wait::ADAPTIVE,
    }
}
