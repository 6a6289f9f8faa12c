//! The handshake of a control connection, both sides, on any byte stream. Deliberately without deadlines
//! and without sockets: the caller wraps it in its own.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::control::WireError;
use crate::control::auth::{Role, SharedKey};
use crate::control::hello::{Hello, RefusalCode, Step};
use crate::control::preamble::Preamble;
use crate::error::Error;
use crate::transport::SessionId;

/// What this node tells of itself, the same in every handshake.
#[derive(Clone, Debug)]
pub struct Identity {
    /// `[node] name`.
    pub name: String,
    /// Random, new with every start.
    pub incarnation: u64,
    /// Requests served at a time on one connection.
    pub requests_max: u32,
    /// Silence after which a session ends.
    pub idle: Duration,
    /// The shared key, if one is set.
    pub key: Option<SharedKey>,
}

/// A handshake that came to its end.
#[derive(Clone, Debug)]
pub struct Established {
    /// What the other side told.
    pub peer: Hello,
    /// Secret name of the session.
    pub session: SessionId,
    /// Silence after which this session ends: the smaller of both sides' wishes.
    pub idle: Duration,
}

impl Identity {
    fn hello(&self) -> Result<Hello, Error> {
        let mut nonce = [0; 32];
        random(&mut nonce)?;
        Ok(Hello {
            incarnation: self.incarnation,
            features: 0,
            message_max: super::codec::MESSAGE_MAX as u32,
            requests_max: self.requests_max.max(1),
            idle_ms: u32::try_from(self.idle.as_millis()).unwrap_or(u32::MAX).max(1),
            keyed: self.key.is_some(),
            nonce,
            name: self.name.clone(),
        })
    }
}

/// The dialler's side. `peer` is for messages.
///
/// # Errors
/// [`Error::Refused`] with the reason when keys or versions do not match; [`Error::Protocol`] and
/// [`Error::Unreachable`] for a stream that is not ours or ends.
pub async fn dial(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    identity: &Identity,
    peer: &str,
) -> Result<Established, Error> {
    let of = |e: WireError| e.of(peer);
    let io = |e: std::io::Error| WireError::from(e).of(peer);
    let refused = |reason: &str| Error::Refused { peer: peer.to_owned(), reason: reason.to_owned() };
    let mine = identity.hello()?;
    let mine_bytes = mine.encode();
    stream.write_all(&Preamble::control(mine_bytes.clone()).encode().map_err(of)?).await.map_err(io)?;
    let theirs_bytes = match Step::read(stream).await.map_err(of)? {
        Step::Hello(bytes) => bytes,
        Step::Refused(code) => return Err(refused(reason(code))),
        Step::Proof(_) | Step::Welcome { .. } => return Err(of(WireError::Malformed("handshake"))),
    };
    let theirs = Hello::decode(&theirs_bytes).map_err(of)?;
    match (&identity.key, theirs.keyed) {
        (Some(_), false) => return Err(refused(RefusalCode::KeyUnknown.reason())),
        (None, true) => return Err(refused(RefusalCode::KeyRequired.reason())),
        (Some(key), true) => {
            let proof = key.prove(Role::Dialler, &mine_bytes, &theirs_bytes);
            stream.write_all(&Step::Proof(proof).encode()).await.map_err(io)?;
        }
        (None, false) => {}
    }
    let (session, proof) = match Step::read(stream).await.map_err(of)? {
        Step::Welcome { session, proof } => (session, proof),
        Step::Refused(code) => return Err(refused(reason(code))),
        Step::Hello(_) | Step::Proof(_) => return Err(of(WireError::Malformed("handshake"))),
    };
    if let Some(key) = &identity.key
        && !key.verify(Role::Acceptor, &mine_bytes, &theirs_bytes, &proof)
    {
        return Err(refused(RefusalCode::WrongKey.reason()));
    }
    Ok(Established { idle: idle(&mine, &theirs), peer: theirs, session })
}

/// The acceptor's side, after the preamble was read; `hello` is what it carried. `session` is fresh random.
///
/// # Errors
/// As [`dial`]; whoever is turned away has been told why.
pub async fn accept(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    hello: &[u8],
    identity: &Identity,
    session: SessionId,
    peer: &str,
) -> Result<Established, Error> {
    let of = |e: WireError| e.of(peer);
    let io = |e: std::io::Error| WireError::from(e).of(peer);
    let theirs = match Hello::decode(hello) {
        Ok(theirs) => theirs,
        Err(e) => {
            refuse(stream, RefusalCode::Malformed).await;
            return Err(of(e));
        }
    };
    let turned_away = |reason: &str| Error::Refused { peer: peer.to_owned(), reason: reason.to_owned() };
    match (identity.key.is_some(), theirs.keyed) {
        (true, false) => {
            refuse(stream, RefusalCode::KeyRequired).await;
            return Err(turned_away("turned away: it has no shared key and `[auth] key_file` is set here"));
        }
        (false, true) => {
            refuse(stream, RefusalCode::KeyUnknown).await;
            return Err(turned_away("turned away: it demands a shared key and none is set here"));
        }
        _ => {}
    }
    let mine = identity.hello()?;
    let mine_bytes = mine.encode();
    stream.write_all(&Step::Hello(mine_bytes.clone()).encode()).await.map_err(io)?;
    let mut proof = [0; 32];
    if let Some(key) = &identity.key {
        let Step::Proof(theirs) = Step::read(stream).await.map_err(of)? else {
            return Err(of(WireError::Malformed("handshake")));
        };
        if !key.verify(Role::Dialler, hello, &mine_bytes, &theirs) {
            refuse(stream, RefusalCode::WrongKey).await;
            return Err(turned_away("turned away: its shared key is not ours"));
        }
        proof = key.prove(Role::Acceptor, hello, &mine_bytes);
    }
    stream.write_all(&Step::Welcome { session, proof }.encode()).await.map_err(io)?;
    Ok(Established { idle: idle(&mine, &theirs), peer: theirs, session })
}

