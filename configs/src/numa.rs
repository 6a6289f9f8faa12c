//! NUMA nodes that a file names, against those of this machine: a warning, because the file may be meant for another one.
//! Deliberately nothing where the machine tells no nodes.

use crate::body::Body;
use crate::codes;
use crate::finding::Finding;
use crate::value::Scope;

/// Judges the key `numa` of a table.
pub(crate) fn judge(body: &Body, scope: &mut Scope<'_>) {
    let (Some(node), Some(at)) = (body.values.number("numa"), body.spans.get("numa")) else { return };
    if scope.nodes.is_empty() || scope.nodes.iter().any(|n| u64::from(*n) == node) {
        return;
    }
    let nodes: Vec<String> = scope.nodes.iter().map(u32::to_string).collect();
    let finding = Finding::warning(codes::NUMA_ABSENT, *at, format!("this machine has no NUMA node {node}"));
    let help =
        format!("nodes that it has: {}; what lies on another one counts as far from all", nodes.join(", "));
    scope.report.push(finding.help(help));
}
