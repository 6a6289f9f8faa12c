//! `import-mooncake`: set-ups as their users have them, with the file that comes of each, which `validate` accepts.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::node::{output, program};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/import_mooncake")
}

/// Runs it in the folder of the set-ups; no variable of the test reaches it.
fn import(args: &[&str]) -> (String, String, i32) {
    let mut command = program(&["import-mooncake"]);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("MC_") || name.to_string_lossy().starts_with("MOONCAKE_") {
            command.env_remove(name);
        }
    }
    let ended = command.args(args).current_dir(folder()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(ended.stdout), text(ended.stderr), ended.status.code().unwrap())
}

/// Compares with the golden file, and has `validate` judge it.
#[track_caller]
fn golden(name: &str, args: &[&str]) -> String {
    let (file, stderr, code) = import(args);
    assert_eq!(code, 0, "{stderr}");
    let path = folder().join(name);
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        std::fs::write(&path, &file).unwrap();
    }
    assert_eq!(file, std::fs::read_to_string(&path).unwrap_or_default(), "UPDATE_GOLDENS=1 writes it anew");
    // Warnings are about the machine: how many CPUs it has.
    let judged = output(&["validate", path.to_str().unwrap()]);
    assert!(judged.status.success(), "{}", String::from_utf8_lossy(&judged.stderr));
    stderr
}

/// A decoder of vLLM: variables, and the JSON file beside them; the misspelt variable comes with the name that was meant,
/// a value out of bounds with the bounds, and what has no equivalent with the reason.
#[test]
fn vllm() {
    let stderr = golden("vllm.toml", &["vllm.env", "--config", "vllm.json"]);
    for part in [
        "MC_TCP_BIND_ADDRES=10.0.0.2 (vllm.env:10): did you mean `MC_TCP_BIND_ADDRESS`?",
        "MC_SLICE_TIMEOUT=30 (vllm.env:6): deadlines are those of requests",
        "MC_WORKERS_PER_CTX=4",
        "MC_RETRY_CNT=1000 (vllm.env:11): ",
        "master_server_address=10.0.0.9:50051 (vllm.json)",
    ] {
        assert!(stderr.contains(part), "`{part}` is missing:\n{stderr}");
    }
    assert!(!stderr.contains("MC_MTU"), "what is not needed is at the end of the file only:\n{stderr}");
}

/// A prefill node of SGLang with an HTTP metadata server, by variables alone.
#[test]
fn sglang() {
    golden("sglang.toml", &["--env", "sglang.env"]);
}

/// What `transfer_engine_bench` is given, with its names of the options: etcd, and devices that mean nothing over TCP.
#[test]
fn bench() {
    let options = [
        "/dev/null",
        "--metadata_server=10.0.0.9:2379",
        "--local_server_name=10.0.0.3:12345",
        "--protocol=tcp",
        "--device_name=mlx5_0,mlx5_1",
        "--nic_priority_matrix=matrix.json",
        "--buffer_size=1073741824",
    ];
    golden("bench.toml", &options);
}

/// Over RDMA: devices become NICs, in the order of the list, and the priority matrix says which is near to what.
#[test]
fn rdma() {
    let options =
        ["rdma.env", "--protocol=rdma", "--device_name=mlx5_0,mlx5_1", "--nic_priority_matrix=matrix.json"];
    golden("rdma.toml", &options);
}

/// Nothing at all is a set-up too: a file for this machine.
#[test]
fn nothing() {
    golden("nothing.toml", &["/dev/null"]);
}

