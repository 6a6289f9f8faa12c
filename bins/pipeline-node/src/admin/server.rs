//! The listener and its connections, on the control thread. Deliberately patient with nobody: what is silent holds a
//! descriptor until others need its place, what does not read its answer is closed.

use std::os::unix::net::UnixListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use super::desk::Desk;
use super::{ANSWER_MAX, CONNECTIONS_MAX, QUESTION_MAX, answer};
use crate::guests::{Guests, Place};

/// How long a client may take to take its answer.
const TAKES: Duration = Duration::from_secs(5);
/// Pause after the system had no descriptor for a connection.
const SHORTAGE: Duration = Duration::from_millis(100);

/// Answers until it is dropped.
pub(crate) async fn serve(listener: StdListener, desk: Desk) {
    let listener = match UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the admin socket cannot be served"),
    };
    let (desk, guests) = (Arc::new(desk), Guests::new(CONNECTIONS_MAX));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => guests.admit(|place| converse(stream, desk.clone(), place)).await,
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => return,
            Err(_) => tokio::time::sleep(SHORTAGE).await,
        }
    }
}

async fn converse(mut stream: UnixStream, desk: Arc<Desk>, place: Place) {
    if let Err(last) = questions(&mut stream, &desk, &place).await {
        let _ = send(&mut stream, answer::error(last)).await;
    }
}

/// One after the other; ends when the client goes, or with what it is told before it is let go.
async fn questions(stream: &mut UnixStream, desk: &Desk, place: &Place) -> Result<(), &'static str> {
    if !is_trusted(stream) {
        return Err("only the user that runs this node, and root, may ask it");
    }
    let (mut buffer, mut is_over) = (Vec::new(), false);
    loop {
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            if line.len() > QUESTION_MAX {
                return Err("a question has at most 4096 bytes");
            }
            place.asks();
            if !send(stream, answer::to(desk, &line[..end]).await).await {
                return Ok(());
            }
            place.is_answered();
            // More of its questions may be here already, and others wait for this thread: connections, peers, metrics.
            tokio::task::yield_now().await;
        }
        if buffer.len() > QUESTION_MAX {
            return Err("a question has at most 4096 bytes");
        }
        if is_over {
            return Ok(());
        }
        let mut more = [0; 1024];
        match stream.read(&mut more).await {
            Ok(n) if n > 0 => buffer.extend_from_slice(&more[..n]),
            // Who has said all may have left out the end of the last line.
            Ok(_) if !buffer.is_empty() => {
                buffer.push(b'\n');
                is_over = true;
            }
            Ok(_) | Err(_) => return Ok(()),
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;
    use crate::Engine;

    /// Whoever sends many questions at once gets all answers, and after each of them everybody else has a turn.
    #[test]
    fn many_questions_at_once_hold_nobody_up() {
        const QUESTIONS: usize = 40;
        let engine = Engine::from_toml("version = 1\nuse = \"tcp\"\n").unwrap();
        let desk = Desk::new(engine.observer(), engine.inner.config.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let guests = Guests::new(1);
            let (mut here, mut there) = UnixStream::pair().unwrap();
            here.write_all("{\"show\":\"node\"}\n".repeat(QUESTIONS).as_bytes()).await.unwrap();
            here.shutdown().await.unwrap();
            let (turns, before) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
            let others = tokio::spawn({
                let turns = turns.clone();
                async move {
                    loop {
                        turns.fetch_add(1, Relaxed);
                        tokio::task::yield_now().await;
                    }
                }
            });
            let served = {
                let (turns, before) = (turns.clone(), before.clone());
                guests.admit(|place| async move {
                    let begun = turns.load(Relaxed);
                    questions(&mut there, &desk, &place).await.unwrap();
                    before.store(turns.load(Relaxed) - begun, Relaxed);
                })
            };
            served.await;
            let mut said = String::new();
            here.read_to_string(&mut said).await.unwrap();
            assert_eq!(said.lines().count(), QUESTIONS);
            assert!(before.load(Relaxed) >= QUESTIONS as u64, "{} turns of others", before.load(Relaxed));
            others.abort();
        });
    }
}
