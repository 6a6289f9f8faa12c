//! Strangers and liars: whatever they send, they are turned away, and honest peers are served meanwhile.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeline_stages::control::{Error, Settings};
use pipeline_stages::peer::PeerState;
use pipeline_transports::control::codec::{MESSAGE_MAX, encode};
use pipeline_transports::control::hello::Step;
use pipeline_transports::control::{
    ErrorCode, FrameReader, Identity, Message, Preamble, Received, RefusalCode, SegmentPage, SegmentPart,
    handshake,
};
use pipeline_transports::transport::SessionId;
use pipeline_transports::{LinkId, Offer};
use tokio::io::AsyncWriteExt;
use tokio::runtime::{Builder, Runtime};

use crate::rig::{Rig, With, by, eventually, settings};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn identity(idle: Duration) -> Identity {
    Identity { name: "stranger".into(), incarnation: 1, requests_max: 8, idle, key: None }
}

/// Sends bytes and waits for the node to close the connection; answers what it said before.
fn send(to: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(bytes).unwrap();
    let mut said = Vec::new();
    match stream.read_to_end(&mut said) {
        Ok(_) => said,
        Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => said,
        Err(e) => panic!("the node did not close the connection: {e}"),
    }
}

/// Garbage, lanes of no session and impossible lengths are closed at once; a wrong version is told so.
#[test]
fn strangers_are_turned_away() {
    let node = Rig::new("node", With::Tcp, settings());
    let to = node.control.local_address();
    let start = Instant::now();
    assert_eq!(send(to, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"), b"");
    let lane = Preamble::lane(SessionId([7; 16]), LinkId(1), "wire", vec![0; 24]).encode().unwrap();
    assert_eq!(send(to, &lane), b"");
    let mut huge = lane.clone();
    huge[26..28].copy_from_slice(&u16::MAX.to_le_bytes());
    assert_eq!(send(to, &huge), b"");
    let mut newer = Preamble::control(vec![0; 100]).encode().unwrap();
    newer[4..6].copy_from_slice(&9u16.to_le_bytes());
    let said = send(to, &newer);
    let step = runtime().block_on(async { Step::read(&mut &said[..]).await }).unwrap();
    assert_eq!(step, Step::Refused(Some(RefusalCode::Version)));
    assert!(start.elapsed() < Duration::from_secs(3), "none of them had to wait for a deadline");
    let honest = Rig::new("honest", With::Tcp, settings());
    honest.control.open(&node.address(), by(5)).unwrap();
}

/// Connections that say nothing neither keep honest ones out nor stay for ever.
#[test]
fn slow_loris() {
    let tight = Settings { handshakes: 4, connect: Duration::from_secs(1), ..settings() };
    let node = Rig::new("node", With::Tcp, tight);
    let mut silent: Vec<TcpStream> =
        (0..32).map(|_| TcpStream::connect(node.control.local_address()).unwrap()).collect();
    let honest = Rig::new("honest", With::Tcp, Settings { connect: Duration::from_secs(10), ..settings() });
    honest.control.open(&node.address(), by(10)).unwrap();
    for stream in &mut silent {
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert_eq!(stream.read(&mut [0; 8]).unwrap_or(0), 0, "the node spoke to a silent stranger");
    }
}

/// A session of a stranger with valid hello, over which a test says what it likes.
async fn session(to: SocketAddr, idle: Duration) -> tokio::net::TcpStream {
    let mut stream = tokio::net::TcpStream::connect(to).await.unwrap();
    handshake::dial(&mut stream, &identity(idle), "node").await.unwrap();
    stream
}

/// A message announced with 2 GiB ends its session, and only that; an unknown type is answered and skipped.
#[test]
fn odd_frames() {
    let node = Rig::new("node", With::Tcp, settings());
    runtime().block_on(async {
        let mut stream = session(node.control.local_address(), Duration::from_secs(5)).await;
        stream.write_all(&[0xe7, 3, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 9, 9]).await.unwrap();
        stream.write_all(&encode(false, 2, &Message::GetCpuTime, MESSAGE_MAX).unwrap()).await.unwrap();
        let mut reader = FrameReader::new();
        let first = reader.next(&mut stream).await.unwrap().unwrap();
        let unsupported = matches!(&first.body,
            Received::Message(Message::Error { code, .. }) if *code == ErrorCode::UNSUPPORTED);
        assert!(unsupported && first.request == 1, "{first:?}");
        let second = reader.next(&mut stream).await.unwrap().unwrap();
        assert!(matches!(second.body, Received::Message(Message::CpuTime { .. })));
        stream.write_all(&[6, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0x80]).await.unwrap();
        assert!(!matches!(reader.next(&mut stream).await, Ok(Some(_))), "the session went on");
    });
    let honest = Rig::new("honest", With::Tcp, settings());
    honest.control.open(&node.address(), by(5)).unwrap();
}

/// Field case B15: peers that vanish without a word are forgotten after their idle time.
#[test]
fn silent_sessions_end() {
    let node = Rig::new("node", With::Tcp, settings());
    runtime().block_on(async {
        let start = Instant::now();
        let mut streams = Vec::new();
        for _ in 0..20 {
            streams.push(session(node.control.local_address(), Duration::from_millis(300)).await);
        }
        for stream in &mut streams {
            let ended = FrameReader::new().next(stream).await;
            assert!(!matches!(ended, Ok(Some(_))), "{ended:?}");
        }
        assert!(start.elapsed() >= Duration::from_millis(300) && start.elapsed() < Duration::from_secs(5));
    });
}

/// More requests at a time than the hello allows are answered Busy or end the session; none hangs the node.
#[test]
fn flood_of_requests() {
    let node = Rig::new("node", With::Tcp, settings());
    runtime().block_on(async {
        let mut stream = session(node.control.local_address(), Duration::from_secs(5)).await;
        let one = encode(false, 1, &Message::GetSegments { segment: 0, region: 0 }, MESSAGE_MAX).unwrap();
        let flood = one.repeat(20_000);
        // Nobody reads the answers: the node must stop reading or end the session, not keep them all.
        let sent = tokio::time::timeout(Duration::from_secs(2), stream.write_all(&flood)).await;
        drop((sent, stream));
    });
    let honest = Rig::new("honest", With::Tcp, settings());
    honest.control.open(&node.address(), by(5)).unwrap();
}

/// A peer on a thread that answers the handshake and then as `answer` says; `None` is silence for ever. Lanes
/// to it are closed at once.
fn liar(answer: impl Fn(Message) -> Option<Message> + Send + 'static) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        std::thread::spawn(move || while listener.accept().is_ok() {});
        stream.set_nonblocking(true).unwrap();
        runtime().block_on(async {
            let mut stream = tokio::net::TcpStream::from_std(stream).unwrap();
            let preamble = Preamble::read(&mut stream).await.unwrap();
            let me = identity(Duration::from_secs(60));
            handshake::accept(&mut stream, &preamble.hello, &me, SessionId([1; 16]), "a").await.unwrap();
            let mut reader = FrameReader::new();
            while let Ok(Some(frame)) = reader.next(&mut stream).await {
                let Received::Message(message) = frame.body else { continue };
                let Some(answer) = answer(message) else { continue };
                let bytes = encode(true, frame.request, &answer, usize::MAX).unwrap();
                if stream.write_all(&bytes).await.is_err() {
                    return;
                }
            }
        });
    });
    address
}

