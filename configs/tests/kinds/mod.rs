//! A catalogue for tests with the shapes of the real stage types, so that this crate needs no stages.
//! Whether the real catalogue reads the shipped files is tested where both can be seen.

use pipeline_configs::schema::Change;
use pipeline_configs::{
    Catalog, Config, Facts, Former, Key, Kind, Objection, SettingObjection, StageKind, TransportKind, Values,
};
use pipeline_graph::{Contract, Port, Shape, Subject};

const fn key(name: &'static str, kind: Kind, default: Option<&'static str>) -> Key {
    Key {
        name,
        kind,
        default,
        required: false,
        doc: "A key of the test catalogue.",
        change: Change::Rebuild,
        ..Key::PLAIN
    }
}

const SLICE: Kind = Kind::BytesPerTransport(&["auto", "whole"], 4096, 1 << 40);

fn shape(ports: &[(&'static str, bool)], contract: Contract) -> Shape {
    let port = |(name, required): &(&'static str, bool)| {
        if *required { Port::required(*name) } else { Port::optional(*name) }
    };
    Shape { ports: ports.iter().map(port).collect(), contract }
}

fn admit(_: &Values, _: &Facts) -> Shape {
    shape(&[("out", true), ("failed", true)], Contract::default())
}

fn split(_: &Values, _: &Facts) -> Shape {
    let contract = Contract { expands: true, holds: true, polls: true, ..Contract::default() };
    shape(&[("out", true), ("failed", true)], contract)
}

fn route(_: &Values, facts: &Facts) -> Shape {
    let mut all = shape(&[("out", false), ("failed", true)], Contract::default());
    all.ports.extend(facts.transports.iter().map(|name| Port::optional(name.clone())));
    all
}

fn select(_: &Values, _: &Facts) -> Shape {
    let contract = Contract { holds: true, polls: true, ..Contract::default() };
    shape(&[("out", true), ("failed", true)], contract)
}

fn post(_: &Values, _: &Facts) -> Shape {
    let contract =
        Contract { sink: true, holds: true, polls: true, waits_for: vec!["credits"], ..Contract::default() };
    shape(&[("retry", false), ("failed", true)], contract)
}

fn reap(_: &Values, _: &Facts) -> Shape {
    let contract =
        Contract { source: true, holds: true, polls: true, gives: vec!["credits"], ..Contract::default() };
    shape(&[("out", true), ("retry", false), ("failed", true)], contract)
}

fn retry(_: &Values, _: &Facts) -> Shape {
    let contract = Contract { holds: true, polls: true, ..Contract::default() };
    shape(&[("out", true), ("failed", true)], contract)
}

fn notify(_: &Values, _: &Facts) -> Shape {
    shape(&[], Contract { sink: true, anywhere: true, ..Contract::default() })
}

fn source(_: &Values, _: &Facts) -> Shape {
    let resident = Some("it answers peers, who do not step this node");
    shape(&[], Contract { source: true, sink: true, polls: true, resident, ..Contract::default() })
}

/// A rule as the real stage types have one.
fn one_split(config: &Config) -> Vec<Objection> {
    let splits = config.stages.iter().enumerate().filter(|(_, s)| s.kind == "request_split");
    splits
        .skip(1)
        .map(|(index, stage)| Objection {
            subject: Subject::Stage(index),
            text: format!("`{}` splits what was split before", stage.name),
            help: "keep one request_split on every way".into(),
        })
        .collect()
}

/// A rule that only the transports can know.
fn one_place(config: &Config) -> Vec<SettingObjection> {
    let at = |t: usize| config.transports[t].values.text("listen");
    let taken = |t: &usize| at(*t).is_some() && (0..*t).any(|earlier| at(earlier) == at(*t));
    let object = |transport| SettingObjection {
        transport,
        key: "listen",
        text: format!("`{}` listens where another one does", config.transports[transport].name),
        help: "take another port".into(),
    };
    (0..config.transports.len()).filter(taken).map(object).collect()
}

/// The catalogue.
pub fn catalog() -> Catalog {
    const TCP: &[Key] = &[
        key("lanes", Kind::Count { min: 1, max: 64 }, Some("2")),
        key("congestion", Kind::Text, None),
        key("send_buffer", Kind::Bytes { min: 4096, max: 1 << 30 }, None),
    ];
    const SIM: &[Key] = &[
        Key {
            formerly: &[Former { name: "latency", since: (0, 1) }],
            ..key("delay", Kind::Time { min_ns: 0, max_ns: 60_000_000_000 }, Some("10us"))
        },
        key("move", Kind::Flag, Some("true")),
    ];
    const ELSEWHERE: &[Key] = &[key("listen", Kind::Address, None)];
    const SPLIT: &[Key] = &[key("slice", SLICE, Some("auto"))];
    const ROUTE: &[Key] = &[
        key("prefer", Kind::Transports, None),
        key("fallback", Kind::Word(&["deny", "allow"]), Some("deny")),
        key("staging", Kind::Word(&["deny", "allow"]), Some("deny")),
    ];
    const SELECT: &[Key] = &[key("policy", Kind::Word(&["topology", "round_robin"]), Some("topology"))];
    const MOVES: &[Key] = &[key("transports", Kind::Transports, None)];
    const RETRY: &[Key] = &[
        key("attempts", Kind::Count { min: 0, max: 1000 }, Some("3")),
        key("backoff", Kind::Time { min_ns: 1000, max_ns: 60_000_000_000 }, Some("1ms")),
    ];
    const NOTIFY: &[Key] = &[key("via", Kind::Words(&["status", "event"]), Some("[\"status\", \"event\"]"))];
    let stage = |name, keys, shape| StageKind {
        name,
        summary: "A stage of the test catalogue.",
        keys,
        shape,
        later: None,
    };
    let transport = |name, keys, preferred_bytes| TransportKind {
        name,
        summary: "A transport of the test catalogue.",
        keys,
        preferred_bytes,
        foreign: false,
        later: None,
    };
    Catalog {
        stages: vec![
            stage("admit", &[], admit),
            stage("request_split", SPLIT, split),
            stage("protocol_route", ROUTE, route),
            stage("nic_select", SELECT, select),
            stage("wr_post", MOVES, post),
            stage("cq_reap", MOVES, reap),
            stage("retry", RETRY, retry),
            stage("completion_notify", NOTIFY, notify),
            stage("serve", MOVES, source),
            stage("file_serve", &[], source),
            StageKind { later: Some("sums"), ..stage("sum", &[], select) },
        ],
        transports: vec![
            transport("tcp", TCP, 256 << 10),
            transport("sim", SIM, 64 << 10),
            transport("loopback", &[], 1 << 20),
            TransportKind { foreign: true, ..transport("elsewhere", ELSEWHERE, 1 << 20) },
            TransportKind { later: Some("what comes later"), ..transport("later", &[], 1 << 20) },
        ],
        rules: vec![one_split],
        transport_rules: vec![one_place],
    }
}
