//! `import-mooncake`: the file for a set-up of Mooncake's Transfer Engine. Reads what is said of it (variables, a JSON
//! configuration, options), writes what `validate` accepts, each line with where it comes from, and says what has no
//! equivalent and why. Deliberately without a look at this machine, and nothing is contacted: a set-up may be another one's.

mod draft;
mod fate;
mod judged;
mod keys;
mod names;
mod said;
mod setup;
mod variables;

use std::path::PathBuf;

use clap::Args as ClapArgs;
use pipeline_configs::{Findings, Options, Severity, load_str};
use pipeline_stages::catalog::catalog;

use self::draft::{Draft, WEIGHTY, told};
use self::judged::{Judged, Kind, Left, Line};
use self::said::{Manner, Said};
use super::exit::{Failure, Outcome};
use super::file::print;

/// Print the file for a set-up of Mooncake's Transfer Engine, each line with where it comes from.
///
/// Variables come from a file or from this process; keys of the JSON configuration that vLLM, SGLang and LMCache read beat
/// them, and options beat both. What has no equivalent is listed at the end of the file and on stderr, with the reason.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  pipeline-node import-mooncake > node.toml                    # of the variables MC_* and MOONCAKE_* of this process
  pipeline-node import-mooncake prefill.env --config mooncake_config.json > node.toml
  pipeline-node import-mooncake --metadata-server P2PHANDSHAKE --local-server-name 10.0.0.1:12345 --protocol tcp
  pipeline-node import-mooncake --metadata-server 10.0.0.9:2379 --local-server-name node-1 --protocol rdma \\
      --device-name mlx5_0,mlx5_1 --priority-matrix nics.json
  pipeline-node explain --matrix --json -c node.toml > nics.json  # the other way: a priority matrix for Mooncake")]
pub struct Args {
    /// File of variables: lines NAME=VALUE, `export` allowed; `-` is stdin. Without it those of this process.
    #[arg(value_name = "ENV", conflicts_with = "env")]
    file: Option<PathBuf>,
    /// The same, for those who prefer an option.
    #[arg(long, value_name = "FILE")]
    env: Option<PathBuf>,
    /// JSON configuration: mooncake_config.json, or what is given to --kv-transfer-config.
    #[arg(short = 'c', long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where nodes find each other: P2PHANDSHAKE, http://…, etcd://…, redis://…, host:port of etcd.
    #[arg(long, visible_alias = "metadata_server", value_name = "SERVER")]
    metadata_server: Option<String>,
    /// What this node calls itself: host or host:port.
    #[arg(long, visible_aliases = ["local_server_name", "local-hostname"], value_name = "NAME")]
    local_server_name: Option<String>,
    /// tcp or rdma.
    #[arg(long, value_name = "PROTOCOL")]
    protocol: Option<String>,
    /// RDMA devices, with commas between them.
    #[arg(long, visible_alias = "device_name", value_name = "LIST")]
    device_name: Option<String>,
    /// Priority matrix in JSON: which devices are near to which memory.
    #[arg(long, visible_alias = "nic_priority_matrix", value_name = "FILE")]
    priority_matrix: Option<String>,
    /// Bytes that peers may read and write.
    #[arg(long, visible_alias = "buffer_size", value_name = "BYTES")]
    buffer_size: Option<String>,
    /// One object: the file, its lines, and what is left over.
    #[arg(long)]
    json: bool,
}

/// Runs it.
///
/// # Errors
/// 2 for an option whose value makes no sense, 65 for other input that makes none, 71 for files that cannot be read; 1 when the file stands for another set-up: its metadata
/// server or its protocol has no equivalent.
pub fn run(args: &Args) -> Outcome {
    let (said, sources) = gather(args)?;
    let imported = import(said, &sources)?;
    refuse_options(&imported.left)?;
    match args.json {
        true => print(&format!("{}\n", imported.json()))?,
        false => print(&imported.text)?,
    }
    let weighty = imported.left.iter().filter(|left| WEIGHTY.contains(&left.kind));
    weighty.for_each(|left| eprintln!("pipeline-node: {}", told(left)));
    match imported.another() {
        Some(left) => Err(Failure::failed(format!("the file is for another set-up: {}", told(left)))),
        None => Ok(()),
    }
}

/// What a variable or a key says stands in a file that somebody else may own, and the rest of it is still worth having; an
/// option was written just now, by who reads this.
fn refuse_options(left: &[Left]) -> Outcome {
    let unfit = left.iter().filter(|left| left.kind == Kind::Unfit && left.said.manner == Manner::Option);
    let refusals = unfit.map(|left| Failure::usage(told(left)));
    refusals.reduce(Failure::worse).map_or(Ok(()), Err)
}

