//! One observation for each verdict, made by hand; and what all verdicts have in common.

use pipeline_stages::peer::PeerState;
use pipeline_stages::traffic::PeerStats;

use super::fixture::{SECOND, Seen};
use super::{Because, Knob, Limit, RULES};
use crate::source::Source;

/// A node that carries small requests: its worker has half of its time.
fn at_work(lines: &str) -> Seen {
    let mut seen = Seen::of(lines);
    for stage in ["admit", "split", "route", "select", "post", "reap", "notify"] {
        seen.worked(stage, 50, 80_000);
    }
    seen.ran("nic", 450, 100);
    seen.under_way(64, 8, 80_000, 4096);
    seen
}

fn knob(limit: &Limit) -> (&str, &str, &str) {
    let knob = limit.knob.as_ref().unwrap_or_else(|| panic!("no knob: {limit}"));
    (&knob.path, &knob.now, &knob.better)
}

/// What a knob says is so: the file has such a key, with that value, and loads with the better one.
fn is_real(seen: &Seen, knob: &Knob) {
    let load = |set: Vec<String>| {
        let loaded = Source::text("node.toml", &seen.toml).set(set.clone()).load();
        loaded.unwrap_or_else(|e| panic!("{set:?}: {}", e.text()))
    };
    let value = |loaded: &pipeline_configs::Loaded| {
        let shown = pipeline_configs::show::show(loaded, &pipeline_stages::catalog::catalog());
        let path = knob.path.trim_end_matches(".queue");
        let found = shown.iter().find(|s| s.path == path);
        found.map(|s| s.value.clone()).unwrap_or_else(|| panic!("no key {path}"))
    };
    let (before, after) =
        (value(&load(vec![])), value(&load(vec![format!("{}={}", knob.path, knob.better)])));
    assert_ne!(before, after, "{knob}");
    let is = |shown: &str, said: &str| match knob.path.strip_suffix(".queue") {
        Some(_) => shown.contains(&format!("queue = {said},")),
        None if knob.path.starts_with("edges") => {
            said == "\"inline\"" || shown.starts_with(said.trim_end_matches(" }"))
        }
        None => shown == said,
    };
    assert!(
        is(&before, &knob.now) || knob.now == "{ spin = \"100ms\", yield = \"0s\", park = \"1s\" }",
        "{before}: {knob}"
    );
    assert!(is(&after, &knob.better), "{after}: {knob}");
}

/// Nothing asked, nothing said of stages.
#[test]
fn idle() {
    let limit = Seen::of("").limit();
    assert_eq!((limit.because, &limit.stage, &limit.knob), (Because::Idle, &None, &None));
}

/// A pool of its own that has no time left is named by its stage; another thread is what to try, while there is a CPU for it.
#[test]
fn a_stage_without_time() {
    let mut seen = at_work(
        "pools.front = { threads = 1 }\nstages.split.pool = \"front\"\nstages.admit.pool = \"front\"\nedges.\"split -> route\".queue = 64",
    );
    seen.worked("split", 850, 80_000);
    seen.ran("front", 930, 20);
    let limit = seen.limit();
    assert_eq!((limit.because, limit.stage.as_deref()), (Because::Busy, Some("split")));
    assert!(limit.words.starts_with("stage `split` takes 85 % of pool `front` (1 thread)"), "{limit}");
    assert_eq!(knob(&limit), ("pools.front.threads", "1", "2"));
    is_real(&seen, limit.knob.as_ref().unwrap());
    seen.cpus = 1.5;
    let limit = seen.limit();
    assert_eq!((limit.because, &limit.knob), (Because::Busy, &None), "{limit}");
    assert!(limit.words.contains("no CPU for another thread"), "{limit}");
}

/// Where stages share a worker the worker is what is used up; the stage with the largest share is the culprit, one without a
/// pool included, and the next one is named too if it takes nearly as much.
#[test]
fn stages_share_a_worker() {
    let mut seen = at_work("");
    seen.worked("notify", 300, 80_000);
    seen.worked("reap", 280, 80_000);
    seen.ran("nic", 900, 50);
    let limit = seen.limit();
    assert_eq!((limit.because, limit.stage.as_deref()), (Because::Busy, Some("notify")), "{limit}");
    assert!(limit.words.contains("`reap` 28 %"), "{limit}");
}

/// Of many workers one has all the work: what deals it out is what to turn, not the number of threads.
#[test]
fn one_worker_of_many() {
    let mut seen = at_work("pools.nic = { threads = 4 }");
    seen.ran("nic/0", 950, 20);
    seen.ran("nic/1", 100, 0);
    let limit = seen.limit();
    assert_eq!(knob(&limit), ("stages.admit.spread", "1", "2"), "{limit}");
    is_real(&seen, limit.knob.as_ref().unwrap());
}

