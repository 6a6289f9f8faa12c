//! What the choice among several NICs guarantees. Deliberately without a graph: links are what a test says.

use std::sync::Arc;

use pipeline_configs::{Location, Options, load_str};
use pipeline_transports::{NicId, PairId};
use proptest::prelude::*;

use super::*;
use crate::peer::LinkLife;
use crate::topology::Sysfs;

const SLICE: u64 = 64 << 10;

/// NICs of a file, each with these keys; the choice by these keys of the stage.
fn bed(nics: &[&str], select: &str) -> (Topology, Spread) {
    let names: Vec<String> = (0..nics.len()).map(|i| format!("\"n{i}\"")).collect();
    let mut text = format!("version = 1\nuse = \"tcp\"\ntransports.tcp.nics = [{}]\n", names.join(", "));
    for (i, keys) in nics.iter().enumerate().filter(|(_, keys)| !keys.is_empty()) {
        text += &format!("nics.n{i} = {{ {keys} }}\n");
    }
    text += &format!("stages.select = {{ {select} }}\n");
    let loaded = load_str("t.toml", &text, &crate::catalog::catalog(), &Options::default());
    let config = loaded.unwrap_or_else(|findings| panic!("{findings}\n{text}")).config;
    let stage = config.stages.iter().find(|stage| stage.kind == "nic_select").unwrap();
    (Topology::of(&config, &Sysfs::silent()), Spread::of(&config, &stage.values))
}

/// So many lanes on each NIC, in the order in which they are dialled.
fn links(nics: usize, lanes: usize) -> Vec<LinkRef> {
    let link = |i: usize| LinkRef {
        id: LinkId(i as u64),
        transport: 0,
        nic: NicId((i % nics) as u16),
        remote_nic: 0,
        pair: PairId(0),
        post_worker: 0,
        life: Arc::new(LinkLife::default().among(nics)),
    };
    (0..nics * lanes).map(link).collect()
}

fn wanted<'a>(topology: &'a Topology, links: &'a [LinkRef], place: Location) -> Wanted<'a> {
    let place = topology.places().iter().position(|p| *p == place).unwrap() as u16;
    Wanted { topology, reach: Reach::ALL, links, transport: 0, place, lanes: Lanes::All }
}

/// Sends stretches of 32 slices of 64 KiB, of which each NIC carries so many before the next; slices by NIC.
fn carry(spread: &mut Spread, wanted: &Wanted<'_>, slices: usize, speeds: &[u32]) -> Vec<usize> {
    let mut chosen = vec![0; speeds.len()];
    for stretch in 0..slices / 32 {
        assert!(spread.begin(wanted, stretch as u64));
        for _ in 0..32 {
            let link = spread.choose(wanted, || 0, SLICE).unwrap();
            chosen[usize::from(wanted.links[link].nic.0)] += 1;
        }
        spread.publish(wanted.links);
        for (nic, speed) in speeds.iter().enumerate() {
            let mut left = *speed;
            for link in wanted.links.iter().filter(|link| usize::from(link.nic.0) == nic) {
                let done = left.min(link.life.outstanding.load(Relaxed));
                link.life.end(done, u64::from(done) * SLICE);
                left -= done;
            }
        }
    }
    chosen
}

/// B35: over eight NICs of equal weight each gets an eighth of 8 000 slices; with four on the node of the memory and four on
/// the other one, those four get a quarter each, and the others nothing.
#[test]
fn b35_even_shares() {
    let (topology, mut spread) = bed(&[""; 8], "policy = \"topology\"");
    let all = links(8, 2);
    let chosen = carry(&mut spread, &wanted(&topology, &all, Location::Any), 8000, &[4; 8]);
    assert!(chosen.iter().all(|n| (990..=1010).contains(n)), "{chosen:?}");
    let nics = ["numa = 0", "numa = 1"].map(|node| [node; 4]).concat();
    let (topology, mut spread) = bed(&nics, "policy = \"topology\"");
    let all = links(8, 2);
    let chosen = carry(&mut spread, &wanted(&topology, &all, Location::Cpu(0)), 8000, &[8; 8]);
    assert!(chosen[..4].iter().all(|n| (1990..=2010).contains(n)), "{chosen:?}");
    assert_eq!(chosen[4..], [0; 4]);
}

