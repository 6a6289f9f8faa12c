//! Asks the handshake port of a node: what it has, whether it lives, to take a notice, to connect queue pairs. One
//! connection a question, closed behind the answer, as that port wants it.
//! Deliberately no cache and no retry: whoever asks knows how old an answer may be.

use std::net::SocketAddr;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::bodies::{self, Alive, Connection, Notify};
use super::descriptor::Descriptor;
use super::handshake::{Kind, Malformed, Message};
use super::name::HostPort;
use crate::clock::{Nanos, until};
use crate::error::Error;
use crate::exhausted::connecting;

/// A question to one handshake port, to be answered by `by`, with at most `max` bytes.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Whom.
    pub of: &'a HostPort,
    /// Longest answer, bytes: `max_handshake`.
    pub max: u64,
    /// When it is too late.
    pub by: Nanos,
}

impl Ask<'_> {
    /// What it has. It is told what we have, as Mooncake's own initiators do, and ignores it.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Exhausted`], [`Error::Deadline`]; [`Error::Protocol`] for what is no valid descriptor,
    /// and for nodes whose metadata is in a directory.
    pub async fn metadata(&self, own: &Descriptor) -> Result<Descriptor, Error> {
        let answer = self.exchange(Message::new(Kind::Metadata, own.encode_line())).await?;
        Descriptor::decode(&answer).map_err(|error| self.broken(error))
    }

    /// Whether its process lives.
    ///
    /// # Errors
    /// As [`Self::metadata`]; releases up to 0.3.10 know no such question and hang up, which is [`Error::Protocol`].
    pub async fn probe(&self) -> Result<(), Error> {
        let answer = self.exchange(Message::new(Kind::Probe, "{}\n")).await?;
        let alive: Alive = bodies::decode(&answer).map_err(|error| self.broken(error))?;
        match alive == Alive::yes() {
            true => Ok(()),
            false => Err(self.refused(format!("it says of itself `{}`", alive.status))),
        }
    }

    /// Gives it a notice.
    ///
    /// # Errors
    /// As [`Self::metadata`]; [`Error::Refused`] when it did not take it.
    pub async fn notify(&self, name: &str, text: &str) -> Result<(), Error> {
        let notice = Notify { name: name.to_owned(), notify_msg: text.to_owned() };
        let answer = self.exchange(Message::new(Kind::Notify, bodies::encode(&notice))).await?;
        let taken: Notify = bodies::decode(&answer).map_err(|error| self.broken(error))?;
        match taken.notify_msg.is_empty() {
            false => Ok(()),
            true => Err(self.refused("it did not take the notice".to_owned())),
        }
    }

    /// Tells it our queue pairs, and gets its own. A refusal is an answer: its `reply_msg` says why, and the rest what it would
    /// have connected.
    ///
    /// # Errors
    /// As [`Self::metadata`].
    pub async fn connection(&self, own: &Connection) -> Result<Connection, Error> {
        let answer = self.exchange(Message::new(Kind::Connection, bodies::encode(own))).await?;
        bodies::decode(&answer).map_err(|error| self.broken(error))
    }

    async fn exchange(&self, question: Message) -> Result<Vec<u8>, Error> {
        let asking = async {
            let mut stream = self.connect().await?;
            stream.write_all(&question.encode()).await.map_err(|e| self.lost(&e))?;
            let answer = Message::read(&mut stream, self.max).await.map_err(|malformed| match malformed {
                Malformed::Broken(error) => self.lost(&error),
                // Mooncake hangs up on what it does not understand, and when it has had enough of waiting for its turn.
                Malformed::Short(0) => self.broken("it hung up without an answer"),
                other => self.broken(other),
            })?;
            if answer.kind != question.kind {
                return Err(self.broken(format!("asked {:?}, it answers {:?}", question.kind, answer.kind)));
            }
            Ok(answer.body)
        };
        timeout(until(self.by), asking).await.unwrap_or_else(|_| {
            Err(Error::Deadline { what: "an exchange at the handshake port", peer: self.of.to_string() })
        })
    }

    /// To the first address that answers, each with its share of the time that is left.
    async fn connect(&self) -> Result<TcpStream, Error> {
        let unreachable = |reason: String| Error::Unreachable { peer: self.of.to_string(), reason };
        let found = lookup_host((self.of.host.as_str(), self.of.port)).await;
        let addresses: Vec<SocketAddr> = found.map_err(|e| unreachable(e.to_string()))?.collect();
        let mut last = unreachable("its name has no address".to_owned());
        for (i, at) in addresses.iter().enumerate() {
            let share = until(self.by) / (addresses.len() - i) as u32;
            match timeout(share, TcpStream::connect(at)).await {
                Ok(Ok(stream)) => {
                    // A question is one small segment: it must not wait for company. A socket without the option still works.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => last = connecting(&self.of.to_string(), error),
                Err(_) => last = unreachable(format!("{at} does not answer")),
            }
        }
        Err(last)
    }

    fn lost(&self, error: &std::io::Error) -> Error {
        Error::Unreachable { peer: self.of.to_string(), reason: error.to_string() }
    }

    fn broken(&self, reason: impl ToString) -> Error {
        Error::Protocol { peer: self.of.to_string(), reason: reason.to_string() }
    }

    fn refused(&self, reason: String) -> Error {
        Error::Refused { peer: self.of.to_string(), reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    fn in_a_runtime<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }

    /// Asks a port that answers these bytes to whatever it is asked, and then hangs up if `closes`.
    async fn ask_of(answer: &[u8], closes: bool, limit_ms: u64) -> (Result<Descriptor, Error>, Vec<u8>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let of = HostPort::new("127.0.0.1", listener.local_addr().unwrap().port());
        let ask = Ask { of: &of, max: 1 << 20, by: now() + limit_ms * 1_000_000 };
        let own = Descriptor { name: "me".into(), tcp_data_port: 1, ..Descriptor::default() };
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = vec![0; 8 + 1 + own.encode_line().len()];
            stream.read_exact(&mut asked).await.unwrap();
            stream.write_all(answer).await.unwrap();
            (asked, if closes { None } else { Some(stream) })
        };
        let (got, (asked, _open)) = tokio::join!(ask.metadata(&own), serve);
        (got, asked)
    }

    /// A question goes out as a frame with our descriptor, and the answer is read as soon as it is whole.
    #[test]
    fn asks_and_reads() {
        let theirs = Descriptor { name: "n".into(), tcp_data_port: 7, ..Descriptor::default() };
        let answer = Message::new(Kind::Metadata, theirs.encode_line()).encode();
        let (got, asked) = in_a_runtime(ask_of(&answer, false, 60_000));
        assert_eq!(got.unwrap(), theirs);
        assert_eq!(asked[8], 1);
        assert_eq!(Descriptor::decode(&asked[9..]).unwrap().name, "me");
    }

    /// Silence, a hang-up, another type and a central node's `null` end in errors that say which it was.
    #[test]
    fn other_answers() {
        let error = |answer: &[u8], closes| in_a_runtime(ask_of(answer, closes, 300)).0.unwrap_err();
        assert!(matches!(error(b"", false), Error::Deadline { .. }));
        assert!(matches!(error(b"", true), Error::Protocol { reason, .. } if reason.contains("hung up")));
        let alive = Message::new(Kind::Probe, "{}").encode();
        assert!(matches!(error(&alive, true), Error::Protocol { reason, .. } if reason.contains("Probe")));
        let null = Message::new(Kind::Metadata, "null\n").encode();
        assert!(matches!(error(&null, true), Error::Protocol { reason, .. } if reason.contains("directory")));
    }

    /// A port where nobody listens is unreachable at once.
    #[test]
    fn nobody_there() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let of = HostPort::new("127.0.0.1", free);
        let ask = Ask { of: &of, max: 1 << 20, by: now() + 60_000_000_000 };
        assert!(matches!(in_a_runtime(ask.probe()), Err(Error::Unreachable { .. })));
    }
}
