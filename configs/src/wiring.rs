//! Which wire each output port has. An exact edge beats a wildcard; then the later layer beats the earlier one
//! (`--set` over environment over file over preset). A port has one wire, so a file that says where
//! `select.out` goes replaces what the preset said of it, and a stage is put between two others by naming it.

use std::collections::{BTreeMap, BTreeSet};

use pipeline_graph::blueprint::SUBMIT;
use pipeline_graph::{EdgeDecl, StageDecl};

use crate::codes;
use crate::edges::{self, From, Hop, Name, Setting, Written};
use crate::finding::{Finding, Report};
use crate::source::{Layer, Sources, Span};
use crate::suggest;
use crate::tree::{Entry, Tree};
use crate::value::Scope;

/// Where an edge is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgePlace {
    /// Its hop in the key.
    pub hop: Span,
    /// Its value.
    pub value: Span,
}

/// Stages, as far as edges may name them.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// Those that were read.
    pub stages: &'a [StageDecl],
    /// Those that are declared but could not be read: they have had their finding.
    pub unread: &'a BTreeSet<&'a str>,
    /// Those that `= false` took away, and where. What an earlier layer wired to them goes with them.
    pub removed: &'a [(String, Span)],
}

/// The port of a stage; `None` is `submit`. `submit` sorts first.
type PortKey = (Option<usize>, usize);

#[derive(Clone, Copy)]
struct Wire {
    to: usize,
    setting: Setting,
    place: EdgePlace,
    exact: bool,
    layer: Layer,
}

/// The wires of all ports, with their places, `submit` first, then in the order of stages and ports.
pub fn read(entry: Option<&Entry>, known: Known<'_>, scope: &mut Scope<'_>) -> Vec<(EdgeDecl, EdgePlace)> {
    let Some(written) = written(entry, scope) else { return Vec::new() };
    let mut wiring = Wiring {
        known,
        stages: known.stages,
        layer: Layer::Preset,
        removals: Vec::new(),
        wires: BTreeMap::new(),
        sources: scope.sources,
        report: scope.report,
    };
    for layer in [Layer::Preset, Layer::File, Layer::Environment, Layer::Set] {
        let this: Vec<&Written> = written.iter().filter(|(l, _)| *l == layer).map(|(_, w)| w).collect();
        wiring.layer(layer, &this);
    }
    wiring.finish()
}

/// What is written under `[edges]`, with the layer that says it; `None` when there is no such table.
pub fn written(entry: Option<&Entry>, scope: &mut Scope<'_>) -> Option<Vec<(Layer, Written)>> {
    let Some(entry) = entry else {
        let finding = Finding::error(codes::KEY_MISSING, scope.file, "the file declares no edges");
        scope.report.push(finding.help("add [edges], or use = \"tcp\" at the top"));
        return None;
    };
    let Tree::Table(table) = &entry.node.value else {
        let message = format!("[edges] must be a table, not {}", entry.node.value.type_name());
        let finding = Finding::error(codes::TYPE, entry.node.span, message);
        scope.report.push(finding.help("write [edges] and under it \"a -> b\" = \"inline\""));
        return None;
    };
    let mut written: Vec<(Layer, Written)> = Vec::with_capacity(table.entries.len());
    for entry in &table.entries {
        if let Some(one) = edges::read(entry, scope) {
            written.push((scope.sources.layer(entry.key_span), one));
        }
    }
    Some(written)
}

/// One `= false` of a layer.
struct Removal {
    ports: Vec<PortKey>,
    to: usize,
    at: Span,
    used: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Remove,
    Every,
    Exact,
}

impl Pass {
    fn of(written: &Written, hop: &Hop) -> Self {
        match (written.setting, &hop.from) {
            (Setting::Remove, _) => Pass::Remove,
            (_, From::Every(_)) => Pass::Every,
            _ => Pass::Exact,
        }
    }
}

