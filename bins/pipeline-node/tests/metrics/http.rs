//! A client of HTTP for tests, made of a socket: what it sends is what the test wrote.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// An answer.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// Asks once.
#[track_caller]
pub fn get(address: &str, path: &str) -> Answer {
    ask(address, &format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n"))
}

/// Sends these bytes and reads to the end.
#[track_caller]
pub fn ask(address: &str, request: &str) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

/// What `/metrics` says.
#[track_caller]
pub fn scrape(address: &str) -> String {
    let answer = get(address, "/metrics");
    assert_eq!(answer.status, 200, "{}", answer.head);
    assert!(answer.head.contains("content-type: text/plain; version=0.0.4"), "{}", answer.head);
    answer.body
}

/// The value of one series.
#[track_caller]
pub fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in\n{text}")).parse().unwrap()
}

/// All series, without their values.
pub fn series(text: &str) -> Vec<&str> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.rsplit_once(' ').unwrap().0).collect()
}