/// Slices far below what the transport likes: what each costs is what fills the worker.
#[test]
fn small_slices() {
    let mut seen = at_work("stages.split.slice = \"4KiB\"");
    seen.worked("split", 200, 1_000);
    seen.ran("nic", 950, 20);
    let limit = seen.limit();
    assert_eq!(knob(&limit), ("stages.split.slice", "\"4KiB\"", "\"auto\""), "{limit}");
    is_real(&seen, limit.knob.as_ref().unwrap());
}

/// Eight threads that spin on two CPUs: whatever stages say, threads wait for CPUs, and sleeping is what helps. If they do
/// sleep, fewer of them.
#[test]
fn too_many_threads() {
    let wait = "{ spin = \"100ms\", yield = \"0s\", park = \"1s\" }";
    for (wait, turn) in
        [(wait, "pools.nic.wait"), ("\"spin\"", "pools.nic.wait"), ("\"park\"", "pools.nic.threads")]
    {
        let mut seen = at_work(&format!("pools.nic = {{ threads = 8, wait = {wait} }}"));
        seen.cpus = 2.0;
        for at in 0..8 {
            let (busy, looked) = if turn.ends_with("wait") { (100, 900) } else { (950, 0) };
            let name = format!("nic/{at}");
            seen.ran(&name, busy, looked);
            (seen.worker(&name).cpu_ns, seen.worker(&name).cpu_wait_ns) = (SECOND / 4, 3 * SECOND / 4);
        }
        seen.interval.cpu_ns = 2 * SECOND;
        let limit = seen.limit();
        assert_eq!((limit.because, knob(&limit).0), (Because::Cpu, turn), "{limit}");
        assert!(limit.words.starts_with("threads want 8.0 CPUs and there are 2.0"), "{limit}");
        is_real(&seen, limit.knob.as_ref().unwrap());
        // A kernel that does not tell: who does not sleep wants a CPU.
        for at in 0..8 {
            let worker = seen.worker(&format!("nic/{at}"));
            (worker.cpu_ns, worker.cpu_wait_ns) = (0, 0);
        }
        assert_eq!(seen.limit().because, Because::Cpu);
    }
}

/// Other programs have the CPUs: that is not this file's threads being too many, and a stage that has no time left is named.
#[test]
fn other_programs() {
    let mut seen = at_work("");
    seen.worked("post", 600, 80_000);
    seen.ran("nic", 950, 20);
    seen.cpus = 2.0;
    (seen.worker("nic").cpu_ns, seen.worker("nic").cpu_wait_ns) = (SECOND / 2, SECOND / 2);
    seen.interval.cpu_ns = SECOND / 2;
    let limit = seen.limit();
    assert_eq!((limit.because, limit.stage.as_deref()), (Because::Busy, Some("post")), "{limit}");
    assert!(limit.words.contains("50 % of it without a CPU"), "{limit}");
    // With time left, and nothing full, it is those others that limit.
    seen.ran("nic", 400, 0);
    (seen.worker("nic").cpu_ns, seen.worker("nic").cpu_wait_ns) = (SECOND / 5, SECOND / 4);
    let limit = seen.limit();
    assert_eq!((limit.because, &limit.knob), (Because::Cpu, &None), "{limit}");
    assert!(limit.words.starts_with("workers wait for a CPU 56 % of the time"), "{limit}");
}

/// A small window that drains in less than a round trip is what to enlarge; one that takes long to drain is full because the
/// wire is slower, and then lanes are what to try.
#[test]
fn windows() {
    let mut seen = at_work("limits.bytes_in_flight = \"64KiB\"");
    seen.interval.window_short_ns = 8 * SECOND / 10;
    let limit = seen.limit();
    assert_eq!((limit.because, limit.stage.as_deref()), (Because::Window, Some("split")), "{limit}");
    assert_eq!(knob(&limit), ("limits.bytes_in_flight", "\"64KiB\"", "\"256KiB\""));
    is_real(&seen, limit.knob.as_ref().unwrap());

    let mut seen = at_work("");
    seen.interval.window_short_ns = 9 * SECOND / 10;
    seen.interval.nics[0].bytes = SECOND / 5;
    let limit = seen.limit();
    assert_eq!(
        (limit.because, knob(&limit)),
        (Because::Window, ("transports.tcp.lanes", "2", "4")),
        "{limit}"
    );
    assert!(limit.words.contains("the wire or the peer is slower"), "{limit}");
    is_real(&seen, limit.knob.as_ref().unwrap());

    // A tiny one is why the worker is busy; one that is worth more is full because the worker is.
    let mut seen = at_work("limits.bytes_in_flight = \"1MiB\"");
    seen.interval.window_short_ns = 9 * SECOND / 10;
    seen.ran("nic", 980, 0);
    assert_eq!(knob(&seen.limit()), ("limits.bytes_in_flight", "\"1MiB\"", "\"4MiB\""), "{}", seen.limit());
    seen.interval.nics[0].bytes /= 10;
    assert_eq!(seen.limit().because, Because::Busy, "{}", seen.limit());

    let mut seen = at_work("limits.slices = 160\nlimits.bytes_in_flight = \"1GiB\"");
    seen.interval.window_short_ns = 9 * SECOND / 10;
    let limit = seen.limit();
    assert_eq!(knob(&limit), ("limits.slices", "160", "320"), "{limit}");
    is_real(&seen, limit.knob.as_ref().unwrap());
}