struct Wiring<'a> {
    known: Known<'a>,
    stages: &'a [StageDecl],
    layer: Layer,
    removals: Vec<Removal>,
    sources: &'a Sources,
    wires: BTreeMap<PortKey, Wire>,
    report: &'a mut Report,
}

impl Wiring<'_> {
    /// What a layer removes comes first, so that it does not matter where in the file it stands; then wildcards,
    /// so that exact edges of the layer replace them without being called duplicates.
    fn layer(&mut self, layer: Layer, written: &[&Written]) {
        self.layer = layer;
        self.removals.clear();
        for pass in [Pass::Remove, Pass::Every, Pass::Exact] {
            for one in written {
                for hop in one.hops.iter().filter(|hop| Pass::of(one, hop) == pass) {
                    self.hop(layer, one, hop);
                }
            }
        }
        for removal in self.removals.iter().filter(|r| !r.used) {
            let message = "this removes an edge that the preset does not have";
            let finding = Finding::error(codes::REMOVES_NOTHING, removal.at, message);
            self.report.push(finding.help("take the line out"));
        }
    }

    fn hop(&mut self, layer: Layer, written: &Written, hop: &Hop) {
        let from = self.ports(&hop.from, &hop.to.text);
        let to = self.stage(&hop.to);
        let (Some(ports), Some(to)) = (from, to) else { return };
        let wire = Wire {
            to,
            setting: written.setting,
            place: EdgePlace { hop: hop.span, value: written.value_span },
            exact: !matches!(hop.from, From::Every(_)),
            layer,
        };
        if ports.is_empty() {
            let From::Every(port) = &hop.from else { return };
            let names: BTreeSet<&str> =
                self.stages.iter().flat_map(|s| s.shape.ports.iter().map(|p| p.name.as_ref())).collect();
            let message = format!("no other stage has a port `{}`", port.text);
            let finding = Finding::warning(codes::WILDCARD_EMPTY, port.span, message);
            self.report.push(finding.help(suggest::help(&port.text, "ports", names)));
        }
        if wire.setting == Setting::Remove {
            return self.remove(ports, wire);
        }
        let mut told = BTreeSet::new();
        for key in ports {
            self.claim(key, wire, &mut told);
        }
    }

    fn remove(&mut self, ports: Vec<PortKey>, wire: Wire) {
        let before = self.wires.len();
        for key in &ports {
            if self.wires.get(key).is_some_and(|w| w.to == wire.to) {
                self.wires.remove(key);
            }
        }
        let used = self.wires.len() < before;
        self.removals.push(Removal { ports, to: wire.to, at: wire.place.hop, used });
    }

    /// Whether this layer takes away what a wildcard of the same layer would wire.
    fn is_removed(&mut self, key: PortKey, to: usize) -> bool {
        let found = self.removals.iter_mut().find(|r| r.to == to && r.ports.contains(&key));
        found.map(|removal| removal.used = true).is_some()
    }

    fn claim(&mut self, key: PortKey, wire: Wire, told: &mut BTreeSet<Span>) {
        if !wire.exact && self.is_removed(key, wire.to) {
            return;
        }
        let Some(below) = self.wires.get(&key).copied() else {
            self.wires.insert(key, wire);
            return;
        };
        if below.exact && !wire.exact {
            return;
        }
        if below.layer == wire.layer && below.exact == wire.exact {
            // A wildcard meets the other one on many ports; one finding says it.
            if told.insert(below.place.hop) {
                self.twice(key, below, wire);
            }
            return;
        }
        let same = below.to == wire.to && below.exact == wire.exact;
        let setting = if same { wire.setting.over(below.setting) } else { wire.setting };
        self.wires.insert(key, Wire { setting, ..wire });
    }

    fn twice(&mut self, key: PortKey, first: Wire, second: Wire) {
        let port = self.port_name(key);
        let message = match first.to == second.to {
            true => format!("`{port} -> {}` is given twice", self.stages[first.to].name),
            false => format!(
                "`{port}` is wired twice: to `{}` and to `{}`",
                self.stages[first.to].name, self.stages[second.to].name
            ),
        };
        self.report.push(
            Finding::error(codes::PORT_TWICE, second.place.hop, message)
                .label("wired again here")
                .related(first.place.hop, "first wired here")
                .help("keep one of the two: a port has one wire, and what comes out of it goes one way"),
        );
    }

    /// The ports where a hop starts; `None` after a finding.
    fn ports(&mut self, from: &From, target: &str) -> Option<Vec<PortKey>> {
        match from {
            From::Submit(_) => Some(vec![(None, 0)]),
            From::Every(port) => {
                let mut keys = Vec::new();
                for (index, stage) in self.stages.iter().enumerate().filter(|(_, s)| s.name != target) {
                    let found = stage.shape.ports.iter().position(|p| p.name == port.text.as_str());
                    keys.extend(found.map(|at| (Some(index), at)));
                }
                Some(keys)
            }
            From::Port { stage, port } => {
                let index = self.stage(stage)?;
                let ports = &self.stages[index].shape.ports;
                if let Some(at) = ports.iter().position(|p| p.name == port.text.as_str()) {
                    return Some(vec![(Some(index), at)]);
                }
                let names: Vec<&str> = ports.iter().map(|p| p.name.as_ref()).collect();
                let what = format!("ports of `{}`", stage.text);
                let message = format!("stage `{}` has no port `{}`", stage.text, port.text);
                let finding = Finding::error(codes::PORT_UNKNOWN, port.span, message);
                let finding = match names.is_empty() {
                    true => finding.help(format!("`{}` ends what it takes: no edge leaves it", stage.text)),
                    false => finding.help(suggest::help(&port.text, &what, names.iter().copied())),
                };
                let plain = port.text == edges::OUT && !names.is_empty();
                self.report.push(finding.help_if(plain.then(|| {
                    format!(
                        "a stage's plain name means its port `out`: write \"{}.{} -> …\"",
                        stage.text, names[0]
                    )
                })));
                None
            }
        }
    }

    fn stage(&mut self, name: &Name) -> Option<usize> {
        let found = self.stages.iter().position(|s| s.name == name.text);
        if found.is_none() && !self.known.unread.contains(name.text.as_str()) {
            let removed = self.known.removed.iter().find(|(gone, _)| *gone == name.text).map(|(_, at)| *at);
            if removed.is_some_and(|at| self.sources.layer(at) > self.layer) {
                return None;
            }
            let names = self.stages.iter().map(|s| s.name.as_str());
            let message = format!("unknown stage `{}`", name.text);
            let finding = Finding::error(codes::STAGE_UNKNOWN, name.span, message);
            let finding = finding.help(suggest::help(&name.text, "stages", names));
            self.report.push(match removed {
                Some(at) => finding.related(at, "taken away here"),
                None => finding,
            });
        }
        found
    }

    fn port_name(&self, (stage, port): PortKey) -> String {
        stage.map_or_else(|| SUBMIT.to_owned(), |s| port_name(&self.stages[s], port))
    }

    fn finish(self) -> Vec<(EdgeDecl, EdgePlace)> {
        let mut edges = Vec::with_capacity(self.wires.len());
        for ((from, port), wire) in self.wires {
            match wire.setting.mode() {
                Some(mode) => edges.push((EdgeDecl { from, port, to: wire.to, mode }, wire.place)),
                None => {
                    let message = "this queue has no size";
                    let finding = Finding::error(codes::EDGE_VALUE, wire.place.value, message);
                    self.report
                        .push(finding.help("add queue = 64: it then holds 64 batches of up to 32 slices"));
                }
            }
        }
        edges
    }
}

/// `stage` for its port `out`, else `stage.port`.
pub fn port_name(stage: &StageDecl, port: usize) -> String {
    match stage.shape.ports.get(port).map(|p| p.name.as_ref()) {
        Some(edges::OUT) | None => stage.name.clone(),
        Some(name) => format!("{}.{name}", stage.name),
    }
}
