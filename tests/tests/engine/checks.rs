//! Bytes that are checked end to end, by the shipped file `checked.toml`: what is done is right on both sides, and what a wire
//! changes is found.

use pipeline_node::{
    Access, Engine, Memory, Mismatch, Options, Peer, Reason, Region, Request, Source, Status,
};

use crate::rig::{PATIENCE, bytes_of, carry_out, done, nothing_left, open, pattern, reasons, region_of};

const CHECKED: &str = include_str!("../../../configs/pipelines/checked.toml");
const SIZE: u64 = 4 << 20;

fn start(text: &str, set: &[&str]) -> Engine {
    Engine::from_source(&Source::text("test", text).set(set.iter().copied()))
        .unwrap_or_else(|e| panic!("{e}"))
}

/// A node that checks, and one that does not know of it, with a segment `kv` of one region.
struct Pair {
    node: Engine,
    _target: Engine,
    peer: Peer,
    stored: Region,
}

fn pair(access: Access, both: &[String], own: &[&str]) -> Pair {
    let both: Vec<&str> = both.iter().map(String::as_str).collect();
    let target = start("version = 1\nuse = \"tcp\"\n", &both);
    let stored = target.register(Memory::allocate(SIZE).unwrap(), access).unwrap();
    target.add_segment("kv").unwrap();
    target.publish("kv", &stored).unwrap();
    let node = start(CHECKED, &[&both[..], own].concat());
    let peer = open(&node, &target);
    Pair { node, _target: target, peer, stored }
}

/// A wire that changes a bit in so many work requests of a million.
fn bad_wire(corrupt_ppm: u32) -> Vec<String> {
    let sim = format!(
        "transports.sim={{ type='sim', seed=11, corrupt_ppm={corrupt_ppm}, prefers='16KiB', delay_max='20us' }}"
    );
    vec!["transports.tcp=false".into(), sim, "stages.route.prefer=['sim']".into()]
}

/// Requests of 16 KiB over the whole segment.
fn parts(region: &Region, peer: &Peer, write: bool) -> Vec<Request> {
    let segment = peer.segment("kv").unwrap();
    let part = |at| match write {
        true => Request::write(region, at, segment.at(at), 16 << 10),
        false => Request::read(region, at, segment.at(at), 16 << 10),
    };
    (0..SIZE).step_by(16 << 10).map(part).collect()
}

/// Over a good wire all is done both ways, each slice was read back once and compared by a thread of the crew, with either
/// sum; and nothing is left behind.
#[test]
fn good_bytes_are_done() {
    for algorithm in ["crc32c", "xxh3"] {
        let sum = format!("stages.check.algorithm='{algorithm}'");
        let Pair { node, peer, .. } = &pair(Access::ReadWrite, &[], &[&sum, "pools.crew.threads=2"]);
        let bytes = pattern(1, SIZE as usize);
        let (from, to) = (region_of(node, &bytes), node.allocate(SIZE).unwrap());
        done(node, &parts(&from, peer, true));
        done(node, &[Request::read(&to, 0, peer.segment("kv").unwrap().at(0), SIZE)]);
        assert_eq!(bytes_of(&to), bytes);
        let stats = node.stats();
        let checked = stats.stage("check").unwrap().items;
        assert!(checked >= 2 * 16, "{checked} slices were checked");
        assert_eq!(stats.edge("back.again -> select").unwrap().popped, checked);
        assert_eq!(stats.edge("back -> check").unwrap().popped, checked);
        let crew: Vec<_> = stats.workers.iter().filter(|w| w.pool == "crew").collect();
        assert!(crew.len() == 2 && crew.iter().map(|w| w.turns).sum::<u64>() > 0, "{crew:?}");
        nothing_left(node, [from, to]);
    }
}

