//! `init`: a first file. Short, because it uses a preset; commented, because it is read by somebody new.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use pipeline_configs::PRESETS;
use pipeline_graph::Cpus;

use super::exit::{Failure, Outcome};
use super::file::print;

/// Write a short, commented file to start from.
///
/// It uses a preset and only says what differs. It never overwrites a file.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  pipeline-node init
  pipeline-node init rdma --detect -o decode.toml
  pipeline-node init mooncake                   # tcp, and beside it Mooncake's nodes
  pipeline-node init tcp --detect -o -          # look at it first")]
pub struct Args {
    /// The preset it uses: tcp, shm, rdma, gpu_rdma, nvme_tier, or one of the models of docs/models.md: run_to_completion, pipeline,
    /// thread_per_core, submit_then_poll, event_driven, zero_copy_dma, adaptive_polling. `mooncake` is tcp with a transport to nodes
    /// of Mooncake's Transfer Engine.
    #[arg(value_name = "PRESET", default_value = "tcp")]
    preset: String,
    /// Fill in the NICs, CPUs and GPUs of this machine.
    #[arg(long)]
    detect: bool,
    /// Where it is written; `-` is stdout.
    #[arg(short, long, value_name = "FILE", default_value = "node.toml")]
    output: PathBuf,
}

/// Shipped files that are no presets, and why.
const WHOLE: &[(&str, &str)] = &[(
    "mooncake_like",
    "it is a whole file to measure beside others, Mooncake's mixture of models; copy configs/models/mooncake_like.toml, or \
     begin with `init adaptive_polling`",
)];

/// The word for a file with a transport to Mooncake's nodes beside the preset `tcp`.
const MOONCAKE: &str = "mooncake";

/// What a machine has.
#[derive(Debug, Default)]
struct Found {
    nics: Vec<String>,
    rdma: Vec<String>,
    gpus: usize,
    cpus: usize,
}

/// Runs it.
///
/// # Errors
/// 2 for an unknown preset, 71 when the file is there or cannot be written.
pub fn run(args: &Args) -> Outcome {
    let preset = if args.preset == MOONCAKE { "tcp" } else { &args.preset };
    if !PRESETS.iter().any(|p| p.name == preset) {
        if let Some(whole) = WHOLE.iter().find(|(name, _)| *name == args.preset) {
            return Err(Failure::usage(format!("`{}` is no preset: {}", whole.0, whole.1)));
        }
        let names = PRESETS.iter().map(|p| p.name).chain([MOONCAKE]);
        let help = pipeline_configs::suggest::help(&args.preset, "presets", names);
        return Err(Failure::usage(format!("there is no preset `{}`: {help}", args.preset)));
    }
    let found = args.detect.then(|| Found::on(Path::new("/")));
    let text = file(preset, found.as_ref()) + if args.preset == MOONCAKE { BESIDE_MOONCAKE } else { "" };
    if args.output.as_os_str() == "-" {
        return print(&text);
    }
    let shown = args.output.display();
    let made = std::fs::File::options().write(true).create_new(true).open(&args.output);
    let written = made.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|e| match e.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::system(format!(
            "{shown} is there already; name another file with -o, or -o - to look at it"
        )),
        _ => Failure::system(format!("{shown}: {e}")),
    })?;
    print(&format!("wrote {shown}; next: pipeline-node validate {shown}, then pipeline-node run {shown}\n"))
}

/// What stands behind a file of the preset `tcp`.
const BESIDE_MOONCAKE: &str = "
[transports.mooncake]                # nodes of Mooncake reach this one, and it reaches them: docs/mooncake.md
type = \"mooncake_tcp\"
listen = \"127.0.0.1:12345\"           # the handshake port, and this node's name there; for others write its own address
# metadata = \"http://10.0.0.9:8080/metadata\"   # where all use a directory; without it each is asked by its address
# server_name = \"node-0\"             # its name there

