//! `bench --ceiling-only`: the bare loop by itself, to say what TCP gives on a machine, or to compare something else with.
//! Deliberately no engine of ours in the process: what runs is the loop and nothing beside it.

use pipeline_node::Config;
use serde::Serialize;

use super::args::Args;
use super::ceiling::{Bare, Ceiling};
use super::host;
use crate::cli::exit::{Failure, Outcome};
use crate::cli::file;
use crate::cli::load::layout::Layout;
use crate::cli::load::tally::median;

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
    ceiling_cpu_s_per_gb_initiator: f64,
    ceiling_cpu_s_per_gb_target: f64,
}

const HEAD: &str = "     bytes op    batch depth ceiling-GB/s   p50(us)   p99(us) cpu-s/GB(ini,tgt)";

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
            (0..args.rounds).map(|_| ceiling.round(size, args.iov, *layout)).collect();
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
        ceiling_cpu_s_per_gb_initiator: middle(|b| b.cpu_s_per_gb_initiator),
        ceiling_cpu_s_per_gb_target: middle(|b| b.cpu_s_per_gb_target),
    }
}

impl Line {
    /// A row under [`HEAD`].
    fn row(&self) -> String {
        let cpu =
            format!("{:.3},{:.3}", self.ceiling_cpu_s_per_gb_initiator, self.ceiling_cpu_s_per_gb_target);
        format!(
            "{:>10} {:<5} {:>5} {:>5} {:>12.3} {:>9.1} {:>9.1} {cpu:>17}",
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
            ceiling_cpu_s_per_gb_initiator: 0.25,
            ceiling_cpu_s_per_gb_target: 0.125,
        };
        assert_eq!(line.row().len(), HEAD.len(), "\n{HEAD}\n{}", line.row());
    }
}
