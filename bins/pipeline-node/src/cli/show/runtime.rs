//! `show runtime` as text: a line a stage, as VPP shows its nodes, with where slices wait; then what limits the node.

use std::fmt::Write as _;

use pipeline_configs::plain;
use pipeline_node::admin::{LimitLine, RequestsLine, StageLine};
use serde_json::Value;

use super::table::{numbers, pair, short, table, words};
use super::text::lines;

/// The table and its foot.
pub fn text(answer: &Value) -> String {
    let stages: Vec<StageLine> = lines(answer, "stages");
    let requests: Option<RequestsLine> =
        answer.get("requests").cloned().and_then(|r| serde_json::from_value(r).ok());
    let columns = [
        words("stage"),
        words("pool"),
        numbers("threads"),
        numbers("calls"),
        numbers("items"),
        numbers("items/call"),
        numbers("ns/item"),
        numbers("wait(us)"),
        numbers("service(us)"),
        numbers("held(us)"),
        numbers("depth"),
        numbers("blocked%"),
        numbers("util%"),
    ];
    let mut text = requests.map(|requests| head(&requests)).unwrap_or_default();
    text += &table(&columns, &stages.iter().map(row).collect::<Vec<_>>());
    let times = match answer.get("timed").and_then(Value::as_bool) {
        Some(false) => "times are not measured: the file says stats.enabled = false",
        _ => "times are p50/p99",
    };
    let _ = writeln!(text, "{times}; depth is mean/most of what its queues hold, in batches");
    for stage in stages.iter().filter(|stage| stage.panics > 0) {
        let _ = writeln!(text, "stage {} panicked {} times", stage.stage, stage.panics);
    }
    let limit: Option<LimitLine> = answer.get("limit").cloned().and_then(|l| serde_json::from_value(l).ok());
    if let Some(limit) = limit {
        text.push_str(&foot(&limit));
    }
    text
}

/// One line of what requests came to.
fn head(r: &RequestsLine) -> String {
    let mut text = format!(
        "requests: {} done/s, {:.3} GB/s, took {} us, {} under way, {} failed",
        short(r.done_per_s),
        r.gb_per_s,
        pair(r.took_p50_us, r.took_p99_us),
        r.under_way,
        r.failed
    );
    for (count, what) in [(r.busy, "answered busy"), (r.retries, "slices sent again")] {
        if count > 0 {
            let _ = write!(text, ", {count} {what}");
        }
    }
    text + "\n"
}

/// `limited by window: …`, and what to try.
pub fn foot(limit: &LimitLine) -> String {
    let mut text = format!("limited by {}: {}\n", plain::line(&limit.because), plain::line(&limit.words));
    if let Some(knob) = &limit.knob {
        let [path, better, now] = [&knob.path, &knob.better, &knob.now].map(|said| plain::line(said));
        let _ = writeln!(text, "try: --set '{path}={better}'  (now {now})");
    }
    text
}

fn row(s: &StageLine) -> Vec<String> {
    vec![
        s.stage.clone(),
        s.pool.clone().unwrap_or_else(|| "-".to_owned()),
        s.threads.to_string(),
        short(s.calls as f64),
        short(s.items as f64),
        short(s.items_per_call),
        short(s.ns_per_item),
        pair(s.wait_p50_us, s.wait_p99_us),
        pair(s.service_p50_us, s.service_p99_us),
        pair(s.held_p50_us, s.held_p99_us),
        if s.cap == 0 { "-".to_owned() } else { format!("{:.1}/{} of {}", s.depth_avg, s.depth_max, s.cap) },
        format!("{:.1}", s.blocked_pct),
        format!("{:.1}", s.util_pct),
    ]
}
