//! `bench --record` and `--replay`, `Engine::record_to`, and records that are damaged.

use std::path::Path;
use std::time::Duration;

use pipeline_node::{Options, Request};

use crate::node::{failure, output, stdout};
use crate::rig::{PATIENCE, done, engine, open, target, until};

/// Lines of a record, as JSON.
fn lines(path: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What was submitted: for each batch its gap and, request by request, operation and bytes.
fn stream(path: &Path) -> Vec<(u64, Vec<(String, u64)>)> {
    let lines = lines(path);
    let batches = lines.iter().filter(|line| line["gap_ns"].is_u64());
    let requests = |line: &serde_json::Value| {
        let runs = line["requests"].as_array().unwrap().iter();
        let each = |run: &serde_json::Value| {
            let one = (run["op"].as_str().unwrap().to_owned(), run["bytes"].as_u64().unwrap());
            std::iter::repeat_n(one, run["times"].as_u64().unwrap_or(1) as usize).collect::<Vec<_>>()
        };
        runs.flat_map(each).collect()
    };
    batches.map(|line| (line["gap_ns"].as_u64().unwrap(), requests(line))).collect()
}

/// An application's submissions, by each way there is, are in the record as they were: batches, order, sizes, rows, peers by name or
/// number and never by address; what is refused, and what is submitted before and after, is not.
#[test]
fn what_an_application_submits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.jsonl");
    let holder = target("1MiB");
    let named = format!("peers.decode='{}'", holder.local_address());
    let client = engine(&[&named]);
    let (by_name, by_address) = (client.open("decode").unwrap(), open(&client, &holder));
    let (kv, other) = (by_name.segment("kv").unwrap(), by_address.segment("kv").unwrap());
    let region = client.allocate(1 << 20).unwrap();
    let write = |at, len| Request::write(&region, at, kv.at(at), len);
    done(&client, &[write(0, 1)]);
    let recording = client.record_to_file(&path).unwrap();
    assert!(client.record_to_file(&path).unwrap_err().to_string().contains("another record"));
    done(&client, &[write(0, 64), write(64, 64), write(128, 64), write(0, 32)]);
    done(&client, &[Request::read(&region, 0, other.at(0), 10).strided(3, 20, 30), write(900, 7)]);
    let prepared = client.prepare(&[write(0, 11), write(100, 12), write(200, 13)]).unwrap();
    for pick in [&[2, 0][..], &[1]] {
        let batch = client.submit_prepared_wait(&prepared, pick, Options::default(), PATIENCE).unwrap();
        assert!(batch.wait(PATIENCE).unwrap().is_done());
    }
    client.submit(&[write(0, 0)], Options::default()).unwrap_err();
    let recorded = recording.finish().unwrap();
    done(&client, &[write(0, 2)]);
    assert_eq!((recorded.batches, recorded.requests, recorded.dropped), (4, 9, 0));
    let text = std::fs::read_to_string(&path).unwrap();
    let want = [
        r#""requests":[{"op":"write","peer":"decode","bytes":64,"times":3},{"op":"write","peer":"decode","bytes":32}]}"#,
        r#""requests":[{"op":"read","peer":"peer#1","bytes":30,"rows":3},{"op":"write","peer":"decode","bytes":7}]}"#,
        r#""requests":[{"op":"write","peer":"decode","bytes":13},{"op":"write","peer":"decode","bytes":11}]}"#,
        r#""requests":[{"op":"write","peer":"decode","bytes":12}]}"#,
        r#"{"end":{"batches":4,"requests":9,"dropped":0}}"#,
    ];
    let got: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(text.lines().next(), Some(r#"{"pipeline_node_record":1}"#));
    assert_eq!(got.len(), want.len(), "{text}");
    assert!(got.iter().zip(want).all(|(got, want)| got.ends_with(want)), "{text}");
    assert!(!text.contains("127.0.0.1"), "{text}");
}

/// A record that is made while it is written to a file that takes nothing any more ends with that error, and the application never
/// notices; one whose engine has stopped is whole. A second record at a time is refused, and leaves the file of the first alone.
#[test]
fn trouble_with_the_file() {
    let holder = target("1MiB");
    let client = engine(&[]);
    let kv = open(&client, &holder).segment("kv").unwrap();
    let region = client.allocate(4096).unwrap();
    let full = client.record_to(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap()).unwrap();
    (0..50).for_each(|_| done(&client, &[Request::write(&region, 0, kv.at(0), 4096)]));
    assert_eq!(full.finish().unwrap_err().raw_os_error(), Some(28));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.jsonl");
    let recording = client.record_to_file(&path).unwrap();
    done(&client, &[Request::write(&region, 0, kv.at(0), 4096)]);
    until("the batch is written", || std::fs::read_to_string(&path).unwrap().contains("4096"));
    assert!(client.record_to_file(&path).is_err());
    client.stop();
    assert_eq!(recording.finish().unwrap().batches, 1);
    let lines = lines(&path);
    assert!(lines.len() == 3 && lines[1]["requests"][0]["bytes"] == 4096, "{lines:?}");
    assert!(lines.last().unwrap()["end"].is_object());
}

/// What a replay submits is what was recorded: recorded again it is the same stream, at its own pace with gaps that agree, and at
/// any speed with the same sizes in the same order.
#[test]
fn a_replay_submits_what_was_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let [first, again] = ["first.jsonl", "again.jsonl"].map(|name| folder.path().join(name));
    let holder = target("4MiB");
    let client = engine(&[]);
    let kv = open(&client, &holder).segment("kv").unwrap();
    let region = client.allocate(1 << 20).unwrap();
    let recording = client.record_to_file(&first).unwrap();
    for i in 0..40_u64 {
        let len = 1 + i * i * 97 % 30_000;
        let request = |r: u64| match (i + r) % 3 {
            0 => Request::read(&region, r * 40_000, kv.at(0), len),
            _ => Request::write(&region, r * 40_000, kv.at(0), len + r),
        };
        done(&client, &(0..1 + i % 4).map(request).collect::<Vec<_>>());
        // The gap is part of what is recorded.
        std::thread::sleep(Duration::from_millis(3 * (i % 3)));
    }
    recording.finish().unwrap();
    let recorded = stream(&first);
    assert_eq!(recorded.len(), 40);
    for speed in [&["--speed", "1"][..], &["--speed", "1000"], &["--asap", "--depth", "3"]] {
        let first = first.display().to_string();
        let args = ["bench", "--replay", &first, "--json", "--memory", "4MiB"];
        let report = stdout(&[&args[..], speed].concat());
        let report: serde_json::Value = serde_json::from_str(report.lines().next().unwrap()).unwrap();
        assert_eq!((report["op"].as_str(), report["errors"].as_u64()), (Some("mixed"), Some(0)), "{report}");
        let bytes: u64 = recorded.iter().flat_map(|(_, requests)| requests).map(|(_, bytes)| bytes).sum();
        assert_eq!(report["confirmed_bytes"].as_u64(), Some(bytes));
        let took_s = bytes as f64 / 1e9 / report["gb_per_s_avg"].as_f64().unwrap();
        let span_s = recorded.iter().map(|(gap, _)| gap).sum::<u64>() as f64 / 1e9;
        // A replay at its own pace takes at least as long as the record, whatever the machine does.
        assert!(speed != ["--speed", "1"] || took_s >= span_s * 0.999, "{took_s} and {span_s}");
    }
    // Played by this very engine, and recorded while it is played.
    let play = ["bench", "--replay", &first.display().to_string(), "--memory", "4MiB"].map(str::to_owned);
    let play: Vec<&str> = play.iter().map(String::as_str).collect();
    stdout(&[&play[..], &["--record", &again.display().to_string()]].concat());
    let replayed = stream(&again);
    let sizes = |all: &[(u64, Vec<(String, u64)>)]| all.iter().map(|(_, r)| r.clone()).collect::<Vec<_>>();
    assert_eq!(sizes(&replayed), sizes(&recorded));
    let at = |all: &[(u64, Vec<(String, u64)>)]| {
        all.iter()
            .scan(0, |at, (gap, _)| {
                *at += gap;
                Some(*at)
            })
            .collect::<Vec<_>>()
    };
    // Never early; late by what a busy machine does to a thread that sleeps.
    for (i, (was, is)) in at(&recorded).iter().zip(at(&replayed)).enumerate() {
        assert!(is + 20_000 >= *was, "batch {i} came {} ns early", was - is);
    }
}

/// `bench --record` keeps the timed loops and nothing else: not what prepares and checks them.
#[test]
fn bench_records_its_loops() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.jsonl");
    let file = path.display().to_string();
    let args = [
        "bench",
        "--size",
        "4KiB,8KiB",
        "--batch",
        "4",
        "--iterations",
        "25",
        "--rounds",
        "2",
        "--no-ceiling",
    ];
    let ran = output(&[&args[..], &["--check", "--record", &file]].concat());
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && stderr.contains("recorded 100 batches with 400 requests"), "{stderr}");
    let sizes: Vec<u64> = stream(&path).iter().flat_map(|(_, r)| r.iter().map(|(_, bytes)| *bytes)).collect();
    let want: Vec<u64> = [4096; 200].into_iter().chain([8192; 200]).collect();
    assert_eq!(sizes, want);
}

