//! A target as Mooncake's documents and captures describe it, written apart from the transport: one connection, one request
//! after the other, no answer to a WRITE of the first version.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::rig::{BASE, REMOTE_LEN};

/// What is answered to a request that was carried out.
pub const OK: [u8; 8] = *b"\0\0\0\0VTCM";
/// What is answered to one that is not.
pub const REJECTED: [u8; 8] = *b"\x01\0\0\0VTCM";

/// A request as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub size: u64,
    pub addr: u64,
    pub op: u8,
}

/// Reads a header; `None` at the end of the stream.
pub fn header(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = [0; 24];
    stream.read_exact(&mut bytes).ok()?;
    assert_eq!(bytes[17..], [0; 7], "padding is sent as zeros");
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    Some(Request { size: word(0), addr: word(8), op: bytes[16] })
}

/// Reads a payload.
pub fn body(stream: &mut TcpStream, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

/// Serves all who connect, until it is dropped.
pub struct Server {
    pub at: SocketAddr,
    pub memory: Arc<Mutex<Vec<u8>>>,
    /// Operations as they came.
    pub seen: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let memory = Arc::new(Mutex::new(vec![0; REMOTE_LEN as usize]));
        let seen = Arc::new(Mutex::new(Vec::new()));
        std::thread::spawn({
            let (memory, seen) = (memory.clone(), seen.clone());
            move || {
                // They end with their connections; the listener ends with the test's process.
                let _served: Vec<JoinHandle<()>> = listener
                    .incoming()
                    .map_while(Result::ok)
                    .map(|stream| {
                        let (memory, seen) = (memory.clone(), seen.clone());
                        std::thread::spawn(move || serve(stream, &memory, &seen))
                    })
                    .collect();
            }
        });
        Self { at, memory, seen }
    }
}

fn serve(mut stream: TcpStream, memory: &Mutex<Vec<u8>>, seen: &Mutex<Vec<Request>>) {
    stream.set_nodelay(true).unwrap();
    while let Some(request) = header(&mut stream) {
        seen.lock().unwrap().push(request);
        let acknowledged = request.op & 0x80 != 0;
        let first = request.addr.wrapping_sub(BASE);
        let inside = first.checked_add(request.size).is_some_and(|end| end <= REMOTE_LEN);
        if !inside || request.size == 0 {
            if acknowledged {
                stream.write_all(&REJECTED).unwrap();
            }
            return;
        }
        let range = first as usize..(first + request.size) as usize;
        let mut reply = if acknowledged { OK.to_vec() } else { Vec::new() };
        if request.op & 0x7f == 1 {
            let bytes = body(&mut stream, request.size as usize);
            memory.lock().unwrap()[range].copy_from_slice(&bytes);
        } else {
            reply.extend_from_slice(&memory.lock().unwrap()[range]);
        }
        if stream.write_all(&reply).is_err() {
            return;
        }
    }
}
