//! `compare`: its columns, what they must say of each other, and how it ends. Real runs with tiny rounds; nothing here
//! compares times, which a busy machine would spoil.

use std::path::PathBuf;

use serde_json::Value;

use crate::node::{Node, failure, output, stdout};

/// Fast enough for a test: figures mean little, their kinds and relations all the same.
const TINY: &[&str] = &["--rounds", "2", "--seconds", "0.03"];

const PARKED: &str = "version = 1\nuse = \"run_to_completion\"\n";
/// Three threads that never sleep: more than two CPUs have room for.
const SPINNING: &str = "version = 1\nuse = \"tcp\"\n\
    pools.nic = { threads = 2, wait = \"spin\" }\nstages.notify = { via = [\"status\"] }\n";
const QUEUES: &str = "version = 1\nuse = \"pipeline\"\n";
const DMA: &str = "version = 1\nuse = \"tcp\"\n\
    transports = { tcp = false, nic = { type = \"rdma\" } }\nstages.route.prefer = [\"nic\"]\n";

struct Files(tempfile::TempDir);

impl Files {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(format!("{name}.toml")), text).unwrap();
        }
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(format!("{name}.toml")).display().to_string()
    }

    /// The command on these files.
    fn args(&self, names: &[&str], more: &[&str]) -> Vec<String> {
        let files = names.iter().map(|name| self.path(name));
        let words = TINY.iter().chain(more).map(|word| (*word).to_owned());
        ["compare".to_owned()].into_iter().chain(files).chain(words).collect()
    }

    #[track_caller]
    fn stdout(&self, names: &[&str], more: &[&str]) -> String {
        stdout(&words(&self.args(names, more)))
    }

    #[track_caller]
    fn json(&self, names: &[&str], more: &[&str]) -> Vec<Value> {
        objects(&self.stdout(names, &[more, &["--json"]].concat()))
    }
}

