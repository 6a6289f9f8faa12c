//! Several NICs of one transport, through whole pipelines: which of them carry what, and what happens when one goes.
//! The transport is simulated; that TCP leaves by the address of its NIC is tested where TCP is.

#![allow(clippy::unwrap_used, reason = "tests")]

mod rig;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pipeline_configs::Config;
use pipeline_stages::mail::{Half, Mail};
use pipeline_stages::peer::PeerId;
use pipeline_stages::{Location, Options, Request};
use pipeline_transports::sim::{Sim, SimSettings};
use pipeline_transports::{Access, Memory, RegionId, Transport};
use rig::tally::Tally;
use rig::{INLINE, QUEUES, Rig, Target, bytes, file, pattern, target};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const LONG: Duration = Duration::from_secs(60);
/// Less in flight than saturates one NIC.
const LIMITS: &str = "requests = 64\nslices = 16384\nbatches = 16\npeers = 4\nbytes_in_flight = \"16MiB\"\npeer_share = \"100%\"";

/// A simulated transport with NICs of these keys.
fn wire(nics: &[&str], more: &str) -> String {
    let names: Vec<String> = (0..nics.len()).map(|i| format!("\"n{i}\"")).collect();
    let keys = nics.iter().enumerate().filter(|(_, keys)| !keys.is_empty());
    let tables: Vec<String> = keys.map(|(i, keys)| format!("[nics.n{i}]\n{keys}\n")).collect();
    format!("type = \"sim\"\nnics = [{}]\n{more}\n{}", names.join(", "), tables.concat())
}

/// A node over a simulated transport whose NICs are counted, and whom it sends to.
struct Bed {
    rig: Rig,
    tally: Arc<Tally>,
    there: Target,
    peer: PeerId,
}

impl Bed {
    fn new(config: &Arc<Config>, memory: u64, speeds: &[u64]) -> Self {
        let there = target(config, &[memory], Access::ReadWrite);
        let made = OnceLock::new();
        let rig = Rig::start_over(config, |t, incarnation, regions| {
            let settings = SimSettings {
                nics: t.nics.clone(),
                moves_bytes: t.values.flag("move"),
                delay_ns_min: 20_000,
                delay_ns_max: 100_000,
                nic_bytes_per_s: speeds.to_vec(),
                ..SimSettings::default()
            };
            let tally = Tally::of(Arc::new(Sim::new(settings, incarnation, regions.clone()).unwrap()));
            let _ = made.set(tally.clone());
            tally as Arc<dyn Transport>
        });
        let tally = made.get().unwrap().clone();
        let peer = rig.meet("b", &there);
        Self { rig, tally, there, peer }
    }

    /// With one link a pair.
    fn linked(config: &Arc<Config>, memory: u64, speeds: &[u64]) -> Self {
        let bed = Self::new(config, memory, speeds);
        bed.rig.link(bed.peer, &bed.there);
        bed
    }

    fn write(&self, source: RegionId, at: u64, len: u64) -> Request {
        Request::write(source, at, self.rig.remote(self.peer, &self.there, at), len)
    }

    /// Memory that nobody has touched.
    fn sparse(&self, len: u64) -> RegionId {
        self.rig.world.regions.add(Memory::allocate(len).unwrap(), Access::Local).unwrap()
    }

    /// One large request is done; slices by NIC.
    fn carry(&self, source: RegionId, len: u64) -> Vec<u64> {
        self.tally.take();
        let batch = self.rig.client.submit(&[self.write(source, 0, len)], Options::default()).unwrap();
        assert!(batch.wait(LONG).unwrap().is_done(), "{:?}", batch.results().collect::<Vec<_>>());
        self.tally.take()
    }

    /// The links of a NIC die.
    fn kill(&self, nic: u16) {
        let links = self.rig.world.peers.get(self.peer).unwrap().links.load();
        for link in links.iter().filter(|link| link.nic.0 == nic) {
            let seat = (Half::Reap, link.transport, nic, link.pair.0);
            self.rig
                .world
                .mail
                .post(seat, Mail::Abort(link.id))
                .unwrap_or_else(|_| panic!("its box is full"));
        }
    }

