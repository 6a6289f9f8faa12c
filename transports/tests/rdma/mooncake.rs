//! Mooncake's RDMA protocol between two transports of this program, over real devices: found by name, dialled by an exchange at
//! the handshake port, addressed by address. What real nodes of Mooncake say to it is tested in `tests/tests/rdma`.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use pipeline_transports::foreign::{Found, FoundRegion};
use pipeline_transports::mooncake::Settings;
use pipeline_transports::mooncake::ask::Ask;
use pipeline_transports::mooncake::bodies::Connection;
use pipeline_transports::mooncake::name::HostPort;
use pipeline_transports::mooncake::rdma::MooncakeRdma;
use pipeline_transports::rdma::RdmaSettings;
use pipeline_transports::transport::Registration;
use pipeline_transports::wr::Span;
use pipeline_transports::{
    Access, Completions, Error, Halves, Link, LinkId, Memory, NicId, Op, Outcome, PairId, Path, Refusal,
    RegionId, Regions, Transport, WorkRequest, WrId,
};

use crate::rig::{no_wakes, now, path, quiet_network, runtime, settings, soon};

/// A node: a transport whose port is served by a thread of its own.
pub struct Node {
    pub transport: Arc<MooncakeRdma>,
    regions: Arc<Regions>,
    halves: Halves,
    registrations: HashMap<RegionId, Registration>,
    links: u64,
    end: Option<tokio::sync::oneshot::Sender<()>>,
    tends: Option<JoinHandle<()>>,
}

impl Node {
    pub fn new(wire: &RdmaSettings, queue_pairs: u16) -> Self {
        let regions = Arc::new(Regions::new(256));
        let made = MooncakeRdma::new("m", Settings::default(), wire.clone(), queue_pairs, regions.clone());
        let transport = Arc::new(made.unwrap());
        let halves = transport.attach(NicId(0), PairId(0), no_wakes()).unwrap();
        let (end, ended) = tokio::sync::oneshot::channel();
        let (bound, is_bound) = std::sync::mpsc::channel();
        let tended = transport.clone();
        let tends = std::thread::spawn(move || {
            runtime().block_on(async {
                tended.foreign().unwrap().bind("node").await.unwrap();
                bound.send(()).unwrap();
                tokio::select! { _ = tended.tend() => {}, _ = ended => {} }
            });
        });
        is_bound.recv().unwrap();
        let (end, tends) = (Some(end), Some(tends));
        Self { transport, regions, halves, registrations: HashMap::new(), links: 0, end, tends }
    }

    pub fn name(&self) -> String {
        self.transport.foreign().unwrap().own_name().unwrap()
    }

    /// Registers `len` bytes of `byte`, pinned, and tells others of them.
    pub fn region(&mut self, len: u64, byte: u8, access: Access) -> RegionId {
        let mut memory = Memory::allocate(len).unwrap();
        memory.write(0, &vec![byte; len as usize]).unwrap();
        let registration = self.transport.register(&memory, access).unwrap();
        let region = self.regions.add(memory, access).unwrap();
        registration.bind(region);
        registration.publish("kv");
        self.registrations.insert(region, registration);
        self.regions.pin(region).unwrap();
        region
    }

    pub fn bytes(&self, region: RegionId, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.regions.read_shared(region, offset, &mut bytes).unwrap();
        bytes
    }

    /// Finds another node and learns what it has, as control does.
    pub fn find_by_name(&self, name: &str) -> Found {
        let found = runtime().block_on(self.transport.foreign().unwrap().find(name, soon())).unwrap();
        let regions = found.segments.iter().flat_map(|segment| &segment.regions);
        regions.for_each(|r| self.transport.learn(found.incarnation, r.id, r.len, &r.keys).unwrap());
        found
    }

    fn dial(&self, found: &Found, link: u64, lane: u16) -> Result<Link, Error> {
        let to =
            Path { address: found.addresses[0], incarnation: found.incarnation, ..path(LinkId(link), lane) };
        let mut nobody = Nobody;
        runtime().block_on(self.transport.dial(&to, &found.offer, &mut nobody, soon()))
    }

    /// A new link of a lane, whose ends this node has adopted.
    pub fn connect(&mut self, found: &Found, lane: u16) -> LinkId {
        self.links += 1;
        let made = self.dial(found, self.links, lane).unwrap();
        self.halves.post.adopt(made.post.unwrap());
        self.halves.reap.adopt(made.reap.unwrap());
        LinkId(self.links)
    }

