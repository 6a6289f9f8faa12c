//! `[transports.NAME]`: ways of moving bytes, and the NICs they use.

use std::collections::BTreeMap;

use crate::body::{self, Form};
use crate::codes;
use crate::config::{Interface, NicConfig, TransportConfig};
use crate::finding::Finding;
use crate::names;
use crate::nics;
use crate::schema::{Catalog, Change, Key, Kind, Later, Value};
use crate::source::Span;
use crate::tree::{Entry, Table, Tree};
use crate::typed;
use crate::value::Scope;

/// The key that every transport has besides `type` and those of its type.
pub const NICS: Key = Key {
    name: "nics",
    kind: Kind::Texts,
    default: None,
    required: false,
    doc: "Names of the network interfaces it uses, in the order of the NIC workers; without it the transport counts as one NIC of its own name.",
    change: Change::Rebuild,
    ..Key::PLAIN
};

/// Where a transport stands.
#[derive(Clone, Debug, Default)]
pub struct TransportPlace {
    /// Its name.
    pub name: Span,
    /// Values of keys that the file says.
    pub keys: BTreeMap<&'static str, Span>,
}

impl TransportPlace {
    /// The place of a value, or that of the transport.
    pub fn span(&self, key: &str) -> Span {
        self.keys.get(key).copied().unwrap_or(self.name)
    }
}

/// Reads all of them, in the order of the file, with their places.
pub fn read(
    root: &Table,
    catalog: &Catalog,
    scope: &mut Scope<'_>,
) -> Vec<(TransportConfig, TransportPlace)> {
    let Some(entry) = root.get("transports") else {
        let finding = Finding::error(codes::KEY_MISSING, scope.file, "the file declares no transport");
        scope
            .report
            .push(finding.help("add [transports.tcp] with type = \"tcp\", or use = \"tcp\" at the top"));
        return Vec::new();
    };
    let Tree::Table(table) = &entry.node.value else {
        let message = format!("[transports] must be a table, not {}", entry.node.value.type_name());
        let finding = Finding::error(codes::TYPE, entry.node.span, message);
        scope.report.push(finding.help("write transports.tcp = { type = \"tcp\" }"));
        return Vec::new();
    };
    table.entries.iter().filter_map(|t| one(t, catalog, scope)).collect()
}

fn one(entry: &Entry, catalog: &Catalog, scope: &mut Scope<'_>) -> Option<(TransportConfig, TransportPlace)> {
    names::check("transport", &entry.key, entry.key_span, scope.report);
    let types: Vec<&str> = catalog.transports.iter().map(|t| t.name).collect();
    let said = typed::type_of("transport", entry, &types, scope)?;
    let kind = catalog.transports.iter().find(|t| t.name == said.0)?;
    let keys: Vec<Key> = kind.keys.iter().copied().chain([NICS]).collect();
    let elsewhere = |key: &str| {
        let others = catalog.transports.iter().filter(|t| t.keys.iter().any(|k| k.name == key));
        typed::valid_for(key, "transports", others.map(|t| t.name))
    };
    let form = Form {
        also: &["type"],
        elsewhere: &elsewhere,
        ..Form::new(format!("transport `{}` (type {})", entry.key, kind.name), &keys)
    };
    let mut body = body::read_node(&entry.node, entry.key_span, &form, scope)?;
    if let Some(brings) = kind.later {
        let what = format!("transport type `{}`", kind.name);
        scope.report.push(body::comes_later(&what, Later::refused(brings), said.1));
    }
    let mut nics = match body.values.0.remove("nics") {
        Some(Value::Texts(nics)) => nics,
        // It was refused, which has been told; what is said of these NICs elsewhere is not to be blamed for that.
        _ => texts_in(&entry.node.value),
    };
    if let Some(bad) = nics.iter().find(|nic| !is_interface(nic)) {
        let at = body.span("nics", entry.key_span);
        let finding =
            Finding::error(codes::NAME, at, format!("`{bad}` cannot be the name of a network interface"));
        scope.report.push(finding.help("write names as `ip link` lists them, such as [\"eth0\", \"eth1\"]"));
    }
    let named = !nics.is_empty();
    if !named {
        if let Some(at) = body.spans.get("nics") {
            let finding = Finding::error(codes::RANGE, *at, "`nics` names no interface");
            scope.report.push(finding.help("name at least one, or take `nics` out to let the system choose"));
        }
        nics.push(entry.key.clone());
    }
    let device = |nic: &String| Interface { device: named.then(|| nic.clone()), ..Interface::default() };
    let interfaces = nics.iter().map(device).collect();
    let (name, foreign, kind) = (entry.key.clone(), kind.foreign, kind.name.to_owned());
    let place = TransportPlace { name: entry.key_span, keys: body.spans };
    Some((TransportConfig { name, kind, foreign, nics, interfaces, values: body.values }, place))
}

