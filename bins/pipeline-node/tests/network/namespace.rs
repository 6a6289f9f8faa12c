//! A network of one's own: the test runs itself again in a new user and network namespace; a thread may move to a second
//! one, at the other end of a wire that can be cut.

use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

const INSIDE: &str = "TEST_IN_NETWORK";

/// The address of this side of the wire.
pub const HERE: &str = "10.7.0.1";
/// The address of the far side.
pub const THERE: &str = "10.7.0.2";

/// Runs `body` in a network of its own, in another process; `name` is the path of the calling test.
pub fn alone(name: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        ip("link set lo up");
        return body();
    }
    let allowed = Command::new("unshare").args(["-Urn", "ip", "link"]).stdout(Stdio::null()).status();
    if !allowed.is_ok_and(|status| status.success()) {
        eprintln!("skipped: user namespaces or `ip` cannot be had here");
        return;
    }
    let mut command = Command::new("unshare");
    command.arg("-Urn").arg(std::env::current_exe().unwrap()).args([
        "--exact",
        name,
        "--nocapture",
        "--include-ignored",
    ]);
    let status = command.env(INSIDE, "1").status().unwrap();
    assert!(status.success(), "{name} failed inside its network: {status}");
}

/// Runs `ip` with words; it must succeed.
#[track_caller]
pub fn ip(words: &str) {
    let output = Command::new("ip").args(words.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Sets a `net.ipv4` value of this network.
pub fn set(name: &str, value: &str) {
    std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value).unwrap();
}

/// TCP connections of this network to `address:port` (as `/proc/net/tcp` writes them) that a test says yes to, by state.
pub fn connections(mut wanted: impl FnMut(&str, u8) -> bool) -> usize {
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let line = |line: &str| {
        let mut words = line.split_whitespace().skip(2);
        let (remote, state) = (words.next()?.to_owned(), words.next()?);
        wanted(&remote, u8::from_str_radix(state, 16).ok()?).then_some(())
    };
    table.lines().skip(1).filter_map(line).count()
}

/// Bytes that have come over a wire to its end `near` in this network.
pub fn received(near: &str) -> u64 {
    let table = std::fs::read_to_string("/proc/self/net/dev").unwrap();
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix(near)?.strip_prefix(':'));
    line.expect("no such wire").split_whitespace().next().unwrap().parse().unwrap()
}

type Job = Box<dyn FnOnce() + Send>;

/// A thread in a network of its own, at the far end of a wire. What it starts, processes included, is there too.
pub struct Far {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// The kernel's number of the thread.
    id: i32,
}

impl Far {
    /// Lays the wire: [`HERE`] on this side, [`THERE`] on the other.
    pub fn new() -> Self {
        Self::over("near", "far", [HERE, THERE])
    }

    /// One of several: `10.7.N.1` on this side, `10.7.N.2` on the other. What is there reaches the other ones through
    /// this network, which passes on. On this side the wire is called `nearN`.
    pub fn numbered(n: u8) -> Self {
        let (near, far) = (format!("near{n}"), format!("far{n}"));
        let ends = [format!("10.7.{n}.1"), format!("10.7.{n}.2")];
        let there = Self::over(&near, &far, [&ends[0], &ends[1]]);
        set("ip_forward", "1");
        let route = format!("route add default via {}", ends[0]);
        there.run(move || ip(&route));
        there
    }

    /// Several wires to one network: `10.8.N.1` on this side, on `railN`, and `10.8.N.2` on the other, on `farN`.
    pub fn rails(count: u8) -> Self {
        let new = Self::unwired();
        for n in 0..count {
            let ends = [format!("10.8.{n}.1"), format!("10.8.{n}.2")];
            new.wire(&format!("rail{n}"), &format!("far{n}"), [&ends[0], &ends[1]]);
        }
        new
    }

    fn over(near: &str, far: &str, ends: [&str; 2]) -> Self {
        let new = Self::unwired();
        new.wire(near, far, ends);
        new
    }

    fn unwired() -> Self {
        let (jobs, todo) = channel::<Job>();
        let (told, tid) = channel();
        let thread = std::thread::spawn(move || live_there(&told, &todo));
        let new = Self { jobs: Some(jobs), thread: Some(thread), id: tid.recv().unwrap() };
        new.run(|| ip("link set lo up"));
        new
    }

    fn wire(&self, near: &str, far: &str, [here, there]: [&str; 2]) {
        ip(&format!("link add {near} type veth peer name {far} netns {}", self.id));
        ip(&format!("addr add {here}/24 dev {near}"));
        ip(&format!("link set {near} up"));
        let (address, up) = (format!("addr add {there}/24 dev {far}"), format!("link set {far} up"));
        self.run(move || {
            ip(&address);
            ip(&up);
        });
    }

    /// Runs something there, and waits for it.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (told, done) = channel();
        let job: Job = Box::new(move || _ = told.send(job()));
        self.jobs.as_ref().unwrap().send(job).unwrap();
        done.recv().expect("it panicked there")
    }

    /// Cuts the wire at its far end, or mends it: nothing is told to this side, as with a switch that loses power.
    pub fn connect(&self, up: bool) {
        self.run(move || ip(if up { "link set far up" } else { "link set far down" }));
    }
}

fn live_there(told: &Sender<i32>, todo: &Receiver<Job>) {
    // SAFETY: only the network of this thread changes; no memory or file descriptor is unshared.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }.unwrap();
    told.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
    todo.iter().for_each(|job| job());
}

impl Drop for Far {
    fn drop(&mut self) {
        drop(self.jobs.take());
        let _ = self.thread.take().unwrap().join();
    }
}