/// Farther NICs help while the near ones are saturated, and only then; they do it as well when those are down.
#[test]
fn farther_ones_help() {
    let nics = ["numa = 0", "numa = 1", ""];
    let (topology, mut spread) = bed(&nics, "policy = \"topology\", saturated_at = 40");
    let all = links(3, 1);
    let here = wanted(&topology, &all, Location::Cpu(0));
    // 32 go by the near one, 8 more, and the rest by the one of which nobody knows where it is.
    assert_eq!(carry(&mut spread, &here, 64, &[0; 3]), [40, 0, 24]);
    assert_eq!(carry(&mut spread, &here, 32, &[0; 3]), [0, 16, 16]);
    // All are saturated or nearly so: 24 of room on the far one, then the near one has to take it.
    assert_eq!(carry(&mut spread, &here, 32, &[0; 3]), [8, 24, 0]);
    all[0].life.dead.store(true, Relaxed);
    let fresh = links(3, 1);
    fresh[0].life.dead.store(true, Relaxed);
    let here = wanted(&topology, &fresh, Location::Cpu(0));
    assert_eq!(carry(&mut spread, &here, 32, &[0; 3]), [0, 0, 32]);
}

/// Slower NICs get less: as the file says of their speed, as is seen by what they have outstanding, and with `least_loaded`
/// as was measured; there a far one gets what its distance leaves it.
#[test]
fn unequal_speeds() {
    let (topology, mut spread) = bed(&["speed = \"300Gbit/s\"", "speed = \"100Gbit/s\""], "");
    let all = links(2, 2);
    assert_eq!(carry(&mut spread, &wanted(&topology, &all, Location::Any), 320, &[0; 2]), [240, 80]);
    let (topology, mut spread) = bed(&["", ""], "");
    let all = links(2, 2);
    let chosen = carry(&mut spread, &wanted(&topology, &all, Location::Any), 8000, &[24, 8]);
    assert!((5700..=6100).contains(&chosen[0]), "{chosen:?}");
    let (topology, mut spread) = bed(&["", ""], "policy = \"least_loaded\"");
    for (speed, seen) in topology.speeds(0).iter().zip([1_000_000_000, 4_000_000_000]) {
        speed.store(seen, Relaxed);
    }
    let all = links(2, 1);
    assert_eq!(carry(&mut spread, &wanted(&topology, &all, Location::Any), 320, &[0; 2]), [64, 256]);
    let (topology, mut spread) = bed(&["numa = 0", "numa = 1"], "policy = \"least_loaded\"");
    let all = links(2, 1);
    let chosen = carry(&mut spread, &wanted(&topology, &all, Location::Cpu(0)), 384, &[0; 2]);
    assert_eq!(chosen, [256, 128]);
}

/// A NIC that was seen to be as good as dead still gets a share of `least_loaded`, so that its recovery is seen.
#[test]
fn the_slowest_is_tried() {
    let (topology, mut spread) = bed(&["", ""], "policy = \"least_loaded\"");
    topology.speeds(0)[0].store(10_000_000_000, Relaxed);
    topology.speeds(0)[1].store(1, Relaxed);
    let all = links(2, 1);
    let chosen = carry(&mut spread, &wanted(&topology, &all, Location::Any), 800, &[0; 2]);
    assert!((40..=50).contains(&chosen[1]), "{chosen:?}");
}

