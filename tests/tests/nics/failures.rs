//! A NIC or its way fails in the middle of a transfer: what was under way goes by the others, nobody else is blamed, and it
//! comes back.

use std::time::{Duration, Instant};

use pipeline_node::faults::{self, Effect, Plan, Rule, Site, When};
use pipeline_node::{Options, Source};

use crate::accounts::moved;
use crate::namespace::{alone, ip};
use crate::rig::{PATIENCE, done, nothing_left, pattern, region_of, until};
use crate::wires::{Rails, SLICE, limit};

/// As long as a NIC that fails may take to be noticed by what does not move any more.
const STALL: &str = "transports.tcp.stall='800ms'";

/// Writes `len` bytes while something is broken after a quarter of them and checks that all of them came; answers what each
/// NIC had moved when it broke, and at the end.
fn through(rails: &Rails, len: usize, break_it: impl FnOnce()) -> (Vec<u64>, Vec<u64>) {
    let bytes = pattern(len as u64, len);
    let region = region_of(&rails.client, &bytes);
    let before = rails.client.nics();
    let requests = rails.writes(&region);
    let batch = rails.client.submit_wait(&requests, Options::default(), PATIENCE).unwrap();
    let so_far = || moved(&rails.client, &before);
    until("a quarter has moved", || so_far().iter().sum::<u64>() >= len as u64 / 4);
    break_it();
    let broken_at = so_far();
    let summary = batch.wait(2 * PATIENCE).expect("its deadline must have ended it");
    assert!(summary.is_done(), "{:?}", batch.results().collect::<Vec<_>>());
    drop(batch);
    let end = so_far();
    assert_eq!(end.iter().sum::<u64>(), len as u64, "done once each");
    rails.check(&bytes);
    nothing_left(&rails.client, [region]);
    (broken_at, end)
}

/// Until a NIC has links again and moves bytes.
fn until_back(rails: &Rails, nic: usize) {
    until("it has links again", || rails.client.nics()[nic].links > 0);
    let region = region_of(&rails.client, &pattern(3, 8 << 20));
    let before = rails.client.nics();
    until("it carries again", || {
        done(&rails.client, &rails.writes(&region));
        moved(&rails.client, &before)[nic] > 0
    });
    nothing_left(&rails.client, [region]);
}

/// A wire is cut amid a transfer: the rest goes by the other one, every byte arrives, and the wire is used again when it is
/// mended.
#[test]
fn a_cut_wire() {
    alone("failures::a_cut_wire", || {
        let rails = Rails::listed(2, &[STALL]);
        (0..2).for_each(|n| limit(&format!("rail{n}"), 200));
        // Control came by the first address of the list, the last wire: the other one is cut.
        let (broken_at, end) = through(&rails, 48 << 20, || rails.far.run(|| ip("link set far0 down")));
        let late = end[0] - broken_at[0];
        assert!(late <= 8 << 20, "what was not under way went by the other wire: {late}");
        assert!(end[1] > 2 * end[0], "{end:?}");
        rails.far.run(|| ip("link set far0 up"));
        until_back(&rails, 0);
    });
}

/// The far end falls silent though the wire stands, so that nothing tells this side: `stall` finds it.
#[test]
#[ignore = "waits for time-outs: part `nics` of scripts/test"]
fn a_silent_far_end() {
    alone("failures::a_silent_far_end", || {
        let rails = Rails::listed(2, &[STALL]);
        (0..2).for_each(|n| limit(&format!("rail{n}"), 200));
        let (_, end) = through(&rails, 48 << 20, || {
            rails.far.run(|| ip("addr del 10.8.0.2/24 dev far0"));
        });
        assert!(end[1] > end[0], "{end:?}");
        rails.far.run(|| ip("addr add 10.8.0.2/24 dev far0"));
        until_back(&rails, 0);
    });
}

/// B36: two NICs here, two there; in the middle of 4 000 slices the first one here loses its address. All are done and exact, what
/// was left goes by the second; the NIC itself is blamed; and after five seconds it comes back although the first connects
/// are refused, which no request notices.
#[test]
#[ignore = "waits for time-outs: part `nics` of scripts/test"]
fn a_local_nic_loses_its_address() {
    alone("failures::a_local_nic_loses_its_address", || {
        let plan = Plan::default();
        let rails = Rails::listed_by(2, &[STALL], |set| {
            let source = Source::text("test", "version = 1\nuse = \"tcp\"\n").set(set.iter().copied());
            faults::start(&source, &plan).unwrap_or_else(|e| panic!("{e}"))
        });
        (0..2).for_each(|n| limit(&format!("rail{n}"), 400));
        let gone = Instant::now();
        let (broken_at, end) =
            through(&rails, 4000 * SLICE as usize, || ip("addr del 10.8.0.1/24 dev rail0"));
        assert!(end[0] - broken_at[0] <= 8 << 20 && end[1] > end[0], "{broken_at:?} {end:?}");
        let nics = rails.client.nics();
        let why = nics[0].facts.resting.as_deref().unwrap_or_default();
        assert!(why.contains("`rail0` has no IP address"), "{why}");
        assert!(nics[0].links == 0 && nics[1].facts.resting.is_none() && nics[1].errors == 0, "{nics:?}");
        assert!(nics[0].local_failures > 0 && nics[1].local_failures == 0, "{nics:?}");
        let peers = rails.client.peer_failures();
        assert!(peers.iter().all(|peer| (peer.path, peer.peer_failures) == (0, 0)), "{peers:?}");
        let refused = plan.add(Rule::new(Site::Dial, When::First(3), Effect::Fail));
        std::thread::sleep(Duration::from_secs(5).saturating_sub(gone.elapsed()));
        ip("addr add 10.8.0.1/24 dev rail0");
        until_back(&rails, 0);
        assert_eq!(plan.struck(refused), 3);
    });
}
