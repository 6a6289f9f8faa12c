//! Requests across the seams of regions, and batches of which a part is wrong (B02, and the local half of B05).

use pipeline_node::{Access, Memory, Options, Reason, Request, SubmitError};

use crate::rig::{
    bytes_of, carry_out, done, engine, nothing_left, open, pattern, reasons, region_of, target,
};

/// B02, first run: a request of 96 KiB that starts 32 KiB before the seam of two touching regions is cut where the
/// first region ends, none of its slices crosses the seam, and every byte arrives; as READ too.
#[test]
fn a_request_across_a_seam() {
    const MIB: u64 = 1 << 20;
    let (target, client) = (engine(&[]), engine(&["stages.split.slice='64KiB'"]));
    target.add_segment("kv").unwrap();
    let place = Box::leak(vec![0_u8; 2 << 20].into_boxed_slice()).as_mut_ptr();
    // SAFETY: the bytes live for ever and nobody else uses them.
    let parts = [0, MIB].map(|at| unsafe { Memory::from_raw(place.add(at as usize), MIB) });
    let parts = parts.map(|memory| target.register(memory, Access::ReadWrite).unwrap());
    assert_eq!(parts.each_ref().map(|r| target.publish("kv", r).unwrap()), [0, MIB]);

    let kv = open(&client, &target).segment("kv").unwrap();
    let bytes = pattern(2, 98_304);
    let (from, to) = (region_of(&client, &bytes), client.allocate(98_304).unwrap());
    let before = client.stats();
    done(&client, &[Request::write(&from, 0, kv.at(MIB - 32_768), 98_304)]);
    let stats = client.stats().since(&before);
    let posted = stats.stages.iter().find(|s| s.name == "post").unwrap().items;
    assert_eq!(posted, 2, "32768 + 65536, and no more");
    let [first, second] = parts.each_ref().map(bytes_of);
    assert_eq!(first[MIB as usize - 32_768..], bytes[..32_768]);
    assert_eq!(second[..65_536], bytes[32_768..]);
    assert!(first[..MIB as usize - 32_768].iter().chain(&second[65_536..]).all(|b| *b == 0));
    done(&client, &[Request::read(&to, 0, kv.at(MIB - 32_768), 98_304)]);
    assert_eq!(bytes_of(&to), bytes);
    nothing_left(&client, [from, to]);
}

/// B02, second run: of ten requests the fifth names memory that is not registered any more. It fails so, the other
/// nine are done, none stays pending, and the batch is freed at once.
#[test]
fn one_bad_request_of_ten() {
    let (target, client) = (target("1MiB"), engine(&[]));
    let kv = open(&client, &target).segment("kv").unwrap();
    let (good, bad) = (client.allocate(40_960).unwrap(), client.allocate(4096).unwrap());
    let gone = bad.id();
    client.unregister(bad).map_err(|(_, e)| e).unwrap();
    let local = |i| if i == 5 { gone } else { good.id() };
    let requests: Vec<_> = (0..10)
        .map(|i| Request::write(local(i), if i == 5 { 0 } else { i * 4096 }, kv.at(i * 4096), 4096))
        .collect();
    let (summary, batch) = carry_out(&client, &requests);
    assert_eq!((summary.requests, summary.failed, summary.bytes), (10, 1, 9 * 4096));
    let mut expected = vec![None; 10];
    expected[5] = Some(Reason::NotRegistered);
    assert_eq!(reasons(&batch), expected);
    batch.free().expect("a batch that is done is freed at once");
    nothing_left(&client, [good]);
}

