//! The handshake port's server: one message in, one out, a connection each.
//!
//! Every connection is a task of its own with deadlines of its own, so that who is silent delays nobody; of more than
//! [`AT_ONCE`] the eldest goes. What makes no sense is hung up on without an answer, as Mooncake does. Deliberately knows
//! no transport: what is answered, its [`Host`] says.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use super::bodies::{self, Alive, Connection, Notify, Unreadable};
use super::handshake::{Kind, Malformed, Message};
use super::throttle::Throttle;
use crate::clock::now;
use crate::foreign::ForeignNotice;
use crate::transport::BoxFuture;

/// Connections at a time.
const AT_ONCE: usize = 256;
/// For a message to come in whole.
const READ: Duration = Duration::from_secs(5);
/// For the answer to be taken, and for the other side to hang up: its own patience is longer than the way.
const ANSWER: Duration = Duration::from_secs(20);
/// Before the next try where the system has no descriptor for another connection.
const BREATH: Duration = Duration::from_millis(100);

/// What is behind a handshake port.
pub(crate) trait Host: Send + Sync + 'static {
    /// What it tells of itself, as it goes into an answer; `None`: it tells that a directory only.
    fn descriptor(&self) -> Option<Arc<[u8]>>;
    /// A notice has come. Whether it was taken.
    fn notice(&self, notice: ForeignNotice) -> bool;
    /// Two ends are to be connected; `from` is who asks.
    fn connection(&self, asked: Connection, from: SocketAddr) -> BoxFuture<'_, Connection>;
}

/// Serves a port for ever; reads messages of at most `max` bytes.
pub(crate) async fn serve(listener: &TcpListener, host: Arc<dyn Host>, max: u64) -> Infallible {
    let (mut tasks, mut eldest) = (JoinSet::new(), VecDeque::<AbortHandle>::new());
    let throttle = Arc::new(Throttle::default());
    loop {
        while tasks.try_join_next().is_some() {}
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                if let Some(unsaid) = throttle.speak(now()) {
                    tracing::warn!(%error, unsaid, "the handshake port cannot take a connection");
                }
                tokio::time::sleep(BREATH).await;
                continue;
            }
        };
        eldest.retain(|task| !task.is_finished());
        if eldest.len() >= AT_ONCE
            && let Some(task) = eldest.pop_front()
        {
            task.abort();
        }
        let (host, throttle) = (host.clone(), throttle.clone());
        eldest.push_back(tasks.spawn(async move {
            if let Err(why) = converse(stream, from, &*host, max).await
                && let Some(unsaid) = throttle.speak(now())
            {
                tracing::warn!(%from, %why, unsaid, "hung up on somebody at the handshake port");
            }
        }));
    }
}

/// Why somebody was hung up on without an answer.
#[derive(Debug, thiserror::Error)]
enum HungUp {
    #[error("{0}")]
    Malformed(Malformed),
    #[error("{0}; raise `max_handshake`")]
    TooLong(Malformed),
    #[error("its {0:?} cannot be read: {1}")]
    Unreadable(Kind, Unreadable),
    #[error("no whole message came within {} s", READ.as_secs())]
    Silent,
    #[error("it did not take its answer within {} s", ANSWER.as_secs())]
    Deaf,
}

impl From<Malformed> for HungUp {
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::TooLong { .. } => Self::TooLong(malformed),
            other => Self::Malformed(other),
        }
    }
}

async fn converse(mut stream: TcpStream, from: SocketAddr, host: &dyn Host, max: u64) -> Result<(), HungUp> {
    // An answer is written at once: it must not wait for company. A socket without the option still works.
    let _ = stream.set_nodelay(true);
    let asked = timeout(READ, Message::read(&mut stream, max)).await.map_err(|_| HungUp::Silent)??;
    let kind = asked.kind;
    let answering = async {
        let answer = answer(asked, from, host).await.map_err(|why| HungUp::Unreadable(kind, why))?;
        stream.write_all(&Message::new(kind, answer).encode()).await.map_err(Malformed::Broken)?;
        stream.shutdown().await.map_err(Malformed::Broken)?;
        // Closing on bytes that nobody has read would reset the connection, and the answer with it.
        let mut rest = [0; 512];
        while let Ok(1..) = stream.read(&mut rest).await {}
        Ok(())
    };
    timeout(ANSWER, answering).await.unwrap_or(Err(HungUp::Deaf))
}

