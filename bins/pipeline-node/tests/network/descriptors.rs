//! A process that runs out of descriptors (B21).

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use crate::node::Node;
use crate::process::{cpu_time, descriptors};
use crate::rig::{engine, until};

const AT: &str = "TEST_TARGET";

/// Not a test of its own: a node with 64 descriptors that opens forty peers with four lanes each.
#[test]
#[ignore = "a role of sixty_four_descriptors"]
fn opener() {
    let Ok(port) = std::env::var(AT) else { return };
    let kv = "segments.kv={ kind='dram', size='1MiB', access='read_write' }";
    let node = engine(&["transports.tcp.lanes=4", kv]);
    println!("listens {}", node.local_address());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let mut opened = 0;
    for i in 1..=40 {
        match node.open(&format!("127.0.0.{i}:{port}")) {
            Ok(_) => opened += 1,
            Err(error) => println!("error {error}"),
        }
    }
    println!("opened {opened}");
    // Until it is told that all is over.
    std::io::stdin().read_line(&mut line).unwrap();
}

struct Opener {
    child: Child,
    stdin: ChildStdin,
}

impl Opener {
    fn go_on(&mut self) {
        self.stdin.write_all(b"\n").unwrap();
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// B21: with 64 descriptors forty peers of four lanes cannot be had: some are opened, the others fail with an error that
/// names the limit and how to raise it. A hundred idle clients at its listener cost it no CPU to speak of; when they are
/// gone it has as many descriptors as before, and a new peer is served within a second (and a margin for busy machines).
#[test]
fn sixty_four_descriptors() {
    let target = Node::target("1MiB", &["log.level='error'", "node.listen='0.0.0.0:0'"]);
    let this = std::env::current_exe().unwrap();
    let child = Command::new("prlimit")
        .arg("--nofile=64")
        .arg(this)
        .args(["--exact", "descriptors::opener", "--ignored", "--nocapture"])
        .env(AT, target.address.rsplit(':').next().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        eprintln!("skipped: there is no `prlimit` here");
        return;
    };
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let stdin = child.stdin.take().unwrap();
    let mut opener = Opener { child, stdin };
    let pid = opener.child.id();
    let at = lines.find_map(|line| line.strip_prefix("listens ").map(str::to_owned)).unwrap();
    opener.go_on();
    let mut errors = Vec::new();
    let opened = lines.find_map(|line| {
        errors.extend(line.strip_prefix("error ").map(str::to_owned));
        line.strip_prefix("opened ").map(|n| n.parse::<usize>().unwrap())
    });
    let opened = opened.unwrap();
    assert!(opened >= 5 && opened + errors.len() == 40, "{opened} opened; {errors:?}");
    let named = |e: &String| e.contains("RLIMIT_NOFILE") && e.contains("64") && e.contains("ulimit -n");
    assert!(errors.iter().all(named), "{errors:?}");

    let before = descriptors(pid);
    let idle: Vec<_> = (0..100).map(|_| TcpStream::connect(&at).unwrap()).collect();
    until("it has taken some", || descriptors(pid) > before);
    let (begin, used) = (Instant::now(), cpu_time(pid));
    std::thread::sleep(Duration::from_secs(2));
    let share = (cpu_time(pid) - used).as_secs_f64() / begin.elapsed().as_secs_f64();
    assert!(share < 0.05, "idle clients cost {:.1} % of a core", 100.0 * share);
    assert_eq!(opener.child.try_wait().unwrap(), None, "it died");
    drop(idle);
    let closed = Instant::now();
    let client = engine(&[]);
    client.open(&at).unwrap();
    assert!(closed.elapsed() < Duration::from_secs(2), "{:?}", closed.elapsed());
    drop(client);
    until("as many descriptors as before", || descriptors(pid) <= before);
    opener.go_on();
}
