//! Finding peers: at their handshake port, and in a directory.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use pipeline_transports::foreign::{Foreign, ForeignNotice, Found};
use pipeline_transports::mooncake::{MooncakeTcp, Settings};
use pipeline_transports::{Error, Regions, Transport};

use crate::rig::{runtime, soon};

/// A handshake port that gives each of `answers` once, and records what it was asked.
fn port(answers: Vec<Vec<u8>>) -> (SocketAddr, std::thread::JoinHandle<Vec<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let serving = move || {
        let serve = |answer: Vec<u8>| {
            let mut stream = listener.accept().unwrap().0;
            let asked = message(&mut stream);
            // Whoever has read enough may have hung up.
            let _ = stream.write_all(&answer);
            asked
        };
        answers.into_iter().map(serve).collect()
    };
    (at, std::thread::spawn(serving))
}

/// A message without its length.
fn message(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 8];
    stream.read_exact(&mut length).unwrap();
    let mut rest = vec![0; u64::from_le_bytes(length) as usize];
    stream.read_exact(&mut rest).unwrap();
    rest
}

fn framed(kind: u8, body: &str) -> Vec<u8> {
    let length = (body.len() as u64 + 1).to_le_bytes();
    [&length[..], &[kind], body.as_bytes()].concat()
}

fn transport() -> MooncakeTcp {
    MooncakeTcp::new("mooncake", Settings::default(), Arc::new(Regions::new(4))).unwrap()
}

fn find(transport: &MooncakeTcp, at: SocketAddr) -> Result<Found, Error> {
    runtime().block_on(transport.find(&at.to_string(), soon()))
}

/// The descriptor of a peer becomes a view of it: its memory by address, each of its buffers, where its data port is, and
/// the version it understands. What it is asked with is of its own kind.
#[test]
fn a_peer_tells_itself() {
    let old = r#"{"name":"old","protocol":"tcp","tcp_data_port":4711,"buffers":[{"name":"x","addr":8192,"length":10}]}"#;
    let new = r#"{"buffers":[{"addr":8192,"length":10,"name":"n"},{"addr":4096,"length":20,"name":"n"}],"name":"new",
        "protocol":"tcp","rdma_server_name":"","tcp_data_host":"127.0.0.2","tcp_data_port":4712,"tcp_proto_version":2}"#;
    let (at, asked) = port(vec![framed(1, old), framed(1, new)]);
    let transport = transport();
    let (old, new) = (find(&transport, at).unwrap(), find(&transport, at).unwrap());
    assert_eq!((old.name.as_str(), &old.addresses[..]), ("old", &["127.0.0.1:4711".parse().unwrap()][..]));
    assert_eq!((new.name.as_str(), &new.addresses[..]), ("new", &["127.0.0.2:4712".parse().unwrap()][..]));
    assert_eq!((&old.offer.body[..], &new.offer.body[..]), (&[1][..], &[2][..]));
    assert!(old.incarnation != new.incarnation && old.incarnation != 0);
    let names: Vec<&str> = new.segments.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["memory", "buffer-0", "buffer-1"]);
    assert_eq!(new.segments[0].regions.iter().map(|r| r.start).collect::<Vec<_>>(), [4096, 8192]);
    assert_eq!(new.segments[0].regions[1].id, new.segments[1].regions[0].id);
    for question in asked.join().unwrap() {
        assert!(question[0] == 1 && question[1] == b'{');
    }
}

