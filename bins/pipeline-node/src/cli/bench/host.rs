//! The parameters, echoed with every report: a number without them cannot be compared.

use super::args::Args;
use crate::cli::load::machine::machine;
use crate::cli::quantity::human;

/// What was measured and how, one line each, for the head of a report.
pub fn facts(args: &Args) -> Vec<String> {
    let bound = match args.iterations {
        Some(n) => format!("{n} batches"),
        None => format!("{} s", args.seconds),
    };
    let mut facts = machine();
    facts.extend([
        format!(
            "op {} batch {} depth {} iov {} threads {} rounds {} of {bound}, memory {} a side, slice {}, rate {}, {}",
            args.op.name(),
            args.batch(),
            args.depth,
            args.iov,
            args.threads,
            args.rounds,
            human(args.memory),
            args.slice.as_deref().unwrap_or("as the file says"),
            args.rate.map_or("unbounded".into(), |r| format!("{r} requests/s")),
            args.file.as_deref().map_or("preset tcp".into(), |f| f.display().to_string()),
        ),
        "GB = 10^9 bytes; latency is submit to done; done means applied at the target; peak is the best 100 ms".into(),
    ]);
    facts
}
