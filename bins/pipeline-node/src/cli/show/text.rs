//! Answers of a running node as text: a head, a table, and at the foot of `runtime` what limits it.

use std::fmt::Write as _;

use pipeline_configs::plain;
use pipeline_graph::plan::readable_bytes;
use pipeline_node::admin::{Batches, EdgeLine, NicLine, PeerLine, PeerList, RegionList, WorkerLine};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::live::said;
use super::runtime;
use super::table::{numbers, short, table, words};

/// The block of one answer.
pub fn block(subject: &str, answer: &Value) -> String {
    let mut text = head(answer);
    text.push_str(&match subject {
        "runtime" => runtime::text(answer),
        "edges" => edges(&lines(answer, "edges")),
        "pools" => workers(&lines(answer, "workers")),
        "peers" => peers(&whole(answer)),
        "nics" => nics(&lines(answer, "nics")),
        "regions" => regions(&whole(answer)),
        _ => batches(&whole(answer)),
    });
    text
}

fn head(answer: &Value) -> String {
    let pid = answer.get("pid").and_then(Value::as_u64).unwrap_or(0);
    let mut text = format!("node {} (pid {pid})", plain::line(said(answer, "node")));
    if let Some(interval) = answer.get("interval_s").and_then(Value::as_f64) {
        let _ = write!(text, ", {interval:.1} s");
    }
    text.push('\n');
    text
}

/// What a key of the answer has; nothing where a node of another version says something else there.
pub fn lines<T: DeserializeOwned>(answer: &Value, key: &str) -> Vec<T> {
    let all = answer.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    all.into_iter().filter_map(|line| serde_json::from_value(line).ok()).collect()
}

fn whole<T: DeserializeOwned + Default>(answer: &Value) -> T {
    serde_json::from_value(answer.clone()).unwrap_or_default()
}

fn edges(lines: &[EdgeLine]) -> String {
    let row = |e: &EdgeLine| {
        let inline = e.mode == "inline";
        let of_queue = |text: String| if inline { "-".to_owned() } else { text };
        vec![
            e.edge.clone(),
            e.mode.clone(),
            of_queue(if e.rings > 1 {
                format!("{}x{}", e.rings, e.capacity)
            } else {
                e.capacity.to_string()
            }),
            of_queue(e.depth_now.to_string()),
            of_queue(format!("{:.1}", e.depth_avg)),
            of_queue(e.depth_max.to_string()),
            short(e.items_per_s),
            short(e.items_per_batch),
            e.rejected.to_string(),
            of_queue(format!("{:.1}", e.blocked_pct)),
        ]
    };
    let columns = [
        words("edge"),
        words("mode"),
        numbers("capacity"),
        numbers("depth"),
        numbers("avg"),
        numbers("max"),
        numbers("items/s"),
        numbers("items/batch"),
        numbers("rejected"),
        numbers("blocked%"),
    ];
    table(&columns, &lines.iter().map(row).collect::<Vec<_>>())
}

fn workers(lines: &[WorkerLine]) -> String {
    let row = |w: &WorkerLine| {
        vec![
            w.pool.clone(),
            w.worker.clone(),
            w.cpu.map_or_else(|| "-".to_owned(), |cpu| cpu.to_string()),
            format!("{:.1}", w.busy_pct),
            format!("{:.1}", w.looking_pct),
            format!("{:.1}", w.asleep_pct),
            w.no_cpu_pct.map_or_else(|| "-".to_owned(), |pct| format!("{pct:.1}")),
            short(w.turns_per_s),
            short(w.sleeps_per_s),
            short(w.timed_per_s),
            looks(w.spin_us, w.yield_us),
            if w.wake_us > 0.0 { short(w.wake_us) } else { "-".to_owned() },
        ]
    };
    let columns = [
        words("pool"),
        words("worker"),
        numbers("cpu"),
        numbers("busy%"),
        numbers("looking%"),
        numbers("asleep%"),
        numbers("no-cpu%"),
        numbers("turns/s"),
        numbers("sleeps/s"),
        numbers("timed/s"),
        numbers("spin+yield(us)"),
        numbers("wake(us)"),
    ];
    table(&columns, &lines.iter().map(row).collect::<Vec<_>>())
}

/// How long it looks before it sleeps; one that never does says so.
fn looks(spin_us: f64, yield_us: f64) -> String {
    const FOREVER_US: f64 = 1e12;
    if spin_us + yield_us > FOREVER_US { "always".to_owned() } else { short(spin_us + yield_us) }
}

