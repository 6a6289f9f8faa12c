//! The program with RDMA on a machine that has no libibverbs at all: a root folder with nothing in it but the program, the
//! libraries that the loader wants for it, and a file. Needs to be root, and no device.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::node;

/// Mounts each file of the list, up to `--`, at its path below the root folder, where only this process sees it, and `/proc`,
/// where kernels before 6.4 tell a program how it was started; and runs the program there.
const INSIDE: &str = r#"
set -e
root=$1; shift
while [ "$1" != -- ]; do
  mkdir -p "$root$(dirname "$1")"; : > "$root$1"; mount --bind "$1" "$root$1"; shift
done
shift
mkdir -p "$root/proc"; mount -t proc proc "$root/proc"
exec chroot "$root" "$@"
"#;

/// The libraries that the loader wants to have before the program begins, theirs included.
fn wanted(program: &Path) -> Vec<PathBuf> {
    let listed = Command::new("ldd").arg(program).output().unwrap();
    assert!(listed.status.success(), "ldd {}", program.display());
    let text = String::from_utf8(listed.stdout).unwrap();
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    text.lines().filter_map(path).collect()
}

/// A root folder for the program.
struct Bare {
    root: tempfile::TempDir,
    program: PathBuf,
    files: Vec<PathBuf>,
}

impl Bare {
    fn with(file: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("node.toml"), file).unwrap();
        let program = node::path();
        Self { root, files: wanted(&program), program }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", INSIDE, "inside"]).arg(self.root.path());
        command.args(&self.files).arg(&self.program).arg("--").arg(&self.program).args(args);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Built with RDMA, the program wants no library of it to start: it judges a file, and says of one that asks for RDMA what
/// is missing and how to get it, as `run` and as `doctor`. Both end as they do on a machine that does not suit a file.
#[test]
#[ignore = "needs root: tests/rdma-vm runs it"]
fn it_starts_and_says_what_is_missing() {
    let bare = Bare::with("version = 1\nuse = \"rdma\"\n");
    let of_rdma = |path: &&PathBuf| {
        ["ibverbs", "rdmacm", "libnl"].iter().any(|lib| path.to_string_lossy().contains(lib))
    };
    assert_eq!(bare.files.iter().find(of_rdma), None, "the loader wants it");
    let judged = bare.run(&["validate", "/node.toml"]);
    assert!(judged.status.success(), "{}", text(&judged.stderr));
    for command in ["run", "doctor"] {
        let refused = bare.run(&[command, "/node.toml"]);
        let said = text(&refused.stdout) + &text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(71), "{command}: {said}");
        assert!(said.contains("libibverbs.so.1 cannot be loaded"), "{command}: {said}");
        assert!(said.contains("apt install libibverbs1 ibverbs-providers"), "{command}: {said}");
    }
}

/// The same program on the same machine serves over TCP.
#[test]
#[ignore = "needs root: tests/rdma-vm runs it"]
fn tcp_works_without_it() {
    let bare = Bare::with("version = 1\nuse = \"tcp\"\n");
    let mut node = bare.command(&["run", "--json", "/node.toml"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(node.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    node.kill().unwrap();
    node.wait().unwrap();
    assert!(ready.contains("\"address\""), "{ready}");
}
