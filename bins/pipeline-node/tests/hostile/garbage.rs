//! Thousands of connections that make no sense, some of them very slowly.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use pipeline_node::Request;

use crate::node::Node;
use crate::process::{descriptors, resident, sockets, sockets_at_rest};
use crate::rig::{done, engine, pattern, until};
use crate::wire::{lane, preamble, session};

/// Five thousand connections with random bytes, cut preambles and immediate resets, while a client transfers: the node
/// stays up, the client never notices, and afterwards there are no more descriptors and no more memory than before.
#[test]
fn thousands_of_strangers() {
    let node = Node::target("1MiB", &[]);
    let pid = node.child.id();
    let client = engine(&[]);
    let kv = client.open(&node.address).unwrap().segment("kv").unwrap();
    let region = client.allocate(1 << 20).unwrap();
    let transfer = || done(&client, &[Request::write(&region, 0, kv.at(0), 1 << 20)]);
    let storm = |n: u64| {
        for i in 0..n {
            let Ok(mut stream) = TcpStream::connect(&node.address) else { continue };
            let random = pattern(i, (i % 900) as usize);
            let honest = preamble(1 + (i % 2) as u8, [i as u8; 16], "tcp", &random);
            let bytes = match i % 4 {
                0 => &random[..],
                1 => &honest[..honest.len() * (i as usize % 7) / 7],
                2 => &honest[..],
                _ => &[],
            };
            // It may have been closed already.
            let _ = stream.write_all(bytes);
            if i % 500 == 0 {
                transfer();
            }
        }
    };
    storm(1000);
    transfer();
    until("the first ones are gone", || descriptors(pid) < 60);
    let (fds, memory) = (descriptors(pid), resident(pid));
    storm(4000);
    transfer();
    until("no more descriptors", || descriptors(pid) <= fds);
    let grown = resident(pid).saturating_sub(memory);
    assert!(grown < 8 << 20, "{grown} bytes more");
}

/// Hundreds of connections that say nothing, or a byte now and then: an honest client opens within the time that it is
/// given, and the silent ones are shown out.
#[test]
fn slow_loris() {
    let node = Node::target("1MiB", &[]);
    let mut slow: Vec<TcpStream> = (0..400).map(|_| TcpStream::connect(&node.address).unwrap()).collect();
    let opening = preamble(1, [0; 16], "", &[0; 100]);
    slow.iter_mut().step_by(2).for_each(|s| _ = s.write(&opening[..3]));
    let client = engine(&[]);
    let begin = Instant::now();
    client.open(&node.address).unwrap();
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
    until("shown out", || descriptors(node.child.id()) < 60);
}

/// Sessions and lanes that are opened properly and then left alone or dropped are not kept beyond the session: no
/// descriptor stays.
#[test]
fn abandoned_sessions_leave_nothing() {
    let node = Node::target("1MiB", &[]);
    let pid = node.child.id();
    let idle = sockets_at_rest(pid);
    let abandon = |times| {
        for _ in 0..times {
            let (control, id) = session(&node.address);
            let lanes: Vec<_> = (0..4).map(|_| lane(&node.address, id)).collect();
            drop(control);
            // Their session has gone; they are closed from the other side.
            drop(lanes);
        }
    };
    abandon(4);
    until("only the listener is a socket", || sockets(pid) <= idle);
    let base = descriptors(pid);
    abandon(100);
    until("no socket stays", || sockets(pid) <= idle);
    // A worker makes what it sleeps on, two descriptors, when it first sleeps: no more than its four workers can.
    assert!(descriptors(pid) <= base + 8, "{base} before, {} now", descriptors(pid));
}
