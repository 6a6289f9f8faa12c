//! Two nodes, each of which reads and writes the other: by Mooncake's protocol, and by their own beside it.

use std::time::Duration;

use pipeline_node::{
    Access, Error, ListenError, Memory, Notice, NoticeFault, Options, PeerState, Reason, Request, Status,
};
use pipeline_transports::Refusal;

use crate::rig::{PATIENCE, bytes_of, carry_out, done, nothing_left, open, pattern, reasons, region_of};
use crate::{find, name, node};

const KIB: u64 = 1 << 10;

/// Every byte arrives, both ways, of one byte and of many, to the same places by buffer and by address; by version 2 of the
/// protocol and by version 1.
#[test]
fn both_roles() {
    for version in ["auto", "v1"] {
        let of_version = format!("transports.mooncake.protocol='{version}'");
        let (one, other) = (node(&[&of_version]), node(&[]));
        for (from, to) in [(&one, &other), (&other, &one)] {
            let peer = find(from, to);
            assert_eq!((peer.state(), peer.is_foreign()), (PeerState::Up, true));
            let (memory, buffer) = (peer.segment("memory").unwrap(), peer.segment("buffer-0").unwrap());
            let first = memory.len() - buffer.len();
            for len in [1, 4 * KIB, 64 * KIB + 1, 3 << 20] {
                let bytes = pattern(len, len as usize);
                let (local, into) = (region_of(from, &bytes), from.allocate(len).unwrap());
                done(from, &[Request::write(&local, 0, memory.at(first + 777), len)]);
                done(from, &[Request::read(&into, 0, buffer.at(777), len)]);
                assert!(bytes_of(&into) == bytes, "{version}: {len} bytes");
                nothing_left(from, [local, into]);
            }
            // Many small ones in one batch, of which each has its own bytes.
            let bytes = pattern(5, 1 << 20);
            let (local, into) = (region_of(from, &bytes), from.allocate(1 << 20).unwrap());
            let each = |i: u64| (i * 4 * KIB, (255 - i) * 4 * KIB);
            let writes: Vec<_> =
                (0..256).map(each).map(|(h, t)| Request::write(&local, h, buffer.at(t), 4 * KIB)).collect();
            let reads: Vec<_> =
                (0..256).map(each).map(|(h, t)| Request::read(&into, h, buffer.at(t), 4 * KIB)).collect();
            done(from, &writes);
            done(from, &reads);
            assert!(bytes_of(&into) == bytes, "{version}: in a batch");
            nothing_left(from, [local, into]);
        }
    }
}

/// One node is reached both ways at once, and what was written one way is read the other.
#[test]
fn native_and_mooncake_at_once() {
    let (client, server) = (node(&[]), node(&[]));
    let (native, foreign) = (open(&client, &server), find(&client, &server));
    assert_ne!(native.incarnation(), foreign.incarnation());
    assert!(client.explain(&native).offers.iter().all(|(_, kind)| kind == "tcp"));
    let explained = client.explain(&foreign);
    let said = explained.foreign.expect("it runs another engine, as far as anybody can tell");
    assert!(said.transport == "mooncake" && said.protocol.contains("version 2"), "{said:?}");
    let (kv, buffer) = (native.segment("kv").unwrap(), foreign.segment("buffer-0").unwrap());
    let bytes = pattern(9, 2 << 20);
    let (from, into) = (region_of(&client, &bytes), client.allocate(2 << 20).unwrap());
    let at = |i: u64| i * 64 * KIB;
    let write =
        |i| Request::write(&from, at(i), if i % 2 == 0 { kv.at(at(i)) } else { buffer.at(at(i)) }, 64 * KIB);
    let read =
        |i| Request::read(&into, at(i), if i % 2 == 1 { kv.at(at(i)) } else { buffer.at(at(i)) }, 64 * KIB);
    done(&client, &(0..32).map(write).collect::<Vec<_>>());
    done(&client, &(0..32).map(read).collect::<Vec<_>>());
    assert!(bytes_of(&into) == bytes);
    nothing_left(&client, [from, into]);
}

/// The protocol knows no rights, the node does: what its file does not allow is refused there, and the next request is done.
#[test]
fn rights_are_the_targets() {
    let (client, server) = (node(&[]), node(&["segments.kv.access='read'"]));
    let buffer = find(&client, &server).segment("buffer-0").unwrap();
    assert_eq!(buffer.access(), Some(Access::ReadWrite), "nobody has said otherwise");
    let local = region_of(&client, &[7; 4096]);
    let (_, refused) = carry_out(&client, &[Request::write(&local, 0, buffer.at(0), 4096)]);
    let reasons = reasons(&refused);
    let is_refusal = |reason: &Option<Reason>| {
        // The wire has one word for all refusals.
        *reason == Some(Reason::Transport(pipeline_stages::reason::Transport::Refused(Refusal::Unsaid)))
    };
    assert!(reasons.iter().all(is_refusal), "{reasons:?}");
    done(&client, &[Request::read(&local, 0, buffer.at(0), 4096)]);
    assert_eq!(bytes_of(&local), [0; 4096], "nothing was written");
    drop(refused);
    nothing_left(&client, [local]);
}