/// With `--json` the file, its lines and what is left over are one object; a password is in none of them.
#[test]
fn as_json() {
    let redis = "MC_REDIS_USERNAME=kv\nMC_REDIS_PASSWORD=secret\nMC_REDIS_DB_INDEX=2\nMC_PKEY_INDEX=1\n";
    let dir = tempfile::tempdir().unwrap();
    let env = dir.path().join("redis.env");
    std::fs::write(&env, redis).unwrap();
    let options = ["--metadata-server", "redis://10.0.0.9:6379", "--local-server-name", "n1", "--json"];
    let (told, stderr, code) = import(&[&[env.to_str().unwrap()], &options[..]].concat());
    assert_eq!(code, 0, "{stderr}");
    assert!(!told.contains("secret") && !stderr.contains("secret"), "{told}");
    let told: Value = serde_json::from_str(&told).unwrap();
    assert!(told["toml"].as_str().unwrap().contains("\"redis://10.0.0.9:6379/2\""), "{told}");
    let line = |key: &str| told["lines"].as_array().unwrap().iter().find(|line| line["key"] == key).unwrap();
    assert_eq!(line("transports.mooncake.server_name")["from"], "--local-server-name");
    let left: Vec<_> = told["left"].as_array().unwrap().iter().map(|l| (&l["name"], &l["kind"])).collect();
    let wanted = ["MC_REDIS_USERNAME", "MC_REDIS_PASSWORD", "MC_PKEY_INDEX"].map(Value::from);
    assert_eq!(left.len(), 3, "{left:?}");
    assert!(wanted.iter().all(|name| left.contains(&(name, &"no_equivalent".into()))), "{left:?}");
}

/// What would make it the file of another set-up ends with 1 and is named; input that makes no sense with 65, a file that
/// is not there with 71.
#[test]
fn what_cannot_be_had() {
    let (file, stderr, code) = import(&["/dev/null", "--metadata-server", "https://10.0.0.9/metadata"]);
    assert!(code == 1 && stderr.contains("TLS"), "{code}: {stderr}");
    assert!(file.contains("metadata = \"P2PHANDSHAKE\""), "{file}");
    let (_, stderr, code) = import(&["/dev/null", "--protocol", "nvmeof"]);
    assert!(code == 1 && stderr.contains("another set-up"), "{code}: {stderr}");
    assert_eq!(import(&["vllm.json"]).2, 65);
    assert_eq!(import(&["/dev/null", "--config", "vllm.env"]).2, 65);
    assert_eq!(import(&["there-is-none.env"]).2, 71);
    let folder = tempfile::tempdir().unwrap();
    let no_text = folder.path().join("latin1.env");
    std::fs::write(&no_text, b"MC_MTU=\xe4\n").unwrap();
    let (_, stderr, code) = import(&[no_text.to_str().unwrap()]);
    assert!(code == 65 && stderr.contains("no text"), "{code}: {stderr}");
}

/// An option whose value makes no sense is refused by its name with what may be written, and nothing is printed: no line of a
/// file that was never made is blamed, whichever name said it. What a variable says is left out and told, as ever.
#[test]
fn values_that_make_no_sense() {
    for name in ["a:b:c", "a b", "a:b", "300.0.0.1:9"] {
        let (file, stderr, code) = import(&["/dev/null", "--local-server-name", name]);
        assert_eq!((file.as_str(), code), ("", 2), "{stderr}");
        let wanted =
            format!("--local-server-name={name}: it is no `host` or `host:port`; write such as node-1");
        assert!(stderr.contains(&wanted) && !stderr.contains("<imported>"), "{stderr}");
    }
    let two = ["/dev/null", "--local-server-name", "a:b:c", "--buffer-size", "much"];
    let (_, stderr, code) = import(&two);
    assert!(
        code == 2 && stderr.contains("--local-server-name=") && stderr.contains("--buffer-size="),
        "{stderr}"
    );

    let dir = tempfile::tempdir().unwrap();
    let env = dir.path().join("odd.env");
    std::fs::write(&env, "MOONCAKE_LOCAL_HOSTNAME=a:b:c\nMC_TCP_BIND_ADDRESS=a b\n").unwrap();
    let options = [env.to_str().unwrap(), "--metadata-server", "http://10.0.0.9:8080/metadata"];
    let (file, stderr, code) = import(&options);
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("MOONCAKE_LOCAL_HOSTNAME=a:b:c (odd.env:1): it is no `host`"), "{stderr}");
    assert!(stderr.contains("MC_TCP_BIND_ADDRESS=a b (odd.env:2): it is no host name"), "{stderr}");
    assert!(file.contains("listen = \"127.0.0.1:0\""), "{file}");
}
