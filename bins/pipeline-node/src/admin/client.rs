//! The other end of the socket: finds a running node by its name or its socket, and asks it. Deliberately blocking and without
//! a runtime: one question, one answer.

use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pipeline_configs::suggest;
use rustix::io::Errno;
use serde_json::Value;

use super::{ANSWER_MAX, directory, reach, socket_in};

/// How long an answer may take, beside the interval it is about.
const ANSWER: Duration = Duration::from_secs(10);
/// Pause while a node has a full queue of connections.
const FULL: Duration = Duration::from_millis(20);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No such node, or it does not answer.
    #[error("{0}")]
    NotThere(String),
    /// The node says that the question is wrong.
    #[error("{0}")]
    Refused(String),
    /// Several nodes run here, and none was named.
    #[error("several nodes run here: name one with --node: {0}")]
    Several(String),
}

/// A running node that was found.
#[derive(Debug)]
pub struct Found {
    stream: UnixStream,
    /// Its socket.
    pub socket: PathBuf,
    rest: Vec<u8>,
}

impl Found {
    /// By its name, which is looked for in [`directory`], or by the path of its socket (with a `/`, or that is there); without
    /// either, the only one in [`directory`].
    ///
    /// # Errors
    /// [`AskError`], with the nearest name of those that run.
    pub fn new(node: Option<&str>) -> Result<Self, AskError> {
        let socket = match node {
            None => only()?,
            Some(node) if node.contains('/') => PathBuf::from(node),
            Some(node) => {
                let named = directory().map(|directory| socket_in(&directory, node)).filter(|s| s.exists());
                match named {
                    Some(socket) => socket,
                    None if Path::new(node).exists() => PathBuf::from(node),
                    None => return Err(AskError::NotThere(unknown(node))),
                }
            }
        };
        let failed = |why: io::Error| AskError::NotThere(trouble(&socket, &why));
        let stream = connect(&socket).map_err(failed)?;
        Ok(Self { stream, socket, rest: Vec::new() })
    }

    /// Asks, and waits for the answer: an object.
    ///
    /// # Errors
    /// [`AskError::Refused`] with what it says; [`AskError::NotThere`] when it goes, or takes longer than ten seconds and
    /// `interval`.
    pub fn ask(&mut self, question: &Value, interval: Duration) -> Result<Value, AskError> {
        let socket = self.socket.clone();
        let gone = |why: io::Error| AskError::NotThere(trouble(&socket, &why));
        self.stream.set_read_timeout(Some(interval + ANSWER)).map_err(gone)?;
        self.stream.set_write_timeout(Some(ANSWER)).map_err(gone)?;
        // A node that refuses may have said why, and gone, before it has read this.
        let sent = self.stream.write_all(format!("{question}\n").as_bytes());
        let line = match self.line() {
            Ok(line) => line,
            Err(why) => return Err(gone(sent.err().unwrap_or(why))),
        };
        let answer: Value = serde_json::from_slice(&line)
            .map_err(|_| AskError::NotThere(format!("{}: what answers is no node", socket.display())))?;
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => Err(AskError::Refused(error.to_owned())),
            None => Ok(answer),
        }
    }

    fn line(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line = self.rest.drain(..=end).collect();
                return Ok(line);
            }
            if self.rest.len() > ANSWER_MAX {
                return Err(io::Error::other("its answer has no end"));
            }
            let mut more = [0; 16 * 1024];
            match self.stream.read(&mut more)? {
                0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                n => self.rest.extend_from_slice(&more[..n]),
            }
        }
    }
}

/// Connects; waits for room in the queue of a node that takes no connections, and not for ever.
fn connect(socket: &Path) -> io::Result<UnixStream> {
    let begin = Instant::now();
    loop {
        match reach::connect(socket) {
            Err(Errno::AGAIN) if begin.elapsed() < ANSWER => std::thread::sleep(FULL),
            done => return Ok(done?),
        }
    }
}

fn trouble(socket: &Path, why: &io::Error) -> String {
    let path = socket.display();
    let is_socket = std::fs::metadata(socket).is_ok_and(|found| found.file_type().is_socket());
    match why.kind() {
        io::ErrorKind::ConnectionRefused if !is_socket => {
            format!(
                "{path}: no socket of a node: --node takes its name, or the `socket` under [admin] of its file"
            )
        }
        io::ErrorKind::NotFound => format!("{path}: no node there"),
        io::ErrorKind::ConnectionRefused => {
            format!("{path}: no node there any more: the one it was has ended")
        }
        io::ErrorKind::PermissionDenied => {
            format!("{path}: permission denied: only the user that runs a node, and root, may ask it")
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("{path}: the node does not answer within ten seconds: is it stopped?")
        }
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
            format!("{path}: the node has gone")
        }
        _ => format!("{path}: {why}"),
    }
}

/// Names in the directory, whether their nodes live or not.
fn names() -> Vec<String> {
    let entries = directory().and_then(|d| std::fs::read_dir(d).ok());
    let names =
        entries.into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter_map(|name| name.strip_suffix(".sock").map(str::to_owned)).collect();
    names.sort();
    names
}

fn unknown(node: &str) -> String {
    let names = names();
    let Some(directory) = directory() else {
        return format!(
            "no node is called `{node}`: without XDG_RUNTIME_DIR nodes have no place of their own; name the `socket` under [admin] \
             of its file"
        );
    };
    let help = suggest::help(node, "nodes here", names.iter().map(String::as_str));
    format!("no node is called `{node}` in {}; {help}", directory.display())
}

/// The only node that runs here.
fn only() -> Result<PathBuf, AskError> {
    let none =
        || AskError::NotThere("no node runs here: name one with --node NAME or --node SOCKET".to_owned());
    let directory = directory().ok_or_else(|| {
        AskError::NotThere(
            "without XDG_RUNTIME_DIR, a folder of this user, no node is found by itself: name its socket with --node SOCKET \
             (the `socket` under [admin] of its file)"
                .to_owned(),
        )
    })?;
    // One with a full queue is there, and is asked like any other.
    let lives =
        |name: &String| matches!(reach::connect(&socket_in(&directory, name)), Ok(_) | Err(Errno::AGAIN));
    let alive: Vec<String> = names().into_iter().filter(lives).collect();
    match alive.as_slice() {
        [] => Err(none()),
        [name] => Ok(socket_in(&directory, name)),
        several => Err(AskError::Several(several.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node whose queue of connections is full is waited for, and asked as soon as there is room.
    #[test]
    fn room_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let (listener, queued) = reach::tests::full(&path);
        let asks = {
            let path = path.clone();
            std::thread::spawn(move || connect(&path).is_ok())
        };
        std::thread::sleep(3 * FULL);
        assert!(!asks.is_finished(), "there is no room yet");
        listener.accept().unwrap();
        assert!(asks.join().unwrap());
        drop(queued);
    }

    /// What is there and is no socket is not taken for a node that has ended.
    #[test]
    fn what_is_no_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.toml");
        std::fs::write(&path, "version = 1").unwrap();
        for path in [path.as_path(), folder.path()] {
            let error = Found::new(path.to_str()).unwrap_err().to_string();
            assert!(error.contains("no socket of a node"), "{error}");
        }
    }
}
