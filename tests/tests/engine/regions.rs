//! Registration: what is refused, and that a refusal leaves nothing behind (B01).

use pipeline_node::{Access, Memory, Request};

use crate::rig::{bytes_of, carry_out, done, engine, nothing_left, open, pattern, reasons, region_of};

/// B01: an empty region is refused at once, naming the length; nothing is published for it, and what is registered
/// beside it works.
#[test]
fn an_empty_region_is_refused() {
    let (target, client) = (engine(&[]), engine(&[]));
    target.add_segment("kv").unwrap();
    let error = target.allocate(0).unwrap_err().to_string();
    assert!(error.contains('0'), "{error}");
    let place = Box::leak(Box::new([0_u8; 64]));
    // SAFETY: the bytes live for ever and nobody else uses them.
    let empty = unsafe { Memory::from_raw(place.as_mut_ptr(), 0) };
    let error = target.register(empty, Access::ReadWrite).unwrap_err().to_string();
    assert!(error.contains('0'), "{error}");

    let good = target.register(Memory::allocate(1 << 20).unwrap(), Access::ReadWrite).unwrap();
    assert_eq!(target.publish("kv", &good).unwrap(), 0);
    let kv = open(&client, &target).segment("kv").unwrap();
    assert_eq!(kv.len(), 1 << 20, "nothing is published for the empty one");
    let bytes = pattern(1, 4096);
    let region = region_of(&client, &bytes);
    done(&client, &[Request::write(&region, 0, kv.at(0), 4096)]);
    assert_eq!(bytes_of(&good)[..4096], bytes);
    nothing_left(&client, [region]);
}

/// A region that overlaps another is refused and nothing of it stays: the same bytes can be registered once the other
/// is gone.
#[test]
fn overlaps_are_refused_and_leave_nothing() {
    let node = engine(&[]);
    let place = Box::leak(vec![0_u8; 3 << 16].into_boxed_slice());
    // SAFETY: the bytes live for ever and nobody else uses them.
    let part = |from: usize, len| unsafe { Memory::from_raw(place.as_ptr().cast_mut().add(from), len) };
    let first = node.register(part(0, 2 << 16), Access::Local).unwrap();
    for (from, len) in [(0, 1), (1 << 16, 2 << 16), ((2 << 16) - 1, 1), (0, 3 << 16)] {
        assert!(node.register(part(from, len), Access::Local).is_err(), "{from} {len}");
    }
    let touching = node.register(part(2 << 16, 1 << 16), Access::Local).unwrap();
    node.unregister(first).map_err(|(_, e)| e).unwrap();
    let again = node.register(part(0, 1 << 17), Access::Local).unwrap();
    nothing_left(&node, [touching, again]);
}

/// What a peer may do with a segment is what its file says: the other direction is refused as `Denied`, before
/// anything is sent.
#[test]
fn access_is_one_way() {
    let target = engine(&[
        "segments.inbox={ kind='dram', size='64KiB', access='write' }",
        "segments.outbox={ kind='dram', size='64KiB', access='read' }",
    ]);
    let client = engine(&[]);
    let peer = open(&client, &target);
    let (inbox, outbox) = (peer.segment("inbox").unwrap(), peer.segment("outbox").unwrap());
    let region = client.allocate(4096).unwrap();
    let requests = [
        Request::write(&region, 0, inbox.at(0), 100),
        Request::read(&region, 0, inbox.at(0), 100),
        Request::write(&region, 0, outbox.at(0), 100),
        Request::read(&region, 0, outbox.at(0), 100),
    ];
    let (summary, batch) = carry_out(&client, &requests);
    assert_eq!((summary.failed, summary.bytes), (2, 200));
    let denied = Some(pipeline_node::Reason::Denied);
    assert_eq!(reasons(&batch), [None, denied, denied, None]);
    drop(batch);
    nothing_left(&client, [region]);
}

/// B25, second half: a write to remote memory that its owner has unregistered fails and says what to do; its neighbours
/// in the batch are done.
#[test]
fn remote_memory_that_is_gone() {
    let (target, client) = (engine(&[]), engine(&[]));
    target.add_segment("kv").unwrap();
    let mut regions =
        [4096, 4096].map(|len| target.register(Memory::allocate(len).unwrap(), Access::ReadWrite).unwrap());
    regions.iter().for_each(|r| _ = target.publish("kv", r).unwrap());
    let kv = open(&client, &target).segment("kv").unwrap();
    let local = client.allocate(8192).unwrap();
    let [first, second] = [0, 4096].map(|at| Request::write(&local, 0, kv.at(at), 4096));
    done(&client, &[first, second]);
    let spare = target.register(Memory::allocate(1).unwrap(), Access::Local).unwrap();
    let gone = std::mem::replace(&mut regions[1], spare);
    let memory = target.unregister(gone).map_err(|(_, e)| e).unwrap();
    let (summary, batch) = carry_out(&client, &[first, second, Request::read(&local, 4096, kv.at(4096), 1)]);
    assert_eq!((summary.failed, summary.bytes), (2, 4096));
    let failures: Vec<_> = batch.results().map(|status| format!("{status:?}")).collect();
    assert!(
        failures[1..].iter().all(|f| f.contains("UnknownRegion") || f.contains("UnknownSegment")),
        "{failures:?}"
    );
    drop((batch, memory));
    nothing_left(&client, [local]);
}