    fn rest(&self, nic: u16, resting: bool) {
        let links = self.rig.world.peers.get(self.peer).unwrap().links.load();
        for link in links.iter().filter(|link| link.nic.0 == nic) {
            link.life.resting.store(resting, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

fn within(counts: &[u64], share: u64, percent: u64) -> bool {
    counts.iter().all(|n| n.abs_diff(share) * 100 <= share * percent)
}

/// B35: one request of 8 000 slices of 64 KiB over eight NICs: each carries an eighth, in one pool and with queues and pools for
/// each NIC; with four NICs on the node of the memory, those carry a quarter each and the others nothing.
#[test]
fn b35_even_shares() {
    let len = 8_000 * 64 * KIB;
    for model in [INLINE, QUEUES] {
        let config = file(&wire(&[""; 8], "move = false"), model, LIMITS, "64KiB");
        // The wires are what limits them, not the CPUs of the machine that runs this.
        let bed = Bed::linked(&config, len, &[100 * MIB; 8]);
        let counts = bed.carry(bed.sparse(len), len);
        assert!(within(&counts, 1_000, 20), "{counts:?}");
        bed.rig.all_back();
        let nodes = ["numa = 0", "numa = 1"].map(|node| [node; 4]).concat();
        let config = file(&wire(&nodes, "move = false"), model, LIMITS, "64KiB");
        let bed = Bed::linked(&config, len, &[200 * MIB; 8]);
        let source = bed.sparse(len);
        bed.rig.world.topology.place(source, Location::Cpu(0));
        let counts = bed.carry(source, len);
        assert!(within(&counts[..4], 2_000, 20), "{counts:?}");
        assert!(counts[4..].iter().sum::<u64>() <= 400, "only while rings are full: {counts:?}");
    }
}

/// B36: one of two NICs dies in the middle of 4 000 slices: the batch is done, its bytes are exact, what was left goes by the
/// other one; when the first is back it carries its share again.
#[test]
fn b36_a_nic_dies() {
    let len = 4_000 * 4 * KIB;
    let config = file(&wire(&["", ""], ""), INLINE, LIMITS, "4KiB");
    let bed = Bed::linked(&config, len, &[20_000_000; 2]);
    let source = bed.rig.memory(len, 7);
    let batch = bed.rig.client.submit(&[bed.write(source, 0, len)], Options::default()).unwrap();
    let begin = Instant::now();
    while bed.tally.on(0) < 500 {
        assert!(begin.elapsed() < LONG);
        std::thread::yield_now();
    }
    bed.kill(0);
    assert!(batch.wait(LONG).unwrap().is_done(), "{:?}", batch.results().collect::<Vec<_>>());
    let region = bed.there.view.segments[0].regions[0].id;
    assert_eq!(bytes(&bed.there.regions, region, 0, len), pattern(len, 7));
    let counts = bed.tally.take();
    assert!(counts[0] < 2_000 && counts[0] + counts[1] >= 4_000, "{counts:?}");
    drop(batch);
    let alone = bed.carry(source, len);
    assert_eq!(alone[0], 0, "a dead NIC was used");
    bed.rig.relink(bed.peer, &bed.there);
    assert!(within(&bed.carry(source, len), 2_000, 20));
    bed.rig.all_back();
}

/// A NIC that rests carries nothing while another one lives, and its share when it rests no more; if all rest they are used,
/// because waiting would be worse.
#[test]
fn a_resting_nic_is_left_alone() {
    let len = 1_000 * 64 * KIB;
    let config = file(&wire(&["", ""], "move = false"), INLINE, LIMITS, "64KiB");
    let bed = Bed::linked(&config, len, &[]);
    let source = bed.sparse(len);
    bed.rest(0, true);
    assert_eq!(bed.carry(source, len), [0, 1_000]);
    bed.rest(1, true);
    assert!(within(&bed.carry(source, len), 500, 20));
    bed.rest(0, false);
    assert_eq!(bed.carry(source, len), [1_000, 0]);
    bed.rest(1, false);
    assert!(within(&bed.carry(source, len), 500, 20));
}

/// Slices that wait for a link go by whichever NIC gets one first.
#[test]
fn what_waits_moves_on() {
    let len = 100 * 64 * KIB;
    let config = file(&wire(&["numa = 0", "numa = 1"], "move = false"), INLINE, LIMITS, "64KiB");
    let bed = Bed::new(&config, len, &[]);
    let source = bed.sparse(len);
    bed.rig.world.topology.place(source, Location::Cpu(0));
    let batch = bed.rig.client.submit(&[bed.write(source, 0, len)], Options::default()).unwrap();
    // Control is asked for a link once nothing can go.
    bed.rig.events.recv_timeout(LONG).unwrap();
    bed.rig.link_on(bed.peer, &bed.there, 1);
    assert!(batch.wait(LONG).unwrap().is_done());
    assert_eq!(bed.tally.take(), [0, 100]);
}

/// B38: all slices go by the NIC on the node of the memory while it lives, then by the one of which nobody knows where it is,
/// then by the one on a node that the machine does not have.
#[test]
fn b38_nearest_first() {
    let len = 200 * 64 * KIB;
    let nics = ["numa = 7", "", "numa = 0"];
    let config = file(&wire(&nics, "move = false"), INLINE, LIMITS, "64KiB");
    let bed = Bed::linked(&config, len, &[]);
    let source = bed.sparse(len);
    bed.rig.world.topology.place(source, Location::Cpu(0));
    for (nic, dies) in [(2, true), (1, true), (0, false)] {
        let counts = bed.carry(source, len);
        assert_eq!((counts[nic], counts.iter().sum::<u64>()), (200, 200), "{counts:?}");
        if dies {
            bed.kill(nic as u16);
            // Its death is known when it has been reported.
            let begin = Instant::now();
            while bed.rig.events.try_recv().is_err() {
                assert!(begin.elapsed() < LONG);
                std::thread::yield_now();
            }
        }
    }
}

/// NICs of unequal speed, of which nobody has said so, carry shares like their speeds: by what they have outstanding, and by what
/// was measured.
#[test]
fn unequal_rates_are_followed() {
    let len = 2_000 * 64 * KIB;
    for policy in ["topology", "least_loaded"] {
        let model = INLINE
            .replace("type = \"nic_select\",", &format!("type = \"nic_select\", policy = \"{policy}\","));
        let limits = LIMITS.replace("16MiB", "8MiB");
        let config = file(&wire(&["", ""], "move = false"), &model, &limits, "64KiB");
        let bed = Bed::linked(&config, len, &[100 * MIB, 25 * MIB]);
        let counts = bed.carry(bed.sparse(len), len);
        assert!((1_400..=1_850).contains(&counts[0]), "{policy}: {counts:?}");
        bed.rig.all_back();
    }
}

/// Each request goes by the NIC that `round_robin` has in turn, and by the one that `hash` has for its block of memory, whichever
/// time it is sent.
#[test]
fn policies_by_turn_and_by_block() {
    let (block, blocks) = (2 * MIB, 64);
    for (policy, even) in [("round_robin", true), ("hash", false)] {
        let model = INLINE
            .replace("type = \"nic_select\",", &format!("type = \"nic_select\", policy = \"{policy}\","));
        let config = file(&wire(&[""; 4], "move = false"), &model, LIMITS, "64KiB");
        let bed = Bed::linked(&config, block * blocks, &[]);
        let source = bed.sparse(block * blocks);
        let shares: Vec<Vec<u64>> = (0..2).map(|_| bed.carry(source, block * blocks)).collect();
        let share = blocks * block / (64 * KIB) / 4;
        assert!(shares.iter().all(|s| within(s, share, if even { 1 } else { 75 })), "{policy}: {shares:?}");
        assert!(even || (shares[0] == shares[1] && shares[0].iter().all(|n| n % 32 == 0)), "{shares:?}");
    }
}