[stages.route]
prefer = [\"tcp\", \"mooncake\"]

# [peers]                            # once in a file: beside what stands there already
# decode-1 = \"mooncake://10.0.0.3:15123\"       # host:get_rpc_port() of its engine
# A set-up that is there already: pipeline-node import-mooncake
";

impl Found {
    /// What `/sys` and `/proc` below a root list; nothing is opened or asked.
    fn on(root: &Path) -> Self {
        let names = |path: &str, real: &dyn Fn(&Path) -> bool| {
            let entries = std::fs::read_dir(root.join(path)).into_iter().flatten().flatten();
            let mut names: Vec<String> = entries
                .filter(|e| real(&e.path()))
                .filter_map(|e| e.file_name().into_string().ok())
                .collect();
            names.sort();
            names
        };
        // Bridges, tunnels and loopback have no device behind them.
        let up = |path: &Path| {
            let state = std::fs::read_to_string(path.join("operstate")).unwrap_or_default();
            path.join("device").exists() && state.trim() != "down"
        };
        Self {
            nics: names("sys/class/net", &up),
            rdma: names("sys/class/infiniband", &|_| true),
            gpus: names("proc/driver/nvidia/gpus", &|_| true).len(),
            cpus: Cpus::of_process().budget(),
        }
    }
}

/// The text of the file.
fn file(preset: &str, found: Option<&Found>) -> String {
    let pad = " ".repeat(29usize.saturating_sub(preset.len()));
    let mut text = format!(
        "# A node. Judge it: pipeline-node validate node.toml   This machine: pipeline-node doctor node.toml
# Every key: docs/config.md   Every value as it stands: pipeline-node show config node.toml
version = 1
use = \"{preset}\"{pad}# a whole pipeline; this file only says what differs

[node]
name = \"node-0\"                      # what peers see
listen = \"127.0.0.1:7001\"            # only this machine; write \"0.0.0.0:7001\" to be reached from others
"
    );
    let whole = PRESETS.iter().find(|p| p.name == preset).map_or("", |p| p.text);
    let by_rdma = preset.contains("rdma") || whole.contains("[transports.rdma]");
    let (listed, gpus) = match found {
        None => (Vec::new(), 0),
        Some(found) => (if by_rdma { found.rdma.clone() } else { found.nics.clone() }, found.gpus),
    };
    let transport = if by_rdma { "rdma" } else { "tcp" };
    match (found, listed.as_slice()) {
        (Some(_), []) if by_rdma => {
            text.push_str(
                "\n# No RDMA device was found: `pipeline-node doctor` on this file says what to do.\n",
            );
        }
        (Some(_), []) => {
            let _ = writeln!(text, "\n# No NIC was found for `{transport}`: the system's routing chooses.");
        }
        (Some(_), nics) => {
            let quoted: Vec<String> = nics.iter().map(|n| format!("\"{n}\"")).collect();
            let _ =
                writeln!(text, "\n[transports.{transport}]\nnics = [{}]   # found here", quoted.join(", "));
        }
        (None, _) => {
            let _ = writeln!(
                text,
                "\n# [transports.{transport}]\n# nics = [\"eth0\", \"eth1\"]          # without it, the system's routing chooses"
            );
        }
    }
    // Where no pool is the NICs' own, its size is another question than how many threads a NIC has.
    if let Some(found) = found.filter(|_| whole.contains("\nnic = {")) {
        // The rest is for the application: what moves bytes for it should not crowd it out.
        let threads = (found.cpus / 8).clamp(1, 4);
        let _ = writeln!(
            text,
            "\n[pools.nic]                          # {} CPUs found; threads of each NIC\nthreads = {threads}",
            found.cpus
        );
    }
    text.push_str("\n[segments.kv]                        # memory that peers may read and write\nkind = \"dram\"\nsize = \"64MiB\"\naccess = \"read_write\"\n");
    for gpu in 0..gpus {
        let _ = write!(text, "\n[segments.gpu{gpu}]\nkind = \"cuda:{gpu}\"\nsize = \"1GiB\"\n");
    }
    text.push_str("\n# [peers]\n# decode-0 = \"10.0.0.2:7001\"         # a name for an address\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipeline_configs::{Options, codes, load_str};
    use pipeline_stages::catalog::catalog;

    /// For every preset, on a machine with much and with nothing, the file validates.
    #[test]
    fn files_validate() {
        let much = Found {
            nics: vec!["eth0".into(), "eth1".into()],
            rdma: vec!["mlx5_0".into()],
            gpus: 2,
            cpus: 64,
        };
        for preset in PRESETS {
            for found in [None, Some(&Found::default()), Some(&much)] {
                let text = file(preset.name, found);
                let loaded = load_str("node.toml", &text, &catalog(), &Options::default());
                let loaded = loaded.unwrap_or_else(|findings| panic!("{findings}\n{text}"));
                let strange = loaded.warnings.list.iter().filter(|f| f.code != codes::LATER).count();
                assert_eq!(strange, 0, "{}", loaded.warnings);
                assert!(text.lines().count() < 40, "it is short");
            }
        }
    }

    /// With a transport to Mooncake's nodes it validates as well, with the directory and the peer that it proposes too.
    #[test]
    fn beside_mooncake() {
        let text = file("tcp", None) + BESIDE_MOONCAKE;
        let proposed = text.replace("# metadata", "metadata").replace("# server_name", "server_name");
        let proposed = proposed
            .replace("# [peers]                            #", "[peers] #")
            .replace("# decode-1", "decode-1");
        assert!(text.lines().count() < 60 && proposed != text);
        for text in [text, proposed] {
            let loaded = load_str("node.toml", &text, &catalog(), &Options::default());
            let loaded = loaded.unwrap_or_else(|findings| panic!("{findings}\n{text}"));
            assert!(loaded.warnings.list.is_empty(), "{}", loaded.warnings);
        }
    }

    /// Only interfaces with a device behind them count, in the order of their names.
    #[test]
    fn detects_what_is_listed() {
        let root = tempfile::tempdir().unwrap();
        for dir in [
            "sys/class/net/eth1/device",
            "sys/class/net/eth0/device",
            "sys/class/net/lo",
            "sys/class/net/eth2/device",
            "sys/class/infiniband/mlx5_0",
            "proc/driver/nvidia/gpus/0000:01:00.0",
        ] {
            std::fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        std::fs::write(root.path().join("sys/class/net/eth2/operstate"), "down\n").unwrap();
        let found = Found::on(root.path());
        assert_eq!(
            (found.nics, found.rdma, found.gpus),
            (vec!["eth0".to_owned(), "eth1".to_owned()], vec!["mlx5_0".to_owned()], 1)
        );
    }
}
