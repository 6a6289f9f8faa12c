//! The embedded server on its wire: Mooncake's words, what is ours, and its bounds.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::node::program;
use crate::rig::until;
use crate::servers::http;

/// A server with flags, killed with its test.
struct Served(std::process::Child, u16);

impl Served {
    fn start(flags: &[&str]) -> Self {
        let mut command = program(&["directory", "--json", "--listen", "[::1]:0"]);
        let mut child = command.args(flags).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
        let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
        let url = ready["url"].as_str().unwrap();
        assert!(url.starts_with("http://[::1]:") && url.ends_with("/metadata"), "{url}");
        let port = ready["address"].as_str().unwrap().rsplit_once(':').unwrap().1.parse().unwrap();
        Self(child, port)
    }

    fn stream(&self) -> TcpStream {
        let stream = TcpStream::connect(("::1", self.1)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    fn ask(&self, method: &str, target: &str, body: &str) -> (u16, String) {
        let len = body.len();
        let head = format!(
            "{method} {target} HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n"
        );
        let mut stream = self.stream();
        let _ = stream.write_all(format!("{head}{body}").as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).unwrap_or_else(|| panic!("{answer:?}")).parse().unwrap();
        (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Mooncake's requests as its clients send them: keys percent-encoded, any path, 404 for what is not there; an rpc_meta may be
/// put again, as a node that crashed does. SIGTERM ends it well.
#[test]
fn mooncakes_words() {
    let mut server = Served::start(&[]);
    let meta = "/metadata?key=mooncake%2Frpc_meta%2F127.0.0.1%3A23001";
    assert_eq!(server.ask("GET", meta, "").0, 404);
    for port in ["16000", "16001"] {
        let body = format!("{{\"ip_or_host_name\":\"192.0.2.2\",\"rpc_port\":{port}}}");
        assert_eq!(server.ask("PUT", meta, &body).0, 200);
        assert_eq!(server.ask("GET", meta, ""), (200, body));
    }
    assert_eq!(server.ask("GET", "/any/other?key=mooncake/rpc_meta/127.0.0.1:23001", "").0, 200);
    assert_eq!(server.ask("GET", "/health", "").0, 200);
    assert_eq!(server.ask("DELETE", meta, "").0, 200);
    assert_eq!(server.ask("DELETE", meta, "").0, 404);
    for (method, target, status) in [
        ("GET", "/metadata", 400),
        ("PUT", "/metadata?key=", 400),
        ("GET", "/metadata?key=%ff", 400),
        ("POST", "/metadata?key=a", 405),
        ("PUT", "/metadata?key=a&ttl_ms=0", 400),
        ("PUT", "/metadata?key=a&ttl_ms=soon", 400),
        ("GET", "/metadata?prefix=&most=few", 400),
    ] {
        let (said, text) = server.ask(method, target, "");
        assert_eq!(said, status, "{method} {target}: {text}");
        assert!(text.len() > 5, "{method} {target} says nothing");
    }
    let pid = rustix::process::Pid::from_child(&server.0);
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert!(server.0.wait().unwrap().success());
}

/// Values with `ttl_ms` go away by themselves; lists are in order, by pages.
#[test]
fn lives_and_lists() {
    let server = Served::start(&[]);
    for key in ["n/b", "n/a", "m"] {
        assert_eq!(server.ask("PUT", &format!("/metadata?key={key}"), "v").0, 200);
    }
    assert_eq!(server.ask("PUT", "/metadata?key=n%2Fc&ttl_ms=300", "v").0, 200);
    let (_, page) = server.ask("GET", "/metadata?prefix=n%2F&most=2", "");
    assert_eq!(page, r#"{"entries":[{"key":"n/a","value":"v"},{"key":"n/b","value":"v"}],"more":true}"#);
    let (_, page) = server.ask("GET", "/metadata?prefix=n%2F&after=n%2Fb", "");
    assert!(page.contains("n/c") || page == r#"{"entries":[],"more":false}"#, "{page}");
    until("its life ends", || server.ask("GET", "/metadata?key=n%2Fc", "").0 == 404);
    assert_eq!(server.ask("GET", "/metadata?key=n%2Fb", "").0, 200);
}

/// Every bound is held and named: a value too long (413, also before it is sent), keys and bytes too many (507), connections
/// too many (503); what is there stays, and there is room again when something goes.
#[test]
fn bounds_are_named() {
    let bounds = ["--keys", "3", "--bytes", "4KiB", "--value-bytes", "2KiB", "--connections", "2"];
    let server = Served::start(&bounds);
    let put = |key: &str, bytes: usize| {
        let (status, text) = server.ask("PUT", &format!("/metadata?key={key}"), &"x".repeat(bytes));
        assert!(status == 200 || text.contains("--"), "{status} names no flag: {text}");
        status
    };
    assert_eq!([put("a", 2048), put("b", 2049), put("b", 1600), put("c", 1)], [200, 413, 507, 200]);
    assert_eq!([put("d", 1), put("e", 1)], [200, 507]);
    assert_eq!(server.ask("DELETE", "/metadata?key=a", "").0, 200);
    assert_eq!(put("b", 1400), 200);
    // Four gigabytes are announced and not believed.
    let mut stream = server.stream();
    stream
        .write_all(b"PUT /metadata?key=z HTTP/1.1\r\nhost: t\r\ncontent-length: 4294967296\r\n\r\n")
        .unwrap();
    let mut answer = [0; 64];
    let n = stream.read(&mut answer).unwrap();
    assert!(answer[..n].starts_with(b"HTTP/1.1 413"), "{}", String::from_utf8_lossy(&answer[..n]));
    drop(stream);
    // Two that say nothing take both places; as soon as the server has noticed that the one before has gone.
    let mut silent = [server.stream(), server.stream()];
    until("a third is turned away", || {
        let mut third = server.stream();
        let _ = third.write_all(b"GET /health HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n");
        let mut answer = String::new();
        let _ = third.read_to_string(&mut answer);
        if answer.starts_with("HTTP/1.1 200") {
            silent = [server.stream(), server.stream()];
        }
        answer.starts_with("HTTP/1.1 503") && answer.contains("--connections")
    });
    drop(silent);
    until("there is room again", || {
        let begin = Instant::now();
        let mut stream = server.stream();
        let _ = stream.write_all(b"GET /health HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n");
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer.starts_with("HTTP/1.1 200") && begin.elapsed() < Duration::from_secs(5)
    });
}

/// A second server on a taken port says so and ends with 71; what is no address is a wrong command line.
#[test]
fn a_taken_port() {
    let server = Served::start(&[]);
    let (code, text) = crate::node::failure(&["directory", "--listen", &format!("[::1]:{}", server.1)]);
    assert!(
        code == 71 && text.to_lowercase().contains("address") && text.contains(&server.1.to_string()),
        "{code}: {text}"
    );
    let (code, text) = crate::node::failure(&["directory", "--listen", ":7080"]);
    assert!(code == 2 && text.contains("0.0.0.0"), "{code}: {text}");
    assert!(http(1, "GET", "/health", "").is_none());
}