/// B05, local: numbers that wrap are refused as a bad argument, with nothing submitted; numbers that only lie outside
/// fail as bounds; neither touches anything, and the next good request is served.
#[test]
fn numbers_that_wrap_or_lie_outside() {
    let (target, client) = (target("1MiB"), engine(&[]));
    let kv = open(&client, &target).segment("kv").unwrap();
    let region = client.allocate(1 << 16).unwrap();
    const HIGH: u64 = 0xFFFF_FFFF_FFFF_F000;
    let wrapping = [
        Request::write(&region, HIGH, kv.at(0), 0x2000),
        Request::write(&region, 0, kv.at(HIGH), 0x2000),
        Request::read(&region, u64::MAX, kv.at(0), 1),
        Request::read(&region, 0, kv.at(1), u64::MAX),
        Request::read(&region, 0, kv.at(0), 0),
    ];
    let good = Request::write(&region, 0, kv.at(0), 100);
    for wrong in wrapping {
        match client.submit(&[good, wrong], Options::default()) {
            Err(SubmitError::BadRequest { index: 1, .. }) => {}
            other => panic!("{wrong:?}: {other:?}"),
        }
    }
    let outside = [
        (Request::write(&region, 65_535, kv.at(0), 2), Reason::LocalBounds),
        (Request::write(&region, 1 << 40, kv.at(0), 2), Reason::LocalBounds),
        (Request::write(&region, 0, kv.at((1 << 20) - 1), 2), Reason::RemoteBounds),
        (Request::read(&region, 0, kv.at(HIGH), 0xFFF), Reason::RemoteBounds),
        (Request::read(&region, 0, kv.at(0), 1 << 40), Reason::RemoteBounds),
    ];
    let (summary, batch) = carry_out(&client, &outside.map(|(request, _)| request));
    assert_eq!((summary.failed, summary.bytes), (5, 0));
    assert_eq!(reasons(&batch), outside.map(|(_, reason)| Some(reason)));
    drop(batch);
    assert_eq!(client.submit(&[], Options::default()).unwrap_err(), SubmitError::Empty);
    done(&client, &[good]);
    nothing_left(&client, [region]);
}

/// Random requests over a segment of many regions of odd sizes, from a local region at odd offsets: what is written
/// is what is read back, for every slice size.
#[test]
fn odd_sizes_everywhere() {
    let target = engine(&[]);
    target.add_segment("kv").unwrap();
    let lens = [1, 4095, 3, 65_537, 512, 100_000, 1, 1, 7777];
    let parts: Vec<_> = lens
        .iter()
        .map(|len| target.register(Memory::allocate(*len).unwrap(), Access::ReadWrite).unwrap())
        .collect();
    parts.iter().for_each(|part| _ = target.publish("kv", part).unwrap());
    let total: u64 = lens.iter().sum();
    for slice in ["512B", "1KiB", "whole", "auto"] {
        let client = engine(&[&format!("stages.split.slice='{slice}'")]);
        let kv = open(&client, &target).segment("kv").unwrap();
        let bytes = pattern(total + slice.len() as u64, total as usize);
        let (from, to) = (region_of(&client, &bytes), client.allocate(total).unwrap());
        let cuts = [0, 1, 2, 4097, 4100, 69_637, 70_000, 170_100, total];
        let spans: Vec<(u64, u64)> = cuts.windows(2).map(|w| (w[0], w[1] - w[0])).collect();
        let writes: Vec<_> =
            spans.iter().map(|(at, len)| Request::write(&from, *at, kv.at(*at), *len)).collect();
        done(&client, &writes);
        let stored: Vec<u8> = parts.iter().flat_map(bytes_of).collect();
        assert!(stored == bytes, "{slice}: written bytes differ");
        done(&client, &[Request::read(&to, 0, kv.at(0), total)]);
        assert!(bytes_of(&to) == bytes, "{slice}: read bytes differ");
        nothing_left(&client, [from, to]);
    }
}

/// B06: a request one byte beyond 32 bits is 65 slices of 64 MiB and a byte, and every byte is counted; over a transport
/// that moves none, so that it takes no memory. (With real bytes: the large part of `scripts/test`.)
#[test]
fn sixty_five_slices() {
    const SIZE: u64 = (1 << 32) + 1;
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../configs/pipelines/sim.toml");
    let source = pipeline_node::Source::file(file).set([
        "transports.sim.move=false",
        "stages.split.slice='64MiB'",
        &format!("segments.kv={{ kind='dram', size='{SIZE}B', access='read_write' }}"),
    ]);
    let node = pipeline_node::Engine::from_source(&source).unwrap_or_else(|e| panic!("{e}"));
    let kv = open(&node, &node).segment("kv").unwrap();
    let region = node.allocate(SIZE).unwrap();
    for request in [Request::write(&region, 0, kv.at(0), SIZE), Request::read(&region, 0, kv.at(0), SIZE)] {
        let before = node.stats();
        done(&node, &[request]);
        let stats = node.stats().since(&before);
        assert_eq!(stats.stages.iter().find(|s| s.name == "post").unwrap().items, 65);
    }
    nothing_left(&node, [region]);
}
