//! What `bench` prints: one line (or JSON object) a size, then a table by stage.
//! Deliberately plain text with units in the head, and JSON keys that spell them.

use std::fmt::Write as _;

use pipeline_node::admin::LimitLine;
use serde::Serialize;

use super::nics::NicLine;

/// One size.
#[derive(Debug, Serialize)]
pub struct Line {
    /// Bytes a request.
    pub bytes: u64,
    /// `read` or `write`.
    pub op: &'static str,
    /// Requests a batch.
    pub batch: u64,
    /// Batches in flight.
    pub depth: u64,
    /// 10⁹ bytes a second over the whole time, median of the rounds.
    pub gb_per_s_avg: f64,
    /// The best 100 ms.
    pub gb_per_s_peak: f64,
    /// 10⁹ bits a second.
    pub gbit_per_s_avg: f64,
    /// Million requests a second.
    pub mreq_per_s: f64,
    /// Submit to done.
    pub p50_us: f64,
    /// Submit to done.
    pub p90_us: f64,
    /// Submit to done.
    pub p99_us: f64,
    /// Submit to done.
    pub p999_us: f64,
    /// Submit to done.
    pub max_us: f64,
    /// CPU seconds of this process for 10⁹ bytes.
    pub cpu_s_per_gb_initiator: f64,
    /// CPU seconds of the target for 10⁹ bytes; null when it did not tell.
    pub cpu_s_per_gb_target: Option<f64>,
    /// The bare loop, median of the rounds; null when it was not run.
    pub ceiling_gb_per_s: Option<f64>,
    /// `gb_per_s_avg` in percent of it.
    pub ceiling_pct: Option<f64>,
    /// CPU seconds of the bare loop's initiator for 10⁹ bytes, median of the rounds.
    pub ceiling_cpu_s_per_gb_initiator: Option<f64>,
    /// CPU seconds of the bare loop's target for 10⁹ bytes, median of the rounds.
    pub ceiling_cpu_s_per_gb_target: Option<f64>,
    /// Bytes applied at the destination.
    pub confirmed_bytes: u64,
    /// Bytes that `--check` found different; null without `--check`.
    pub wrong: Option<u64>,
    /// Requests that did not end well.
    pub errors: u64,
    /// By stage.
    pub stages: Vec<StageLine>,
    /// By NIC.
    pub nics: Vec<NicLine>,
    /// What held this side back in the last round.
    pub limit: LimitLine,
}

/// One stage while that size ran.
#[derive(Debug, Serialize)]
pub struct StageLine {
    /// Its name in the file.
    pub stage: String,
    /// Workers that ran it.
    pub threads: usize,
    /// Batches (of up to 32 slices) its queues hold; 0 when it is reached inline.
    pub cap: u64,
    /// Batches waiting, mean.
    pub depth_avg: f64,
    /// Batches waiting, most.
    pub depth_max: u64,
    /// Before it, an item.
    pub wait_p50_us: f64,
    /// Before it, an item.
    pub wait_p99_us: f64,
    /// In its hands, a batch.
    pub service_p50_us: f64,
    /// In its hands, a batch.
    pub service_p99_us: f64,
    /// Held inside it, an item; null for a stage that holds none.
    pub held_p50_us: Option<f64>,
    /// Held inside it, an item; null for a stage that holds none.
    pub held_p99_us: Option<f64>,
    /// Time its workers spent in it.
    pub util_pct: f64,
    /// Time its output had no room.
    pub blocked_pct: f64,
}

/// The head of the table of sizes.
pub const HEAD: &str = "     bytes op    batch depth  GB/s-avg GB/s-peak  Gbit/s   Mreq/s   p50(us)   p90(us)   p99(us) p99.9(us)   max(us) \
 cpu-s/GB(ini,tgt) %ceiling      of-ceiling    #wrong";

impl Line {
    /// A row under [`HEAD`].
    pub fn row(&self) -> String {
        let optional = |v: Option<f64>, digits: usize| v.map_or("-".into(), |v| format!("{v:.digits$}"));
        let cpu = format!("{:.3},{}", self.cpu_s_per_gb_initiator, optional(self.cpu_s_per_gb_target, 3));
        let mut row = format!(
            "{:>10} {:<5} {:>5} {:>5} {:>9.3} {:>9.3} {:>7.2} {:>8.4}",
            self.bytes,
            self.op,
            self.batch,
            self.depth,
            self.gb_per_s_avg,
            self.gb_per_s_peak,
            self.gbit_per_s_avg,
            self.mreq_per_s,
        );
        for us in [self.p50_us, self.p90_us, self.p99_us, self.p999_us, self.max_us] {
            let _ = write!(row, " {us:>9.1}");
        }
        let wrong = self.wrong.map_or("-".into(), |w| w.to_string());
        let bare = [self.ceiling_cpu_s_per_gb_initiator, self.ceiling_cpu_s_per_gb_target];
        let bare = bare.map(|cpu| optional(cpu, 3)).join(",");
        let _ = write!(row, " {cpu:>17} {:>8} {bare:>15} {wrong:>9}", optional(self.ceiling_pct, 1));
        if self.errors > 0 {
            let _ = write!(row, "  {} requests failed", self.errors);
        }
        row
    }
}

