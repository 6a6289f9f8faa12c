//! The cases: which model, what is submitted, over how many peers, and how much stays in flight.
//! Deliberately data: how a case is run and timed is the same for all.

use std::time::Duration;

use pipeline_stages::peer::PeerId;
use pipeline_stages::{Options, Request};
use pipeline_transports::{Access, Memory, RegionId, Transport};

use crate::line::Line;
use crate::rig::{INLINE, QUEUES, Rig, Target, file, target};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// All slices lie in this memory, those of large cases several times.
const MEMORY: u64 = 256 * MIB;

/// Five queues between the stages of two pools of one thread each: every hop changes the pool.
const FIVE: &str = r#"
[pools]
a = { threads = 1, wait = { spin = "20us", yield = "50us", park = "1s" } }
b = { threads = 1, wait = { spin = "20us", yield = "50us", park = "1s" } }
[stages]
admit  = { type = "admit", pool = "a" }
split  = { type = "request_split", pool = "b", slice = "SLICE" }
route  = { type = "protocol_route", pool = "a" }
select = { type = "nic_select", pool = "b" }
post   = { type = "wr_post", pool = "a" }
reap   = { type = "cq_reap", pool = "b" }
retry  = { type = "retry", pool = "b", attempts = 5, backoff = "1ms" }
notify = { type = "completion_notify", pool = "a" }
[edges]
"submit -> admit" = { queue = 64, dispatch = "any" }
"admit -> split"  = { queue = 16, dispatch = "any" }
"split -> route"  = { queue = 16, dispatch = "any" }
"route -> select" = { queue = 16, dispatch = "any" }
"select -> post"  = { queue = 16, dispatch = "owner" }
"reap -> notify"  = { queue = 16, dispatch = "any" }
"*.retry -> retry" = { queue = 4, dispatch = "any" }
"retry -> select" = "return"
"*.failed -> notify" = { queue = 4, dispatch = "any" }
"#;

/// One line of the table.
pub struct Case {
    pub name: &'static str,
    model: &'static str,
    /// Requests of a round, to each peer in turn, and bytes of each.
    requests: u64,
    len: u64,
    slice: u64,
    peers: u32,
    /// Slices that its transport keeps in flight on each NIC.
    keeps: usize,
    nics: usize,
    /// Of `nic_select`.
    policy: &'static str,
    /// `SLICES_NS_MAX` counts.
    pub judged: bool,
    /// Takes much memory: not in a smoke test.
    pub large: bool,
}

const PLAIN: Case = Case {
    name: "",
    model: INLINE,
    requests: 1,
    len: MEMORY,
    slice: 4 * KIB,
    peers: 1,
    keeps: 0,
    nics: 1,
    policy: "topology",
    judged: false,
    large: false,
};

/// What is compared with each other is measured in turns.
pub fn groups() -> Vec<Vec<Case>> {
    let small = Case { requests: 60_000, len: 64, ..PLAIN };
    let flight = |name, keeps: usize| {
        let large = keeps > 1 << 16;
        Case { name, slice: KIB / 2, len: MEMORY, requests: if large { 8 } else { 2 }, keeps, large, ..PLAIN }
    };
    let peers = |name, peers| Case { name, peers, requests: 1_000, len: 256 * KIB, ..PLAIN };
    let small_to = |name, peers| Case { name, peers, ..Case { requests: 60_000, len: 64, ..PLAIN } };
    let over = |name, nics, policy| Case { name, nics, policy, ..PLAIN };
    let small_over = |name, nics| Case { name, nics, ..Case { requests: 60_000, len: 64, ..PLAIN } };
    vec![
        vec![
            over("NICs: 1", 1, "topology"),
            over("NICs: 2", 2, "topology"),
            over("NICs: 8", 8, "topology"),
            over("NICs: 8, least_loaded", 8, "least_loaded"),
            over("NICs: 8, round_robin", 8, "round_robin"),
            over("NICs: 8, hash", 8, "hash"),
            small_over("NICs: 8, small", 8),
        ],
        vec![
            Case { name: "inline: slices of 4 KiB", judged: true, ..PLAIN },
            Case { name: "inline: 60 000 requests of 64 B", judged: true, ..small },
            Case { name: "queues: slices of 4 KiB", model: QUEUES, ..PLAIN },
            Case {
                name: "queues: 60 000 requests of 64 B",
                model: QUEUES,
                requests: 60_000,
                len: 64,
                ..PLAIN
            },
            Case { name: "five queues, 2 threads", model: FIVE, ..PLAIN },
        ],
        vec![
            flight("in flight: 1", 1),
            flight("in flight: 32", 32),
            flight("in flight: 1 K", 1 << 10),
            flight("in flight: 32 K", 1 << 15),
            flight("in flight: 1 M", 1 << 20),
        ],
        vec![
            peers("peers: 1", 1),
            peers("peers: 10", 10),
            peers("peers: 100", 100),
            peers("peers: 1 000", 1_000),
        ],
        vec![small_to("small, peers: 1", 1), small_to("small, peers: 1 000", 1_000)],
    ]
}