/// Twenty thousand buffers are found, learnt and named, the last as the first; asked again they have the same names.
#[test]
fn twenty_thousand_buffers() {
    let buffers: Vec<String> = (0..20_000u64)
        .map(|i| {
            format!(r#"{{"addr":{},"length":4096,"name":"127.0.0.1:16772"}}"#, 140_000_000_000_000 + i * 8192)
        })
        .collect();
    let text = format!(
        r#"{{"buffers":[{}],"name":"many","protocol":"tcp","tcp_data_port":4711,"tcp_proto_version":2}}"#,
        buffers.join(",")
    );
    assert!(text.len() > 1 << 20);
    let (at, _asked) = port(vec![framed(1, &text), framed(1, &text)]);
    let transport = transport();
    let found = find(&transport, at).unwrap();
    assert_eq!((found.segments.len(), found.segments[0].regions.len()), (20_001, 20_000));
    for region in &found.segments[0].regions {
        transport.learn(found.incarnation, region.id, region.len, &region.keys).unwrap();
    }
    let again = find(&transport, at).unwrap();
    assert_eq!((again.incarnation, &again.segments), (found.incarnation, &found.segments));
}

/// A peer that announces two gigabytes is refused at once, and nothing is set aside for them.
#[test]
fn an_announcement_is_no_allocation() {
    let mut answer = framed(1, "{");
    answer[..8].copy_from_slice(&(2u64 << 30).to_le_bytes());
    let (at, _asked) = port(vec![answer]);
    let start = Instant::now();
    let error = find(&transport(), at).unwrap_err();
    assert!(matches!(&error, Error::Protocol { .. }), "{error}");
    assert!(error.to_string().contains("2147483648"), "{error}");
    assert!(start.elapsed().as_secs() < 2);
}

/// What is no descriptor, or one that cannot be used, is an error that says what is wrong with which peer.
#[test]
fn useless_descriptors() {
    let of = |rest: &str| format!(r#"{{"name":"n","tcp_data_port":1,{rest}}}"#);
    let overlapping = of(
        r#""protocol":"tcp","buffers":[{"name":"x","addr":4096,"length":10},{"name":"x","addr":4100,"length":1}]"#,
    );
    for (text, why) in [
        ("null\n", "directory"),
        ("[]", "cannot be read"),
        (r#"{"name":"n","protocol":"tcp","buffers":[]}"#, "tcp_data_port"),
        (&of(r#""protocol":"rdma""#), "rdma"),
        (&of(r#""protocol":"tcp","buffers":[{"name":"x","addr":0,"length":1}]"#), "no address"),
        (&overlapping, "overlap"),
    ] {
        let (at, _asked) = port(vec![framed(1, text)]);
        let error = find(&transport(), at).unwrap_err();
        assert!(matches!(error, Error::Protocol { .. }), "{text}: {error}");
        assert!(
            error.to_string().contains(why) && error.to_string().contains("127.0.0.1"),
            "{text}: {error}"
        );
    }
}

/// Nobody there, a name that is no address, a host that nobody knows, and a peer that is silent are different errors, the
/// last in the time that was given.
#[test]
fn not_found() {
    let transport = transport();
    let find = |name: &str, by| runtime().block_on(transport.find(name, by)).unwrap_err();
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(matches!(find(&dead.to_string(), soon()), Error::Unreachable { .. }));
    assert!(matches!(find("a/b", soon()), Error::BadArgument(_)));
    assert!(matches!(find("no-such-host.invalid:1", soon()), Error::Unreachable { .. }));
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let start = Instant::now();
    let by = pipeline_transports::clock::now() + 200_000_000;
    assert!(matches!(find(&silent.local_addr().unwrap().to_string(), by), Error::Deadline { .. }));
    assert!(start.elapsed().as_secs() < 3);
}

/// A probe asks the process, which lives too when it does not know the question; a notice is two texts that the peer must take, and bytes that are no text are not sent.
#[test]
fn probe_and_notify() {
    let (at, asked) = port(vec![
        framed(3, "{\"status\":\"success\"}\n"),
        Vec::new(),
        framed(2, "{\"name\":\"\",\"notify_msg\":\"success\"}\n"),
        framed(2, "{\"name\":\"\",\"notify_msg\":\"\"}\n"),
    ]);
    let (transport, name) = (transport(), at.to_string());
    let notice = ForeignNotice { name: "me".into(), body: "ready \u{fc}".into() };
    let run = runtime();
    run.block_on(transport.probe(&name, soon())).unwrap();
    // As 0.3.10 does.
    run.block_on(transport.probe(&name, soon())).unwrap();
    run.block_on(transport.notify(&name, &notice, soon())).unwrap();
    assert!(matches!(run.block_on(transport.notify(&name, &notice, soon())), Err(Error::Refused { .. })));
    let bytes = ForeignNotice { body: vec![b'a', 0xff], ..notice };
    let error = run.block_on(transport.notify(&name, &bytes, soon())).unwrap_err();
    assert!(matches!(error, Error::BadArgument(_)) && error.to_string().contains("byte 1"), "{error}");
    let asked = asked.join().unwrap();
    assert_eq!(asked[0], b"\x03{}\n");
    assert_eq!(asked[2], "\x02{\"name\":\"me\",\"notify_msg\":\"ready \u{fc}\"}\n".as_bytes());
}