fn words(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[track_caller]
fn number(object: &Value, key: &str) -> f64 {
    object[key].as_f64().unwrap_or_else(|| panic!("{key}: {object}"))
}

/// Without the bare loop and the idle engine their columns are empty and no round is left out; what each round came to is told, in
/// order, for whoever pairs two files.
#[test]
fn rounds_one_by_one() {
    let files = Files::new(&[("parked", PARKED), ("queues", QUEUES)]);
    let told = files.json(&["parked", "queues"], &["--work", "latency", "--no-ceiling", "--no-idle"]);
    for object in &told {
        let mut rounds: Vec<f64> =
            object["p50_us_rounds"].as_array().unwrap().iter().map(|p50| p50.as_f64().unwrap()).collect();
        rounds.sort_by(f64::total_cmp);
        assert_eq!(rounds, ["p50_us_least", "p50_us_most"].map(|key| number(object, key)), "{object}");
        assert_eq!((&object["idle_cpu_pct"], &object["round_cells_left_out"]), (&Value::Null, &0.into()));
        assert!(object.get("ceiling_p50_us").is_none(), "{object}");
    }
    assert_eq!(told.len(), 2);
    // Against the first file, pair by pair: of two rounds the middle is the mean, of logarithms, and there are no ends.
    let rounds = |i: usize| [0, 1].map(|round| told[i]["p50_us_rounds"][round].as_f64().unwrap().ln());
    let pct = 100.0 * (((rounds(1)[0] - rounds(0)[0] + rounds(1)[1] - rounds(0)[1]) / 2.0).exp() - 1.0);
    let [first, second] = [0, 1].map(|i| &told[i]["p50_us_against_first"]);
    assert!(first.is_null() && (number(second, "pct") - pct).abs() < 1e-6, "{pct}: {second}");
    assert_eq!((&second["pairs"], &second["low_pct"]), (&2.into(), &Value::Null));
}

/// Every column is there with its unit and makes sense, alone and beside the others: run-to-completion passes one queue, a
/// queue between all stages more; wake-ups and idle CPU are of threads that sleep or do not; rows with more spinning threads
/// than CPUs are marked.
#[test]
fn columns_and_what_they_say_of_each_other() {
    let files = Files::new(&[("parked", PARKED), ("queues", QUEUES), ("spinning", SPINNING)]);
    let told = files.json(&["parked", "queues", "spinning"], &[]);
    let [parked, queues, spinning] = told.as_slice() else { panic!("{told:?}") };
    for (object, model) in [(parked, "parked"), (queues, "queues"), (spinning, "spinning")] {
        assert_eq!(object["model"], model);
        assert_eq!((&object["why"], &object["not_applicable"]), (&Value::Null, &false.into()));
        for size in ["4kib", "64kib", "1mib"] {
            let rate = number(object, &format!("gb_per_s_{size}"));
            let slices = number(object, &format!("mslices_per_s_{size}"));
            let bytes = match size {
                "4kib" => 4096.0,
                "64kib" => 65_536.0,
                // TCP takes a megabyte at once: a slice is a request.
                _ => 1_048_576.0,
            };
            // Counted around the loop, so with what was cut off at its ends.
            assert!((rate * 1e3 / bytes / slices - 1.0).abs() < 0.1, "{size}: {object}");
            let spread = [format!("gb_per_s_{size}_least"), format!("gb_per_s_{size}_most")];
            assert!(number(object, &spread[0]) <= rate && rate <= number(object, &spread[1]), "{object}");
            assert!(number(object, &format!("ceiling_gb_per_s_{size}")) > 0.0);
            for side in ["initiator", "target"] {
                assert!(number(object, &format!("cpu_s_per_gb_{side}_{size}")) > 0.0, "{side}: {object}");
            }
        }
        let latency = ["p50_us", "p99_us", "p999_us"].map(|key| number(object, key));
        assert!(0.0 < latency[0] && latency.is_sorted(), "{object}");
        assert!(
            number(object, "ceiling_p50_us") > 0.0 && number(object, "cpu_us_per_request_initiator") > 0.0
        );
        assert!(
            (0.0..=100.0 * number(object, "cpus") + 1.0).contains(&number(object, "idle_cpu_pct")),
            "{object}"
        );
        assert!(number(object, "queue_bytes") > 0.0 && number(object, "return_bytes") > 0.0);
        assert!(number(object, "spread_pct") >= 0.0 && object["rounds"] == 2 && object["round_cells"] == 8);
    }
    // `submit -> admit`, and nothing else; a queue between each two of five stages, and from the reaper to the end.
    assert_eq!((number(parked, "hops_per_request"), number(queues, "hops_per_request")), (1.0, 6.0));
    assert!(number(queues, "queue_bytes") > number(parked, "queue_bytes"));
    assert!(number(queues, "wakeups_per_request") > number(spinning, "wakeups_per_request"), "{told:?}");
    // Two threads take what the machine gives them, which on a busy one is little; those that sleep take next to nothing.
    let idle = told.iter().map(|object| number(object, "idle_cpu_pct")).collect::<Vec<_>>();
    assert!(idle[2] > 2.0 && idle[2] > 4.0 * idle[0].max(idle[1]), "{idle:?}");
    let threads = told.iter().map(|object| number(object, "spinning_threads"));
    assert_eq!(threads.collect::<Vec<_>>(), [0.0, 0.0, 3.0]);
    let crowded = number(spinning, "cpus") < 4.0;
    assert_eq!((&spinning["over_subscribed"], &parked["over_subscribed"]), (&crowded.into(), &false.into()));
    assert_eq!(
        (&spinning["application_waits"], &parked["application_waits"]),
        (&"poll".into(), &"wait".into())
    );
    assert!(parked["application"].as_str().unwrap().contains("nothing goes on otherwise"), "{parked}");
}

/// In a pipe the table is plain, at most 160 columns wide, marks the best with a star, says how the application waits and how
/// long it takes; the bare loop has a row.
#[test]
fn the_table() {
    let files = Files::new(&[("run_to_completion", PARKED), ("submit_then_poll", SPINNING)]);
    let ended = output(&words(&files.args(&["run_to_completion", "submit_then_poll"], &[])));
    let text = String::from_utf8(ended.stdout).unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(!text.contains('\u{1b}'), "{text}");
    let table: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(table.iter().all(|line| line.chars().count() <= 160), "{text}");
    for wanted in
        ["(bare loop)", "p99.9", "Mslices/s", "here it waits", "here it polls", "left out because", "1.00*"]
    {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(text.contains("rounds of 0.03 s a cell, medians; about"), "{text}");
    let cpus = std::thread::available_parallelism().unwrap().get();
    assert_eq!(text.contains(&format!("3/{cpus} !")), cpus < 4, "{text}");
    // Heads and figures stand under each other.
    let head = table.iter().position(|line| line.starts_with("model")).unwrap();
    let end = table[head].find("p50").unwrap() + 3;
    assert!(table[head + 1..head + 3].iter().all(|row| row.as_bytes()[end - 1].is_ascii_digit()), "{text}");
}

/// Markdown is tables whose rows have as many cells as their heads, with the spread where there is one.
#[test]
fn markdown_parses() {
    let files = Files::new(&[("parked", PARKED), ("broken", "version = 1\nuse = \"tpc\"\n")]);
    let ended = output(&words(&files.args(&["parked", "broken"], &["--markdown"])));
    assert_eq!(ended.status.code(), Some(78));
    let text = String::from_utf8(ended.stdout).unwrap();
    let rows: Vec<Vec<&str>> =
        text.lines().filter(|l| l.starts_with('|')).map(|l| l.split(" | ").collect()).collect();
    let rules: Vec<usize> = (0..rows.len())
        .filter(|&i| rows[i].iter().all(|cell| cell.trim_matches(['|', ' ']) == "---"))
        .collect();
    assert_eq!(rules.len(), 2, "{text}");
    let second = rules[1] - 1;
    for (i, row) in rows.iter().enumerate() {
        let head = if i < second { 0 } else { second };
        assert_eq!(row.len(), rows[head].len(), "{text}");
    }
    assert!(text.starts_with("* pipeline-node ") && text.contains("| `parked` | 1.00 |"), "{text}");
    assert!(text.contains('–') && text.contains("the file has 1 error"), "{text}");
}

/// A wrong file among good ones costs the others nothing: its row says why, and the exit code is its own. If no file can run
/// there is no table. A misspelt name is corrected.
#[test]
fn a_wrong_file_among_good_ones() {
    let files =
        Files::new(&[("good", PARKED), ("bad", "version = 1\nuse = \"tcp\"\nstages.admit.pool = \"nix\"\n")]);
    let ended = output(&words(&files.args(&["bad", "good"], &["--work", "latency", "--json"])));
    let [stderr, stdout] = [ended.stderr, ended.stdout].map(|text| String::from_utf8(text).unwrap());
    let told = objects(&stdout);
    assert_eq!(ended.status.code(), Some(78), "{stderr}");
    assert!(stdout.lines().all(|line| line.starts_with("{\"model\":")), "{stdout}");
    assert!(stderr.contains("bad.toml:3:") && stderr.contains("did you mean `nic`?"), "{stderr}");
    assert_eq!(told[0]["why"], "the file has 1 error");
    assert!(told[0]["p50_us"].is_null() && number(&told[1], "p50_us") > 0.0);
    let keys = |object: &Value| object.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&told[0]), keys(&told[1]));

    let (code, stderr) = failure(&words(&files.args(&["bad"], &[])));
    assert_eq!((code, stderr.contains("in all")), (78, false), "{stderr}");
    // Whoever reads objects finds one for each file all the same, with the keys of the work.
    let ended = output(&words(&files.args(&["bad", "bad"], &["--work", "latency", "--json"])));
    let none = objects(&String::from_utf8(ended.stdout).unwrap());
    assert_eq!((ended.status.code(), none.len()), (Some(78), 2));
    assert!(none[0]["why"].as_str().unwrap().contains("1 error") && none[0]["p50_us"].is_null());
    let of_files = |object: &Value| keys(object).into_iter().filter(|key| !key.starts_with("ceiling_"));
    assert!(of_files(&none[0]).eq(of_files(&told[0])), "{}", none[0]);
    assert!(none[0]["model"] != none[1]["model"], "two rows of one name");
    let (code, stderr) = failure(&words(&files.args(&["godo"], &[])));
    assert_eq!(code, 78, "{stderr}");
    assert!(stderr.contains("did you mean ") && stderr.contains("good.toml?"), "{stderr}");
}

