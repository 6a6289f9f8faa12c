//! Two nodes and what goes from one to the other while something happens to the network: an engine in this process, and the
//! program in another one. Every test ends with [`Pair::nothing_lost`] or says what was.

use std::time::Duration;

use pipeline_node::{Batch, Engine, Options, Reason, Region, Request, Segment, Source, Status};

use crate::bed::{shipped, uses};
use crate::node::Node;
use crate::rig::{bytes_of, nothing_left, pattern, reasons, region_of, until};

/// What the slowest of these tests may take to move its bytes, in an emulated CPU on a busy machine.
pub const LONG: Duration = Duration::from_secs(120);
/// Bytes a request, and a slice.
pub const PIECE: u64 = 64 << 10;

/// See the file's head.
pub struct Pair {
    pub client: Engine,
    pub node: Node,
    pub kv: Segment,
    bytes: Vec<u8>,
    from: Region,
}

impl Pair {
    /// A client over the devices `here` and a target over `there` with a segment of `mib` MiB.
    #[track_caller]
    pub fn new(here: &[usize], there: &[usize], mib: usize) -> Self {
        Self::with(here, there, mib, &[])
    }

    /// As [`Self::new`], with overrides of the client.
    #[track_caller]
    pub fn with(here: &[usize], there: &[usize], mib: usize, more: &[&str]) -> Self {
        let node = Node::target(there, &format!("{mib}MiB"));
        // Little at once, so that what happens in the middle happens to many.
        let throttle = ["limits.bytes_in_flight='2MiB'".to_owned(), "limits.peer_share='100%'".to_owned()];
        let own = more.iter().map(|set| (*set).to_owned());
        let all: Vec<String> = uses(here).into_iter().chain(throttle).chain(own).collect();
        let client = Engine::from_source(&Source::file(shipped("pipelines/rdma.toml")).set(all))
            .unwrap_or_else(|e| panic!("{e}"));
        let peer = client.open_within(&node.address, LONG).unwrap_or_else(|e| panic!("{e}"));
        let kv = peer.segment("kv").unwrap();
        let bytes = pattern(mib as u64, mib << 20);
        let from = region_of(&client, &bytes);
        Self { client, node, kv, bytes, from }
    }

    /// Requests that write all of the segment, or read it into a region.
    pub fn pieces(&self, to: Option<&Region>) -> Vec<Request> {
        let piece = |i: u64| match to {
            None => Request::write(&self.from, i * PIECE, self.kv.at(i * PIECE), PIECE),
            Some(to) => Request::read(to, i * PIECE, self.kv.at(i * PIECE), PIECE),
        };
        (0..self.from.len() / PIECE).map(piece).collect()
    }

    /// Submits with time enough for any fault to be mended.
    #[track_caller]
    pub fn submit(&self, requests: &[Request]) -> Batch {
        let options = Options { deadline: Some(LONG), ..Options::default() };
        self.client.submit_wait(requests, options, LONG).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Writes the whole segment; all of it must come to a good end.
    #[track_caller]
    pub fn written(&self) {
        let requests = self.pieces(None);
        self.well_ended(&self.submit(&requests), &requests);
    }

    /// Writes the whole segment, and does something when a part of it is there and the rest is not. All of it must come to a
    /// good end.
    #[track_caller]
    pub fn written_while(&self, happens: impl FnOnce()) {
        self.carried_while(&self.pieces(None), happens);
    }

    /// The same for reading, of what was written before.
    #[track_caller]
    pub fn read_while(&self, happens: impl FnOnce()) {
        let to = self.client.allocate(self.from.len()).unwrap();
        self.carried_while(&self.pieces(Some(&to)), happens);
        self.compared(to);
    }

    #[track_caller]
    fn compared(&self, to: Region) {
        assert!(bytes_of(&to) == self.bytes, "bytes that were read differ");
        self.client.unregister_within(to, LONG).map_err(|(_, e)| e).expect("a pin was left");
    }

    #[track_caller]
    fn carried_while(&self, requests: &[Request], happens: impl FnOnce()) {
        let batch = self.submit(requests);
        until("some are there", || finished(&batch) >= requests.len() / 8);
        assert!(batch.poll().is_none(), "over before anything could happen");
        happens();
        self.well_ended(&batch, requests);
    }

    #[track_caller]
    fn well_ended(&self, batch: &Batch, requests: &[Request]) {
        let summary = batch.wait(LONG).expect("an end");
        assert!(summary.is_done(), "{:?}", counted(&reasons(batch)));
        assert_eq!(summary.bytes, requests.iter().filter_map(Request::bytes).sum::<u64>());
    }

    /// Slices that were sent again so far.
    pub fn retried(&self) -> u64 {
        self.client.stats().stages.iter().filter(|stage| stage.kind == "retry").map(|stage| stage.items).sum()
    }

    /// Everything that was written is there, byte for byte; nothing is left on either side.
    #[track_caller]
    pub fn nothing_lost(self) {
        let to = self.client.allocate(self.from.len()).unwrap();
        let requests = self.pieces(Some(&to));
        self.well_ended(&self.submit(&requests), &requests);
        self.compared(to);
        let stale = self.client.counts().stale;
        nothing_left(&self.client, [self.from]);
        println!("measured: {stale} late completions, all dropped");
        self.client.stop();
        self.node.leave();
    }

    /// The end of a pair whose target is gone.
    #[track_caller]
    pub fn without_target(self) {
        nothing_left(&self.client, [self.from]);
    }
}

/// Requests of a batch that have ended.
pub fn finished(batch: &Batch) -> usize {
    batch.results().filter(|status| *status != Status::Pending).count()
}

/// How many ended for which reason: a message that can be read.
pub fn counted(reasons: &[Option<Reason>]) -> String {
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    for reason in reasons {
        *counts.entry(reason.map_or("done".into(), |r| format!("{r:?}"))).or_default() += 1;
    }
    format!("{counts:?}")
}
