//! Memory that its owner takes back while a peer writes into it.

use std::time::Duration;

use pipeline_node::{Access, Memory, Reason, Request, Status};

use crate::rig::{PATIENCE, engine, nothing_left, open, reasons, until};

const MIB: u64 = 1 << 20;

/// B07: a region is unregistered while a peer streams 256 MiB into it. That is busy or waits until no access is active;
/// after it has succeeded not a byte of the memory changes, and the peer's batch has failed, not done.
#[test]
fn taken_back_under_a_stream() {
    let (target, client) = (engine(&[]), engine(&["limits.bytes_in_flight='2MiB'"]));
    target.add_segment("kv").unwrap();
    let region = target.register(Memory::allocate(256 * MIB).unwrap(), Access::ReadWrite).unwrap();
    target.publish("kv", &region).unwrap();
    let kv = open(&client, &target).segment("kv").unwrap();
    let from = client.allocate(MIB).unwrap();
    let stream: Vec<_> = (0..256).map(|i| Request::write(&from, 0, kv.at(i * MIB), MIB)).collect();
    let batch = client.submit(&stream, Default::default()).unwrap();
    until("a tenth is there", || batch.results().filter(|s| *s == Status::Done).count() >= 25);
    let mut memory =
        target.unregister_within(region, PATIENCE).map_err(|(_, e)| e).expect("accesses come to an end");
    memory.write(0, &vec![0xA5; 256 << 20]).unwrap();
    batch.wait(PATIENCE).expect("an end");
    let mut there = vec![0; 256 << 20];
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(20));
        memory.read(0, &mut there).unwrap();
        assert!(there.iter().all(|b| *b == 0xA5), "a byte changed after the memory was taken back");
    }
    let whys = reasons(&batch);
    let refused = |why: &Reason| matches!(why, Reason::Transport(_) | Reason::UnknownSegment);
    assert!(whys.iter().flatten().count() > 0, "it was done before it was taken back");
    assert!(whys.iter().flatten().all(refused), "{whys:?}");
    drop(batch);
    nothing_left(&client, [from]);
}
