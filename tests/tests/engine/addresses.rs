//! How peers may be written: IPv6 in brackets, and `:7001`, which is refused with help (B22).

use pipeline_node::{Error, Request};

use crate::rig::{bytes_of, done, engine, nothing_left, open, pattern, region_of};

/// B22: a transfer over `[::1]` is done, byte for byte.
#[test]
fn ipv6_in_brackets() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("skipped: this machine has no IPv6 loopback");
        return;
    }
    let target =
        engine(&["node.listen='[::1]:0'", "segments.kv={ kind='dram', size='1MiB', access='read_write' }"]);
    let client = engine(&["node.listen='[::1]:0'"]);
    let address = target.local_address().to_string();
    assert!(address.starts_with("[::1]:"), "{address}");
    let kv = open(&client, &target).segment("kv").unwrap();
    let bytes = pattern(3, 1 << 20);
    let (from, to) = (region_of(&client, &bytes), client.allocate(1 << 20).unwrap());
    done(&client, &[Request::write(&from, 0, kv.at(0), 1 << 20)]);
    done(&client, &[Request::read(&to, 0, kv.at(0), 1 << 20)]);
    assert_eq!(bytes_of(&to), bytes);
    nothing_left(&client, [from, to]);
}

/// B22: an address without host, and other half addresses, are refused at once with what to write instead.
#[test]
fn half_addresses_are_refused_with_help() {
    let client = engine(&[]);
    for wrong in [":7001", "", "::1:x:7001", "[::1", "host:99999", "a b:1", "host:0"] {
        let error = client.open(wrong).expect_err(wrong);
        assert!(matches!(error, Error::Control(_)), "{wrong}: {error:?}");
        let text = error.to_string();
        assert!(text.len() > 20 && !error.is_peer(), "`{wrong}` is the caller's mistake: {text}");
    }
    let text = client.open(":7001").unwrap_err().to_string();
    assert!(
        text.contains("127.0.0.1:7001") || text.contains("host:port") || text.contains("HOST:PORT"),
        "no help: {text}"
    );
}
