//! What a replay prints: one table of blocks and bytes, one of times, one by stage; or one JSON object.

use std::fmt::Write as _;

use serde::Serialize;

use crate::cli::bench::report::{StageLine, stage_table};
use crate::cli::load::tally::Tally;

/// A replay.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Requests that were begun.
    pub requests: u64,
    /// Requests of which a block failed.
    pub errors: u64,
    /// Why no more were begun; null when all were.
    pub stopped: Option<String>,
    /// Blocks they asked for.
    pub blocks: u64,
    /// Different blocks of the trace.
    pub distinct_blocks: u64,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Pieces it lies in.
    pub block_pieces: u64,
    /// Blocks that fit here.
    pub cache_blocks: u64,
    /// `warm` or `cold`.
    pub store: &'static str,
    /// Times as fast as in the file; null for as fast as possible.
    pub speedup: Option<f64>,
    /// Requests open at a time.
    pub depth: u64,
    /// Blocks submitted together.
    pub batch: u64,
    /// Blocks that were here.
    pub local_blocks: u64,
    /// Blocks that were on their way for another request.
    pub joined_blocks: u64,
    /// Blocks that were asked of a peer.
    pub read_blocks: u64,
    /// Blocks that nobody had.
    pub new_blocks: u64,
    /// `local_blocks` in percent of `blocks`.
    pub hit_pct: f64,
    /// What an endless cache would have had, percent.
    pub endless_hit_pct: f64,
    /// Bytes that came from peers.
    pub read_bytes: u64,
    /// Bytes that went to peers.
    pub written_bytes: u64,
    /// From the first request's beginning to the last block's end.
    pub elapsed_s: f64,
    /// 10⁹ bytes moved a second, over that time.
    pub gb_per_s_avg: f64,
    /// The best 100 ms.
    pub gb_per_s_peak: f64,
    /// From the intended time (with `max`, from the beginning) to the last block read; of requests that read.
    pub read: Times,
    /// The same to the last block written; of requests that wrote. Null in a warm store.
    pub written: Option<Times>,
    /// How late requests began. Null with `max`.
    pub behind: Option<Times>,
    /// CPU seconds of this process for 10⁹ bytes, without those of `--check`.
    pub cpu_s_per_gb_initiator: f64,
    /// CPU seconds of the targets for 10⁹ bytes; null when one did not tell.
    pub cpu_s_per_gb_target: Option<f64>,
    /// CPU seconds of the thread of `--check`; null without it.
    pub check_cpu_s: Option<f64>,
    /// Bytes that `--check` found different; null without it.
    pub wrong: Option<u64>,
    /// By peer.
    pub peers: Vec<PeerLine>,
    /// By stage.
    pub stages: Vec<StageLine>,
}

/// One peer.
#[derive(Debug, Serialize)]
pub struct PeerLine {
    /// As it was named.
    pub peer: String,
    /// Different blocks of the trace it keeps.
    pub blocks: u64,
    /// Places it has for them; fewer than `blocks`: folded.
    pub places: u64,
    /// Bytes moved to and from it.
    pub moved_bytes: u64,
}

/// Times of so many requests.
#[derive(Debug, Serialize)]
pub struct Times {
    /// Requests.
    pub requests: u64,
    /// Half of them are below.
    pub p50_us: f64,
    /// 90 percent are below.
    pub p90_us: f64,
    /// 99 percent are below.
    pub p99_us: f64,
    /// 999 of 1000 are below.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
}

impl From<&Tally> for Times {
    fn from(tally: &Tally) -> Self {
        Self {
            requests: tally.requests,
            p50_us: tally.latency_us(50.0),
            p90_us: tally.latency_us(90.0),
            p99_us: tally.latency_us(99.0),
            p999_us: tally.latency_us(99.9),
            max_us: tally.latency_max_us(),
        }
    }
}

