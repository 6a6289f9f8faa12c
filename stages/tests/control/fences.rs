//! Fences as a peer asks for them: of lanes, of earlier sessions, and of what is none of either.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use pipeline_stages::control::Settings;
use pipeline_transports::LinkId;
use pipeline_transports::control::codec::{MESSAGE_MAX, encode};
use pipeline_transports::control::{
    ErrorCode, FrameReader, Identity, Message, Preamble, Received, handshake,
};
use pipeline_transports::tcp::Settings as TcpSettings;
use pipeline_transports::transport::SessionId;
use tokio::io::AsyncWriteExt;
use tokio::runtime::{Builder, Runtime};

use crate::rig::{Rig, With, by, eventually, settings};

const THIS: SessionId = SessionId([0; 16]);

/// A control session made by hand.
struct Stranger {
    runtime: Runtime,
    stream: tokio::net::TcpStream,
    reader: FrameReader,
    id: SessionId,
}

impl Stranger {
    fn of(to: SocketAddr) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let idle = Duration::from_secs(30);
        let identity = Identity { name: "hand".into(), incarnation: 1, requests_max: 8, idle, key: None };
        let (stream, established) = runtime.block_on(async {
            let mut stream = tokio::net::TcpStream::connect(to).await.unwrap();
            let established = handshake::dial(&mut stream, &identity, "node").await.unwrap();
            (stream, established)
        });
        Self { runtime, stream, reader: FrameReader::new(), id: established.session }
    }

    /// What it is answered; `None` when the session has ended.
    fn ask(&mut self, message: &Message) -> Option<Message> {
        self.runtime.block_on(async {
            self.stream.write_all(&encode(false, 7, message, MESSAGE_MAX).unwrap()).await.ok()?;
            let frame = self.reader.next(&mut self.stream).await.ok()??;
            assert!(frame.answer && frame.request == 7);
            let Received::Message(answer) = frame.body else { panic!("{frame:?}") };
            Some(answer)
        })
    }

    fn fence(&mut self, session: SessionId, link: u64) -> Option<Message> {
        self.ask(&Message::Fence { session, link: LinkId(link) })
    }

    /// A lane of it; `None` when it is turned away.
    fn lane(&self, to: SocketAddr, link: u64) -> Option<TcpStream> {
        let hello = TcpSettings::default().hello().encode().to_vec();
        let mut stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(&Preamble::lane(self.id, LinkId(link), "wire", hello).encode().unwrap()).unwrap();
        let mut answer = [0; 32];
        stream.read_exact(&mut answer).ok()?;
        (answer[0] == 0).then_some(stream)
    }
}

/// Whether the node has let go of a lane.
fn is_closed(lane: &mut TcpStream) -> bool {
    match lane.read(&mut [0; 8]) {
        Ok(0) => true,
        Err(e) if e.kind() == ErrorKind::ConnectionReset => true,
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => false,
        other => panic!("{other:?}"),
    }
}

/// Right now, without waiting: the answer to the fence has come already.
fn is_closed_now(lane: &mut TcpStream) -> bool {
    lane.set_nonblocking(true).unwrap();
    is_closed(lane)
}

/// A fenced lane is let go of before the answer comes, its neighbours stay; a lane that is unknown, because it was closed
/// or never opened, is confirmed at once.
#[test]
fn lanes() {
    let node = Rig::new("node", With::Tcp, settings());
    let to = node.control.local_address();
    let mut peer = Stranger::of(to);
    let [mut first, mut second] = [1, 2].map(|link| peer.lane(to, link).unwrap());
    assert!(peer.lane(to, 2).is_none(), "two lanes of one name");
    assert_eq!(peer.fence(THIS, 1), Some(Message::Fenced));
    assert!(is_closed_now(&mut first) && !is_closed_now(&mut second));
    for unknown in [1, 3, u64::MAX] {
        assert_eq!(peer.fence(THIS, unknown), Some(Message::Fenced));
    }
    assert!(!is_closed_now(&mut second));
    // A name is free again when its lane is gone.
    let mut again = peer.lane(to, 1).unwrap();
    assert_eq!(peer.fence(THIS, 2), Some(Message::Fenced));
    assert!(is_closed_now(&mut second) && !is_closed_now(&mut again));
}