fn honest_answer(message: &Message) -> Option<Message> {
    match message {
        Message::GetOffers => Some(Message::Offers(Vec::new())),
        Message::GetSegments { .. } => Some(Message::Segments(SegmentPage::default())),
        Message::Ping => Some(Message::Pong),
        _ => None,
    }
}

/// Field case B40, its other half: a peer that announces a description of 2 GiB is refused for what it says,
/// and one that answers something else than asked as well.
#[test]
fn liars_are_found_out() {
    let a = Rig::new("a", With::Tcp, settings());
    let part = SegmentPart { name: "kv".into(), regions_total: u32::MAX, ..SegmentPart::default() };
    let big = SegmentPage { parts: vec![part], next: Some((0, 1)), ..SegmentPage::default() };
    let huge = liar(move |m| match m {
        Message::GetSegments { .. } => Some(Message::Segments(big.clone())),
        other => honest_answer(&other),
    });
    let error = a.control.open(&huge.to_string(), by(5)).unwrap_err();
    assert!(matches!(&error, Error::Protocol { .. }) && error.to_string().contains("announced"), "{error}");
    let confused = liar(|m| match m {
        Message::GetOffers => Some(Message::Exchanged(Vec::new())),
        other => honest_answer(&other),
    });
    let error = a.control.open(&confused.to_string(), by(5)).unwrap_err();
    assert!(matches!(&error, Error::Protocol { .. }), "{error}");
}

/// When no lane can be had, `open` says why after every one was tried once, and does not wait for its deadline.
#[test]
fn lanes_that_are_refused() {
    let a = Rig::new("a", With::Tcp, settings());
    let offer = Offer { kind: "tcp".into(), name: "wire".into(), body: Vec::new() };
    let address = liar(move |m| match m {
        Message::GetOffers => Some(Message::Offers(vec![offer.clone()])),
        other => honest_answer(&other),
    });
    for _ in 0..2 {
        let start = Instant::now();
        let error = a.control.open(&address.to_string(), by(30)).unwrap_err();
        assert!(matches!(&error, Error::Peer(_)), "{error}");
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
    let id = a.control.connect(&address.to_string(), by(5)).unwrap();
    assert_eq!((a.peer(id).state(), a.peer(id).links.load().len()), (PeerState::Up, 0));
}

/// A frozen peer (its sockets stand, it says nothing) is down after the idle time, and calls that wait for
/// its answers end then, not at their own later deadline.
#[test]
fn frozen_peer_is_given_up() {
    let a = Rig::new("a", With::Tcp, Settings { idle: Duration::from_millis(400), ..settings() });
    let frozen = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let freeze = frozen.clone();
    let address = liar(move |m| match freeze.load(std::sync::atomic::Ordering::Relaxed) {
        true => None,
        false => honest_answer(&m),
    });
    let id = a.control.connect(&address.to_string(), by(5)).unwrap();
    // While it answers pings it stays, though nothing else is said: three idle times.
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(a.peer(id).state(), PeerState::Up);
    frozen.store(true, std::sync::atomic::Ordering::Relaxed);
    let start = Instant::now();
    let error = a.control.request(id, Message::GetCpuTime, by(30)).unwrap_err();
    assert!(matches!(&error, Error::Gone { reason, .. } if reason.contains("silent")), "{error}");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    eventually("down", || a.peer(id).state() == PeerState::Down);
}