/// Turns a dialler away: says why, and reads on a little, because closing a socket with unread bytes in it
/// sends a reset that would destroy the answer on its way.
pub async fn refuse(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), code: RefusalCode) {
    if stream.write_all(&Step::Refused(Some(code)).encode()).await.is_err() {
        return;
    }
    let _ = stream.shutdown().await;
    let (mut rest, mut left) = ([0; 512], 8192_usize);
    while let Ok(n @ 1..) = stream.read(&mut rest).await {
        left = left.saturating_sub(n);
        if left == 0 {
            return;
        }
    }
}

/// A fresh secret name for a session.
///
/// # Errors
/// [`Error::Io`] when the system has no randomness.
pub fn new_session() -> Result<SessionId, Error> {
    let mut id = [0; 16];
    random(&mut id)?;
    Ok(SessionId(id))
}

fn random(into: &mut [u8]) -> Result<(), Error> {
    getrandom::fill(into).map_err(|e| Error::Io {
        what: "reading random bytes".to_owned(),
        source: std::io::Error::other(e.to_string()),
    })
}

fn idle(a: &Hello, b: &Hello) -> Duration {
    // Below a tenth of a second a busy machine would look dead.
    Duration::from_millis(u64::from(a.idle_ms.min(b.idle_ms)).max(100))
}

fn reason(code: Option<RefusalCode>) -> &'static str {
    code.map_or("it gave a reason this release does not know; run the same release on both sides", |c| {
        c.reason()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(name: &str, key: Option<&[u8]>) -> Identity {
        Identity {
            name: name.into(),
            incarnation: 7,
            requests_max: 8,
            idle: Duration::from_secs(if name == "a" { 3 } else { 5 }),
            key: key.map(|k| SharedKey::new(k).unwrap()),
        }
    }

    type Ends = (Result<Established, Error>, Result<Established, Error>);

    fn shake(a_key: Option<&[u8]>, b_key: Option<&[u8]>) -> Ends {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut near, mut far) = tokio::io::duplex(4096);
            let (a, b) = (identity("a", a_key), identity("b", b_key));
            let dialler = async move { dial(&mut near, &a, "b").await };
            let acceptor = async move {
                let preamble = Preamble::read(&mut far).await.unwrap();
                accept(&mut far, &preamble.hello, &b, SessionId([9; 16]), "a").await
            };
            tokio::join!(dialler, acceptor)
        })
    }

    const KEY: Option<&[u8]> = Some(&[1; 32]);

    /// With no key, or the same on both sides, both learn name, session and the shorter silence.
    #[test]
    fn matching_keys() {
        for key in [None, KEY] {
            let (a, b) = shake(key, key);
            let (a, b) = (a.unwrap(), b.unwrap());
            assert_eq!((a.peer.name.as_str(), b.peer.name.as_str()), ("b", "a"));
            assert_eq!((a.session, b.session), (SessionId([9; 16]), SessionId([9; 16])));
            assert_eq!((a.idle, b.idle), (Duration::from_secs(3), Duration::from_secs(3)));
        }
    }

    /// A wrong key, and a key on one side only, are refused on both sides with what to do.
    #[test]
    fn differing_keys() {
        for (a_key, b_key, says) in [
            (KEY, Some(&[2; 32][..]), "keys differ"),
            (KEY, None, "has no shared key"),
            (None, KEY, "demands a shared key"),
        ] {
            let (a, b) = shake(a_key, b_key);
            let a = a.unwrap_err();
            assert!(matches!(a, Error::Refused { .. }) && a.to_string().contains(says), "{a}");
            assert!(matches!(b.unwrap_err(), Error::Refused { .. }));
        }
    }

    /// An acceptor that cannot prove the key is refused by the dialler, though it let the dialler in.
    #[test]
    fn impostor_is_found_out() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let error = runtime.block_on(async {
            let (mut near, mut far) = tokio::io::duplex(4096);
            let (a, b) = (identity("a", KEY), identity("b", KEY));
            let impostor = async move {
                Preamble::read(&mut far).await.unwrap();
                let hello = b.hello().unwrap().encode();
                far.write_all(&Step::Hello(hello).encode()).await.unwrap();
                let Step::Proof(proof) = Step::read(&mut far).await.unwrap() else { panic!() };
                // The best an impostor can do: send the dialler its own proof back.
                far.write_all(&Step::Welcome { session: SessionId([1; 16]), proof }.encode()).await.unwrap();
            };
            tokio::join!(dial(&mut near, &a, "b"), impostor).0.unwrap_err()
        });
        assert!(matches!(error, Error::Refused { .. }), "{error}");
    }
}