/// An earlier session that is fenced ends, with all of its lanes, and takes no new one; one that is unknown is confirmed at
/// once. The session that asked goes on, and so do others of the same peer.
#[test]
fn earlier_sessions() {
    let node = Rig::new("node", With::Tcp, settings());
    let to = node.control.local_address();
    let [mut earlier, mut beside, mut later] = [(); 3].map(|()| Stranger::of(to));
    let mut lanes = [1, 2, 3].map(|link| earlier.lane(to, link).unwrap());
    let mut kept = beside.lane(to, 1).unwrap();
    assert_eq!(later.fence(earlier.id, 0), Some(Message::Fenced));
    assert!(lanes.iter_mut().all(is_closed_now) && !is_closed_now(&mut kept));
    assert!(earlier.lane(to, 4).is_none(), "a lane of a session that was fenced");
    assert_eq!(earlier.ask(&Message::GetCpuTime), None, "it has ended");
    for unknown in [earlier.id, SessionId([9; 16])] {
        assert_eq!(later.fence(unknown, 0), Some(Message::Fenced));
    }
    assert!(matches!(beside.ask(&Message::GetCpuTime), Some(Message::CpuTime { .. })));
}

/// What names neither a lane of this session nor an earlier session is malformed, and changes nothing.
#[test]
fn neither_of_the_two() {
    let node = Rig::new("node", With::Tcp, settings());
    let to = node.control.local_address();
    let (mut peer, other) = (Stranger::of(to), Stranger::of(to));
    let [mut mine, mut theirs] = [peer.lane(to, 1).unwrap(), other.lane(to, 1).unwrap()];
    for (session, link) in [(THIS, 0), (other.id, 1), (peer.id, 1), (peer.id, 0)] {
        let answer = peer.fence(session, link);
        let malformed = matches!(&answer, Some(Message::Error { code, .. }) if *code == ErrorCode::MALFORMED);
        assert!(malformed, "{answer:?}");
    }
    assert!(!is_closed_now(&mut mine) && !is_closed_now(&mut theirs));
}

/// A lane whose dialler closes it is forgotten, by its name too.
#[test]
fn closed_lanes_are_forgotten() {
    let node = Rig::new("node", With::Tcp, settings());
    let to = node.control.local_address();
    let peer = Stranger::of(to);
    drop(peer.lane(to, 1).unwrap());
    eventually("its name is free", || peer.lane(to, 1).is_some());
}

/// All names that a peer was opened by count the same dead links, so that none of them is a way round a fence; another
/// start of it has a count of its own.
#[test]
fn all_names_of_a_peer_count_together() {
    let node = Rig::new("node", With::Tcp, settings());
    let address = node.address();
    let names = vec![("node".to_owned(), vec![address.clone()])];
    let client = Rig::new("client", With::Tcp, Settings { names, ..settings() });
    let [by_name, by_address] =
        ["node", &address].map(|label| client.peer(client.control.open(label, by(5)).unwrap()));
    let [first, second] = [&by_name, &by_address].map(|peer| peer.view.load().unfenced.clone());
    assert!(!Arc::ptr_eq(&by_name, &by_address) && Arc::ptr_eq(&first, &second));
    drop(node);
    let _again = Rig::new("node", With::Tcp, Settings { listen: address.clone(), ..settings() });
    eventually("the other start", || {
        let opened = client.control.open(&address, by(5)).is_ok();
        opened && !Arc::ptr_eq(&by_address.view.load().unfenced, &first)
    });
}