async fn answer(asked: Message, from: SocketAddr, host: &dyn Host) -> Result<Vec<u8>, Unreadable> {
    Ok(match asked.kind {
        // What others tell of themselves here says nothing: nobody has asked them yet.
        Kind::Metadata => {
            bodies::decode::<serde::de::IgnoredAny>(&asked.body)?;
            host.descriptor().map_or_else(|| b"null\n".to_vec(), |text| text.to_vec())
        }
        Kind::Notify => {
            let Notify { name, notify_msg } = bodies::decode(&asked.body)?;
            let taken = host.notice(ForeignNotice { name, body: notify_msg.into_bytes() });
            bodies::encode(&if taken { Notify::taken() } else { Notify::default() })
        }
        Kind::Probe => bodies::encode(&Alive::yes()),
        Kind::Connection | Kind::Untyped => {
            bodies::encode(&host.connection(bodies::decode(&asked.body)?, from).await)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mooncake::ask::Ask;
    use crate::mooncake::descriptor::{Descriptor, Invalid};
    use crate::mooncake::name::HostPort;
    use std::sync::Mutex;

    /// A port with a descriptor, which takes notices with a text only.
    #[derive(Default)]
    struct Plain {
        central: bool,
        heard: Mutex<Vec<ForeignNotice>>,
    }

    fn own() -> Descriptor {
        Descriptor { name: "n".into(), tcp_data_port: 9, ..Descriptor::default() }
    }

    impl Host for Plain {
        fn descriptor(&self) -> Option<Arc<[u8]>> {
            (!self.central).then(|| own().encode_line().into())
        }

        fn notice(&self, notice: ForeignNotice) -> bool {
            let taken = !notice.body.is_empty();
            self.heard.lock().unwrap().push(notice);
            taken
        }

        fn connection(&self, _asked: Connection, _from: SocketAddr) -> BoxFuture<'_, Connection> {
            Box::pin(std::future::ready(Connection::default()))
        }
    }

    /// Runs `work` beside a port of `host`.
    fn beside<T>(host: &Arc<Plain>, work: impl AsyncFnOnce(SocketAddr) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let at = listener.local_addr().unwrap();
            tokio::select! {
                never = serve(&listener, host.clone(), 4096) => match never {},
                done = work(at) => done,
            }
        })
    }

    async fn exchange(at: SocketAddr, bytes: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(at).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        // A reset is a hang-up as well.
        let _ = stream.read_to_end(&mut answer).await;
        answer
    }

    fn ask(of: &HostPort) -> Ask<'_> {
        Ask { of, max: 1 << 20, by: now() + 60_000_000_000 }
    }

    /// All four types are answered as Mooncake answers them, byte for byte, and the old form without a type.
    #[test]
    fn every_type_is_answered() {
        let host = Arc::new(Plain::default());
        beside(&host, async |at| {
            let empty = bodies::encode(&Connection::default());
            for (asked, body, answer) in [
                (Kind::Metadata, "{}", own().encode_line()),
                (Kind::Probe, "{}", b"{\"status\":\"success\"}\n".to_vec()),
                (Kind::Connection, "{\"qp_num\":[1]}\n", empty.clone()),
                (Kind::Untyped, "{}", empty),
                (
                    Kind::Notify,
                    "{\"name\":\"a\",\"notify_msg\":\"b\"}",
                    b"{\"name\":\"\",\"notify_msg\":\"success\"}\n".to_vec(),
                ),
            ] {
                let got = exchange(at, &Message::new(asked, body).encode()).await;
                assert_eq!(got, Message::new(asked, answer).encode(), "{asked:?}");
            }
            let of = HostPort::new("127.0.0.1", at.port());
            assert_eq!(ask(&of).metadata(&own()).await.unwrap(), own());
            ask(&of).probe().await.unwrap();
            ask(&of).notify("me", "done").await.unwrap();
            let refused = ask(&of).notify("me", "").await.unwrap_err();
            assert!(matches!(refused, crate::error::Error::Refused { .. }), "{refused}");
        });
        let heard = host.heard.lock().unwrap();
        assert_eq!((heard[1].name.as_str(), heard[1].body.as_slice()), ("me", &b"done"[..]));
    }

    /// A node with central metadata answers `null`, which an initiator is told for what it is.
    #[test]
    fn central_metadata_is_null() {
        let host = Arc::new(Plain { central: true, ..Plain::default() });
        beside(&host, async |at| {
            let got = exchange(at, &Message::new(Kind::Metadata, "{}").encode()).await;
            assert_eq!(got, [6, 0, 0, 0, 0, 0, 0, 0, 1, 0x6e, 0x75, 0x6c, 0x6c, 0x0a]);
            let error = ask(&HostPort::new("127.0.0.1", at.port())).metadata(&own()).await.unwrap_err();
            assert!(error.to_string().contains(&Invalid::Null.to_string()), "{error}");
        });
    }

    /// Nonsense of every kind is hung up on without a byte, and the port goes on.
    #[test]
    fn nonsense_is_hung_up_on() {
        let host = Arc::new(Plain::default());
        beside(&host, async |at| {
            let mut unknown = Message::new(Kind::Probe, "{}").encode();
            unknown[8] = 9;
            for bytes in [
                &[0; 9][..],
                &[0xff; 16],
                &unknown,
                &Message::new(Kind::Metadata, "no json").encode(),
                &Message::new(Kind::Notify, "[1]").encode(),
                &Message::new(Kind::Untyped, "{").encode(),
            ] {
                assert_eq!(exchange(at, bytes).await, b"", "{bytes:?}");
            }
            ask(&HostPort::new("127.0.0.1", at.port())).probe().await.unwrap();
        });
    }

    /// Clients that connect and say nothing, more than may be at once, delay nobody.
    #[test]
    fn silence_delays_nobody() {
        let host = Arc::new(Plain::default());
        beside(&host, async |at| {
            let mut silent = Vec::new();
            for _ in 0..AT_ONCE + 10 {
                silent.push(TcpStream::connect(at).await.unwrap());
            }
            let began = now();
            ask(&HostPort::new("127.0.0.1", at.port())).probe().await.unwrap();
            assert!(now() - began < READ.as_nanos() as u64, "it did not wait for one of them");
            // The eldest had to go.
            assert_eq!(silent[0].read(&mut [0]).await.unwrap_or(0), 0);
        });
    }
}
