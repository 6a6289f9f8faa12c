//! A file whose preset is not to be had: what is wrong with it whatever the preset says. A name that nobody declares, a key
//! that is missing or a port without a wire may be fine with the preset, so nothing is said of them.

use crate::codes::{self, Code};
use crate::finding::{Finding, Report};
use crate::lower;
use crate::pools::Machine;
use crate::preset::Merged;
use crate::schema::Catalog;
use crate::source::Sources;
use crate::tree::{Table, Tree};

/// Findings that no preset could take back. Deliberately what may be said, not what may not: to be silent about a new code is
/// better than to blame a file for what its preset has.
const CERTAIN: &[Code] = &[
    codes::SYNTAX,
    codes::TOML_1_1,
    codes::TWICE,
    codes::VERSION,
    codes::PRESET,
    codes::PRESET_DEPTH,
    codes::INTERPOLATION,
    codes::OVERRIDE,
    codes::UNKNOWN_VARIABLE,
    codes::EDGE_KEY,
    codes::EDGE_VALUE,
    codes::CPUS,
    codes::WAIT,
    codes::RANGE,
    codes::KEY_UNKNOWN,
    codes::TYPE,
    codes::UNIT,
    codes::WORD,
    codes::KIND_UNKNOWN,
    codes::TABLE_UNKNOWN,
    codes::LATER,
    codes::NAME,
    codes::ADDRESS,
    codes::NO_EFFECT,
    codes::RENAMED,
    codes::MATRIX,
];

/// What was found so far, and what is certain of the rest.
pub fn findings(
    merged: &Merged,
    catalog: &Catalog,
    machine: Machine<'_>,
    sources: &Sources,
    mut report: Report,
) -> Vec<Finding> {
    mute_removals(&merged.root, &mut report);
    // Only for what it finds: a part of a pipeline cannot be judged as a whole.
    lower::lower(merged, catalog, machine, sources, &mut report);
    let certain = |finding: &Finding| CERTAIN.contains(&finding.code);
    report.finish().into_iter().filter(certain).collect()
}

/// `false` takes away what the preset says; without one it would be called a value of the wrong type.
fn mute_removals(table: &Table, report: &mut Report) {
    for entry in &table.entries {
        match &entry.node.value {
            Tree::Flag(false) => report.mute(entry.node.span),
            Tree::Table(inner) => mute_removals(inner, report),
            _ => {}
        }
    }
}