impl Case {
    /// Slices of a round.
    pub fn slices(&self) -> u64 {
        self.requests * self.len.div_ceil(self.slice)
    }

    /// One in eight is kept from pieces.
    fn limits(&self) -> String {
        let (slices, share) = ((self.keeps + self.keeps / 4 + 8192), if self.keeps > 0 { 100 } else { 25 });
        let bytes = (slices as u64 * self.slice).max(64 * MIB);
        format!(
            "requests = 65536\nslices = {slices}\nbatches = 16\npeers = 1024\nbytes_in_flight = {bytes}\npeer_share = \"{share}%\""
        )
    }
}

/// A node on which a case is run.
pub struct Bed {
    rig: Rig,
    there: Target,
    peers: Vec<PeerId>,
    source: RegionId,
    requests: Vec<Request>,
}

impl Bed {
    pub fn new(case: &Case) -> Self {
        let slice = format!("{}B", case.slice);
        let names: Vec<String> = (0..case.nics).map(|nic| format!("\"n{nic}\"")).collect();
        let transport = match case.nics {
            1 => "type = \"loopback\"".to_owned(),
            _ => format!("type = \"loopback\"\nnics = [{}]", names.join(", ")),
        };
        let select = format!("type = \"nic_select\", policy = \"{}\",", case.policy);
        let model = case.model.replace("type = \"nic_select\",", &select);
        let config = file(&transport, &model, &case.limits(), &slice);
        let mut there = target(&config, &[MEMORY], Access::ReadWrite);
        let line = Line::keeping(case.keeps, case.nics);
        there.view.offers = vec![line.offer()];
        let rig = Rig::start_over(&config, |_, _, _| line.clone());
        let peers: Vec<PeerId> = (0..case.peers).map(|n| rig.meet(&format!("peer-{n}"), &there)).collect();
        for &peer in &peers {
            rig.link(peer, &there);
        }
        let source = rig.world.regions.add(Memory::allocate(MEMORY).unwrap(), Access::Local).unwrap();
        let mut bed = Self { rig, there, peers, source, requests: Vec::new() };
        // Small ones do not touch each other: those that do would travel as one.
        let step = if case.len < case.slice { 2 * case.len } else { case.len };
        bed.requests = (0..case.requests).map(|n| bed.request(n, n * step % MEMORY, case.len)).collect();
        bed
    }

    fn request(&self, n: u64, at: u64, len: u64) -> Request {
        let peer = self.peers[n as usize % self.peers.len()];
        Request::write(self.source, at, self.rig.remote(peer, &self.there, at), len)
    }

    /// Submits all, and waits for the end.
    pub fn round(&self, _: &Case) {
        let client = &self.rig.client;
        let batch = client.submit_wait(&self.requests, Options::default(), Duration::from_secs(5)).unwrap();
        assert!(batch.wait(Duration::from_secs(60)).unwrap().is_done());
    }
}
