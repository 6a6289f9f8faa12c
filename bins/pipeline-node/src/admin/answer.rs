//! From a question to its answer. Deliberately thin: what is told of each subject is in files of its own.

use std::sync::Arc;
use std::time::Duration;

use pipeline_configs::suggest;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::desk::Desk;
use super::question::{self, Question};
use super::{SCHEMA_VERSION, holdings, traffic};
use crate::explained;
use crate::limit::limit;
use crate::observation::Observation;

/// The answer to a line.
pub(super) async fn to(desk: &Desk, line: &[u8]) -> Value {
    match question::read(line) {
        Err(why) => error(why),
        Ok(Question::Explain { peer }) => explain(desk, &peer).map_or_else(error, |said| whole(desk, said)),
        Ok(Question::Show { subject, interval }) => {
            let said = match subject {
                "config" => config(desk),
                "node" => Map::new(),
                "regions" => fields(&holdings::regions(desk.world())),
                "batches" => fields(&holdings::batches(desk.world())),
                _ => figures(desk, subject, &*over(desk, interval).await),
            };
            whole(desk, said)
        }
    }
}

/// An answer that says what is wrong.
pub(super) fn error(why: impl Into<String>) -> Value {
    json!({ "schema_version": SCHEMA_VERSION, "error": why.into() })
}

fn whole(desk: &Desk, said: Map<String, Value>) -> Value {
    let mut answer = Map::new();
    answer.insert("schema_version".into(), SCHEMA_VERSION.into());
    answer.insert("node".into(), desk.world().name.clone().into());
    answer.insert("pid".into(), std::process::id().into());
    answer.extend(said);
    Value::Object(answer)
}

/// What happened in an interval that begins now, or since the start. Others are served meanwhile.
async fn over(desk: &Desk, interval: Option<Duration>) -> Arc<Observation> {
    let before = desk.look();
    let Some(interval) = interval else { return before.seen };
    tokio::time::sleep(interval).await;
    let after = desk.look_after(before.at + interval);
    Arc::new(after.seen.since(&before.seen))
}

fn figures(desk: &Desk, subject: &str, seen: &Observation) -> Map<String, Value> {
    let mut said = Map::new();
    said.insert("interval_s".into(), (seen.graph.elapsed_ns as f64 / 1e9).into());
    let (key, lines) = match subject {
        "runtime" => {
            let found = limit(seen, &desk.config);
            said.insert("limit".into(), value(&traffic::LimitLine::of(&found)));
            said.insert("requests".into(), value(&traffic::requests(seen)));
            said.insert("timed".into(), (!desk.config.blueprint.untimed).into());
            ("stages", value(&traffic::stages(seen)))
        }
        "edges" => ("edges", value(&traffic::edges(seen))),
        "pools" => ("workers", value(&traffic::workers(seen))),
        "peers" => {
            let list = traffic::peers(seen);
            said.insert("total".into(), list.total.into());
            ("peers", value(&list.peers))
        }
        _ => ("nics", value(&traffic::nics(seen))),
    };
    said.insert(key.into(), lines);
    said
}

fn config(desk: &Desk) -> Map<String, Value> {
    let line =
        |s: &pipeline_configs::show::Shown| json!({ "path": s.path, "value": s.value, "source": s.source });
    let mut said = Map::new();
    said.insert("values".into(), desk.config.shown.iter().map(line).collect());
    said
}

fn explain(desk: &Desk, peer: &str) -> Result<Map<String, Value>, String> {
    let world = desk.world();
    let labels = || world.peers.iter().map(|(_, peer)| peer.label.to_string()).collect::<Vec<_>>();
    let found = world.peers.iter().find(|(_, known)| *known.label == *peer).map(|(id, _)| id);
    let unknown = || {
        let labels = labels();
        let help = suggest::help(peer, "peers it has opened", labels.iter().map(String::as_str));
        format!("this node has not opened a peer `{peer}`; {help}")
    };
    let id = found.ok_or_else(unknown)?;
    let explained = pipeline_stages::explain::explain(&desk.config, world, id).ok_or_else(unknown)?;
    let mut said = Map::new();
    said.insert("text".into(), explained::plain(&explained, None).into());
    said.insert("explanation".into(), explained::json(&explained, None));
    said.insert("verdict".into(), value(&explained::verdict(&explained, None)));
    Ok(said)
}

fn value(what: &impl Serialize) -> Value {
    // Numbers, texts and lists of them: nothing that JSON has no form for.
    serde_json::to_value(what).unwrap_or(Value::Null)
}

fn fields(what: &impl Serialize) -> Map<String, Value> {
    match value(what) {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