impl Report {
    /// All tables.
    pub fn text(&self) -> String {
        let optional = |v: Option<f64>| v.map_or("-".into(), |v| format!("{v:.3}"));
        let cpu = format!("{:.3},{}", self.cpu_s_per_gb_initiator, optional(self.cpu_s_per_gb_target));
        let wrong = self.wrong.map_or("-".into(), |w| w.to_string());
        let mut text = format!("{BLOCKS}\n");
        let _ = write!(
            text,
            "{:>8} {:>9} {:>9} {:>6.2} {:>8} {:>9} {:>8}",
            self.requests,
            self.blocks,
            self.local_blocks,
            self.hit_pct,
            self.joined_blocks,
            self.read_blocks,
            self.new_blocks
        );
        let gb = |bytes: u64| bytes as f64 / 1e9;
        let _ = write!(
            text,
            " {:>9.3} {:>10.3} {:>9.2}",
            gb(self.read_bytes),
            gb(self.written_bytes),
            self.elapsed_s
        );
        let _ = write!(text, " {:>8.3} {:>9.3} {cpu:>17} {wrong:>9}", self.gb_per_s_avg, self.gb_per_s_peak);
        if self.errors > 0 {
            let _ = write!(text, "  {} requests failed", self.errors);
        }
        let _ = write!(text, "\n\n{TIMES}\n");
        let written = self.written.as_ref().map(|times| ("last block written", times));
        let behind = self.behind.as_ref().map(|times| ("begun late", times));
        for (name, times) in [Some(("last block read", &self.read)), written, behind].into_iter().flatten() {
            let _ = writeln!(text, "{}", times.row(name));
        }
        text + "\n" + &stage_table(&self.stages)
    }
}

impl Times {
    fn row(&self, name: &str) -> String {
        let mut row = format!("{name:<18} {:>8}", self.requests);
        for us in [self.p50_us, self.p90_us, self.p99_us, self.p999_us, self.max_us] {
            let _ = write!(row, " {us:>11.1}");
        }
        row
    }
}

const BLOCKS: &str = "requests    blocks      held   hit%   joined      read      new   GB-read GB-written   time(s) \
GB/s-avg GB/s-peak cpu-s/GB(ini,tgt)    #wrong";
const TIMES: &str = "time to            requests     p50(us)     p90(us)     p99(us)   p99.9(us)     max(us)";

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut tally = Tally::new();
        tally.done(12_031, 0, 0, 123_456_789);
        Report {
            requests: 12_031,
            errors: 0,
            stopped: None,
            blocks: 288_500,
            distinct_blocks: 182_790,
            block_bytes: 65_536,
            block_pieces: 1,
            cache_blocks: 4096,
            store: "cold",
            speedup: Some(100.0),
            depth: 64,
            batch: 16,
            local_blocks: 105_710,
            joined_blocks: 10,
            read_blocks: 182_780,
            new_blocks: 0,
            hit_pct: 36.64,
            endless_hit_pct: 36.64,
            read_bytes: 11_978_670_080,
            written_bytes: 0,
            elapsed_s: 35.37,
            gb_per_s_avg: 0.339,
            gb_per_s_peak: 2.5,
            read: Times::from(&tally),
            written: Some(Times::from(&tally)),
            behind: Some(Times::from(&tally)),
            cpu_s_per_gb_initiator: 0.3,
            cpu_s_per_gb_target: None,
            check_cpu_s: None,
            wrong: Some(0),
            peers: Vec::new(),
            stages: Vec::new(),
        }
    }

    /// Rows keep to the columns of their heads.
    #[test]
    fn rows_stand_under_their_heads() {
        let text = report().text();
        let lens: Vec<_> = text.lines().map(|l| l.chars().count()).collect();
        assert_eq!((lens[0], lens[3]), (lens[1], lens[4]), "\n{text}");
        assert_eq!((lens[3], lens[3]), (lens[5], lens[6]), "\n{text}");
    }

    /// Every JSON key of a replay is in the documentation.
    #[test]
    fn json_keys_are_documented() {
        let docs = include_str!("../../../../../../docs/traces.md");
        let value = serde_json::to_value(report()).unwrap();
        for key in value.as_object().unwrap().keys() {
            assert!(docs.contains(&format!("`{key}`")), "docs/traces.md does not say what `{key}` is");
        }
    }
}
