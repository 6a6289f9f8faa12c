//! The listener and its connections, on the control thread. Deliberately patient with nobody: what is silent holds a
//! descriptor until others need its place, what does not read its answer is closed.

use std::collections::VecDeque;
use std::os::unix::net::UnixListener as StdListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::AbortHandle;

use super::desk::Desk;
use super::{ANSWER_MAX, CONNECTIONS_MAX, QUESTION_MAX, answer};

/// How long a client may take to take its answer.
const TAKES: Duration = Duration::from_secs(5);
/// Pause after the system had no descriptor for a connection.
const SHORTAGE: Duration = Duration::from_millis(100);

/// A connection, and when it was last heard of.
struct Client {
    number: u64,
    heard: Instant,
    task: AbortHandle,
}

/// All connections.
#[derive(Clone, Default)]
struct Clients(Arc<Mutex<VecDeque<Client>>>);

impl Clients {
    fn with<T>(&self, work: impl FnOnce(&mut VecDeque<Client>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes room for one more: the one that has been silent for longest goes.
    fn make_room(&self) {
        self.with(|all| {
            if all.len() >= CONNECTIONS_MAX
                && let Some(at) = (0..all.len()).min_by_key(|at| all[*at].heard)
                && let Some(client) = all.remove(at)
            {
                client.task.abort();
            }
        });
    }

    fn heard(&self, number: u64) {
        self.with(|all| {
            if let Some(client) = all.iter_mut().find(|client| client.number == number) {
                client.heard = Instant::now();
            }
        });
    }

    fn gone(&self, number: u64) {
        self.with(|all| all.retain(|client| client.number != number));
    }
}

/// Answers until it is dropped.
pub(crate) async fn serve(listener: StdListener, desk: Desk) {
    let listener = match UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the admin socket cannot be served"),
    };
    let (desk, clients, mut number) = (Arc::new(desk), Clients::default(), 0_u64);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                clients.make_room();
                number += 1;
                let talk = converse(stream, desk.clone(), clients.clone(), number);
                // On this one thread: it begins when this task waits, so it is in the list before it can end.
                let task = tokio::spawn(talk).abort_handle();
                clients.with(|all| all.push_back(Client { number, heard: Instant::now(), task }));
            }
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => return,
            Err(_) => tokio::time::sleep(SHORTAGE).await,
        }
    }
}

async fn converse(mut stream: UnixStream, desk: Arc<Desk>, clients: Clients, number: u64) {
    let ended = questions(&mut stream, &desk, &clients, number).await;
    if let Err(last) = ended {
        let _ = send(&mut stream, answer::error(last)).await;
    }
    clients.gone(number);
}

/// One after the other; ends when the client goes, or with what it is told before it is let go.
async fn questions(
    stream: &mut UnixStream,
    desk: &Desk,
    clients: &Clients,
    number: u64,
) -> Result<(), &'static str> {
    if !is_trusted(stream) {
        return Err("only the user that runs this node, and root, may ask it");
    }
    let mut buffer = Vec::new();
    loop {
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            clients.heard(number);
            if line.len() > QUESTION_MAX {
                return Err("a question has at most 4096 bytes");
            }
            if !send(stream, answer::to(desk, &line[..end]).await).await {
                return Ok(());
            }
        }
        if buffer.len() > QUESTION_MAX {
            return Err("a question has at most 4096 bytes");
        }
        let mut more = [0; 1024];
        match stream.read(&mut more).await {
            Ok(0) | Err(_) => return Ok(()),
            Ok(n) => buffer.extend_from_slice(&more[..n]),
        }
    }
}

fn is_trusted(stream: &UnixStream) -> bool {
    let ours = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == 0 || peer.uid() == ours)
}

/// Whether the client has taken it.
async fn send(stream: &mut UnixStream, answer: serde_json::Value) -> bool {
    let mut line = answer.to_string();
    if line.len() > ANSWER_MAX {
        line = answer::error("the answer is longer than 4 MiB").to_string();
    }
    line.push('\n');
    let sent = tokio::time::timeout(TAKES, stream.write_all(line.as_bytes())).await;
    matches!(sent, Ok(Ok(())))
}
