//! `bench --ceiling-only`: the bare loop by itself, to say what TCP gives on a machine, or to compare something else with.
//! Deliberately no engine of ours in the process: what runs is the loop and nothing beside it.

use pipeline_node::Config;
use pipeline_transports::tcp::ceiling::CeilingReport;
use serde::Serialize;

use super::args::Args;
use super::ceiling::Ceiling;
use super::host;
use super::layout::Layout;
use super::tally::{median, ratio};
use crate::cli::exit::{Failure, Outcome};
use crate::cli::file;

/// One size: medians of the rounds. The keys are those of a whole bench, as far as they are about the bare loop.
#[derive(Debug, Serialize)]
struct Line {
    bytes: u64,
    op: &'static str,
    batch: u64,
    depth: u64,
    ceiling_gb_per_s: f64,
    ceiling_p50_us: f64,
    ceiling_p99_us: f64,
}

/// What a round of the bare loop came to.
struct Bare {
    gb_per_s: f64,
    p50_us: f64,
    p99_us: f64,
}

impl Bare {
    fn of(mut report: CeilingReport) -> Self {
        report.batch_ns.sort_unstable();
        Self {
            gb_per_s: ratio(report.bytes as f64, report.elapsed.as_nanos() as f64),
            p50_us: percentile_us(&report.batch_ns, 50),
            p99_us: percentile_us(&report.batch_ns, 99),
        }
    }
}

/// The least of `sorted_ns` that so many percent do not exceed; 0 of none.
fn percentile_us(sorted_ns: &[u64], percent: usize) -> f64 {
    let rank = (sorted_ns.len() * percent).div_ceil(100).max(1);
    sorted_ns.get(rank - 1).map_or(0.0, |ns| *ns as f64 / 1e3)
}

const HEAD: &str = "     bytes op    batch depth ceiling-GB/s   p50(us)   p99(us)";

/// Runs all sizes.
///
/// # Errors
/// 2 when the file declares no TCP transport, 1 when a run breaks off.
pub fn run(args: &Args, config: &Config, layouts: &[Layout]) -> Outcome {
    let Some(ceiling) = Ceiling::start(args, config)? else {
        return Err(Failure::usage("the file declares no transport of type `tcp`, so it has no bare loop"));
    };
    let head: String = host::facts(args).iter().map(|line| format!("# {line}\n")).collect();
    match args.json {
        true => eprint!("{head}"),
        false => file::print(&format!("{head}{HEAD}\n"))?,
    }
    for (size, layout) in args.sizes().into_iter().zip(layouts) {
        let rounds: Result<Vec<Bare>, Failure> =
            (0..args.rounds).map(|_| Ok(Bare::of(ceiling.report(size, args.iov, *layout)?))).collect();
        let line = line(args, size, &rounds?);
        let text = match args.json {
            true => serde_json::to_string(&line).map_err(Failure::system)?,
            false => line.row(),
        };
        file::print(&(text + "\n"))?;
    }
    Ok(())
}

fn line(args: &Args, size: u64, rounds: &[Bare]) -> Line {
    let middle = |what: fn(&Bare) -> f64| median(&mut rounds.iter().map(what).collect::<Vec<_>>());
    Line {
        bytes: size,
        op: args.op.name(),
        batch: args.batch(),
        depth: args.depth,
        ceiling_gb_per_s: middle(|b| b.gb_per_s),
        ceiling_p50_us: middle(|b| b.p50_us),
        ceiling_p99_us: middle(|b| b.p99_us),
    }
}

impl Line {
    /// A row under [`HEAD`].
    fn row(&self) -> String {
        format!(
            "{:>10} {:<5} {:>5} {:>5} {:>12.3} {:>9.1} {:>9.1}",
            self.bytes,
            self.op,
            self.batch,
            self.depth,
            self.ceiling_gb_per_s,
            self.ceiling_p50_us,
            self.ceiling_p99_us
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A percentile is a value that occurred, never below its share; nothing measured is zero.
    #[test]
    fn percentiles() {
        let ns: Vec<u64> = (1..=100).map(|i| i * 1_000).collect();
        assert_eq!((percentile_us(&ns, 50), percentile_us(&ns, 99)), (50.0, 99.0));
        assert_eq!((percentile_us(&ns[..1], 50), percentile_us(&ns[..3], 50)), (1.0, 2.0));
        assert_eq!(percentile_us(&[], 99), 0.0);
    }

    /// A row keeps to the columns of its head.
    #[test]
    fn rows_stand_under_the_head() {
        let line = Line {
            bytes: 1 << 20,
            op: "write",
            batch: 64,
            depth: 1,
            ceiling_gb_per_s: 4.5,
            ceiling_p50_us: 15_000.0,
            ceiling_p99_us: 22_000.0,
        };
        assert_eq!(line.row().len(), HEAD.len(), "\n{HEAD}\n{}", line.row());
    }
}
