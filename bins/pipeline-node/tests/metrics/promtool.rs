//! What Prometheus' own tool says of a real scrape, of the alert rules, and of how they behave (`scripts/metrics-packages` installs
//! it; without it these say so and are skipped).

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use pipeline_node::Request;

use crate::http::scrape;
use crate::rig::{done, engine, open, target};

fn grafana(file: &str) -> String {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana").join(file).display().to_string()
}

/// `None` without the tool.
fn promtool(args: &[&str], stdin: &str) -> Option<Output> {
    let mut command = Command::new("promtool");
    let started =
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = started else {
        println!("skipped: there is no promtool; scripts/metrics-packages installs it");
        return None;
    };
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    Some(child.wait_with_output().unwrap())
}

#[track_caller]
fn is_content(args: &[&str], stdin: &str) {
    let Some(output) = promtool(args, stdin) else { return };
    let said = [output.stdout, output.stderr].map(|out| String::from_utf8_lossy(&out).into_owned());
    assert!(output.status.success() && !said.concat().contains("FAILED"), "{args:?}: {said:?}\n{stdin}");
    // Its lint speaks on stderr and may still end well.
    assert!(args[1] != "metrics" || said.concat().trim().is_empty(), "{said:?}");
}

/// A scrape of a node that has moved bytes passes the lint: names, units, types, help, and what is in a histogram.
#[test]
fn a_scrape_is_clean() {
    let holder = target("1MiB");
    let client = engine(&["metrics.listen='127.0.0.1:0'"]);
    let kv = open(&client, &holder).segment("kv").unwrap();
    let region = client.allocate(1 << 20).unwrap();
    done(&client, &[Request::write(&region, 0, kv.at(0), 1 << 20)]);
    is_content(&["check", "metrics"], &scrape(&client.metrics_address().unwrap().to_string()));
}

/// The alert rules are rules, and each fires on what it is for and on nothing else.
#[test]
fn alerts_fire_when_they_should() {
    is_content(&["check", "rules", &grafana("alerts.yml")], "");
    is_content(&["test", "rules", &grafana("alerts.test.yml")], "");
}
