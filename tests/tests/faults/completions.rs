//! Completions that are lost, doubled or late (B16, B27), over real lanes.

use std::time::{Duration, Instant};

use pipeline_node::faults::{Effect, Plan, Rule, Site, When};
use pipeline_node::{Options, Reason, Request};

use crate::faulty;
use crate::rig::{PATIENCE, bytes_of, done, nothing_left, open, pattern, reasons, region_of, target, until};

const MIB: u64 = 1 << 20;

fn within(deadline: Duration) -> Options {
    Options { deadline: Some(deadline), ..Options::default() }
}

/// B16: a completion that never comes ends its request at its deadline of two seconds, once, and takes nobody along:
/// requests before, beside and after it are done, on the same links. A READ ends `Deadline`; a WRITE, of which nobody
/// can tell, `Undetermined`. Nothing of either is left, and the buffers are the caller's again.
#[test]
fn a_lost_completion_ends_at_its_deadline() {
    let plan = Plan::default();
    let (client, server) = (faulty(&plan, &[]), target("16MiB"));
    let kv = open(&client, &server).segment("kv").unwrap();
    let region = client.allocate(MIB).unwrap();
    let [read, write] = [0, 4096].map(|at| {
        let place = kv.at(at);
        move |region| match at {
            0 => Request::read(region, at, place, 4096),
            _ => Request::write(region, at, place, 4096),
        }
    });
    for (request, expected) in [(read(&region), Reason::Deadline), (write(&region), Reason::Undetermined)] {
        done(&client, &[request]);
        let rule = plan.add(Rule::new(Site::Completion, When::Nth(1), Effect::Drop));
        let begin = Instant::now();
        let lost = client.submit(&[request], within(Duration::from_secs(2))).unwrap();
        until("it is lost", || plan.struck(rule) == 1);
        let (took, slept, beside) = std::thread::scope(|scope| {
            let waiter = scope.spawn(|| lost.wait(PATIENCE).map(|_| begin.elapsed()).expect("an end"));
            // What the machine makes of a sleep of that length.
            let sleeper = scope.spawn(|| {
                std::thread::sleep(Duration::from_secs(2).saturating_sub(begin.elapsed()));
                begin.elapsed()
            });
            let mut beside = 0;
            while lost.poll().is_none() {
                done(&client, &[Request::write(&region, 8192, kv.at(8192), MIB - 8192)]);
                beside += 1;
            }
            (waiter.join().unwrap(), sleeper.join().unwrap(), beside)
        });
        assert!(took >= Duration::from_secs(2) && took < slept + Duration::from_millis(500), "{took:?}");
        assert_eq!(reasons(&lost), [Some(expected)]);
        assert!(beside > 2, "nobody else came through: {beside}");
        assert_eq!(plan.struck(rule), 1);
        plan.remove(rule);
        done(&client, &[request]);
    }
    nothing_left(&client, [region]);
}

/// B27: every completion comes twice, at once or much later, when its slice has been used for others: each batch is
/// done once with one notice, its total is exact to the byte, the second ones are counted and dropped, and the in-flight counters
/// return to 0.
#[test]
fn a_doubled_completion_counts_once() {
    let plan = Plan::seeded(27);
    let (client, server) = (faulty(&plan, &["stages.split.slice='16KiB'"]), target("4MiB"));
    let kv = open(&client, &server).segment("kv").unwrap();
    let region = client.allocate(4 * MIB).unwrap();
    let at_once = plan.add(Rule::new(Site::Completion, When::Every(2), Effect::Duplicate(Duration::ZERO)));
    let later = Effect::Duplicate(Duration::from_millis(20));
    let later = plan.add(Rule::new(Site::Completion, When::Every(3), later));
    let notices = server.notices();
    for round in 0..20 {
        let requests: Vec<_> = (0..4)
            .map(|i| match (i + round) % 2 {
                0 => Request::write(&region, i * MIB, kv.at(i * MIB), MIB),
                _ => Request::read(&region, i * MIB, kv.at(i * MIB), MIB),
            })
            .collect();
        let options = Options { notice: Some([round as u8].as_slice().into()), ..Options::default() };
        let summary = client.submit(&requests, options).unwrap().wait(PATIENCE).unwrap();
        assert_eq!((summary.is_done(), summary.bytes), (true, 4 * MIB));
    }
    let heard: Vec<u8> = std::iter::from_fn(|| notices.try_next()).map(|n| n.body[0]).collect();
    assert_eq!(heard, (0..20).collect::<Vec<u8>>());
    assert_eq!(plan.struck(at_once), 20 * 4 * 64 / 2);
    // An echo of one that is echoed by both rules comes once: the later rule speaks.
    let echoes = plan.struck(at_once) + plan.struck(later) - 20 * 4 * 64 / 6;
    let stale = || client.counts().stale;
    until("all echoes have come", || stale() >= echoes - 1);
    assert!(stale() <= echoes, "{} stale of {echoes} echoes", stale());
    nothing_left(&client, [region]);
}