/// All that is said, the later the weightier, and where it was read.
fn gather(args: &Args) -> Result<(Vec<Said>, Vec<String>), Failure> {
    let mut sources = Vec::new();
    let mut all = match args.file.as_ref().or(args.env.as_ref()) {
        Some(path) => {
            let (text, shown) = said::read(path)?;
            let all = said::of_lines(&text, &shown)?;
            sources.extend((!all.is_empty()).then_some(shown));
            all
        }
        None => said::of_process(),
    };
    if sources.is_empty() && !all.is_empty() {
        sources.push("the variables of a process".to_owned());
    }
    let named = all.iter().rev().find(|said| said.name.ends_with("MOONCAKE_CONFIG_PATH"));
    let config = args.config.clone().or_else(|| named.map(|said| PathBuf::from(&said.value)));
    if let Some(path) = config {
        let (text, shown) = said::read(&path)?;
        all.extend(said::of_json(&text, &shown)?);
        sources.push(shown);
    }
    let options = [
        ("--metadata-server", &args.metadata_server),
        ("--local-server-name", &args.local_server_name),
        ("--protocol", &args.protocol),
        ("--device-name", &args.device_name),
        ("--priority-matrix", &args.priority_matrix),
        ("--buffer-size", &args.buffer_size),
    ];
    let before = all.len();
    all.extend(options.into_iter().filter_map(|(name, value)| {
        let value = value.clone()?;
        Some(Said { manner: Manner::Option, name: name.into(), value, from: name.into() })
    }));
    if all.len() > before {
        sources.push("the command line".to_owned());
    }
    Ok((all, sources))
}

/// A set-up as a file.
#[derive(Debug)]
struct Imported {
    text: String,
    lines: Vec<Line>,
    left: Vec<Left>,
}

fn import(said: Vec<Said>, sources: &[String]) -> Result<Imported, Failure> {
    let mut judged = judged::judge(said);
    let (mut lines, over) = setup::lines(&mut judged);
    lines.extend(judged.lines(over));
    loop {
        let draft = Draft::new(sources, &lines);
        let Err(findings) = load_str("<imported>", &draft.text, &catalog(), &Options::default()) else {
            judged.left.sort_by_key(|left| left.kind);
            let text = draft.whole(&judged.left);
            return Ok(Imported { text, lines, left: judged.left });
        };
        refuse(&findings, &draft, &mut lines, &mut judged)?;
    }
}

/// Takes out a line that the file's own check refuses: what bounds a value has is known there, and only there.
fn refuse(
    findings: &Findings,
    draft: &Draft,
    lines: &mut Vec<Line>,
    judged: &mut Judged,
) -> Result<(), Failure> {
    for finding in findings.list.iter().filter(|finding| finding.severity == Severity::Error) {
        let place = finding.place.and_then(|at| Some((findings.sources.get(at.source)?, at)));
        let line = place.map(|(source, at)| source.position(at.start).line);
        let at = line.and_then(|line| *draft.of.get(line.checked_sub(1)?)?);
        let Some(at) = at.filter(|at| lines[*at].said.is_some() && lines[*at].key != "type") else {
            continue;
        };
        let line = lines.remove(at);
        let why = std::iter::once(&finding.message).chain(&finding.help).cloned().collect::<Vec<_>>();
        judged.leave(line.said.expect("it was looked for"), Kind::Unfit, &why.join("; "));
        return Ok(());
    }
    eprint!("{}", findings.text());
    Err(Failure::findings("this release cannot say it in a file"))
}

impl Imported {
    /// What makes it the file of another set-up.
    fn another(&self) -> Option<&Left> {
        let essential = |left: &&Left| {
            let names = ["metadata_server", "metadata-server", "meta_data_server", "protocol"];
            let name = left.said.name.to_ascii_lowercase();
            names.iter().any(|end| name.ends_with(end)) && matches!(left.kind, Kind::Lacks | Kind::Unfit)
        };
        self.left.iter().find(essential)
    }

    fn json(&self) -> serde_json::Value {
        let line = |line: &Line| {
            let key = format!("{}.{}", line.table, line.key);
            serde_json::json!({ "key": key, "value": line.value, "from": line.why })
        };
        let left = |left: &Left| {
            serde_json::json!({
                "name": left.said.name, "value": draft::shown(&left.said.name, &left.said.value),
                "from": left.said.from, "kind": left.kind.word(), "why": draft::without_logins(&left.why),
            })
        };
        serde_json::json!({
            "toml": self.text,
            "lines": self.lines.iter().map(line).collect::<Vec<_>>(),
            "left": self.left.iter().map(left).collect::<Vec<_>>(),
        })
    }
}