/// What is published later is found by whoever looks again, and what is taken back is gone.
#[test]
fn looked_at_again() {
    let (client, server) = (node(&[]), node(&[]));
    let peer = find(&client, &server);
    let region = server.register(Memory::allocate(8192).unwrap(), Access::ReadWrite).unwrap();
    // Nobody is told of memory that is in no segment.
    assert_eq!(peer.refresh(PATIENCE).unwrap().segments().count(), 2);
    server.publish("kv", &region).unwrap();
    let peer = peer.refresh(PATIENCE).unwrap();
    let later = peer.segment("buffer-1").unwrap();
    assert_eq!(later.len(), 8192);
    let local = region_of(&client, &pattern(3, 8192));
    done(&client, &[Request::write(&local, 0, later.at(0), 8192)]);
    let mut bytes = vec![0; 8192];
    region.read_shared(0, &mut bytes).unwrap();
    assert!(bytes == pattern(3, 8192));
    server.unregister_within(region, PATIENCE).map_err(|(_, e)| e).unwrap();
    let (_, gone) = carry_out(&client, &[Request::write(&local, 0, later.at(0), 8192)]);
    assert!(reasons(&gone)[0].is_some());
    let peer = peer.refresh(PATIENCE).unwrap();
    assert!(peer.segment("buffer-1").is_err() && peer.segment("buffer-0").is_ok());
    drop(gone);
    nothing_left(&client, [local]);
}

/// Notices go both ways, after the data, with the sender's name and the text alone; what is no text, what nobody hears, and
/// what comes of a batch with failures is not sent, and says why.
#[test]
fn notices() {
    let (one, other) = (node(&["node.name='one'"]), node(&["node.name='other'"]));
    for (from, to) in [(&one, &other), (&other, &one)] {
        let buffer = find(from, to).segment("buffer-0").unwrap();
        let local = region_of(from, &pattern(4, 4096));
        let write = Request::write(&local, 0, buffer.at(0), 4096);
        let noticed = |requests: &[Request], body: &[u8]| {
            let options = Options { notice: Some(body.into()), ..Options::default() };
            let batch = from.submit(requests, options).unwrap();
            batch.wait(PATIENCE).unwrap();
            match batch.notice().unwrap() {
                Status::Failed(failure) => Some(failure.reason),
                _ => None,
            }
        };
        let fault = |fault| Some(Reason::Notice(fault));
        assert_eq!(noticed(&[write], b"unheard"), fault(NoticeFault::Unheard));
        let heard = to.notices();
        assert_eq!(noticed(&[write], "Blöcke 3–7".as_bytes()), None);
        let Notice { peer, incarnation, body, .. } = heard.next(PATIENCE).unwrap();
        assert_eq!((&*peer, incarnation, &*body), (from.name(), 0, "Blöcke 3–7".as_bytes()));
        assert_eq!(noticed(&[write], &[0xc3, 0x28]), fault(NoticeFault::Unfit));
        let beyond = Request::write(&local, 0, buffer.at(4 << 20), 4096);
        assert_eq!(noticed(&[write, beyond], b"half"), fault(NoticeFault::Withheld));
        assert_eq!(heard.next(Duration::from_millis(20)), Err(ListenError::Timeout));
        nothing_left(from, [local]);
    }
}

/// What a Mooncake peer does not have is refused by name; a port where nobody listens, and one that speaks something else,
/// are typed errors that name it.
#[test]
fn what_there_is_not() {
    let (client, server) = (node(&[]), node(&[]));
    let peer = find(&client, &server);
    for error in [peer.cpu_ns().unwrap_err(), peer.fence(PATIENCE).unwrap_err()] {
        assert!(error.to_string().contains("runs another engine: it has no"), "{error}");
    }
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let native = server.local_address();
    for at in [nobody, native] {
        let error = client.open_within(&format!("mooncake://{at}"), PATIENCE).unwrap_err();
        assert!(matches!(error, Error::Control(_)) && error.to_string().contains(&at.to_string()), "{error}");
    }
    let own = name(&server);
    assert!(own.starts_with("mooncake://127.0.0.1:"), "loopback unless the file says otherwise: {own}");
}