/// B27: a slice whose first attempt is said to have failed is tried again, and only then the completion of the first
/// attempt comes, as done. The batch is done once, by the second attempt, with every byte counted once.
#[test]
fn a_late_completion_of_the_first_attempt_changes_nothing() {
    let plan = Plan::default();
    let (client, server) = (faulty(&plan, &["stages.split.slice='256KiB'"]), target("1MiB"));
    let kv = open(&client, &server).segment("kv").unwrap();
    let bytes = pattern(27, 1 << 20);
    let region = region_of(&client, &bytes);
    let fails = plan.add(Rule::new(Site::Completion, When::Nth(2), Effect::Fail));
    let after = Effect::Duplicate(Duration::from_millis(100));
    let comes_late = plan.add(Rule::new(Site::Completion, When::Nth(2), after));
    // The second attempt is held up, so that what comes late comes before it.
    plan.add(Rule::new(Site::Completion, When::Nth(5), Effect::Delay(Duration::from_millis(300))));
    let begin = Instant::now();
    done(&client, &[Request::write(&region, 0, kv.at(0), MIB)]);
    assert!(begin.elapsed() >= Duration::from_millis(300), "the first attempt spoke for the second");
    assert_eq!((plan.struck(fails), plan.struck(comes_late), client.counts().stale), (1, 1, 1));
    let back = client.allocate(MIB).unwrap();
    done(&client, &[Request::read(&back, 0, kv.at(0), MIB)]);
    assert!(bytes_of(&back) == bytes);
    nothing_left(&client, [region, back]);
}

/// Slices that fail, are late, or never leave: retries carry the first through, the late ones only come late, and the
/// one that never left ends at its deadline, as a lost WRITE.
#[test]
fn slices_that_do_not_leave() {
    let plan = Plan::default();
    let (client, server) = (faulty(&plan, &["stages.split.slice='64KiB'"]), target("1MiB"));
    let kv = open(&client, &server).segment("kv").unwrap();
    let region = client.allocate(MIB).unwrap();
    let whole = [Request::write(&region, 0, kv.at(0), MIB)];
    let fail = plan.add(Rule::new(Site::Slice, When::Every(5), Effect::Fail));
    done(&client, &whole);
    assert!(plan.struck(fail) >= 3);
    plan.remove(fail);
    plan.add(Rule::new(Site::Slice, When::Nth(7), Effect::Delay(Duration::from_millis(200))));
    let batch = client.submit(&whole, Options::default()).unwrap();
    assert!(batch.wait(Duration::from_millis(100)).is_err());
    assert!(batch.wait(PATIENCE).unwrap().is_done());
    drop(batch);
    plan.add(Rule::new(Site::Slice, When::Nth(7), Effect::Drop));
    let batch = client.submit(&whole, within(Duration::from_millis(500))).unwrap();
    let summary = batch.wait(PATIENCE).unwrap();
    assert_eq!((summary.failed, reasons(&batch)), (1, vec![Some(Reason::Undetermined)]));
    drop(batch);
    nothing_left(&client, [region]);
}
