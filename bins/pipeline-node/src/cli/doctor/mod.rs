//! `doctor`: whether this machine suits a file, as errors with the command that mends each. `validate` judges the
//! file; nothing here contacts a peer, and of a directory only one key is asked for.

mod checks;
mod directory;
mod machine;
mod memory;
mod places;
mod rdma;

use clap::Args as ClapArgs;

use super::exit::{Failure, Outcome};
use super::file::{self, FileArgs};
use machine::Machine;

/// Check this machine for a file: limits, memory, devices, CPUs, address, directory.
///
/// Prints one line for what is well and, for each thing that is not, what mends it. A hint is no error: it says what would be
/// faster. Exit 71 when the machine does not
/// suit the file, 78 when the file itself has errors.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  pipeline-node doctor node.toml
  pipeline-node doctor node.toml --json | jq 'select(.ok | not)'")]
pub struct Args {
    #[command(flatten)]
    file: FileArgs,
    /// One object a line: check, ok, found, mend. What is ok and has a mend is a hint.
    #[arg(long)]
    json: bool,
}

/// What one check found.
#[derive(Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What was looked at: `nofile`.
    check: &'static str,
    /// Whether it suits the file.
    ok: bool,
    /// What is there, and what the file needs.
    found: String,
    /// The command or change that mends it; what is well and could be better has one too.
    mend: String,
}

impl Verdict {
    fn well(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, ok: true, found: found.into(), mend: String::new() }
    }

    /// It does, and could do better.
    fn could_be_better(check: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { check, ok: true, found: found.into(), mend: mend.into() }
    }

    fn ill(check: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { check, ok: false, found: found.into(), mend: mend.into() }
    }
}

/// Runs it.
///
/// # Errors
/// 71 when the machine does not suit the file, 78 when the file has errors.
pub fn run(args: &Args) -> Outcome {
    let loaded = file::load(&args.file.source())?;
    let mut verdicts = checks::all(&loaded.config, &Machine::this());
    // What is near to what was looked up when the file was read.
    let nowhere = loaded.warnings.list.iter().filter(|f| f.code == pipeline_configs::codes::CPU_NOWHERE);
    verdicts.extend(nowhere.map(|f| Verdict::ill("pinning", f.message.clone(), f.help.join("; "))));
    let line = |v: &Verdict| match (args.json, v.ok) {
        (true, _) => {
            let object =
                serde_json::json!({ "check": v.check, "ok": v.ok, "found": v.found, "mend": v.mend });
            format!("{object}\n")
        }
        (false, true) if v.mend.is_empty() => format!("ok    {:8} {}\n", v.check, v.found),
        (false, true) => format!("hint  {:8} {}\n               = better: {}\n", v.check, v.found, v.mend),
        (false, false) => format!("error {:8} {}\n               = mend: {}\n", v.check, v.found, v.mend),
    };
    file::print(&verdicts.iter().map(line).collect::<String>())?;
    match verdicts.iter().filter(|v| !v.ok).count() {
        0 => Ok(()),
        1 => Err(Failure::system("this machine does not suit the file: 1 error")),
        n => Err(Failure::system(format!("this machine does not suit the file: {n} errors"))),
    }
}