fn peers(list: &PeerList) -> String {
    let row = |p: &PeerLine| {
        vec![
            p.peer.clone(),
            p.state.clone(),
            p.links.to_string(),
            p.outstanding.to_string(),
            format!("{:.3}", p.read_gb_per_s),
            format!("{:.3}", p.written_gb_per_s),
            p.errors.to_string(),
            p.retries.to_string(),
            (p.path_failures + p.peer_failures).to_string(),
            p.reason.clone(),
        ]
    };
    let columns = [
        words("peer"),
        words("state"),
        numbers("lanes"),
        numbers("outstanding"),
        numbers("read(GB/s)"),
        numbers("written(GB/s)"),
        numbers("errors"),
        numbers("retries"),
        numbers("lost-lanes"),
        words("why"),
    ];
    let text = table(&columns, &list.peers.iter().map(row).collect::<Vec<_>>());
    // An older node does not say how many there are.
    let total = list.total.max(list.peers.len());
    if total > 0 { text + &left_out(total, list.peers.len(), "peers") } else { text }
}

fn nics(lines: &[NicLine]) -> String {
    let row = |n: &NicLine| {
        vec![
            n.transport.clone(),
            n.nic.clone(),
            n.address.clone(),
            format!("{:.3}", n.gb_per_s),
            served(n),
            n.slices.to_string(),
            n.outstanding.to_string(),
            n.links.to_string(),
            n.errors.to_string(),
            format!("{}+{}", n.local_failures, n.path_failures),
            n.resting.clone().unwrap_or_default(),
        ]
    };
    let columns = [
        words("transport"),
        words("nic"),
        words("address"),
        numbers("GB/s"),
        numbers("served(in+out)GB/s"),
        numbers("slices"),
        numbers("outstanding"),
        numbers("lanes"),
        numbers("errors"),
        numbers("failures(own+path)"),
        words("rests"),
    ];
    table(&columns, &lines.iter().map(row).collect::<Vec<_>>())
}

/// What peers moved here; a dash where nobody knows.
fn served(n: &NicLine) -> String {
    match (n.served_in_gb_per_s, n.served_out_gb_per_s) {
        (Some(into), Some(out)) => format!("{into:.3}+{out:.3}"),
        _ => "-".to_owned(),
    }
}

fn regions(list: &RegionList) -> String {
    let row = |r: &pipeline_node::admin::RegionLine| {
        vec![
            r.id.clone(),
            readable_bytes(r.bytes),
            r.access.clone(),
            r.pins.to_string(),
            r.accesses.to_string(),
            listed(r),
        ]
    };
    let columns = [
        words("region"),
        numbers("bytes"),
        words("access"),
        numbers("pins"),
        numbers("accesses"),
        words("segment"),
    ];
    let text = table(&columns, &list.regions.iter().map(row).collect::<Vec<_>>());
    text + &left_out(list.total, list.regions.len(), "regions")
}

/// Its segments; with how many more there are, where it has very many.
fn listed(r: &pipeline_node::admin::RegionLine) -> String {
    let named = r.segments.join(", ");
    match r.segments_total.saturating_sub(r.segments.len()) {
        0 => named,
        more => format!("{named}, and {more} more"),
    }
}

fn batches(list: &Batches) -> String {
    let row = |b: &pipeline_node::admin::OpenBatch| {
        let state = match (b.cancelled, b.notice) {
            (true, _) => "cancelled",
            (false, true) => "its notice is not taken",
            (false, false) => "",
        };
        vec![
            b.batch.to_string(),
            format!("{:.3}", b.age_s),
            b.requests.to_string(),
            b.left.to_string(),
            b.failed.to_string(),
            state.to_owned(),
        ]
    };
    let columns = [
        numbers("batch"),
        numbers("age(s)"),
        numbers("requests"),
        numbers("left"),
        numbers("failed"),
        words("state"),
    ];
    let text = table(&columns, &list.batches.iter().map(row).collect::<Vec<_>>());
    text + &left_out(list.total, list.batches.len(), "batches")
}

fn left_out(total: usize, shown: usize, what: &str) -> String {
    match total.saturating_sub(shown) {
        0 if total == 0 => format!("no {what}\n"),
        0 => String::new(),
        more => format!("and {more} more of {total} {what}\n"),
    }
}
