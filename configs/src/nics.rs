//! `[nics.NAME]`: what a network interface is, and what it is near to. A name that a transport lists needs no
//! table here: it is the interface of that name.

use crate::address;
use crate::body::{self, Form};
use crate::codes;
use crate::config::{NicConfig, TransportConfig};
use crate::finding::Finding;
use crate::numa;
use crate::schema::{Change, Key, Kind, Values};
use crate::segments;
use crate::suggest;
use crate::transports;
use crate::tree::{Entry, Table, Tree};
use crate::value::Scope;

const fn key(name: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key { name, kind, default: None, required: false, doc, change: Change::Rebuild, ..Key::PLAIN }
}

/// Keys of a NIC.
pub const KEYS: &[Key] = &[
    key(
        "device",
        Kind::Text,
        "The interface as `ip link` or `ibv_devices` lists it; without it, the NIC's name.",
    ),
    key("address", Kind::Text, "Source address of its connections, without a port."),
    key(
        "numa",
        Kind::Count { min: 0, max: 1023 },
        "NUMA node it is attached to; without it, as the system tells.",
    ),
    key(
        "rail",
        Kind::Count { min: 0, max: 1023 },
        "Rail: NICs of equal number reach each other over one switch.",
    ),
    key(
        "speed",
        Kind::Rate { min: 1_000_000, max: 100_000_000_000_000 },
        "Speed of its link, such as \"200Gbit/s\": faster NICs get more; without it, as the system tells.",
    ),
    key(
        "gpus",
        Kind::Texts,
        "GPUs it is next to, such as [\"cuda:0\"]; without it, as the PCI buses of the system tell.",
    ),
];

/// Reads all of them, in the order of the file.
pub fn read(root: &Table, used: &[TransportConfig], scope: &mut Scope<'_>) -> Vec<NicConfig> {
    let Some(entry) = root.get("nics") else { return Vec::new() };
    let Tree::Table(table) = &entry.node.value else {
        let message = format!("[nics] must be a table, not {}", entry.node.value.type_name());
        let finding = Finding::error(codes::TYPE, entry.node.span, message);
        scope.report.push(finding.help("write nics.eth0 = { address = \"10.0.0.1\" }"));
        return Vec::new();
    };
    table.entries.iter().filter_map(|nic| one(nic, used, scope)).collect()
}

fn one(entry: &Entry, used: &[TransportConfig], scope: &mut Scope<'_>) -> Option<NicConfig> {
    let nics = || used.iter().flat_map(|t| &t.nics).map(String::as_str);
    // Without transports that could be read, none is missed.
    if !used.is_empty() && !nics().any(|nic| nic == entry.key) {
        let message = format!("no transport uses the NIC `{}`", entry.key);
        let finding = Finding::warning(codes::NIC_UNUSED, entry.key_span, message);
        let help =
            format!("name it in `nics` of a transport; {}", suggest::help(&entry.key, "NICs in use", nics()));
        scope.report.push(finding.help(help));
    }
    let body = body::read_node(
        &entry.node,
        entry.key_span,
        &Form::new(format!("NIC `{}`", entry.key), KEYS),
        scope,
    )?;
    let device = body.values.text("device").unwrap_or(&entry.key).to_owned();
    if !transports::is_interface(&device) {
        let at = body.span("device", entry.key_span);
        let finding =
            Finding::error(codes::NAME, at, format!("`{device}` cannot be the name of a network interface"));
        scope.report.push(finding.help("write a name as `ip link` lists it, such as \"eth0\""));
    }
    let mut source = None;
    if let (Some(said), Some(at)) = (body.values.text("address"), body.spans.get("address")) {
        source = said.parse().ok();
        if source.is_none() {
            let finding =
                Finding::error(codes::ADDRESS, *at, format!("`address`: `{said}` is not an IP address"));
            let help = match address::parse(said) {
                Ok(_) => "write the address of the interface alone, without a port: \"10.0.0.1\"",
                Err(_) => "write \"10.0.0.1\" or \"fd00::1\"",
            };
            scope.report.push(finding.help(help));
        }
        if source.is_some_and(|ip: std::net::IpAddr| ip.is_unspecified() || ip.is_multicast()) {
            let message = format!("`address`: `{said}` is no address of one interface");
            let finding = Finding::error(codes::ADDRESS, *at, message);
            let help = "write the interface's own address, as `ip address` lists it, or leave `address` out";
            scope.report.push(finding.help(help));
        }
    }
    numa::judge(&body, scope);
    for bad in body.values.texts("gpus").iter().filter(|name| segments::gpu(name).is_none()) {
        let at = body.span("gpus", entry.key_span);
        let finding = Finding::error(codes::WORD, at, format!("`{bad}` is not a GPU"));
        scope.report.push(finding.help("write \"cuda:0\" for the first, \"cuda:1\" for the second"));
    }
    Some(NicConfig { name: entry.key.clone(), device, address: source, values: body.values })
}

/// The GPUs that a NIC says it is next to.
pub(crate) fn gpus(values: &Values) -> Vec<u16> {
    values.texts("gpus").iter().filter_map(|name| segments::gpu(name)?.try_into().ok()).collect()
}
