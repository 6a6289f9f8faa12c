//! A way to a node that can be cut, and on which answers can be held back: a plain forwarder of TCP connections.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// See the file's head.
pub struct Proxy {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Both ends of each connection.
    open: Mutex<Vec<TcpStream>>,
    /// What the node says on control connections waits.
    mute: AtomicBool,
    /// Bytes that came from the node on control connections.
    answered: AtomicU64,
    closed: AtomicBool,
}

impl Proxy {
    pub fn to(node: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, shared) = (listener.local_addr().unwrap(), Arc::new(Shared::default()));
        let inner = shared.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                if inner.closed.load(Relaxed) {
                    return;
                }
                let Ok(far) = TcpStream::connect(node) else { continue };
                inner.clone().forward(near, far);
            }
        });
        Self { address, shared }
    }

    /// Cuts all connections; new ones are taken.
    pub fn cut(&self) {
        for stream in self.shared.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Holds back, or no longer, what the node says on control connections.
    pub fn mute(&self, mute: bool) {
        self.shared.mute.store(mute, Relaxed);
    }

    /// Bytes that the node has said on control connections, passed on or not.
    pub fn answered(&self) -> u64 {
        self.shared.answered.load(Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.closed.store(true, Relaxed);
        self.cut();
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn forward(self: Arc<Self>, near: TcpStream, far: TcpStream) {
        let _ = (near.set_nodelay(true), far.set_nodelay(true));
        let copy = |stream: &TcpStream| stream.try_clone().unwrap();
        self.open.lock().unwrap().extend([copy(&near), copy(&far)]);
        // The seventh byte of a connection says what it is; 1 is a control connection.
        let control = Arc::new(AtomicBool::new(false));
        let (from, to, known, shared) = (copy(&near), copy(&far), control.clone(), self.clone());
        std::thread::spawn(move || {
            pump(from, to, |bytes, first| {
                if first {
                    known.store(bytes.get(6) == Some(&1), Relaxed);
                }
                let _ = &shared;
            })
        });
        std::thread::spawn(move || {
            pump(far, near, |bytes, _| {
                if control.load(Relaxed) {
                    self.answered.fetch_add(bytes.len() as u64, Relaxed);
                    while self.mute.load(Relaxed) && !self.closed.load(Relaxed) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            })
        });
    }
}

fn pump(mut from: TcpStream, mut to: TcpStream, mut look: impl FnMut(&[u8], bool)) {
    let (mut bytes, mut first) = (vec![0; 64 << 10], true);
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        look(&bytes[..n], std::mem::take(&mut first));
        if to.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