    /// Posts, and steps until all has ended.
    pub fn carry_out(&mut self, link: LinkId, work: &[WorkRequest]) -> Vec<Outcome> {
        assert_eq!(self.halves.post.post(now(), link, work).taken, work.len());
        let (mut out, mut ended) = (Completions::with_capacity(64), HashMap::new());
        let begin = now();
        while ended.len() < work.len() {
            self.halves.post.flush(now());
            out.clear();
            self.halves.reap.reap(now(), &mut out);
            ended.extend(out.done().iter().map(|done| (done.id, done.outcome)));
            assert!(now() - begin < 30_000_000_000, "{} of {} ended", ended.len(), work.len());
        }
        work.iter().map(|w| ended[&w.id]).collect()
    }

    /// Has work done, by as many links of a lane as it takes: soft-RoCE short of CPU breaks a healthy one now and then.
    #[track_caller]
    pub fn done(&mut self, found: &Found, lane: u16, work: &[WorkRequest]) {
        let mut left = work.to_vec();
        for _ in 0..8 {
            let link = self.connect(found, lane);
            let ended = self.carry_out(link, &left);
            let mut ended = ended.iter();
            left.retain(|_| *ended.next().unwrap() != Outcome::Done);
            if left.is_empty() {
                return;
            }
        }
        panic!("{} of {} are not done after 8 links", left.len(), work.len());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.end.take());
        let _ = self.tends.take().unwrap().join();
    }
}

/// No control session: these links need none.
struct Nobody;

impl pipeline_transports::control::Control for Nobody {
    fn exchange<'a>(
        &'a mut self,
        _: &'a [u8],
        _: u64,
    ) -> pipeline_transports::transport::BoxFuture<'a, Result<Vec<u8>, Error>> {
        panic!("asked for a control session")
    }
}

pub fn regions_of<'a>(found: &'a Found, segment: &str) -> &'a [FoundRegion] {
    &found.segments.iter().find(|s| s.name == segment).unwrap().regions
}

/// Address and length of the only buffer.
pub fn memory_of(found: &Found) -> (u64, u64) {
    let memory = regions_of(found, "memory");
    assert_eq!(memory.len(), 1);
    (memory[0].start, memory[0].len)
}

pub fn request(id: u64, op: Op, local: (RegionId, u64), remote: (RegionId, u64), len: u64) -> WorkRequest {
    let span = |(region, offset)| Span { region, offset };
    WorkRequest { id: WrId(id), op, local: span(local), remote: span(remote), len }
}

const LEN: u64 = 1 << 20;

/// Two nodes find each other by name and read and write each other's memory, by their buffers and by their addresses, each by
/// links of its own. A lane that is dialled again takes the place of its predecessor at the other node.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn two_nodes_read_and_write() {
    let _network = quiet_network();
    let (mut near, mut far) = (Node::new(&settings(&["rxe0"]), 2), Node::new(&settings(&["rxe1"]), 2));
    let (here, there) = (near.region(LEN, 0x11, Access::ReadWrite), far.region(LEN, 0x22, Access::ReadWrite));
    both_ways(&mut near, &far, (here, there));
    both_ways(&mut far, &near, (there, here));
    both_ways(&mut near, &far, (here, there));
    assert_eq!((near.transport.accepted(), far.transport.accepted()), (1, 1));
}

/// Writes the first half of a region, and reads the second.
fn both_ways(from: &mut Node, to: &Node, (local, remote): (RegionId, RegionId)) {
    let found = from.find_by_name(&to.name());
    let (theirs, len, half) = (regions_of(&found, "buffer-0")[0].id, LEN / 4, LEN as usize / 2);
    let written = from.bytes(local, 0, half);
    let ops = [Op::Write, Op::Write, Op::Read, Op::Read];
    let request_at = |(i, op): (usize, Op)| {
        let at = i as u64 * len;
        request(i as u64, op, (local, at), (theirs, at), len)
    };
    let work: Vec<_> = ops.into_iter().enumerate().map(request_at).collect();
    from.done(&found, 0, &work);
    assert!(to.bytes(remote, 0, half) == written, "what was written is not there");
    let read = from.bytes(local, half as u64, half);
    assert!(read == to.bytes(remote, half as u64, half), "what was read is not what is there");
    // The same bytes by their addresses.
    let memory = &regions_of(&found, "memory")[0];
    assert_eq!(memory.len, LEN);
    from.done(&found, 0, &[request(9, Op::Read, (local, 0), (memory.id, 0), 64)]);
}