/// What is wrong with a file is told once, on stderr: not again at the end, nor in its row, which says how much there is; what
/// several files share, and a file that is named twice, is told once as well. A missing file is so in text and in JSON.
#[test]
fn findings_are_told_once() {
    let bad = "version = 1\nuse = \"tcp\"\nstages.admit.pool = \"nix\"\nlimits.slices = \"many\"\n";
    let files = Files::new(&[("good", PARKED), ("bad", bad)]);
    let run = |names: &[&str], more: &[&str]| {
        let ended = output(&words(&files.args(names, &[&["--work", "latency"], more].concat())));
        let [out, err] = [ended.stdout, ended.stderr].map(|text| String::from_utf8(text).unwrap());
        (ended.status.code(), out, err)
    };
    for more in [&[][..], &["--json"], &["--markdown"]] {
        let (code, out, err) = run(&["bad", "good", "godo"], more);
        let facts = |line: &&str| !line.starts_with('#') && !line.starts_with('*');
        let told: Vec<&str> = err.lines().filter(facts).collect();
        let told = told.join("\n");
        assert_eq!(code, Some(78), "{err}");
        for once in ["unknown pool `nix`", "2 errors", "godo.toml cannot be read", "good.toml?", "1 error"] {
            assert_eq!(told.matches(once).count(), 1, "{once}: {told}");
        }
        assert!(told.ends_with("\n1 error") && !told.contains("pipeline-node:"), "{told}");
        assert!(out.contains("the file has 2 errors") && out.contains("the file cannot be read"), "{out}");
        assert!(!out.contains("nix") && !out.contains("good.toml?"), "{out}");
    }
    for (names, count) in [(["godo", "godo"], "\n1 error\n"), (["bad", "bad"], "\n2 errors\n")] {
        let (code, out, err) = run(&names, &[]);
        assert_eq!((code, out.as_str(), err.matches(count).count()), (Some(78), "", 1), "{err}");
        assert!(err.ends_with(count), "{err}");
    }
    let (code, _, err) = run(&["good", "good"], &["--set", "polls.a=1"]);
    assert_eq!((code, err.matches("unknown table `polls`").count()), (Some(78), 1), "{err}");
}