/// One slice at a time goes round all NICs, although each is idle whenever one is chosen.
#[test]
fn ties_go_round() {
    for policy in ["topology", "least_loaded", "round_robin"] {
        let (topology, mut spread) = bed(&[""; 4], &format!("policy = \"{policy}\""));
        let all = links(4, 2);
        let here = wanted(&topology, &all, Location::Any);
        let mut chosen = [0; 4];
        for _ in 0..40 {
            assert!(spread.begin(&here, 0));
            chosen[usize::from(all[spread.choose(&here, || 0, SLICE).unwrap()].nic.0)] += 1;
        }
        assert_eq!(chosen, [10; 4], "{policy}");
    }
}

/// `hash` sends a block always by the same NIC; blocks use all; when a NIC dies only its blocks go elsewhere.
#[test]
fn hash_keeps_blocks() {
    let (topology, mut spread) = bed(&[""; 4], "policy = \"hash\"");
    let all = links(4, 1);
    let here = wanted(&topology, &all, Location::Any);
    let mut where_to = || -> Vec<u16> {
        assert!(spread.begin(&here, 0));
        let region = pipeline_transports::RegionId(7 << 32 | 3);
        let of = |block: u64| block_of(Span { region, offset: block << BLOCK_BITS });
        (0..400).map(|block| all[spread.choose(&here, || of(block), SLICE).unwrap()].nic.0).collect()
    };
    let before = where_to();
    assert_eq!(where_to(), before);
    let share = |nic: u16| before.iter().filter(|n| **n == nic).count();
    assert!((0..4).all(|nic| (70..=130).contains(&share(nic))), "{:?}", [0, 1, 2, 3].map(share));
    all[2].life.dead.store(true, Relaxed);
    let after = where_to();
    assert!(before.iter().zip(&after).all(|(b, a)| if *b == 2 { *a != 2 } else { a == b }));
}

