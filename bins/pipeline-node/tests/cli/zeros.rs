//! Numbers that make no sense in a file (B42), through the command line.

use crate::node::{failure, output};

/// Every key of the presets that takes a number, a size or a time, with what makes a sum of it or breaks it.
const KEYS: &[&str] = &[
    "limits.requests",
    "limits.slices",
    "limits.batches",
    "limits.regions",
    "limits.peers",
    "limits.links",
    "limits.peer_share",
    "limits.bytes_in_flight",
    "limits.deadline",
    "pools.files.threads",
    "pools.nic.threads",
    "transports.tcp.lanes",
    "stages.split.slice",
    "stages.serve.budget",
    "stages.retry.attempts",
    "stages.retry.backoff",
    "edges.'submit -> admit'.queue",
    "edges.'select -> post'.queue",
    "edges.'submit -> admit'.spread",
    "drain.timeout",
];

/// B42: 0, 0 of a unit, -1, 2^63, 2^64, words and nothing, for each of these keys in turn: `validate` ends by itself,
/// with 0 where the value has a meaning or with 78 and a finding that names the key or its range, and never with a
/// panic; nor is any of them taken by one command and refused by another.
#[test]
fn numbers_that_make_no_sense() {
    for key in KEYS {
        for value in [
            "0",
            "'0B'",
            "'0s'",
            "-1",
            "'-1'",
            "9223372036854775808",
            "18446744073709551616",
            "1e300",
            "nan",
            "''",
            "'many'",
            "[]",
            "true",
        ] {
            let set = format!("{key}={value}");
            let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/pipelines/tcp.toml");
            let ended = output(&["validate", file, "--set", &set]);
            let stderr = String::from_utf8_lossy(&ended.stderr);
            assert!(!stderr.contains("panicked"), "{set}: {stderr}");
            match ended.status.code() {
                Some(0) => assert!(!matches!(value, "-1" | "'-1'" | "nan" | "''" | "[]"), "{set} was taken"),
                Some(78) => assert!(stderr.contains("error") && stderr.len() > 60, "{set}: {stderr}"),
                other => panic!("{set}: {other:?}\n{stderr}"),
            }
        }
    }
}

/// B42: the ones that the field case names are refused by `run` as well, with the range that is allowed.
#[test]
fn run_refuses_zeros() {
    for set in [
        "edges.'submit -> admit'.queue=0",
        "pools.nic.threads=0",
        "stages.split.slice='0B'",
        "transports.tcp.lanes=0",
        "limits.deadline='0s'",
        "limits.slices=0",
        "limits.bytes_in_flight='0B'",
    ] {
        let (code, stderr) = failure(&["run", "--built-in", "--set", set]);
        assert_eq!(code, 78, "{set}: {stderr}");
        assert!(
            stderr.contains(" to ") || stderr.contains("at least") || stderr.contains("more than"),
            "no range for {set}: {stderr}"
        );
    }
}