/// The texts of the key `nics` as they stand there, each once.
fn texts_in(transport: &Tree) -> Vec<String> {
    let Tree::Table(table) = transport else { return Vec::new() };
    let Some(Tree::Array(items)) = table.get("nics").map(|entry| &entry.node.value) else {
        return Vec::new();
    };
    let mut texts: Vec<String> = Vec::new();
    for text in items.iter().filter_map(|item| item.as_text()) {
        if !texts.iter().any(|earlier| earlier == text) {
            texts.push(text.to_owned());
        }
    }
    texts
}

/// Lays what `[nics]` says on the transports that use it.
pub fn describe(transports: &mut [TransportConfig], nics: &[NicConfig]) {
    for transport in transports {
        for (name, interface) in transport.nics.iter().zip(&mut transport.interfaces) {
            let Some(nic) = nics.iter().find(|nic| nic.name == *name) else { continue };
            let chosen = interface.device.is_some() || nic.values.text("device").is_some();
            let said = |key| nic.values.number(key);
            let small = |key| said(key).and_then(|n| u16::try_from(n).ok());
            *interface = Interface {
                device: chosen.then(|| nic.device.clone()),
                address: nic.address,
                numa: small("numa"),
                rail: small("rail"),
                bits_per_s: said("speed"),
                gpus: nic.values.0.contains_key("gpus").then(|| nics::gpus(&nic.values)),
            };
        }
    }
}

/// Whether the system could have an interface of this name.
pub fn is_interface(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic() && b != b'/')
}

/// Groups of a `per = "nic"` pool: `transport/nic` for every NIC of every transport, in the order of the file.
/// This order is the order of NIC workers.
pub fn nic_groups(transports: &[TransportConfig]) -> Vec<String> {
    transports.iter().flat_map(|t| t.nics.iter().map(move |nic| format!("{}/{nic}", t.name))).collect()
}

/// The index in [`nic_groups`] of NIC `nic` of transport `transport`; `None` if there is no such NIC.
pub fn nic_group(transports: &[TransportConfig], transport: usize, nic: usize) -> Option<usize> {
    let this = transports.get(transport)?;
    let before: usize = transports[..transport].iter().map(|t| t.nics.len()).sum();
    (nic < this.nics.len()).then_some(before + nic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Values;

    /// Names and indices of groups agree, over transports with different numbers of NICs.
    #[test]
    fn groups_count_in_file_order() {
        let transport = |name: &str, nics: &[&str]| TransportConfig {
            name: name.into(),
            kind: "tcp".into(),
            foreign: false,
            nics: nics.iter().map(|n| (*n).to_owned()).collect(),
            interfaces: Vec::new(),
            values: Values::default(),
        };
        let all =
            [transport("tcp", &["eth0", "eth1"]), transport("shm", &["shm"]), transport("b", &["eth0"])];
        let groups = nic_groups(&all);
        assert_eq!(groups, ["tcp/eth0", "tcp/eth1", "shm/shm", "b/eth0"]);
        for (t, transport) in all.iter().enumerate() {
            for (n, nic) in transport.nics.iter().enumerate() {
                let group = nic_group(&all, t, n).unwrap();
                assert_eq!(groups[group], format!("{}/{nic}", transport.name));
            }
        }
        assert_eq!((nic_group(&all, 1, 1), nic_group(&all, 9, 0)), (None, None));
    }
}
