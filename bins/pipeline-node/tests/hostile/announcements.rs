//! Lengths that are announced and not sent (B40): nothing is allocated by a number from the wire.

use std::io::Write;

use crate::node::Node;
use crate::process::resident;
use crate::rig::{engine, until};
use crate::wire::{control_hello, is_closed, preamble, session, step};

/// B40: messages announced with 2 GiB end their session without being read or allocated; a hundred of them leave the
/// node as it was.
#[test]
fn two_gigabytes_are_not_believed() {
    let node = Node::target("1MiB", &[]);
    let pid = node.child.id();
    let (first, _) = session(&node.address);
    let before = resident(pid);
    for length in [1_u32 << 31, u32::MAX, 262_145] {
        for kind in [5_u16, 6, 32, 4711] {
            let (mut control, _) = session(&node.address);
            let mut head = kind.to_le_bytes().to_vec();
            head.extend(0_u16.to_le_bytes());
            head.extend(1_u32.to_le_bytes());
            head.extend(length.to_le_bytes());
            head.extend([0; 1000]);
            control.write_all(&head).unwrap();
            assert!(is_closed(&mut control), "{kind} {length}");
        }
    }
    let grown = resident(pid).saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes more");
    drop(first);
    engine(&[]).open(&node.address).unwrap();
}

/// A peer that answers the opener with a page announced as 2 GiB is refused by the opener, too, without being
/// believed.
#[test]
fn an_opener_does_not_believe_it_either() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let liar = std::thread::spawn(move || {
        use std::io::Read;
        let (mut stream, _) = listener.accept().unwrap();
        let mut opening = [0; 28 + 69];
        stream.read_exact(&mut opening[..28]).unwrap();
        let len = u16::from_le_bytes([opening[26], opening[27]]) as usize;
        stream.read_exact(&mut vec![0; len]).unwrap();
        let head = |number: u8, body: &[u8]| {
            let mut b = vec![0x89, 0x50, 0x4c, 0x4e, 2, 0, number, 0];
            b.extend((body.len() as u32).to_le_bytes());
            b.extend(body);
            b
        };
        stream.write_all(&head(1, &control_hello(false))).unwrap();
        stream.write_all(&head(4, &[5; 48])).unwrap();
        stream.read_exact(&mut [0; 12]).unwrap();
        let mut answer = vec![4, 0, 1, 0, 1, 0, 0, 0];
        answer.extend((1_u32 << 31).to_le_bytes());
        stream.write_all(&answer).unwrap();
        is_closed(&mut stream)
    });
    let client = engine(&[]);
    let before = resident(std::process::id());
    let error = client.open(&address).unwrap_err();
    assert!(error.is_peer(), "{error:?}");
    assert!(resident(std::process::id()).saturating_sub(before) < 256 << 20);
    drop(client);
    assert!(liar.join().unwrap());
}

/// Preambles with lengths beyond their bounds, or of an unknown kind, and hellos of nonsense: closed or refused, never
/// left open.
#[test]
fn impossible_preambles() {
    let node = Node::target("1MiB", &[]);
    let good = preamble(1, [0; 16], "", &control_hello(false));
    let with = |at: usize, bytes: &[u8]| {
        let mut b = good.clone();
        b[at..at + bytes.len()].copy_from_slice(bytes);
        b
    };
    let cases = [
        with(0, b"HTTP"),
        with(6, &[3]),
        with(24, &65_u16.to_le_bytes()),
        with(26, &1025_u16.to_le_bytes()),
        with(26, &u16::MAX.to_le_bytes()),
        preamble(1, [0; 16], "", &[]),
        preamble(1, [0; 16], "", &[0xFF; 100]),
        preamble(1, [0; 16], "", &[0; 1024]),
        preamble(2, [7; 16], "tcp", &crate::wire::lane_hello()),
        preamble(2, [0; 16], "", &[]),
        preamble(2, [0; 16], "\u{1F4A3}", &[1; 1024]),
    ];
    for (i, bytes) in cases.iter().enumerate() {
        let mut stream = crate::wire::connect(&node.address);
        stream.write_all(bytes).unwrap();
        // It may be told why before.
        assert!(is_closed(&mut stream), "case {i}");
    }
    // Another version is told so, with the version that is spoken here.
    let mut stream = crate::wire::connect(&node.address);
    stream.write_all(&with(4, &9_u16.to_le_bytes())).unwrap();
    let (number, code) = step(&mut stream);
    assert_eq!((number, code), (2, vec![1, 0]));
    until("honest ones are served", || engine(&[]).open(&node.address).is_ok());
}