/// A queue of one batch whose reader has time is too short; if its reader has none, the reader is the limit, and not who is
/// blocked by it.
#[test]
fn a_full_queue() {
    let lines = "pools.front = { threads = 1 }\nedges.\"select -> post\".queue = 1\n\
                 stages = { admit.pool = \"front\", split.pool = \"front\", route.pool = \"front\", select.pool = \"front\" }";
    let mut seen = at_work(lines);
    seen.edge("select -> post").blocked_ns = 4 * SECOND / 10;
    let limit = seen.limit();
    assert_eq!((limit.because, limit.stage.as_deref()), (Because::Queue, Some("post")), "{limit}");
    assert_eq!(knob(&limit), ("edges.\"select -> post\".queue", "1", "64"));
    is_real(&seen, limit.knob.as_ref().unwrap());
    seen.worked("post", 700, 80_000);
    seen.ran("nic", 960, 10);
    let limit = seen.limit();
    assert_eq!((limit.because, limit.stage.as_deref()), (Because::Busy, Some("post")), "{limit}");
    // With one worker at both ends nobody waits for its room.
    let mut seen = at_work("edges.\"select -> post\".queue = 1");
    seen.edge("select -> post").blocked_ns = 4 * SECOND / 10;
    assert_eq!(seen.limit().because, Because::Application, "{}", seen.limit());
}

/// Whoever submits is turned away at the entrance although the first stage has time.
#[test]
fn a_full_entrance() {
    let mut seen = at_work("edges.\"submit -> admit\".queue = 1");
    (seen.edge("submit -> admit").pushed, seen.edge("submit -> admit").rejected) = (60_000, 20_000);
    let limit = seen.limit();
    assert_eq!(knob(&limit), ("edges.\"submit -> admit\".queue", "1", "64"), "{limit}");
    is_real(&seen, limit.knob.as_ref().unwrap());
}

/// Slices that wait far longer for a stage than it works on them: the edge goes inline where both ends share a pool, else the
/// worker stays awake, else nothing but more at a time helps.
#[test]
fn hand_overs() {
    let mut seen = at_work("edges.\"route -> select\".queue = 16\nedges.\"select -> post\".queue = 16");
    seen.stage("select").wait.record(90_000, 10_000);
    let limit = seen.limit();
    assert_eq!((limit.because, limit.stage.as_deref()), (Because::Queue, Some("select")), "{limit}");
    assert_eq!(knob(&limit), ("edges.\"route -> select\"", "{ queue = 16 }", "\"inline\""));
    is_real(&seen, limit.knob.as_ref().unwrap());
    // Of requests that take far longer it is no matter.
    (seen.interval.counts.entered, seen.interval.counts.slices) = (10_000, 10_000);
    seen.interval.counts.took.record(9_000_000, 10_000);
    assert_eq!(seen.limit().because, Because::Application);
}

/// A worker that is woken for each batch, while requests wait for that.
#[test]
fn wake_ups() {
    let mut seen = at_work("pools.nic.wait = \"park\"");
    seen.ran("nic", 200, 0);
    (seen.worker("nic").parks, seen.worker("nic").wakes) = (15_000, 9_000);
    let limit = seen.limit();
    assert_eq!(
        (limit.because, knob(&limit)),
        (Because::Sleep, ("pools.nic.wait", "\"park\"", "\"adaptive\"")),
        "{limit}"
    );
    is_real(&seen, limit.knob.as_ref().unwrap());
    seen.worker("nic").timed_wakes = 15_000;
    assert_eq!(seen.limit().because, Because::Application, "sleeps that nothing ended cost nobody anything");
}