/// What only DMA can do is not measured over what copies, says so and is no failure; over a simulated NIC it runs. A file
/// that prefers another transport which does not exist yet gets that of the comparison, and that is said.
#[test]
fn what_wants_another_transport() {
    let two = "version = 1\nuse = \"tcp\"\ntransports.shared = { type = \"shm\" }\nstages.route.prefer = [\"shared\", \"tcp\"]\n";
    let files = Files::new(&[("dma", DMA), ("two", two), ("good", PARKED)]);
    let told = files.json(&["dma", "two", "good"], &["--work", "latency"]);
    assert_eq!((&told[0]["not_applicable"], &told[1]["not_applicable"]), (&true.into(), &false.into()));
    let why = told[0]["why"].as_str().unwrap();
    assert!(why.starts_with("n/a: memcpy") && why.contains("rdma") && told[0]["p50_us"].is_null(), "{why}");
    assert!(number(&told[1], "p50_us") > 0.0 && told[1]["replaced_transports"] == "tcp, shm", "{}", told[1]);
    assert!(told[2]["replaced_transports"].is_null());
    let told = files.json(&["dma"], &["--work", "latency", "--over", "sim"]);
    // A simulated NIC takes its time.
    assert!(number(&told[0], "p50_us") >= 5.0, "{}", told[0]);
    assert!(files.stdout(&["dma"], &["--work", "latency"]).is_empty());
    // One round says nothing of a spread.
    let good = files.path("good");
    let once = ["compare", &good, "--work", "latency", "--rounds", "1", "--seconds", "0.03", "--json"];
    let once = objects(&stdout(&once));
    assert!(once[0]["spread_pct"].is_null() && number(&once[0], "p50_us") > 0.0, "{}", once[0]);
}

