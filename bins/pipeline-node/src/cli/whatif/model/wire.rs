//! Lanes and NICs: slices become frames that `wr_post` writes, a peer reads and answers, and `cq_reap` reads the answers of.
//!
//! A write goes on piece by piece, so that the other end reads while it goes on. Over one machine the kernel of the writer
//! carries bytes to the reader's socket at once; over a NIC they leave at its speed and arrive after its latency. Deliberately
//! without loss, congestion windows and pacing: what those cost of the CPU is in the measured price of a byte, and what they
//! cost of the time is not there.

use super::setup::{Role, Setup, Way};
use super::stream::{Parcel, Stream};
use super::thread::{Doing, Op, Whose};
use super::world::{Event, Lane, World};

/// Payload bytes that one call moves at most, and one flush of all lanes; see `transports/src/tcp`.
const CALL_BYTES: u64 = 1 << 20;
const FLUSH_BYTES: u64 = 2 << 20;
/// Calls of a lane in a flush.
const CALLS: usize = 8;
/// Polls of the reaper in a turn.
const POLLS: usize = 4;
/// A descriptor of a request, and an answer, on the wire.
const DESCRIPTOR_BYTES: u64 = 40;
const ANSWER_BYTES: u64 = 24;
/// Items and payload bytes after which answers go out although more comes in.
const DUE_ITEMS: usize = 64;
const DUE_BYTES: u64 = 1 << 20;
/// How often memory is touched for a byte that a kernel copies.
const MEMORY_TOUCHES: f64 = 3.0;
/// Which list a lane is in.
const POST: usize = 0;
const SERVE: usize = 1;
const REAP: usize = 2;