/// While small and large requests keep apart, the first lane of each NIC is for the small ones and the others for the rest;
/// a NIC with one lane is for both.
#[test]
fn lanes_keep_apart() {
    let (topology, mut spread) = bed(&["", ""], "");
    let mut all = links(2, 3);
    all.pop();
    all.remove(3);
    // n0 has links 0, 2 and 4, n1 has 1 only.
    let mut used = |lanes| {
        let here = Wanted { lanes, ..wanted(&topology, &all, Location::Any) };
        assert!(spread.begin(&here, 0));
        let chosen = (0..60).map(|_| all[spread.choose(&here, || 0, SLICE).unwrap()].id.0);
        chosen.collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(used(Lanes::First), [0, 1]);
    assert_eq!(used(Lanes::Others), [1, 2, 4]);
}

/// A link whose ring is full is left for another one of its NIC, then for another NIC, then there is none; what was counted
/// for it is counted no more.
#[test]
fn full_rings_are_left() {
    let (topology, mut spread) = bed(&["numa = 0", "numa = 1"], "");
    let all = links(2, 2);
    let here = wanted(&topology, &all, Location::Cpu(0));
    assert!(spread.begin(&here, 0));
    let mut tried = Vec::new();
    while let Some(link) = spread.choose(&here, || 0, SLICE) {
        tried.push(all[link].nic.0);
        spread.shut(&here, link, SLICE);
    }
    assert_eq!(tried, [0, 0, 1, 1]);
    spread.publish(&all);
    assert!(all.iter().all(|l| l.life.outstanding.load(Relaxed) == 0 && l.life.bytes.load(Relaxed) == 0));
}

#[derive(Clone, Debug)]
struct Story {
    nodes: Vec<Option<u16>>,
    policy: &'static str,
    lanes: usize,
    /// For each link: dead, resting, outstanding.
    states: Vec<(bool, bool, u32)>,
    place: usize,
    saturated_at: u32,
}

fn story() -> impl Strategy<Value = Story> {
    let node = prop_oneof![Just(None), Just(Some(0)), Just(Some(1)), Just(Some(7))];
    let policies = ["topology", "least_loaded", "round_robin", "hash"];
    let sizes = (prop::collection::vec(node, 2..9), 1..4_usize);
    (sizes, prop::sample::select(policies.to_vec()), any::<prop::sample::Index>(), 1..64_u32).prop_flat_map(
        |((nodes, lanes), policy, place, saturated_at)| {
            let places = 1 + nodes.iter().flatten().collect::<std::collections::BTreeSet<_>>().len();
            let state = (prop::bool::weighted(0.3), prop::bool::weighted(0.3), 0..64_u32);
            prop::collection::vec(state, nodes.len() * lanes).prop_map(move |states| Story {
                nodes: nodes.clone(),
                policy,
                lanes,
                states,
                place: place.index(places),
                saturated_at,
            })
        },
    )
}

fn of_story(story: &Story) -> (Topology, Spread) {
    let keys: Vec<String> =
        story.nodes.iter().map(|n| n.map_or(String::new(), |node| format!("numa = {node}"))).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    bed(&keys, &format!("policy = \"{}\", saturated_at = {}", story.policy, story.saturated_at))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the topology and the policy: a slice goes to a live link if there is one, to one that does not rest if there
    /// is one, and but for `least_loaded` to the nearest group that has room.
    #[test]
    fn live_links_are_found(story in story()) {
        let (topology, mut spread) = of_story(&story);
        let all = links(story.nodes.len(), story.lanes);
        for (link, (dead, resting, outstanding)) in all.iter().zip(&story.states) {
            link.life.dead.store(*dead, Relaxed);
            link.life.resting.store(*resting, Relaxed);
            link.life.add(*outstanding, u64::from(*outstanding) * SLICE);
        }
        let here = wanted(&topology, &all, topology.places()[story.place]);
        let ranking = here.ranking();
        let alive = || all.iter().filter(|link| !link.life.is_dead());
        prop_assert_eq!(spread.begin(&here, 0), alive().count() > 0);
        let all_rest = alive().all(|link| link.life.is_resting());
        let usable = || alive().filter(|link| all_rest || !link.life.is_resting());
        for block in 0..alive().count().min(20) as u64 {
            let roomy: Vec<bool> = spread.nics.iter().map(|nic| nic.first != NIL && nic.room > 0).collect();
            let chosen = &all[spread.choose(&here, || mixed(block), SLICE).unwrap()];
            prop_assert!(usable().any(|link| link.id == chosen.id), "{:?}", chosen);
            let near = ranking.nearness(chosen.nic.0);
            match story.policy {
                "least_loaded" => {}
                "hash" => prop_assert!(usable().all(|link| ranking.nearness(link.nic.0) >= near)),
                _ => {
                    let nearest = (0..roomy.len()).find(|at| roomy[*at]).map(|at| ranking.at(at));
                    prop_assert!(nearest.is_none_or(|nic| ranking.nearness(nic) == near));
                }
            }
        }
    }

    /// No NIC of the group that is chosen starves: with nothing outstanding at first and nothing done meanwhile, each has its
    /// share of many slices; of `least_loaded` all have one.
    #[test]
    fn nobody_starves(story in story()) {
        let (topology, mut spread) = of_story(&Story { saturated_at: 1 << 20, ..story.clone() });
        let all = links(story.nodes.len(), story.lanes);
        let here = wanted(&topology, &all, topology.places()[story.place]);
        prop_assert!(spread.begin(&here, 0));
        let mut chosen = vec![0_usize; story.nodes.len()];
        for block in 0..64 * chosen.len() as u64 {
            let link = spread.choose(&here, || mixed(block), SLICE).unwrap();
            chosen[usize::from(all[link].nic.0)] += 1;
        }
        let (_, nearest) = here.ranking().groups().next().unwrap();
        let share = 64 * chosen.len() / nearest.len();
        for nic in nearest {
            let got = chosen[usize::from(*nic)];
            match story.policy {
                "hash" => prop_assert!(got > share / 3, "{:?}", chosen),
                "least_loaded" => {}
                _ => prop_assert!(got.abs_diff(share) <= 1, "{:?}", chosen),
            }
        }
        prop_assert!(story.policy != "least_loaded" || chosen.iter().all(|n| *n >= 16), "{:?}", chosen);
    }
}
