//! A client made by hand from `docs/wire.md`, with nothing of the product: numbers are written as the document says.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const MAGIC: [u8; 4] = [0x89, 0x50, 0x4c, 0x4e];
pub const READ: u8 = 1;
pub const WRITE: u8 = 2;

pub fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

pub fn preamble(kind: u8, session: [u8; 16], transport: &str, hello: &[u8]) -> Vec<u8> {
    static LANES: AtomicU64 = AtomicU64::new(1);
    let mut b = MAGIC.to_vec();
    b.extend(2_u16.to_le_bytes());
    b.extend([kind, 0]);
    b.extend(session);
    b.extend((transport.len() as u16).to_le_bytes());
    b.extend((hello.len() as u16).to_le_bytes());
    b.extend(if kind == 2 { LANES.fetch_add(1, Relaxed) } else { 0 }.to_le_bytes());
    b.extend(transport.as_bytes());
    b.extend(hello);
    b
}

pub fn control_hello(keyed: bool) -> Vec<u8> {
    let mut b = 77_u64.to_le_bytes().to_vec();
    b.extend(0_u64.to_le_bytes());
    b.extend(65_536_u32.to_le_bytes());
    b.extend(4_u32.to_le_bytes());
    b.extend(60_000_u32.to_le_bytes());
    b.push(u8::from(keyed));
    b.extend([0xAB; 32]);
    b.extend(4_u32.to_le_bytes());
    b.extend(b"hand");
    b
}

fn exactly(stream: &mut TcpStream, n: usize) -> Vec<u8> {
    let mut b = vec![0; n];
    stream.read_exact(&mut b).unwrap();
    b
}

/// A handshake step: its number and body.
pub fn step(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let head = exactly(stream, 12);
    assert_eq!(head[..4], MAGIC);
    let len = u32::from_le_bytes(head[8..12].try_into().unwrap()) as usize;
    assert!(len <= 1024);
    (head[6], exactly(stream, len))
}

/// A control session without a key, and the id that lanes quote.
pub fn session(address: &str) -> (TcpStream, [u8; 16]) {
    let mut stream = connect(address);
    stream.write_all(&preamble(1, [0; 16], "", &control_hello(false))).unwrap();
    assert_eq!(step(&mut stream).0, 1, "Hello");
    let (number, welcome) = step(&mut stream);
    assert_eq!(number, 4, "Welcome");
    (stream, welcome[..16].try_into().unwrap())
}

/// Asks a question and gives the body of its answer, with its type.
pub fn ask(stream: &mut TcpStream, kind: u16, body: &[u8]) -> (u16, Vec<u8>) {
    let mut b = kind.to_le_bytes().to_vec();
    b.extend(0_u16.to_le_bytes());
    b.extend(9_u32.to_le_bytes());
    b.extend((body.len() as u32).to_le_bytes());
    b.extend(body);
    stream.write_all(&b).unwrap();
    let head = exactly(stream, 12);
    assert_eq!((head[2], &head[4..8]), (1, &9_u32.to_le_bytes()[..]), "the answer to 9");
    let len = u32::from_le_bytes(head[8..12].try_into().unwrap()) as usize;
    (u16::from_le_bytes([head[0], head[1]]), exactly(stream, len))
}

/// Id of the first region of the first segment.
pub fn first_region(stream: &mut TcpStream) -> u64 {
    let (kind, page) = ask(stream, 5, &[0; 8]);
    assert_eq!(kind, 6);
    // version, next (8), count, index; then name and kind as texts.
    let text_end = |at: usize| at + 4 + u32::from_le_bytes(page[at..at + 4].try_into().unwrap()) as usize;
    let after = text_end(text_end(24));
    // Offset space, regions in all, first index, count.
    let at = after + 8 + 4 + 4 + 4;
    u64::from_le_bytes(page[at..at + 8].try_into().unwrap())
}

pub fn lane_hello() -> Vec<u8> {
    let mut b = 1_u16.to_le_bytes().to_vec();
    b.extend(64_u16.to_le_bytes());
    b.extend(1024_u32.to_le_bytes());
    b.extend((1_u64 << 41).to_le_bytes());
    b.extend((1_u64 << 20).to_le_bytes());
    b
}

/// A lane of a session.
pub fn lane(address: &str, session: [u8; 16]) -> TcpStream {
    let mut stream = connect(address);
    stream.write_all(&preamble(2, session, "tcp", &lane_hello())).unwrap();
    assert_eq!(exactly(&mut stream, 32)[0], 0, "accepted");
    stream
}

/// A request frame of one descriptor, without payload.
pub fn frame(op: u8, region: u64, offset: u64, length: u64) -> Vec<u8> {
    let mut b = vec![0x50, 0x4e, 1, 1, 0, 0, 0, 0];
    b.extend(5_u32.to_le_bytes());
    b.extend(1_u32.to_le_bytes());
    for word in [region, offset, length] {
        b.extend(word.to_le_bytes());
    }
    b.extend([op, 0, 0, 0, 0, 0, 0, 0]);
    b
}

/// What an answer of one entry says: payload bytes that follow, and its status. `None`: the lane was closed.
pub fn answer(stream: &mut TcpStream) -> Option<(u64, u8)> {
    let mut b = [0; 32];
    match stream.read_exact(&mut b) {
        Ok(()) => {}
        Err(e) if matches!(e.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => return None,
        Err(e) => panic!("neither an answer nor a close: {e}"),
    }
    assert_eq!(b[..8], [0x50, 0x4e, 2, 1, 0, 0, 0, 0]);
    Some((u64::from_le_bytes(b[16..24].try_into().unwrap()), b[24]))
}

/// Whether the other side closes without another word.
pub fn is_closed(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(e) => e.kind() == ErrorKind::ConnectionReset,
    }
}
