//! A control session: requests multiplexed over one connection, both ways, until it ends.
//! Deliberately the same for both sides; only who pings differs.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use pipeline_transports::control::codec::encode;
use pipeline_transports::control::{Established, Frame, FrameReader, Hello, Message, Received};
use pipeline_transports::transport::SessionId;
use pipeline_transports::{Nanos, clock};
use rustix::net::{Shutdown, shutdown};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{Notify, OnceCell, Semaphore, mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use super::answers::Answers;
use super::error::Error;
use super::shared::lock;
use super::until::until;

/// Frames that may wait for the socket.
const OUT: usize = 64;

/// What others may do with a session.
pub(super) struct Session {
    /// Name or address of the peer, for messages.
    pub(super) peer: String,
    /// What it told.
    pub(super) hello: Hello,
    /// Secret name of the session.
    pub(super) id: SessionId,
    /// Where it was reached.
    pub(super) remote: SocketAddr,
    idle: Duration,
    out: mpsc::Sender<Vec<u8>>,
    /// Requests that wait for an answer: at most as many as `permits` lets through.
    pending: Mutex<HashMap<u32, oneshot::Sender<Message>>>,
    next: AtomicU32,
    permits: Semaphore,
    /// Since when the other side remembers our notices; see [`crate::notices`].
    pub(super) remembered: OnceCell<u64>,
    /// Why it ended, once it has.
    ended: Mutex<Option<String>>,
    /// Rung to end it from outside its task.
    quit: Notify,
}

/// The part of a session that its task alone owns.
pub(super) struct Wire {
    stream: TcpStream,
    out: mpsc::Receiver<Vec<u8>>,
}

/// Forgets a request whose asker went away.
struct Pending<'a>(&'a Session, u32);

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        lock(&self.0.pending).remove(&self.1);
    }
}

impl Session {
    /// From a finished handshake.
    pub(super) fn new(
        peer: &str,
        established: Established,
        remote: SocketAddr,
        stream: TcpStream,
    ) -> (Self, Wire) {
        let (sender, receiver) = mpsc::channel(OUT);
        let session = Self {
            peer: peer.to_owned(),
            permits: Semaphore::new((established.peer.requests_max as usize).min(1024)),
            hello: established.peer,
            id: established.session,
            remote,
            idle: established.idle,
            out: sender,
            pending: Mutex::default(),
            next: AtomicU32::new(1),
            remembered: OnceCell::new(),
            ended: Mutex::new(None),
            quit: Notify::new(),
        };
        (session, Wire { stream, out: receiver })
    }

    /// Asks, and awaits the answer until `by`. An error answer is [`Error::Remote`].
    pub(super) async fn request(&self, message: &Message, by: Nanos) -> Result<Message, Error> {
        let late = || Error::Deadline { what: "asking", peer: self.peer.clone() };
        timeout(clock::until(by), self.ask(message)).await.map_err(|_| late())?
    }

    async fn ask(&self, message: &Message) -> Result<Message, Error> {
        let permit = self.permits.acquire().await.map_err(|_| self.gone())?;
        let id = self.next_id();
        let (sender, receiver) = oneshot::channel();
        lock(&self.pending).insert(id, sender);
        let pending = Pending(self, id);
        self.send(false, id, message).await?;
        let answer = receiver.await.map_err(|_| self.gone())?;
        drop((pending, permit));
        match answer {
            Message::Error { code, text } => Err(Error::Remote { peer: self.peer.clone(), code, text }),
            answer => Ok(answer),
        }
    }

    fn next_id(&self) -> u32 {
        // 0 asks for no answer.
        match self.next.fetch_add(1, Ordering::Relaxed) {
            0 => self.next.fetch_add(1, Ordering::Relaxed),
            id => id,
        }
    }

    async fn send(&self, answer: bool, id: u32, message: &Message) -> Result<(), Error> {
        let bytes = encode(answer, id, message, self.hello.message_max as usize)
            .map_err(|e| Error::Peer(std::sync::Arc::new(e.of(&self.peer))))?;
        self.out.send(bytes).await.map_err(|_| self.gone())
    }

    /// Answers a request; an answer too large for the peer becomes an error answer.
    pub(super) async fn answer(&self, id: u32, message: &Message) {
        if id == 0 {
            return;
        }
        if let Err(Error::Peer(e)) = self.send(true, id, message).await {
            let error = Message::error(pipeline_transports::control::ErrorCode::LIMIT, e);
            let _ = self.send(true, id, &error).await;
        }
    }