/// A peer that is down, that is up and answers nothing, and that answers slowly.
#[test]
fn peers() {
    let mut seen = at_work("");
    seen.interval.nics[0].slices = 0;
    let limit = seen.limit();
    assert_eq!(limit.because, Because::Peer);
    assert!(limit.words.contains("peer `b` has 8 slices and has answered none in 1.0 s"), "{limit}");
    let peer = &mut seen.interval.peers[0];
    (peer.state, peer.outstanding, peer.reason) = (PeerState::Down, 0, "connection refused".into());
    let why = "64 requests wait and no peer has a slice of theirs; peer `b` is down: connection refused";
    assert_eq!(seen.limit().words, why);
    seen.interval.peers.push(PeerStats {
        label: "c".into(),
        state: PeerState::Connecting,
        ..PeerStats::default()
    });
    assert_eq!(seen.limit().words, format!("{why}, and 1 more is not up"));
    // One that holds slices is told whatever its state, and before any that may have nothing to do with it.
    let leaving = PeerStats {
        label: "d".into(),
        state: PeerState::Leaving,
        outstanding: 3,
        links: 1,
        ..PeerStats::default()
    };
    seen.interval.peers.push(leaving);
    let words = seen.limit().words;
    assert!(
        words.starts_with("peer `d`, which is about to stop, has 3 slices and has answered none"),
        "{words}"
    );

    let mut seen = at_work("");
    seen.interval.peers[0].outstanding = 60;
    let limit = seen.limit();
    assert_eq!((limit.because, knob(&limit).0), (Because::Peer, "transports.tcp.lanes"), "{limit}");
    assert!(
        limit.words.starts_with("slices are with peers for 94 % of their time, most with `b`"),
        "{limit}"
    );
}

/// Requests that began long before the interval count for no more than it lasts: one that ends after a minute was not sixty at once.
#[test]
fn what_began_before_was_not_more() {
    let mut seen = at_work("");
    (seen.interval.under_way, seen.interval.usage.slices) = (0, 0);
    seen.interval.peers[0].outstanding = 0;
    seen.interval.counts.took.record(60_000_000_000, 1);
    (seen.interval.counts.entered, seen.interval.counts.slices) = (1, 1);
    let limit = seen.limit();
    assert!(!limit.words.contains("60.0 requests") && limit.because == Because::Application, "{limit}");
}

/// What has ended tells how much was under way, and for how long it was with peers: no gauge that happens to be empty when it is
/// looked at hides that.
#[test]
fn by_what_has_ended() {
    let mut seen = at_work("");
    (seen.interval.under_way, seen.interval.usage.slices) = (0, 0);
    seen.interval.peers[0].outstanding = 0;
    seen.interval.counts.took.record(1_000_000, 16_000);
    (seen.interval.counts.entered, seen.interval.counts.slices) = (16_000, 32_000);
    let limit = seen.limit();
    assert!(limit.because == Because::Application && limit.words.contains(": 16.0 requests"), "{limit}");
    seen.stage("reap").held.record(900_000, 32_000);
    let limit = seen.limit();
    assert!(limit.because == Because::Peer && limit.words.contains("for 91 % of their time"), "{limit}");
}

/// Slices that wait for room on a lane wait for the lane where those on it are soon back, and else for whoever is slow. Another
/// lane is proposed only where there is something to carry for it.
#[test]
fn full_lanes() {
    let mut seen = at_work("");
    seen.stage("post").held.record(3_000_000, 20_000);
    seen.stage("reap").held.record(1_000_000, 20_000);
    let limit = seen.limit();
    assert_eq!((limit.because, limit.stage.as_deref()), (Because::Window, Some("post")), "{limit}");
    assert_eq!(knob(&limit), ("transports.tcp.depth", "1024", "2048"), "{limit}");
    // Where a NIC is chosen they also wait for other things.
    let mut seen = at_work("transports.tcp.depth = 8");
    seen.stage("select").held.record(3_000_000, 20_000);
    seen.stage("reap").held.record(1_000_000, 5_000);
    assert_eq!(seen.limit().because, Because::Application, "lanes have room: {}", seen.limit());
    seen.stage("reap").held.record(1_000_000, 15_000);
    let limit = seen.limit();
    assert_eq!((limit.because, limit.stage.as_deref()), (Because::Window, Some("select")), "{limit}");
    assert_eq!(knob(&limit), ("transports.tcp.depth", "8", "16"), "{limit}");
    is_real(&seen, limit.knob.as_ref().unwrap());
    seen.stage("reap").held.record(50_000_000, 20_000);
    let limit = seen.limit();
    assert_eq!((limit.because, knob(&limit).0), (Because::Peer, "transports.tcp.lanes"), "{limit}");

    let mut seen = at_work("");
    seen.stage("reap").held.record(900_000, 1000);
    (seen.stage("post").batches, seen.stage("reap").batches) = (80_000, 80_000);
    seen.interval.graph.stages.iter_mut().for_each(|stage| stage.busy_ns /= 10);
    let limit = seen.limit();
    assert_eq!((limit.because, &limit.knob), (Because::Peer, &None), "one at a time: {limit}");
}

