//! A request of millions of slices costs time, not memory. Deliberately alone in its process, whose memory it measures.

#![allow(clippy::unwrap_used, reason = "tests")]

mod rig;

use std::time::{Duration, Instant};

use pipeline_stages::{Options, Request, Summary};
use pipeline_transports::Access;
use rig::{INLINE, Rig, file, target};

const LONG: Duration = Duration::from_secs(60);

/// Resident memory of this process, bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// B28: 16 GiB in slices of 4 KiB, more than four million: memory stays where it was, the last tenth is as quick as
/// the first, and every byte is accounted for.
#[test]
fn millions_of_slices() {
    const LEN: u64 = 16 << 30;
    let limits = "requests = 64\nslices = 4096\nbatches = 16\npeers = 4\nbytes_in_flight = \"4MiB\"";
    let sim = "type = \"sim\"\nmove = false\ndelay_min = \"0s\"\ndelay_max = \"0s\"";
    let config = file(sim, INLINE, limits, "4KiB");
    let there = target(&config, &[LEN], Access::ReadWrite);
    let rig = Rig::start(&config);
    let peer = rig.meet("b", &there);
    rig.link(peer, &there);
    let memory = pipeline_transports::Memory::allocate(LEN).unwrap();
    let source = rig.world.regions.add(memory, Access::Local).unwrap();
    let before = resident();
    let request = Request::write(source, 0, rig.remote(peer, &there, 0), LEN);
    let options = Options { deadline: Some(LONG), ..Options::default() };
    let start = Instant::now();
    let batch = rig.client.submit(&[request], options).unwrap();
    let sliced = || {
        let stats = rig.engine.as_ref().unwrap().snapshot();
        stats.stages.iter().find(|s| s.name == "post").unwrap().items
    };
    // CPU time, because it is not the test's business what else the machine does.
    let spent = || {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
    };
    let (begun, tenth, mut marks, mut peak) = (spent(), LEN / 4096 / 10, [Duration::ZERO; 11], 0);
    for (i, mark) in marks.iter_mut().enumerate().skip(1) {
        while sliced() < tenth * i as u64 {
            peak = peak.max(resident());
            assert!(start.elapsed() < LONG);
            std::thread::sleep(Duration::from_millis(1));
        }
        *mark = spent() - begun;
    }
    assert_eq!(
        batch.wait(LONG),
        Ok(Summary { requests: 1, failed: 0, bytes: 17_179_869_184, notice_failed: false })
    );
    assert!(peak.saturating_sub(before) < 64 << 20, "{} bytes more", peak - before);
    let (first, last) = (marks[1], marks[10] - marks[9]);
    println!("{} slices in {:?}; tenths: first {first:?}, last {last:?}", LEN / 4096, marks[10]);
    assert!(last < first * 5 / 4 + Duration::from_millis(20), "first tenth {first:?}, last {last:?}");
}