    /// As [`Self::answer`], at once or not at all: whether there was room.
    pub(super) fn answer_now(&self, id: u32, message: &Message) -> bool {
        match encode(true, id, message, self.hello.message_max as usize) {
            Ok(bytes) => self.out.try_send(bytes).is_ok(),
            Err(_) => false,
        }
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&self) -> bool {
        lock(&self.ended).is_some()
    }

    /// The error for whoever waits on it.
    pub(super) fn gone(&self) -> Error {
        let reason = lock(&self.ended).clone().unwrap_or_else(|| "its session ended".to_owned());
        Error::Gone { peer: self.peer.clone(), reason }
    }

    /// Runs the session until it ends; answers why. Whoever waits for an answer is told.
    pub(super) async fn run(
        &self,
        wire: Wire,
        pings: bool,
        answers: &mut Answers,
        mut stop: watch::Receiver<bool>,
    ) -> String {
        let Wire { mut stream, mut out } = wire;
        let (mut from, mut to) = stream.split();
        let amid = AtomicBool::new(false);
        let write = async {
            while let Some(bytes) = out.recv().await {
                amid.store(true, Ordering::Relaxed);
                if let Err(e) = to.write_all(&bytes).await {
                    return format!("connection: {e}");
                }
                amid.store(false, Ordering::Relaxed);
            }
            "closed here".to_owned()
        };
        let ping = async {
            let mut beat = interval(self.idle / 3);
            // After a pause of this process one ping says as much as all those that were missed.
            beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                beat.tick().await;
                if pings {
                    let _ = self.send(false, self.next_id(), &Message::Ping).await;
                }
            }
        };
        let reason = tokio::select! {
            reason = write => reason,
            reason = self.listen(&mut from, answers) => reason,
            () = ping => "closed here".to_owned(),
            () = self.quit.notified() => lock(&self.ended).clone().unwrap_or_default(),
            _ = until(&mut stop, |stop| *stop) => "this node is stopping".to_owned(),
        };
        if *stop.borrow()
            && !amid.load(Ordering::Relaxed)
            && let Ok(bye) = encode(false, 0, &Message::bye("the node is stopping"), usize::MAX)
        {
            // Between two frames only, and only if it fits the socket: nobody is waited for any more.
            let _ = stream.try_write(&bye);
        }
        // Not only closed: a child that the application forked may have a copy of the descriptor.
        let _ = shutdown(&stream, Shutdown::Both);
        self.end(&reason);
        reason
    }

    /// Marks it as ended and tells whoever waits for an answer. The first reason stays.
    pub(super) fn end(&self, reason: &str) {
        lock(&self.ended).get_or_insert_with(|| reason.to_owned());
        self.permits.close();
        lock(&self.pending).clear();
    }

    /// Ends it from outside of its task: from now on it counts as ended.
    pub(super) fn quit(&self, reason: &str) {
        self.end(reason);
        self.quit.notify_one();
    }

    /// Reads until the session ends.
    async fn listen(&self, from: &mut (impl tokio::io::AsyncRead + Unpin), answers: &mut Answers) -> String {
        let mut reader = FrameReader::new();
        let mut silent = Instant::now() + self.idle;
        loop {
            // Reading comes first: a process that was stopped itself finds its peers' bytes before it
            // finds their silence.
            let frame = tokio::select! {
                biased;
                frame = reader.next(from) => frame,
                () = sleep_until(silent) => {
                    return format!("it was silent for {} ms", self.idle.as_millis());
                }
            };
            silent = Instant::now() + self.idle;
            match frame {
                Ok(Some(frame)) => {
                    if let Some(reason) = self.take(frame, answers).await {
                        return reason;
                    }
                }
                Ok(None) => return "it closed the connection".to_owned(),
                Err(e) => return e.to_string(),
            }
        }
    }

    async fn take(&self, frame: Frame, answers: &mut Answers) -> Option<String> {
        match (frame.answer, frame.body) {
            (true, Received::Message(message)) => {
                // Nobody waits for late answers and pongs.
                if let Some(waiting) = lock(&self.pending).remove(&frame.request) {
                    let _ = waiting.send(message);
                }
            }
            (true, Received::Unknown(kind)) => {
                lock(&self.pending).remove(&frame.request);
                tracing::warn!(
                    peer = self.peer,
                    kind,
                    "answer of an unknown type; run the same release there"
                );
            }
            (false, Received::Message(Message::Bye { text })) => return Some(text),
            (false, Received::Message(message)) => return answers.take(frame.request, Ok(message)),
            (false, Received::Unknown(kind)) => return answers.take(frame.request, Err(kind)),
        }
        None
    }
}