/// Against a node that was named, with its segment: there is no bare loop, as its other half would be here. One that cannot
/// be reached ends with 69, one whose segment is too small or is not there says so; a name makes no sense within this process.
#[test]
fn a_target_that_is_named() {
    let node = Node::target("64MiB", &[]);
    let files = Files::new(&[("parked", PARKED), ("spinning", SPINNING)]);
    let target = ["--target", &node.address, "--segment", "kv"];
    let told = files.json(&["parked", "spinning"], &[&target[..], &["--op", "read"]].concat());
    for object in &told {
        assert!(number(object, "gb_per_s_1mib") > 0.0 && number(object, "cpu_s_per_gb_target_1mib") > 0.0);
        assert!(
            object.get("ceiling_gb_per_s_1mib").is_none() && object["round_cells_left_out"] == 0,
            "{object}"
        );
    }
    let text = files.stdout(&["parked"], &[&target[..], &["--work", "latency"]].concat());
    assert!(text.contains("# over TCP, 2 lanes,") && !text.contains("over loopback"), "{text}");
    let ends = |more: &[&str]| failure(&words(&files.args(&["parked"], more)));
    let (code, stderr) = ends(&["--target", "127.0.0.1:1", "--work", "latency"]);
    assert_eq!(code, 69, "{stderr}");
    assert!(stderr.contains("parked.toml: "), "{stderr}");
    let (code, stderr) = ends(&["--target", &node.address, "--segment", "kw"]);
    assert_eq!((code, stderr.contains("kv")), (1, true), "{stderr}");
    let (code, stderr) = ends(&[&target[..], &["--in-process"]].concat());
    assert_eq!((code, stderr.contains("--target")), (2, true), "{stderr}");
    let (code, stderr) = ends(&["--trace", "x.jsonl", "--work", "sweep"]);
    assert_eq!((code, stderr.contains("--trace")), (2, true), "{stderr}");
    let (code, stderr) = ends(&["--work", "latency", "--depth", "9"]);
    assert_eq!((code, stderr.contains("--depth")), (2, true), "{stderr}");
    assert_eq!(ends(&["--trace", "/no/such/trace"]).0, 71);
}

/// Within this process bytes are copied once; the target's CPU time is told apart from that of the initiator, which copies.
#[test]
fn within_this_process() {
    let files = Files::new(&[("parked", PARKED), ("queues", QUEUES)]);
    for object in files.json(&["parked", "queues"], &["--in-process"]) {
        assert!(number(&object, "gb_per_s_1mib") > 0.0 && number(&object, "ceiling_gb_per_s_1mib") > 0.0);
        let cpu = ["initiator", "target"].map(|side| number(&object, &format!("cpu_s_per_gb_{side}_1mib")));
        assert!(cpu[1] < cpu[0] / 2.0, "{object}");
    }
}

/// A trace is replayed by every file, a given one and a made one: all its blocks come, and latency is that of its requests.
#[test]
fn traces_are_replayed() {
    let files = Files::new(&[("parked", PARKED), ("spinning", SPINNING)]);
    let trace = files.0.path().join("trace.jsonl");
    std::fs::write(&trace, stdout(&["generate-trace", "--conversations", "20"])).unwrap();
    let trace: PathBuf = trace;
    for more in [&["--work", "trace", "--limit", "40"][..], &["--trace", trace.to_str().unwrap()]] {
        for object in files.json(&["parked", "spinning"], more) {
            let told = ["p50_us", "gb_per_s", "mslices_per_s", "cpu_s_per_gb_initiator", "hops_per_request"];
            assert!(told.iter().all(|key| number(&object, key) > 0.0), "{object}");
            assert!(
                number(&object, "ceiling_gb_per_s") > 0.0 && object.get("gb_per_s_4kib").is_none(),
                "{object}"
            );
        }
    }
}

/// An application of a pipeline that tells descriptors alone waits for a doorbell, and is woken for each batch.
#[test]
fn descriptors_are_waited_for() {
    let files = Files::new(&[(
        "doorbell",
        "version = 1\nuse = \"event_driven\"\nstages.notify.via = [\"eventfd\"]\n",
    )]);
    let told = files.json(&["doorbell"], &["--work", "latency"]);
    assert_eq!((&told[0]["application_waits"], &told[0]["spinning_threads"]), (&"epoll".into(), &0.into()));
    assert!(told[0]["application"].as_str().unwrap().starts_with("submit, then epoll;"), "{}", told[0]);
    assert!(number(&told[0], "p50_us") > 0.0 && number(&told[0], "hops_per_request") == 2.0, "{}", told[0]);
}

/// Every shipped model runs in it, or is n/a.
#[test]
fn the_shipped_models() {
    let folder = format!("{}/../../configs/models", env!("CARGO_MANIFEST_DIR"));
    let listed = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path().display().to_string());
    let mut models: Vec<String> = listed.collect();
    models.sort();
    let args = [&["compare".to_owned()][..], &models].concat();
    let more = ["--rounds", "1", "--seconds", "0.02", "--json"];
    let told = objects(&stdout(&[words(&args), more.to_vec()].concat()));
    assert_eq!(told.len(), models.len());
    for object in told {
        let is_dma = object["model"] == "zero_copy_dma";
        assert_eq!(
            (&object["not_applicable"], object["p50_us"].is_null()),
            (&is_dma.into(), is_dma),
            "{object}"
        );
    }
}