/// Over a wire that changes bits, what is done is right to the last byte, here and there; what is not says where and with
/// which sums, and the one of this side is that of the bytes that are here.
#[test]
fn changed_bytes_are_caught() {
    for write in [true, false] {
        let Pair { node, peer, stored, .. } = &pair(Access::ReadWrite, &bad_wire(100_000), &[]);
        let bytes = pattern(2, SIZE as usize);
        let region = region_of(node, &bytes);
        let (summary, batch) = carry_out(node, &parts(&region, peer, write));
        assert!(summary.failed > 5 && summary.failed < 200, "{summary:?}");
        let (here, there) = (bytes_of(&region), bytes_of(stored));
        for (at, status) in batch.results().enumerate() {
            let range = at * (16 << 10)..(at + 1) * (16 << 10);
            match status {
                Status::Done => assert!(here[range.clone()] == there[range], "request {at} is told as done"),
                Status::Failed(failure) => {
                    let Reason::Corrupt(Some(Mismatch { offset, here: sum, there: other })) = failure.reason
                    else {
                        panic!("{failure}")
                    };
                    assert_eq!((offset, &*failure.stage), (range.start as u64, "check"));
                    assert_eq!(sum, u64::from(crc32c::crc32c(&here[range])));
                    assert_ne!(sum, other);
                    let text = failure.to_string();
                    assert!(
                        text.contains(&format!("offset {offset}")) && text.contains(&format!("{other:#x}")),
                        "{text}"
                    );
                }
                Status::Pending => panic!("request {at} is pending in a batch that is done"),
            }
        }
        drop(batch);
        nothing_left(node, [region]);
    }
}

/// With `mismatch = "retry"` what was changed is carried out again, until it is right: everything is done in the end.
#[test]
fn changed_bytes_are_sent_again() {
    let again = ["stages.check.mismatch='retry'", "stages.retry.attempts=50", "stages.retry.backoff='10us'"];
    let Pair { node, peer, stored, .. } = &pair(Access::ReadWrite, &bad_wire(100_000), &again);
    let bytes = pattern(3, SIZE as usize);
    let region = region_of(node, &bytes);
    done(node, &parts(&region, peer, true));
    assert!(bytes_of(stored) == bytes, "the target has other bytes");
    let retried = node.stats().edge("check.retry -> retry").unwrap().popped;
    assert!(retried > 5, "{retried} slices went again");
    nothing_left(node, [region]);
}

/// A scratch of one piece is enough for any number of slices: they wait for it in turn. One that is smaller than a slice
/// is refused at the start.
#[test]
fn the_scratch_is_bounded() {
    let small = ["stages.split.slice='16KiB'", "stages.back.scratch='16KiB'"];
    let Pair { node, peer, stored, .. } = &pair(Access::ReadWrite, &[], &small);
    let bytes = pattern(4, SIZE as usize);
    let region = region_of(node, &bytes);
    done(node, &parts(&region, peer, true));
    assert!(bytes_of(stored) == bytes);
    nothing_left(node, [region]);
    let source = Source::text("test", CHECKED).set(["stages.back.scratch='8KiB'", small[0]]);
    let error = Engine::from_source(&source).unwrap_err().to_string();
    assert!(error.contains("`back`") && error.contains("8192") && error.contains("16384"), "{error}");
}

/// Into a segment that may only be written the bytes go, and the request says that nobody could look at them again.
#[test]
fn what_cannot_be_read_is_not_told_as_done() {
    let Pair { node, peer, stored, .. } = &pair(Access::Write, &[], &[]);
    let bytes = pattern(5, 64 << 10);
    let region = region_of(node, &bytes);
    let (_, batch) =
        carry_out(node, &[Request::write(&region, 0, peer.segment("kv").unwrap().at(0), 64 << 10)]);
    assert_eq!(reasons(&batch), [Some(Reason::Unverified)]);
    drop(batch);
    assert!(bytes_of(stored)[..64 << 10] == bytes, "it was written all the same");
    nothing_left(node, [region]);
}

/// Batches that are cancelled or late in the middle of being read back give their pieces back: what comes after them is done
/// with the one piece that there is.
#[test]
fn ends_on_the_way_back_leave_no_piece_behind() {
    let slow = "transports.sim={ type='sim', seed=3, prefers='64KiB', delay_min='1ms', delay_max='2ms' }";
    let slow = ["transports.tcp=false", "stages.route.prefer=['sim']", slow].map(str::to_owned);
    let Pair { node, peer, .. } = &pair(Access::ReadWrite, &slow, &["stages.back.scratch='64KiB'"]);
    let region = region_of(node, &pattern(6, SIZE as usize));
    for round in 0..20 {
        let soon =
            Options { deadline: Some(std::time::Duration::from_millis(2 + round)), ..Options::default() };
        let options = if round % 2 == 0 { soon } else { Options::default() };
        let batch = node.submit_wait(&parts(&region, peer, true)[..8], options, PATIENCE).unwrap();
        if round % 2 == 1 {
            std::thread::sleep(std::time::Duration::from_millis(round));
            batch.cancel();
        }
        batch.wait(PATIENCE).expect("it must end");
    }
    done(node, &parts(&region, peer, true)[..8]);
    nothing_left(node, [region]);
}
