//! What may be done twice and must not: slices that were only late (B27), and memory of which only a part would be registered
//! (B04). And what a target knows of that.

use std::time::Duration;

use pipeline_node::{Access, Engine, Memory, Request, Source};

use crate::bed::{shipped, uses};
use crate::pair::Pair;
use crate::rig::{bytes_of, done, nothing_left, open, pattern, region_of};
use crate::wire::Wire;

/// B27: acknowledgements of one NIC are only late, and its slices are sent again by the other one. Each request is done
/// once, counters come back to nothing, and what is still on its way then never lands on newer bytes.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn late_is_not_twice() {
    let more = ["transports.rdma.ack_timeout='8ms'", "transports.rdma.retries=2"];
    let pair = Pair::with(&[0, 1], &[2, 3], 4, &more);
    let mut wire = Wire::of(0);
    pair.written_while(|| wire.delay(2000));
    // Newer bytes, while packets of the older ones are still in the delayed queue.
    let newer = pattern(77, 4 << 20);
    let from = region_of(&pair.client, &newer);
    let requests: Vec<Request> =
        (0..64).map(|i| Request::write(&from, i << 16, pair.kv.at(i << 16), 1 << 16)).collect();
    let batch = pair.submit(&requests);
    assert!(batch.wait(crate::pair::LONG).expect("an end").is_done());
    drop(batch);
    std::thread::sleep(Duration::from_millis(2500));
    wire.mend();
    let to = pair.client.allocate(4 << 20).unwrap();
    done(&pair.client, &[Request::read(&to, 0, pair.kv.at(0), 4 << 20)]);
    assert!(bytes_of(&to) == newer, "late bytes have landed on newer ones");
    for region in [from, to] {
        pair.client.unregister(region).map_err(|(_, e)| e).expect("a pin was left");
    }
    pair.written();
    pair.nothing_lost();
}

/// B04: a region of three times what a device registers at once, and one byte. It is published whole, and its middle and its
/// last byte are written and read where they are.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn a_region_beyond_the_limit() {
    let len = (3 << 20) + 1;
    let engine = |device: usize| {
        let small = vec!["transports.rdma.register_max='1MiB'".to_owned()];
        let source = Source::file(shipped("pipelines/rdma.toml")).set([uses(&[device]), small].concat());
        Engine::from_source(&source).unwrap_or_else(|e| panic!("{e}"))
    };
    let (client, target) = (engine(0), engine(1));
    let whole = target.register(Memory::allocate(len).unwrap(), Access::ReadWrite).unwrap();
    target.add_segment("kv").unwrap();
    target.publish("kv", &whole).unwrap();
    let kv = open(&client, &target).segment("kv").unwrap();
    assert_eq!(kv.len(), len);
    let mut expected = vec![0; len as usize];
    let bytes = pattern(4, len as usize);
    let from = region_of(&client, &bytes);
    for (at, many) in [(2 << 20, 64 << 10), (3 << 20, 1), ((1 << 20) - 100, 200)] {
        done(&client, &[Request::write(&from, at, kv.at(at), many)]);
        expected[at as usize..][..many as usize].copy_from_slice(&bytes[at as usize..][..many as usize]);
    }
    assert!(bytes_of(&whole) == expected);
    done(&client, &[Request::write(&from, 0, kv.at(0), len)]);
    assert!(bytes_of(&whole) == bytes);
    let to = client.allocate(len).unwrap();
    done(&client, &[Request::read(&to, 0, kv.at(0), len)]);
    assert!(bytes_of(&to) == bytes);
    nothing_left(&client, [from, to]);
}

/// What was written and read is counted where it was asked for; the target, whose CPU took no part, says that it does not know
/// rather than that it was nothing.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn a_target_knows_that_it_does_not_know() {
    let engine = |device: usize| {
        let source = Source::file(shipped("pipelines/rdma.toml")).set(uses(&[device]));
        Engine::from_source(&source).unwrap_or_else(|e| panic!("{e}"))
    };
    let (client, target) = (engine(0), engine(1));
    let whole = target.register(Memory::allocate(4096).unwrap(), Access::ReadWrite).unwrap();
    target.add_segment("kv").unwrap();
    target.publish("kv", &whole).unwrap();
    let kv = open(&client, &target).segment("kv").unwrap();
    let region = client.allocate(4096).unwrap();
    done(&client, &[Request::write(&region, 0, kv.at(0), 4096)]);
    done(&client, &[Request::read(&region, 0, kv.at(0), 4096)]);
    let (asked, served) = (client.observe().nics.remove(0), target.observe().nics.remove(0));
    assert_eq!((asked.bytes_written, asked.bytes_read), (4096, 4096));
    assert_eq!((served.served_bytes_in, served.served_bytes_out, served.bytes), (None, None, 0));
}