/// Small requests that have ended do not speak for a long one that goes on: as long as that is most of what moves, the node does not
/// wait for the next request.
#[test]
fn a_long_request_beside_short_ones() {
    let mut seen = at_work("");
    seen.interval.under_way = 1;
    seen.interval.counts.took.record(100_000, 100);
    seen.interval.counts.bytes = 100 * 4096;
    let limit = seen.limit();
    assert!(limit.words.contains(": 1.0 requests are under way"), "{limit}");
}

/// Without times no stage is blamed and nobody is said to ask for nothing; it is said what is missing.
#[test]
fn without_times() {
    let mut seen = at_work("stats.enabled = false");
    seen.interval.under_way = 0;
    seen.interval.graph.stages.iter_mut().for_each(|stage| stage.busy_ns = 0);
    let limit = seen.limit();
    assert!(
        limit.words.contains("`stats.enabled = false`") && !limit.words.contains("0.0 requests"),
        "{limit}"
    );
    seen.ran("nic", 950, 0);
    let limit = seen.limit();
    assert_eq!((limit.because, &limit.stage), (Because::Busy, &None), "{limit}");
    assert!(limit.words.starts_with("there is no time left in pool `nic` (1 thread)"), "{limit}");
}

/// All have time and nothing is full: whoever submits could submit more.
#[test]
fn the_application() {
    let limit = at_work("").limit();
    assert_eq!((limit.because, &limit.knob), (Because::Application, &None));
    assert!(limit.words.contains("`nic`) has 55 % of its time left"), "{limit}");
    // One at a time, and long pauses: what happens to each counts for little.
    let mut seen = at_work("");
    seen.interval.under_way = 0;
    seen.stage("post").wait.record(90_000, 10_000);
    assert_eq!(seen.limit().because, Because::Application);
    // Nothing of its own: it serves.
    let mut seen = Seen::of("");
    seen.stage("serve").busy_polls = 500;
    seen.ran("nic", 300, 100);
    let limit = seen.limit();
    assert!(limit.words.starts_with("peers ask for less than this node would serve"), "{limit}");
}

/// Every kind of limit has a rule, and each rule says in one sentence when it applies. An observation of nothing, of no
/// time and of a file without anything it speaks of breaks none of them.
#[test]
fn rules_are_whole() {
    for because in Because::ALL {
        assert!(RULES.iter().any(|rule| rule.because == because), "{because:?}");
    }
    assert!(RULES.iter().all(|rule| rule.says.len() > 20 && !rule.says.ends_with('.')));
    let mut seen = at_work("");
    seen.interval.graph.elapsed_ns = 0;
    seen.limit();
    seen.interval = Default::default();
    assert_eq!(seen.limit().because, Because::Idle);
}

/// The runbook has a row for each rule, in the order in which they are asked, with the words of the rule; and the keys that a
/// rule turns, by the observations above, are in its row.
#[test]
fn the_runbook_says_the_same() {
    let page = include_str!("../../../../docs/runbook.md");
    let rows: Vec<Vec<&str>> =
        page.lines().filter(|l| l.starts_with("| `")).map(|l| l.split(" | ").collect()).collect();
    let word = |row: &[&str]| row[0].trim_matches(['|', ' ', '`']).to_owned();
    let said: Vec<(String, &str)> = rows.iter().map(|row| (word(row), row[1])).collect();
    let rules: Vec<(String, &str)> =
        RULES.iter().map(|rule| (rule.because.word().to_owned(), rule.says)).collect();
    assert_eq!(said, rules);
    for (because, key) in [
        ("cpu", "wait"),
        ("cpu", "threads"),
        ("busy", "threads"),
        ("busy", "slice"),
        ("busy", "spread"),
        ("window", "bytes_in_flight"),
        ("window", "slices"),
        ("window", "lanes"),
        ("window", "depth"),
        ("queue", "queue"),
        ("queue", "inline"),
        ("sleep", "wait"),
        ("peer", "lanes"),
    ] {
        let mut of = rows.iter().filter(|row| word(row) == because);
        assert!(of.any(|row| row[3].contains(key)), "{because}: {key}");
    }
}