/// The table by stage.
pub fn stage_table(stages: &[StageLine]) -> String {
    let width = stages.iter().map(|s| s.stage.len()).max().unwrap_or(0).max(5);
    let mut table = format!(
        "  {:<width$} threads     cap depth-avg depth-max  wait-p50/p99(us) service-p50/p99(us)  held-p50/p99(us)  util% blocked%\n",
        "stage"
    );
    for s in stages {
        let wait = format!("{:.1}/{:.1}", s.wait_p50_us, s.wait_p99_us);
        let service = format!("{:.1}/{:.1}", s.service_p50_us, s.service_p99_us);
        let held = match s.held_p50_us.zip(s.held_p99_us) {
            Some((p50, p99)) => format!("{p50:.1}/{p99:.1}"),
            None => "-".into(),
        };
        let _ = writeln!(
            table,
            "  {:<width$} {:>7} {:>7} {:>9.1} {:>9} {wait:>17} {service:>19} {held:>17} {:>6.1} {:>8.1}",
            s.stage, s.threads, s.cap, s.depth_avg, s.depth_max, s.util_pct, s.blocked_pct
        );
    }
    table
}

/// The line that says what limited, and what to try.
pub fn foot(limit: &LimitLine) -> String {
    let knob = limit.knob.as_ref();
    let knob = knob.map(|k| format!("; try {} = {} (now {})", k.path, k.better, k.now)).unwrap_or_default();
    format!("  limited by {}: {}{knob}\n", limit.because, limit.words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Line {
        Line {
            bytes: 4_294_967_297,
            op: "write",
            batch: 1,
            depth: 64,
            gb_per_s_avg: 1.5,
            gb_per_s_peak: 2.0,
            gbit_per_s_avg: 12.0,
            mreq_per_s: 0.25,
            p50_us: 10.0,
            p90_us: 20.0,
            p99_us: 30.0,
            p999_us: 40.0,
            max_us: 50.0,
            cpu_s_per_gb_initiator: 0.5,
            cpu_s_per_gb_target: None,
            ceiling_gb_per_s: Some(2.0),
            ceiling_pct: Some(75.0),
            ceiling_cpu_s_per_gb_initiator: Some(0.25),
            ceiling_cpu_s_per_gb_target: Some(0.125),
            confirmed_bytes: 4_294_967_297,
            wrong: Some(0),
            errors: 0,
            stages: vec![StageLine {
                stage: "post".into(),
                threads: 1,
                cap: 2048,
                depth_avg: 1.5,
                depth_max: 9,
                wait_p50_us: 1.0,
                wait_p99_us: 2.0,
                service_p50_us: 3.0,
                service_p99_us: 4.0,
                held_p50_us: Some(5.0),
                held_p99_us: Some(6.0),
                util_pct: 55.0,
                blocked_pct: 1.0,
            }],
            nics: Vec::new(),
            limit: LimitLine::default(),
        }
    }

    /// The JSON object of a size has the documented keys, no more and no fewer.
    #[test]
    fn json_keys_are_the_documented_ones() {
        let value = serde_json::to_value(line()).unwrap();
        let mut keys: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
        let wanted = "bytes op batch depth gb_per_s_avg gb_per_s_peak gbit_per_s_avg mreq_per_s p50_us p90_us \
                      p99_us p999_us max_us cpu_s_per_gb_initiator cpu_s_per_gb_target ceiling_gb_per_s \
                      ceiling_pct ceiling_cpu_s_per_gb_initiator ceiling_cpu_s_per_gb_target confirmed_bytes \
                      wrong errors stages nics limit";
        let mut wanted: Vec<_> = wanted.split_whitespace().map(str::to_owned).collect();
        keys.sort();
        wanted.sort();
        assert_eq!(keys, wanted);
    }

    /// Rows keep to the columns of their head, for numbers beyond 32 bits too.
    #[test]
    fn rows_stand_under_the_head() {
        let row = line().row();
        assert_eq!(row.chars().count(), HEAD.chars().count(), "\n{HEAD}\n{row}");
        let table = stage_table(&line().stages);
        let lens: Vec<_> = table.lines().map(|l| l.chars().count()).collect();
        assert_eq!(lens[0], lens[1], "\n{table}");
    }
}
