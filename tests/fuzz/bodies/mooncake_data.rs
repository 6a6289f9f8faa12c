//! What is tried with any bytes as what comes in on Mooncake's data port: a real connection to a real serve half, whose region
//! lies between bytes that nobody may touch. Shared by libFuzzer and by the test that replays the corpus.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

use pipeline_transports::clock::now;
use pipeline_transports::mooncake::ask::Ask;
use pipeline_transports::mooncake::descriptor::Descriptor;
use pipeline_transports::mooncake::name::HostPort;
use pipeline_transports::mooncake::wire::{Framing, Header};
use pipeline_transports::mooncake::{MooncakeTcp, Settings};
use pipeline_transports::{Access, Memory, NicId, Op, PairId, Regions, Serve, Transport, Waker, Wakes};

/// Bytes of the region, and on each side of it.
const LEN: usize = 4096;
const CANARY: u8 = 0xa5;

struct Rig {
    half: Box<dyn Serve>,
    port: u16,
    /// The region is the middle third.
    bytes: &'static mut [u8],
}

fn rig() -> &'static Mutex<Rig> {
    static RIG: OnceLock<Mutex<Rig>> = OnceLock::new();
    RIG.get_or_init(|| {
        let bytes = Box::leak(vec![CANARY; 3 * LEN].into_boxed_slice());
        let regions = Arc::new(Regions::new(4));
        let transport = MooncakeTcp::new("m", Settings::default(), regions.clone()).expect("defaults work");
        // SAFETY: the bytes live for ever, and are looked at only while no connection is open.
        let memory = unsafe { Memory::from_raw(bytes.as_mut_ptr().wrapping_add(LEN), LEN as u64) };
        let registration = transport.register(&memory, Access::ReadWrite).expect("memory of the host");
        registration.bind(regions.add(memory, Access::ReadWrite).expect("there is room"));
        registration.publish("memory");
        std::mem::forget(registration);
        let wakes = Wakes { post: Waker::none(), reap: Waker::none(), serve: Waker::none() };
        let half = transport.attach(NicId(0), PairId(0), wakes).expect("an epoll set is to be had");
        let (tell, told) = mpsc::sync_channel(1);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime is to be had").block_on(async {
                let foreign = transport.foreign().expect("it speaks another engine's protocol");
                foreign.bind("m").await.expect("a port is free");
                let name = foreign.own_name().expect("it is bound");
                let asking = async {
                    let of = HostPort::parse(&name).expect("a name of ours");
                    let ask = Ask { of: &of, max: 1 << 20, by: now() + 60_000_000_000 };
                    let own = Descriptor { name: "f".into(), tcp_data_port: 1, ..Descriptor::default() };
                    let found = ask.metadata(&own).await.expect("it answers");
                    tell.send(found.tcp_data_port).expect("somebody waits");
                    std::future::pending::<()>().await
                };
                tokio::select! { never = transport.tend() => match never {}, () = asking => {} }
            });
        });
        let port = told.recv().expect("the port is told");
        Mutex::new(Rig { half: half.serve.expect("it serves"), port, bytes })
    })
}

/// Sends it on a connection of its own, and reads what comes back to the end.
///
/// # Panics
/// When something is wrong with the product: that is what it is for.
pub fn run(data: &[u8]) {
    let mut rig = rig().lock().unwrap_or_else(|broken| broken.into_inner());
    let sent = match data.split_first() {
        Some((kind, program)) if kind % 2 == 1 => requests(program, rig.bytes.as_ptr() as u64 + LEN as u64),
        _ => data.to_vec(),
    };
    let mut peer = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], rig.port))).expect("it listens");
    let mut far = peer.try_clone().expect("a descriptor is to be had");
    peer.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit is set");
    let talking = std::thread::spawn(move || {
        // Who is hung up on can send no more.
        let _ = far.write_all(&sent).and_then(|()| far.shutdown(Shutdown::Write));
    });
    let (done, end) = mpsc::sync_channel(1);
    let reading = std::thread::spawn(move || {
        let mut answer = Vec::new();
        let ended = peer.read_to_end(&mut answer);
        let hung = matches!(&ended, Err(e) if e.kind() == std::io::ErrorKind::WouldBlock);
        let _ = done.send(hung);
    });
    let hung = loop {
        if rig.half.step(now(), 8).bytes == 0 {
            std::thread::yield_now();
        }
        match end.try_recv() {
            Ok(hung) => break hung,
            Err(mpsc::TryRecvError::Empty) => {}
            Err(mpsc::TryRecvError::Disconnected) => panic!("the reader died"),
        }
    };
    assert!(!hung, "a connection is ended when its peer has ended it");
    talking.join().expect("the sender ends");
    reading.join().expect("the reader ends");
    while rig.half.has_guests() {
        rig.half.step(now(), 8);
    }
    assert_eq!(rig.half.under_way(), 0);
    let (below, above) = (&rig.bytes[..LEN], &rig.bytes[2 * LEN..]);
    assert!(
        below.iter().chain(above).all(|byte| *byte == CANARY),
        "bytes outside of the region were touched"
    );
}

/// A program of requests near the region: five bytes each, and of a WRITE as much payload as it says, as far as it goes.
fn requests(mut program: &[u8], base: u64) -> Vec<u8> {
    let mut sent = Vec::new();
    while let Some((head, rest)) = program.split_first_chunk::<5>() {
        program = rest;
        let [kind, offset @ .., low, high] = *head;
        let offset = i16::from_le_bytes(offset);
        let size = u64::from(u16::from_le_bytes([low, high]));
        let op = if kind & 1 == 0 { Op::Read } else { Op::Write };
        let framing = if kind & 2 == 0 { Framing::V1 } else { Framing::V2 };
        let addr = base.wrapping_add_signed(i64::from(offset));
        sent.extend(Header { size, addr, op, framing }.encode());
        if op == Op::Write {
            let payload;
            (payload, program) = program.split_at(program.len().min(size as usize));
            sent.extend(payload);
        }
    }
    sent
}
