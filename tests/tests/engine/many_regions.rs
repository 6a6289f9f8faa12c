//! 20 000 regions in one segment (the native half of B40).

use pipeline_node::{Access, Memory, Request};

use crate::rig::{bytes_of, done, engine, nothing_left, open, pattern, region_of};

/// B40: 20 000 regions of 4 KiB are opened over pages, and region 19 999 is read and written; so is a run across
/// many of them.
#[test]
fn twenty_thousand_regions() {
    const COUNT: u64 = 20_000;
    const SIZE: u64 = 4096;
    let (target, client) = (engine(&[]), engine(&[]));
    target.add_segment("kv").unwrap();
    let place = Memory::allocate(COUNT * SIZE).unwrap();
    let mut regions = Vec::new();
    for i in 0..COUNT {
        // SAFETY: `place` outlives both engines' use of it, and only through these regions.
        let memory = unsafe { Memory::from_raw(place.ptr().add((i * SIZE) as usize), SIZE) };
        let region = target.register(memory, Access::ReadWrite).unwrap();
        assert_eq!(target.publish("kv", &region).unwrap(), i * SIZE);
        regions.push(region);
    }
    let last = pattern(4, SIZE as usize);
    regions.last().unwrap().write(0, &last).unwrap();

    let kv = open(&client, &target).segment("kv").unwrap();
    assert_eq!(kv.len(), COUNT * SIZE);
    let to = client.allocate(SIZE).unwrap();
    done(&client, &[Request::read(&to, 0, kv.at((COUNT - 1) * SIZE), SIZE)]);
    assert_eq!(bytes_of(&to), last);
    // 1000 regions in one request, from the middle of one to the middle of another.
    let run = pattern(5, 1000 * SIZE as usize);
    let from = region_of(&client, &run);
    done(&client, &[Request::write(&from, 0, kv.at(7777 * SIZE + 100), 1000 * SIZE)]);
    let stored: Vec<u8> = regions[7777..=8777].iter().flat_map(bytes_of).collect();
    assert!(stored[100..100 + run.len()] == run[..], "a run across 1001 regions");
    nothing_left(&client, [from, to]);
    drop(client);
    drop(regions);
    target.stop();
    drop(place);
}
