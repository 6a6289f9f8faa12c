//! A wall clock that jumps by an hour, forwards and back, during transfers and a `bench` (B54): nothing happens.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use pipeline_node::{Options, Request};
use serde_json::Value;

use crate::node::{Node, program};
use crate::rig::{PATIENCE, bytes_of, done, engine, nothing_left, pattern, region_of};
use crate::{is_scene, scene};

const SCENE: &str = "clocks::scene_of_a_client";
const HOUR: i64 = 3600;

/// Answers wall time shifted by the seconds that a file says; all other clocks as they are.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *shift;

__attribute__((constructor)) static void start(void) {
    int fd = open(getenv("WALL_CLOCK_SHIFT"), O_RDONLY | O_CLOEXEC);
    shift = mmap(0, 8, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
}

static long long shifted(void) { return shift && shift != MAP_FAILED ? *shift : 0; }

int clock_gettime(clockid_t id, struct timespec *t) {
    int failed = syscall(SYS_clock_gettime, id, t);
    if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) t->tv_sec += shifted();
    return failed;
}

int gettimeofday(struct timeval *t, void *zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *t) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (t) *t = now.tv_sec;
    return now.tv_sec;
}
"#;

/// A wall clock for programs that a test starts.
struct WallClock {
    folder: tempfile::TempDir,
}

impl WallClock {
    /// `None` without a C compiler.
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let clock = Self { folder };
        std::fs::write(clock.path("shim.c"), SHIM).unwrap();
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([clock.path("shim.so"), clock.path("shim.c")])
            .status();
        if !built.is_ok_and(|status| status.success()) {
            return None;
        }
        clock.set(0);
        Some(clock)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Moves the clock of everybody at once: the file is mapped there, and so never cut.
    fn set(&self, seconds: i64) {
        use std::os::unix::fs::FileExt;
        let file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(self.path("shift"));
        file.unwrap().write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    }

    fn rule(&self, command: &mut Command) {
        command.env("LD_PRELOAD", self.path("shim.so")).env("WALL_CLOCK_SHIFT", self.path("shift"));
    }
}

/// Whether programs see it at all: without that the test below would show nothing.
fn is_seen(clock: &WallClock) -> bool {
    let date = || {
        let mut date = Command::new("date");
        clock.rule(date.arg("+%s"));
        String::from_utf8(date.output().unwrap().stdout).unwrap().trim().parse::<i64>().unwrap()
    };
    let before = date();
    clock.set(HOUR);
    let after = date();
    clock.set(0);
    (HOUR - 60..HOUR + 60).contains(&(after - before))
}

/// While the wall clock of all its processes jumps by an hour every tenth of a second, a transfer with a deadline of
/// seconds and a session that is kept alive see no timeout and no new connection, and `bench` reports times, rates
/// and latencies that fit the time that really passed.
#[test]
fn a_jumping_wall_clock_changes_nothing() {
    let Some(clock) = WallClock::new() else {
        eprintln!("skipped: no C compiler (`cc`) to build the clock with");
        return;
    };
    assert!(is_seen(&clock), "the clock does not reach programs");
    let node = Node::start_with(
        &["--built-in", "--set", "segments.kv={ kind='dram', size='4MiB', access='read_write' }"],
        |command| clock.rule(command),
    );
    let begin = Instant::now();
    let args = ["bench", "--size", "64KiB", "--seconds", "2", "--rounds", "1", "--no-ceiling", "--json"];
    let mut bench = program(&args);
    clock.rule(&mut bench);
    let bench = bench.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut client = scene(SCENE);
    clock.rule(client.env("PEER", &node.address));
    let mut client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut ahead = false;
    while client.try_wait().unwrap().is_none() {
        assert!(begin.elapsed() < PATIENCE, "the client hangs");
        ahead = !ahead;
        clock.set(if ahead { HOUR } else { -HOUR });
        std::thread::sleep(Duration::from_millis(100));
    }
    let client = client.wait_with_output().unwrap();
    let said =
        String::from_utf8_lossy(&client.stdout).into_owned() + &String::from_utf8_lossy(&client.stderr);
    assert!(client.status.success() && said.contains("the clock jumped"), "{said}");
    let bench = bench.wait_with_output().unwrap();
    let took = begin.elapsed();
    assert!(bench.status.success(), "{}", String::from_utf8_lossy(&bench.stderr));
    plausible(&serde_json::from_slice(&bench.stdout).unwrap(), took);
}

/// All that `bench` measured fits into the time it ran.
fn plausible(line: &Value, took: Duration) {
    let of = |key: &str| line[key].as_f64().unwrap_or_else(|| panic!("{key}: {line}"));
    assert_eq!(of("errors"), 0.0);
    let (lo, hi) = (of("p50_us"), of("max_us"));
    assert!(0.0 < lo && lo <= of("p99_us") && of("p99_us") <= hi, "{line}");
    assert!(hi < 1e6 * took.as_secs_f64(), "a request took longer than all: {line}");
    let moved = of("confirmed_bytes") / 1e9;
    // Two seconds were asked for; a busy machine may have made more of it.
    assert!(of("gb_per_s_avg") <= moved / 1.9 && of("gb_per_s_avg") >= moved / took.as_secs_f64(), "{line}");
    assert!(of("cpu_s_per_gb_initiator") > 0.0);
}

/// Connections of this process, by the names the kernel has for them.
fn connections() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let mut all: Vec<_> = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect();
    all.retain(|to: &PathBuf| to.as_path() != Path::new("") && to.to_string_lossy().starts_with("socket:"));
    all.sort();
    all
}

/// The client of [`a_jumping_wall_clock_changes_nothing`].
#[test]
#[ignore = "runs in a process of its own, started by another test"]
fn scene_of_a_client() {
    if !is_scene(SCENE) {
        return;
    }
    let client = engine(&["limits.deadline='10s'"]);
    let kv = client.open(&std::env::var("PEER").unwrap()).unwrap().segment("kv").unwrap();
    let source = region_of(&client, &pattern(54, 1 << 20));
    let into = client.allocate(1 << 20).unwrap();
    done(&client, &[Request::write(&source, 0, kv.at(0), 1 << 20)]);
    let before = connections();
    let (begin, mut jumps, mut wall) = (Instant::now(), 0, SystemTime::now());
    while begin.elapsed() < Duration::from_secs(2) || jumps < 4 {
        let requests =
            [Request::read(&into, 0, kv.at(0), 1 << 20), Request::write(&source, 0, kv.at(1 << 20), 1 << 20)];
        let batch = client.submit(&requests, Options::default()).unwrap();
        assert!(batch.wait(PATIENCE).unwrap().is_done(), "{:?}", batch.results().collect::<Vec<_>>());
        let now = SystemTime::now();
        let hour = Duration::from_secs(HOUR as u64);
        jumps += u32::from(now > wall + hour || wall > now + hour);
        wall = now;
    }
    println!("the clock jumped {jumps} times");
    assert_eq!(connections(), before, "it has connected anew");
    assert!(bytes_of(&into) == bytes_of(&source));
    nothing_left(&client, [source, into]);
}
