//! The servers: started, killed, frozen and started again, at one address each.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pipeline_transports::directory::{Store, StoreSettings, open};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::node::program;

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Http,
    Redis,
    #[cfg(feature = "etcd")]
    Etcd,
}

/// One server.
pub struct Server {
    pub kind: Kind,
    pub port: u16,
    /// For members of a cluster.
    #[cfg(feature = "etcd")]
    peer_port: u16,
    home: TempDir,
    child: Option<Child>,
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Server {
    /// Starts one; `None`, and a line that says so, where its program is not installed.
    pub fn start(kind: Kind) -> Option<Self> {
        for _ in 0..5 {
            let home = tempfile::tempdir().unwrap();
            let mut server = Self {
                kind,
                port: free_port(),
                #[cfg(feature = "etcd")]
                peer_port: free_port(),
                home,
                child: None,
            };
            if !server.spawn() {
                eprintln!("skipped: the server of {kind:?} is not installed");
                return None;
            }
            // Somebody else may have taken the port meanwhile: then it ends, and another one is tried.
            if server.is_up() {
                return Some(server);
            }
        }
        panic!("no {kind:?} could be started");
    }

    /// What `[directory] type` calls it.
    pub fn word(&self) -> &'static str {
        match self.kind {
            Kind::Http => "http",
            Kind::Redis => "redis",
            #[cfg(feature = "etcd")]
            Kind::Etcd => "etcd",
        }
    }

    /// As one URL.
    pub fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.word(), self.port)
    }

    /// Overrides that make a node of this name use it, with records of this life.
    pub fn set(&self, name: &str, ttl: &str) -> Vec<String> {
        vec![
            format!("node.name='{name}'"),
            format!("directory.type='{}'", self.word()),
            format!("directory.endpoints=['127.0.0.1:{}']", self.port),
            format!("directory.ttl='{ttl}'"),
        ]
    }

    /// A client of it.
    pub fn store(&self) -> std::sync::Arc<dyn Store> {
        open(&StoreSettings::from_url(&self.url()).unwrap()).unwrap()
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it again at its address: with what it had, as far as it keeps that, or with nothing.
    #[track_caller]
    pub fn restart(&mut self, empty: bool) {
        self.kill();
        if empty {
            std::fs::remove_dir_all(self.home.path()).unwrap();
            std::fs::create_dir(self.home.path()).unwrap();
        }
        assert!(self.spawn() && self.is_up(), "{:?} does not start again", self.kind);
    }

    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.child.as_ref().unwrap()), signal).unwrap();
    }

    /// Whether there is such a program.
    fn spawn(&mut self) -> bool {
        let (port, home) = (self.port.to_string(), self.home.path().to_str().unwrap().to_owned());
        let mut command = match self.kind {
            Kind::Http => program(&["directory", "--with-parent", "--listen", &format!("127.0.0.1:{port}")]),
            Kind::Redis => {
                let mut command = Command::new("redis-server");
                command.args(["--port", &port, "--bind", "127.0.0.1", "--dir", &home, "--save", ""]);
                command.args(["--appendonly", "yes", "--appendfsync", "always"]);
                command
            }
            #[cfg(feature = "etcd")]
            Kind::Etcd => {
                let [client, peer] =
                    [self.port, self.peer_port].map(|port| format!("http://127.0.0.1:{port}"));
                let mut command = Command::new("etcd");
                command.args(["--data-dir", &home, "--logger", "zap", "--log-level", "fatal"]);
                command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
                command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
                command.args(["--initial-cluster", &format!("default={peer}")]);
                command
            }
        };
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        match child {
            Ok(child) => self.child = Some(child),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return false,
            Err(e) => panic!("{:?}: {e}", self.kind),
        }
        true
    }

    /// Waits until it answers; whether it does.
    fn is_up(&mut self) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(30) {
            if self.child.as_mut().unwrap().try_wait().unwrap().is_some() {
                return false;
            }
            let answers = match self.kind {
                Kind::Redis => ask(self.port, "PING\r\n").is_some_and(|text| text.starts_with("+PONG")),
                Kind::Http => http(self.port, "GET", "/health", "").is_some_and(|(status, _)| status == 200),
                #[cfg(feature = "etcd")]
                Kind::Etcd => {
                    http(self.port, "GET", "/health", "").is_some_and(|(_, text)| text.contains("true"))
                }
            };
            if answers {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends a text and reads the first answer to it.
fn ask(port: u16, text: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    stream.write_all(text.as_bytes()).ok()?;
    let mut answer = [0; 4096];
    let n = stream.read(&mut answer).ok()?;
    Some(String::from_utf8_lossy(&answer[..n]).into_owned())
}

/// What redis answers to one command.
pub fn redis(port: u16, command: &str) -> String {
    ask(port, &format!("{command}\r\n")).unwrap()
}

/// One HTTP request on a connection of its own: status and body.
pub fn http(port: u16, method: &str, target: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let len = body.len();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n"
    );
    // A server that refuses may close before it has read all.
    let _ = stream.write_all(format!("{head}{body}").as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
    Some((status, body))
}
