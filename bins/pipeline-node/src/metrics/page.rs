//! The page `docs/metrics.md`, made from the table of names.

use std::fmt::Write as _;

use super::names::{METRICS, Metric};
use super::peers::PEERS_MAX;

const HEAD: &str = "# Metrics

What a node measures, as metrics. Generated from `bins/pipeline-node/src/metrics/names.rs`
(`UPDATE_GOLDENS=1 cargo test -p pipeline-tests --test config_pages`).

- **Over HTTP**: `[metrics] listen = \"127.0.0.1:9464\"` serves `GET /metrics` as Prometheus text and `GET /healthz`: 200 `ok`, or
  503 with what is wrong while the node drains, or once a pool of it has failed. It is served by the control thread from a
  fresh look at the counters of all workers, which nobody waits for. At most 16 connections: one that has asked nothing makes
  room for the next. A scrape within 100 ms of the one before gets the same text.
- **In an application**: `pipeline_node::metrics::export` writes into any recorder of the
  [`metrics`](https://docs.rs/metrics) facade, `pipeline_node::metrics::text` renders Prometheus text.
- **Series are bounded by the file.** Labels are names of the file, states, and shards of stages; and peers that this node
  opened by a name or address: the first PEERS_MAX have series of their own, all others, and one of that name, share `peer=\"other\"`. Who connects to
  a node, and what is asked of it, makes no series.
- **Histograms** have bounds from 1.024 us to 34 s, each twice the one before. They are bounds of the engine's own buckets (an
  eighth of a power of two), so each count is exact; a value of just that many nanoseconds counts above its bound. `_sum` of
  `stage_service_seconds` is exactly `stage_busy_seconds_total`; that of the others takes each value as the middle of its bucket, which
  is wrong by 6.25 % at most. Batches under four slices are timed once in sixteen times and counted sixteen-fold.
- **Units** are seconds and bytes. `_total` is on counters only. Bytes and slices are counted by the node that asked for the
  transfer. What peers moved by requests of theirs is in `nic_served_in_bytes_total` and `nic_served_out_bytes_total` alone: the same
  bytes as in `nic_written_bytes_total` and `nic_read_bytes_total` of theirs.
- **Means** are made of counters: `rate(edge_ring_depth_sum_total) / rate(edge_ring_depth_samples_total)` is the mean over the interval
  that is looked at. Peaks (`_max`) are since the start.
- `docs/grafana/pipeline-node.json` is a board, `docs/grafana/alerts.yml` rules of alerts; a test holds that both name what is here.
- `config_reload_success` comes with the reload of a running node.

";

/// The page.
pub fn page() -> String {
    let mut page = HEAD.replace("PEERS_MAX", &PEERS_MAX.to_string());
    page.push_str("| metric | type | labels | what it says | from |\n|---|---|---|---|---|\n");
    METRICS.iter().for_each(|metric| row(&mut page, metric));
    page
}

fn row(page: &mut String, metric: &Metric) {
    let code = |names: &[&str]| names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
    let Metric { name, kind, labels, help, from, .. } = metric;
    let _ = writeln!(page, "| `{name}` | {} | {} | {help} | {} |", kind.name(), code(labels), code(from));
}