/// A key that is no more is refused by the other node's NIC, and the request ends as refused, nothing applied; the node that is
/// found again has the memory that is there now.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn a_key_that_is_no_more() {
    let _network = quiet_network();
    let (mut near, mut far) = (Node::new(&settings(&["rxe0"]), 2), Node::new(&settings(&["rxe1"]), 2));
    let (here, there) = (near.region(4096, 1, Access::Local), far.region(4096, 2, Access::ReadWrite));
    let found = near.find_by_name(&far.name());
    let theirs = regions_of(&found, "buffer-0")[0].id;
    far.registrations.remove(&there);
    let link = near.connect(&found, 0);
    let write = |id, region| request(id, Op::Write, (here, 0), (region, 0), 4096);
    let ended = near.carry_out(link, &[write(1, theirs)]);
    assert_eq!(ended, [Outcome::Refused(Refusal::UnknownRegion)]);
    assert_eq!(far.bytes(there, 0, 4096), [2; 4096]);
    let anew = far.region(4096, 3, Access::ReadWrite);
    let found = near.find_by_name(&far.name());
    let now = regions_of(&found, "buffer-0")[0].id;
    assert_ne!(now, theirs);
    near.done(&found, 0, &[write(2, now)]);
    assert_eq!(far.bytes(anew, 0, 4096), [1; 4096]);
}

/// Who asks for a NIC that is not there, for nothing, or says that it is ready and never asked, gets an answer that says so, and
/// nothing is made for it; one that asks twice is given the same queue pairs; a release that tells no GID is looked up by its name.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn what_is_answered() {
    let _network = quiet_network();
    let (near, far) = (Node::new(&settings(&["rxe0"]), 2), Node::new(&settings(&["rxe1"]), 2));
    let (own, name) = (near.name(), far.name());
    let port = HostPort::parse(&name).unwrap();
    let ask = |said: &Connection| {
        let ask = Ask { of: &port, max: 1 << 20, by: soon() };
        runtime().block_on(ask.connection(said)).unwrap()
    };
    let good = Connection {
        local_gid: "00:00:00:00:00:00:00:00:00:00:ff:ff:0a:09:00:0a".into(),
        local_nic_path: format!("{own}@rxe0"),
        peer_nic_path: format!("{name}@rxe1"),
        qp_num: vec![100, 101, 102],
        ready_ack: Some(false),
        ..Connection::default()
    };
    let bad = [
        (Connection { peer_nic_path: format!("{name}@rxe9"), ..good.clone() }, "rxe9"),
        (Connection { peer_nic_path: "other:1@rxe1".into(), ..good.clone() }, "other:1@rxe1"),
        (Connection { qp_num: Vec::new(), ..good.clone() }, "queue pairs"),
        (Connection { local_gid: "nonsense".into(), ..good.clone() }, "no GID"),
        (Connection { ready_ack: Some(true), ..good.clone() }, "unconnected"),
        (
            Connection { local_gid: String::new(), local_nic_path: format!("{own}@rxe7"), ..good.clone() },
            "rxe7",
        ),
    ];
    for (said, why) in bad {
        let answer = ask(&said);
        assert!(answer.reply_msg.contains(why) && answer.qp_num.is_empty(), "{answer:?}");
    }
    assert_eq!(far.transport.accepted(), 0);
    let answer = ask(&good);
    assert_eq!((answer.reply_msg.as_str(), answer.qp_num.len()), ("", 3));
    assert_eq!(ask(&good), answer);
    let ready = ask(&Connection { ready_ack: Some(true), ..good.clone() });
    assert_eq!(ready, Connection::default());
    let anew = ask(&Connection { qp_num: vec![200, 201], ..good.clone() });
    assert_eq!((anew.qp_num.len(), far.transport.accepted()), (2, 1));
    let old = Connection { local_gid: String::new(), qp_num: vec![300], ready_ack: None, ..good };
    assert_eq!((ask(&old).qp_num.len(), far.transport.accepted()), (1, 1));
}
