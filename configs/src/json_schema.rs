//! The JSON schema of the file, for editors: tables, keys, words, and one shape for each type. Made from the
//! declarations that the readers use. Deliberately no judge: what it lets pass, `validate` still judges.

use serde_json::{Map, Value, json};

use crate::schema::{Catalog, Key, Kind};
use crate::tables::{self, Form, TableDecl};

/// The schema (draft 7, which every editor knows).
pub fn schema(catalog: &Catalog) -> Value {
    let all = tables::all(catalog);
    let mut definitions = Map::new();
    let mut properties = Map::new();
    for decl in &all {
        definitions.insert(name(decl), object(decl));
    }
    for key in [tables::VERSION, tables::USE] {
        properties.insert(key.name.into(), described(&key));
    }
    for decl in all.iter().filter(|d| d.form != Form::Inside) {
        let property = match decl.form {
            Form::Single => reference(decl),
            Form::Listed => json!({ "type": "array", "items": reference(decl) }),
            _ => {
                let variants = all.iter().filter(|d| d.path == decl.path).map(reference);
                // `false` takes away what the preset has.
                json!({ "type": "object", "additionalProperties": { "anyOf": variants.chain([json!({ "const": false })]).collect::<Vec<_>>() } })
            }
        };
        properties.insert(decl.path.into(), property);
    }
    let doc = "Hops between stages: \"a -> b\", a chain \"a -> b -> c\", a port \"a.port -> b\", or every stage's \"*.port -> b\".";
    properties.insert(
        "edges".into(),
        json!({
            "description": doc, "type": "object",
            "propertyNames": { "pattern": "^\\s*[a-z*][a-z0-9_.*]*(\\s*->\\s*[a-z][a-z0-9_]*)+\\s*$" },
            "additionalProperties": { "anyOf": [
                { "enum": ["inline", "return", false] }, { "$ref": "#/definitions/edges" },
            ] },
        }),
    );
    let address = json!({ "type": "string" });
    properties.insert(
        "peers".into(),
        json!({
            "description": "Names for addresses (the port is 7001 unless said), or for one TRANSPORT://NAME of a peer that runs another engine.", "type": "object",
            "additionalProperties": { "anyOf": [
                address, { "type": "array", "items": address, "minItems": 1 }, { "const": false },
            ] },
        }),
    );
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "pipeline-node",
        "description": "A pipeline of stages that moves bytes between registered memory of processes, hosts, GPUs and files.",
        "type": "object",
        "required": ["version"],
        "additionalProperties": false,
        "properties": properties,
        "definitions": definitions,
    })
}

/// As a file, with a line break at its end.
pub fn text(catalog: &Catalog) -> String {
    format!("{:#}\n", schema(catalog))
}

fn name(decl: &TableDecl) -> String {
    match decl.variant {
        Some((_, word)) => format!("{}.{}", decl.path, word.replace(":N", "")),
        None => decl.path.to_owned(),
    }
}

fn reference(decl: &TableDecl) -> Value {
    json!({ "$ref": format!("#/definitions/{}", name(decl)) })
}

/// One table. No key is required here, because a preset may have said it.
fn object(decl: &TableDecl) -> Value {
    let mut properties = Map::new();
    if let Some((key, word)) = decl.variant {
        let word = match word {
            "cuda:N" => json!({ "type": "string", "pattern": "^cuda:[0-9]+$", "description": decl.summary }),
            word => json!({ "const": word, "description": decl.summary }),
        };
        properties.insert(key.into(), word);
    }
    for key in &decl.keys {
        let value = match (decl.path, key.name) {
            ("pools", "wait") => json!({
                "description": key.doc, "anyOf": [of_kind(&key.kind), { "$ref": "#/definitions/pools.wait" }],
            }),
            _ => described(key),
        };
        properties.insert(key.name.into(), value);
    }
    if decl.path == "routes" {
        properties.insert("match".into(), json!({ "$ref": "#/definitions/routes.match" }));
    }
    json!({
        "type": "object", "description": decl.summary, "additionalProperties": false, "properties": properties,
    })
}

fn described(key: &Key) -> Value {
    let mut value = of_kind(&key.kind);
    if let Some(map) = value.as_object_mut() {
        let mut doc = key.doc.to_owned();
        if let Some(default) = key.default {
            doc.push_str(&format!(" Default: {default}."));
        }
        map.insert("description".into(), doc.into());
    }
    value
}

/// A number or a text with a unit; a text may also hold `${VAR}`.
fn measure(unit: &str) -> Value {
    let pattern = format!("^\\s*[+]?[0-9][0-9._ ]*\\s*({unit})?([0-9.]+({unit}))*\\s*$|\\$");
    json!({ "type": "string", "pattern": pattern })
}

fn words(words: &[&str]) -> Value {
    json!({ "anyOf": [{ "enum": words }, { "type": "string", "pattern": "\\$" }] })
}

const SIZE: &str = "[KMGTPEkmgtpe]?[iI]?[Bb]";

fn of_kind(kind: &Kind) -> Value {
    let number = |min: u64, max: u64| json!({ "type": "integer", "minimum": min, "maximum": max });
    let list = |items: Value| json!({ "type": "array", "items": items, "uniqueItems": true });
    match *kind {
        Kind::Bytes { min, max } => json!({ "anyOf": [measure(SIZE), number(min, max)] }),
        Kind::Time { .. } => measure("ns|us|µs|ms|s|m|min|h|d"),
        Kind::Count { min, max } => json!({ "anyOf": [number(min, max), measure("e[0-9]+")] }),
        Kind::Rate { .. } => measure("[KMGTkmgt]?bit/s"),
        Kind::Percent { .. } => measure("%"),
        Kind::Flag => json!({ "anyOf": [{ "type": "boolean" }, words(&["true", "false"])] }),
        Kind::Text | Kind::Path | Kind::Address => json!({ "type": "string" }),
        Kind::Word(w) => words(w),
        Kind::WordOrBytes(w, min, max) => json!({ "anyOf": [words(w), measure(SIZE), number(min, max)] }),
        Kind::Addresses | Kind::Texts | Kind::Transports => list(json!({ "type": "string" })),
        Kind::Words(w) => list(words(w)),
        Kind::BytesPerTransport(w, min, max) => {
            let size = json!({ "anyOf": [measure(SIZE), number(min, max)] });
            json!({ "anyOf": [words(w), size, { "type": "object", "additionalProperties": size }] })
        }
        Kind::WordOrTexts(w) => {
            let texts = list(json!({ "type": "string" }));
            json!({ "anyOf": [words(w), { "type": "object", "additionalProperties": texts }] })
        }
    }
}
