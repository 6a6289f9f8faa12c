//! `[topology]`: what lies near to what, where that is not as the system tells. What it says beats the system;
//! `gpu_nics` beats `matrix`, and both beat what `[nics]` says of GPUs. Deliberately by names of NICs: what they are is for
//! `[nics]` to say.

use std::collections::BTreeMap;

use crate::body::{self, Form};
use crate::codes;
use crate::config::{TopologyConfig, TransportConfig};
use crate::finding::Finding;
use crate::matrix::{self, Matrix};
use crate::schema::{Change, Key, Kind, Value};
use crate::segments;
use crate::source::Span;
use crate::suggest;
use crate::tree::Entry;
use crate::value::Scope;

/// Its keys.
pub const KEYS: &[Key] = &[
    Key {
        name: "gpu_nics",
        kind: Kind::WordOrTexts(&["auto"]),
        default: Some("auto"),
        doc: "NICs next to each GPU, such as { \"cuda:0\" = [\"mlx5_0\"] }; auto, and for GPUs that are not named: as [nics] and the PCI buses tell.",
        change: Change::Rebuild,
        ..Key::PLAIN
    },
    Key {
        name: "matrix",
        kind: Kind::Path,
        doc: "A priority matrix of Mooncake's form (JSON): the preferred NICs, and the others, for each place of memory that it names.",
        change: Change::Rebuild,
        ..Key::PLAIN
    },
];

/// Reads it.
pub fn read(entry: Option<&Entry>, used: &[TransportConfig], scope: &mut Scope<'_>) -> TopologyConfig {
    let Some(entry) = entry else { return TopologyConfig::default() };
    let form = Form::new("[topology]", KEYS);
    let Some(body) = body::read_node(&entry.node, entry.key_span, &form, scope) else {
        return TopologyConfig::default();
    };
    let gpu_nics = match body.values.0.get("gpu_nics") {
        Some(Value::TextsPerName(said)) => gpu_nics(said, body.span("gpu_nics", entry.key_span), used, scope),
        _ => BTreeMap::new(),
    };
    let at = body.span("matrix", entry.key_span);
    let matrix = body.values.text("matrix").and_then(|path| load(path, at, used, scope));
    TopologyConfig { gpu_nics, matrix }
}

/// Names that a NIC of the transports goes by.
fn is_used(name: &str, used: &[TransportConfig]) -> bool {
    let device = |t: &TransportConfig| t.interfaces.iter().any(|i| i.device.as_deref() == Some(name));
    used.iter().any(|t| t.nics.iter().any(|nic| nic == name) || device(t))
}

fn gpu_nics(
    said: &BTreeMap<String, Vec<String>>,
    at: Span,
    used: &[TransportConfig],
    scope: &mut Scope<'_>,
) -> BTreeMap<u16, Vec<String>> {
    let mut all = BTreeMap::new();
    for (gpu, nics) in said {
        let Some(number) = segments::gpu(gpu).and_then(|n| u16::try_from(n).ok()) else {
            let finding = Finding::error(codes::WORD, at, format!("`gpu_nics`: `{gpu}` is not a GPU"));
            scope.report.push(finding.help("write { \"cuda:0\" = [\"mlx5_0\"] }"));
            continue;
        };
        // Without transports that could be read, none is missed.
        for nic in nics.iter().filter(|nic| !used.is_empty() && !is_used(nic, used)) {
            let message = format!("`gpu_nics`: no transport uses the NIC `{nic}`");
            let names = used.iter().flat_map(|t| &t.nics).map(String::as_str);
            let help = suggest::help(nic, "NICs in use", names);
            scope.report.push(Finding::error(codes::NIC_UNKNOWN, at, message).help(help));
        }
        all.insert(number, nics.clone());
    }
    all
}

/// What a file holds; anything else, a pipe say, might never end.
fn text_of(path: &str) -> std::io::Result<String> {
    match std::fs::metadata(path)?.is_file() {
        true => std::fs::read_to_string(path),
        false => Err(std::io::Error::other("it is no file")),
    }
}

/// The matrix in a file.
fn load(path: &str, at: Span, used: &[TransportConfig], scope: &mut Scope<'_>) -> Option<Matrix> {
    let refused = |why: String, help: &str| {
        Finding::error(codes::MATRIX, at, format!("`matrix`: {path}: {why}")).help(help)
    };
    let text = match text_of(path) {
        Ok(text) => text,
        Err(why) => {
            let help = "name a file that can be read; a relative path starts at the file that says it";
            scope.report.push(refused(format!("cannot be read: {why}"), help));
            return None;
        }
    };
    match matrix::read(&text) {
        Ok(matrix) => {
            let names = matrix.0.values().flat_map(|lists| lists.preferred.iter().chain(&lists.others));
            let mut unknown: Vec<&str> =
                names.map(String::as_str).filter(|nic| !is_used(nic, used)).collect();
            unknown.sort_unstable();
            unknown.dedup();
            if !unknown.is_empty() && !used.is_empty() {
                let message =
                    format!("`matrix` lists NICs that no transport uses: {}", suggest::list(&unknown));
                let finding = Finding::warning(codes::NIC_UNKNOWN, at, message);
                scope.report.push(
                    finding.help("nothing to do if they are not meant to be used: they are passed over"),
                );
            }
            Some(matrix)
        }
        Err(faults) => {
            for fault in faults {
                scope.report.push(refused(fault.why, fault.help));
            }
            None
        }
    }
}