/// Damaged records are refused with the line and exit 65; options that do not go together are refused.
#[test]
fn damaged_records_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.jsonl");
    let head = "{\"pipeline_node_record\":1}\n";
    let batch = "{\"gap_ns\":5,\"requests\":[{\"op\":\"read\",\"peer\":\"a\",\"bytes\":8}]}\n";
    let file = path.display().to_string();
    for (text, says) in [
        (format!("{head}{batch}{{\"gap_ns\":"), ":3: the line is cut off"),
        (format!("{head}{batch}nonsense\n"), ":3: no JSON object"),
        (batch.to_owned(), ":1: no record"),
        (
            format!("{head}{batch}{{\"end\":{{\"batches\":2,\"requests\":2,\"dropped\":0}}}}\n"),
            ":3: the end speaks of 2",
        ),
    ] {
        std::fs::write(&path, text).unwrap();
        let (code, stderr) = failure(&["bench", "--replay", &file]);
        assert!(code == 65 && stderr.contains(&format!("{file}{says}")), "{code} {stderr}");
    }
    assert_eq!(failure(&["bench", "--replay", "/no/such/file"]).0, 71);
    // What it says would be enough is.
    std::fs::write(&path, format!("{head}{}", batch.replace(":8", ":9999999"))).unwrap();
    let (code, stderr) = failure(&["bench", "--replay", &file, "--memory", "1MiB"]);
    let enough = stderr.split_once("raise --memory to ").and_then(|(_, rest)| rest.split_once(" or more"));
    let (enough, _) = enough.unwrap_or_else(|| panic!("{code} {stderr}"));
    assert_eq!((code, enough), (1, "10MiB"));
    stdout(&["bench", "--replay", &file, "--memory", enough, "--no-ceiling"]);
    for wrong in
        [&["--replay", "x", "--size", "4KiB"][..], &["--asap"], &["--replay", "x", "--asap", "--speed", "2"]]
    {
        assert_eq!(failure(&[&["bench"], wrong].concat()).0, 2, "{wrong:?}");
    }
}

/// A replay that is recorded never writes over the record that it plays, by whatever name that is called.
#[test]
fn a_replay_is_not_recorded_over_itself() {
    let folder = tempfile::tempdir().unwrap();
    let [path, other] = ["r.jsonl", "link"].map(|name| folder.path().join(name));
    let text = "{\"pipeline_node_record\":1}\n{\"gap_ns\":5,\"requests\":[{\"op\":\"read\",\"peer\":\"a\",\"bytes\":8}]}\n";
    std::fs::write(&path, text).unwrap();
    std::os::unix::fs::symlink("r.jsonl", &other).unwrap();
    let [file, link] = [&path, &other].map(|path| path.display().to_string());
    for to in [&file, &link] {
        let (code, stderr) = failure(&["bench", "--replay", &file, "--record", to]);
        assert!(code == 2 && stderr.contains("name another file with --record"), "{code} {stderr}");
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}