impl World<'_> {
    /// Lanes to all peers over all NICs, each with a pair of workers that post to it and reap from it.
    pub fn lay_lanes(&mut self) {
        let setup = self.setup;
        let pairs = |role, nic: usize, lane: usize| {
            let stage = setup.stages.iter().find(|stage| stage.role == role);
            let workers = stage.map_or(&[][..], |stage| &stage.workers);
            setup.pair(workers, nic, lane)
        };
        for peer in 0..setup.peers.count {
            for nic in 0..setup.nics.len() {
                for lane in 0..setup.lanes {
                    // Peers begin with another pair each, or the first one would have most of them.
                    let pair = lane + peer;
                    self.lanes_of[peer].push(self.lanes.len());
                    self.lanes.push(Lane {
                        nic,
                        streams: [0, 1].map(|_| Stream::new(setup.costs.connection.bytes)),
                        post_worker: pairs(Role::Post, nic, pair),
                        reap_worker: pairs(Role::Reap, nic, pair),
                        peer,
                        outstanding: 0,
                        listed: [false; 3],
                        answers: false,
                        applied: 0,
                    });
                }
            }
        }
    }

    /// The lane of its peer that has least outstanding; of several NICs that are level each has its turn.
    pub fn choose(&mut self, token: u32) {
        let peer = self.requests[self.tokens[token].request].peer as usize;
        let (lanes, first) = (&self.lanes_of[peer], self.turn * self.setup.lanes);
        let round = (0..lanes.len()).map(|i| lanes[(first + i) % lanes.len()]);
        let least = round.min_by_key(|lane| self.lanes[*lane].outstanding);
        self.turn = (self.turn + 1) % self.setup.nics.len().max(1);
        let Some(lane) = least else { return };
        self.lanes[lane].outstanding += 1;
        self.tokens[token].lane = lane as u32;
    }

    /// Slices are handed to their lanes.
    pub fn hand_over(&mut self, tokens: &[u32]) {
        let is_write = self.setup.application.way == Way::Write;
        for token in tokens {
            let lane = self.tokens[*token].lane as usize;
            let payload = if is_write { self.tokens[*token].bytes } else { 0 };
            self.lanes[lane].streams[0].push(Parcel { item: *token, bytes: payload + DESCRIPTOR_BYTES });
            self.list(lane, POST);
        }
    }

    fn list(&mut self, lane: usize, which: usize) {
        if std::mem::replace(&mut self.lanes[lane].listed[which], true) {
            return;
        }
        let l = &self.lanes[lane];
        match which {
            POST => {
                let stage = self.setup.post();
                self.places[stage][l.post_worker].lanes.push_back(lane);
            }
            SERVE => self.served[l.peer].push_back(lane),
            _ => {
                let stage = self.setup.reap();
                self.places[stage][l.reap_worker].lanes.push_back(lane);
            }
        }
    }

    /// A flush: the next lane that has something and room.
    pub fn post(&mut self, t: usize, worker: usize, stage: usize, round: usize) -> bool {
        if round == 0 {
            self.budgets[worker] = FLUSH_BYTES;
        }
        while self.budgets[worker] > 0
            && let Some(lane) = self.places[stage][worker].lanes.pop_front()
        {
            self.lanes[lane].listed[POST] = false;
            let most = self.budgets[worker].min(CALL_BYTES);
            if let Some(bytes) = self.write(t, lane, false, most) {
                self.budgets[worker] -= bytes.min(self.budgets[worker]);
                if round + 1 < CALLS * 2 {
                    self.threads[t].ops.push_front(Op::Poll { worker, stage, round: round + 1 });
                }
                return true;
            }
        }
        false
    }

    /// Begins a call that writes to a lane; how much it will write.
    fn write(&mut self, t: usize, lane: usize, backward: bool, most: u64) -> Option<u64> {
        let stream = &mut self.lanes[lane].streams[usize::from(backward)];
        if stream.writing || stream.blocked || !stream.has_work() {
            return None;
        }
        let bytes = stream.frame(self.setup).min(most).min(stream.room());
        if bytes == 0 {
            stream.blocked = true;
            return None;
        }
        stream.writing = true;
        if backward {
            self.lanes[lane].applied = 0;
        }
        let call_ns = self.writer(backward).0.call_ns;
        let call_ns = call_ns + self.turn_due(t);
        self.write_piece(t, lane, backward, bytes, call_ns);
        Some(bytes)
    }

    /// Price and variation of who writes this way.
    fn writer(&self, backward: bool) -> (super::costs::Service, super::costs::Variation) {
        let costs = &self.setup.costs;
        match backward {
            false => {
                let stage = &self.setup.stages[self.setup.post()];
                (stage.service, stage.variation.clone())
            }
            true => (costs.target, costs.target_variation.clone()),
        }
    }

    /// What payload costs the thread that moves it: nothing where descriptors and answers go.
    fn byte_ns(&self, t: usize, backward: bool, service: super::costs::Service) -> f64 {
        let read = self.setup.costs.read;
        let byte_ns = match (self.setup.application.way, backward, self.threads[t].whose) {
            (Way::Write, false, _) => service.byte_ns,
            (Way::Read, true, Whose::Peer(_)) => read.target_ns,
            (Way::Read, true, _) => read.initiator_ns,
            _ => 0.0,
        };
        let is_shared = self.threads[t].is_here && self.cpus.is_shared(t);
        if is_shared { byte_ns * (1.0 + self.setup.costs.sharing.more) } else { byte_ns }
    }

    fn write_piece(&mut self, t: usize, lane: usize, backward: bool, left: u64, more_ns: f64) {
        let (service, variation) = self.writer(backward);
        let piece = left.min(self.setup.costs.connection.segment.max(1));
        let ns = self.byte_ns(t, backward, service) * piece as f64 * variation.draw(&mut self.dice);
        let ns = ns + more_ns;
        if !backward {
            let post = self.setup.post();
            self.counts.stage(post, 0, ns);
        }
        self.start(t, Doing::Write { lane, backward, piece, left }, ns);
    }

    /// A piece was written; whether another one begins.
    pub fn wrote(&mut self, t: usize, lane: usize, backward: bool, piece: u64, left: u64) -> bool {
        let at = usize::from(backward);
        self.lanes[lane].streams[at].write(piece);
        let nic = self.setup.nics[self.lanes[lane].nic];
        match nic.bytes_per_s {
            None => self.arrive(lane, backward, piece, Some(t)),
            Some(bytes_per_s) => {
                let ready = self.through_memory(piece);
                let free = &mut self.nic_free[self.lanes[lane].nic][at];
                let takes = piece as f64 / bytes_per_s * 1e9;
                *free = free.max(ready) + takes;
                let at = *free;
                self.counts.nic(self.lanes[lane].nic, backward, takes);
                self.agenda.enter(at + nic.latency_ns, Event::Arrive { lane, backward, bytes: piece });
            }
        }
        self.kernel_works(backward, piece);
        let left = left - piece;
        if left > 0 {
            self.write_piece(t, lane, backward, left, 0.0);
            return true;
        }
        let l = &mut self.lanes[lane];
        l.streams[at].writing = false;
        let more = l.streams[at].has_work();
        if backward {
            l.answers &= more;
        }
        if more || (backward && l.streams[0].readable() > 0) {
            self.list(lane, if backward { SERVE } else { POST });
        }
        false
    }

    /// The kernel has something to do for payload that was written, by itself.
    fn kernel_works(&mut self, backward: bool, bytes: u64) {
        let ns = self.setup.costs.kernel_byte_ns * bytes as f64;
        if (self.setup.application.way == Way::Write) != backward && ns > 0.0 {
            self.kernel_ns += ns;
            let kernel = self.kernel;
            if self.threads[kernel].doing.is_none() {
                self.kernel_next(kernel);
            }
        }
    }

    /// What waits for the kernel, at once. Nobody wakes it: interrupts do.
    pub fn kernel_next(&mut self, t: usize) -> bool {
        if t != self.kernel || self.kernel_ns <= 0.0 {
            return false;
        }
        let ns = std::mem::take(&mut self.kernel_ns);
        self.start(t, Doing::Coming, ns);
        true
    }

    /// When memory has moved them: read by the CPU, written to a socket's buffer, read by the NIC; or the other way round.
    fn through_memory(&mut self, bytes: u64) -> f64 {
        let Some(bytes_per_s) = self.setup.memory_bytes_per_s else { return self.now };
        let takes = MEMORY_TOUCHES * bytes as f64 / bytes_per_s * 1e9;
        self.memory_free = self.memory_free.max(self.now) + takes;
        self.counts.memory(takes);
        self.memory_free
    }

    /// Bytes have come to the other end of a lane.
    pub fn arrive(&mut self, lane: usize, backward: bool, bytes: u64, writer: Option<usize>) {
        self.lanes[lane].streams[usize::from(backward)].arrive(bytes);
        self.list(lane, if backward { REAP } else { SERVE });
        let reader = match backward {
            true => self.thread_of[self.lanes[lane].reap_worker],
            false => self.peer_thread[self.lanes[lane].peer],
        };
        if Some(reader) != writer {
            // What it takes to wake who reads is in the measured price of a write.
            self.notify(reader, None);
        } else {
            self.threads[reader].bell = true;
        }
    }

    /// A peer reads what has come, or answers.
    pub fn serve(&mut self, t: usize) -> bool {
        let Whose::Peer(peer) = self.threads[t].whose else { return false };
        for _ in 0..self.served[peer].len() {
            let Some(lane) = self.served[peer].pop_front() else { break };
            self.lanes[lane].listed[SERVE] = false;
            let began = match self.lanes[lane].answers {
                true => self.write(t, lane, true, CALL_BYTES).is_some(),
                false => self.read(t, lane, false, CALL_BYTES, DUE_ITEMS),
            };
            if began {
                self.threads[t].ops.push_back(Op::Serve);
                return true;
            }
        }
        false
    }

    /// Begins to read a lane: up to so many bytes and items.
    fn read(&mut self, t: usize, lane: usize, backward: bool, most: u64, items: usize) -> bool {
        let stream = &mut self.lanes[lane].streams[usize::from(backward)];
        if stream.reading || stream.readable() == 0 {
            return false;
        }
        let mut bytes = stream.readable().min(most);
        let whole = stream.ending_within(bytes);
        if whole > items {
            bytes = stream.bytes_of(items);
        }
        let whole = whole.min(items);
        stream.reading = true;
        let costs = &self.setup.costs;
        let (service, variation) = match backward {
            true => {
                let stage = &self.setup.stages[self.setup.reap()];
                (stage.service, &stage.variation)
            }
            false => (costs.target, &costs.target_variation),
        };
        let ns = service.call_ns
            + service.item_ns * whole as f64
            + self.byte_ns(t, backward, service) * bytes as f64;
        let ns = ns * variation.draw(&mut self.dice);
        let ns = ns + self.turn_due(t);
        if backward {
            let reap = self.setup.reap();
            self.counts.stage(reap, whole, ns);
        }
        self.start(t, Doing::Read { lane, backward, bytes }, ns);
        true
    }

    /// Bytes were read: what is whole is answered, or has ended; a writer that found no room may go on.
    pub fn was_read(&mut self, t: usize, lane: usize, backward: bool, bytes: u64) {
        let mut whole = Vec::new();
        let stream = &mut self.lanes[lane].streams[usize::from(backward)];
        stream.reading = false;
        let is_whole = stream.take(bytes, &mut whole);
        let (readable, unblocks) = (stream.readable() > 0, stream.unblocks());
        if unblocks {
            self.list(lane, if backward { SERVE } else { POST });
            let writer = match backward {
                true => self.peer_thread[self.lanes[lane].peer],
                false => self.thread_of[self.lanes[lane].post_worker],
            };
            if writer != t {
                self.notify(writer, Some(t));
            }
        }
        match backward {
            false => self.answer(lane, &whole, is_whole),
            true => self.completed(t, lane, &whole),
        }
        if readable || self.lanes[lane].answers {
            self.list(lane, if backward { REAP } else { SERVE });
        }
    }

    fn answer(&mut self, lane: usize, whole: &[u32], is_whole: bool) {
        let is_read = self.setup.application.way == Way::Read;
        for item in whole {
            let bytes = self.tokens[*item].bytes;
            let payload = if is_read { bytes } else { 0 };
            self.lanes[lane].applied += bytes;
            self.lanes[lane].streams[1].push(Parcel { item: *item, bytes: payload + ANSWER_BYTES });
        }
        let l = &self.lanes[lane];
        if is_whole || l.streams[1].queued() >= DUE_ITEMS || l.applied >= DUE_BYTES {
            self.lanes[lane].answers = true;
        }
    }

    /// The reaper reads answers, as far as the stage behind has room.
    pub fn reap(&mut self, t: usize, worker: usize, stage: usize, round: usize) -> bool {
        let room = self.room_behind(worker, stage);
        for _ in 0..self.places[stage][worker].lanes.len() {
            if room == 0 {
                break;
            }
            let Some(lane) = self.places[stage][worker].lanes.pop_front() else { break };
            self.lanes[lane].listed[REAP] = false;
            if self.read(t, lane, true, CALL_BYTES, room) {
                if round + 1 < POLLS {
                    self.threads[t].ops.push_front(Op::Poll { worker, stage, round: round + 1 });
                }
                return true;
            }
        }
        false
    }

    fn completed(&mut self, t: usize, lane: usize, whole: &[u32]) {
        self.lanes[lane].outstanding -= whole.len() as u32;
        let (stage, worker) = (self.setup.reap(), self.lanes[lane].reap_worker);
        self.pass_on(t, worker, stage, whole);
    }
}

impl Setup {
    /// The worker of `workers` that drives a lane of a NIC: each NIC has its share of them, or all drive all.
    pub fn pair(&self, workers: &[usize], nic: usize, pair: usize) -> usize {
        let each = workers.len() / self.nics.len().max(1);
        let per_nic = self.is_per_nic && each > 0;
        let (first, n) = if per_nic { (nic * each, each) } else { (0, workers.len()) };
        workers.get(first + pair % n.max(1)).copied().unwrap_or(0)
    }

    /// The stage that posts.
    pub fn post(&self) -> usize {
        self.at(Role::Post)
    }

    /// The stage that reaps.
    pub fn reap(&self) -> usize {
        self.at(Role::Reap)
    }

    fn at(&self, role: super::setup::Role) -> usize {
        self.stages.iter().position(|stage| stage.role == role).unwrap_or(0)
    }
}
