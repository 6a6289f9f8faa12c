//! The initiator's side of the bare loop.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::{
    CPU_TIME, CPU_TIME_BYTES, CeilingReport, CeilingSettings, HELLO_BYTES, Idle, LATENCIES, MAGIC, Wait,
    broken, cpu_time, refused, wait,
};
use crate::memory::{Memory, RegionId};
use crate::tcp::SEND_BYTES;
use crate::tcp::frame::{self, ANSWER_BYTES, Answer, COUNT_MAX, Descriptor, HEAD_BYTES, Kind, Tag};
use crate::tcp::inbox::{Inbox, Received};
use crate::tcp::socket;
use crate::tcp::vector::Vector;
use crate::wr::Op;

/// How long lanes run before it counts.
const WARM_UP: Duration = Duration::from_millis(100);
/// How often a lane is read before it is the next one's turn, if it always has more.
const READS_A_TURN: usize = 8;
/// How many times `depth` the oldest batch in flight may be behind the newest.
const AHEAD: usize = 4;

/// Runs batches against [`super::serve`] at `target` for the time given, and waits for the last answer.
///
/// # Errors
/// The system's reason; `InvalidData` when the other side is no ceiling target or breaks the protocol.
pub fn initiate(settings: &CeilingSettings, target: SocketAddr) -> io::Result<CeilingReport> {
    let mut memory =
        Memory::allocate(settings.working_set.max(settings.bytes).max(CPU_TIME_BYTES)).map_err(refused)?;
    touch(&mut memory)?;
    let lanes: io::Result<Vec<_>> =
        (0..settings.lanes.max(1)).map(|_| Lane::connect(settings, target, memory.len())).collect();
    let mut lanes = lanes?;
    for lane in &mut lanes {
        lane.stream.read_exact(&mut [0])?;
        lane.stream.set_nonblocking(true)?;
    }
    Run { settings, memory, lanes, batches: VecDeque::new(), open: 0, next_batch: 0, offset: 0 }.run()
}

/// Maps every page now, so that the run does not.
pub(super) fn touch(memory: &mut Memory) -> io::Result<()> {
    for page in (0..memory.len()).step_by(4096) {
        memory.write(page, &[page as u8]).map_err(refused)?;
    }
    Ok(())
}

struct Run<'a> {
    settings: &'a CeilingSettings,
    memory: Memory,
    lanes: Vec<Lane>,
    /// Batches from the oldest in flight on: when they began, and how many requests are unanswered.
    batches: VecDeque<(Instant, u32)>,
    /// How many of them are in flight.
    open: usize,
    /// Number of the next batch to start.
    next_batch: u64,
    /// Where the next request's bytes begin.
    offset: u64,
}

struct Lane {
    stream: TcpStream,
    queue: VecDeque<Descriptor>,
    head: Box<[u8; frame::REQUEST_BYTES_MAX]>,
    vector: Vector,
    blocked: bool,
    inbox: Inbox,
    answers: [Answer; COUNT_MAX],
    count: usize,
    next: usize,
    filled: u64,
    /// Where each expected READ's bytes go, in the order of the requests.
    expected: VecDeque<Descriptor>,
}

impl Run<'_> {
    fn run(mut self) -> io::Result<CeilingReport> {
        // Lanes are new: their congestion windows open first, as those of the pipeline have long done.
        self.phase(WARM_UP.min(self.settings.duration))?;
        let (target, own) = (self.target_cpu()?, cpu_time());
        let mut report = self.phase(self.settings.duration)?;
        report.cpu = cpu_time().saturating_sub(own);
        report.target_cpu = self.target_cpu()?.saturating_sub(target);
        Ok(report)
    }

    /// What CPU time the target has used so far; between two phases, when nothing is in flight.
    fn target_cpu(&mut self) -> io::Result<Duration> {
        let (lane, idle) = (&mut self.lanes[0], &mut Idle::default());
        let (op, region) = (Op::Read, CPU_TIME);
        let tag = Tag::default();
        lane.queue.push_back(Descriptor { tag, op, region, offset: 0, length: CPU_TIME_BYTES });
        while lane.answered(&self.memory)?.is_none() {
            let sent = lane.send(self.settings, &self.memory)?;
            if lane.read(&self.memory)? == Received::Nothing && !sent {
                wait(Wait::Park, idle, std::iter::once((&lane.stream, lane.blocked)))?;
                lane.blocked = false;
            }
        }
        let mut nanos = [0; CPU_TIME_BYTES as usize];
        self.memory.read(0, &mut nanos).map_err(refused)?;
        Ok(Duration::from_nanos(u64::from_le_bytes(nanos)))
    }

    /// Starts batches for `duration`, and waits for the last answer.
    fn phase(&mut self, duration: Duration) -> io::Result<CeilingReport> {
        let mut report =
            CeilingReport { batch_ns: Vec::with_capacity(LATENCIES), ..CeilingReport::default() };
        let (start, mut idle) = (Instant::now(), Idle::default());
        let end = start + duration;
        let depth = self.settings.depth.max(1) as usize;
        loop {
            let now = Instant::now();
            // A lane may be ahead of the others, though not without bound.
            while now < end && self.open < depth && self.batches.len() < AHEAD * depth {
                self.start_batch(now);
            }
            if self.batches.is_empty() {
                break;
            }
            let mut progress = false;
            for lane in &mut self.lanes {
                progress |= lane.send(self.settings, &self.memory)?;
            }
            for i in 0..self.lanes.len() {
                progress |= self.receive(i, &mut report)?;
            }
            if progress {
                idle = Idle::default();
            } else {
                let lanes = self.lanes.iter().map(|l| (&l.stream, l.blocked));
                wait(self.settings.wait, &mut idle, lanes)?;
                self.lanes.iter_mut().for_each(|l| l.blocked = false);
            }
        }
        report.elapsed = start.elapsed();
        Ok(report)
    }

    fn start_batch(&mut self, now: Instant) {
        let (s, lanes) = (self.settings, self.lanes.len() as u64);
        for i in 0..s.batch.max(1) {
            if self.offset + s.bytes > self.memory.len() {
                self.offset = 0;
            }
            let tag = Tag { slot: i, sequence: self.next_batch as u32 };
            // A batch is dealt out in blocks; batches smaller than the lanes are many take them in turn.
            let batch = u64::from(s.batch.max(1));
            let block = u64::from(i) * lanes / batch;
            let lane = if batch < lanes { (self.next_batch * batch + u64::from(i)) % lanes } else { block };
            let lane = &mut self.lanes[lane as usize];
            let region = RegionId(0);
            lane.queue.push_back(Descriptor { tag, op: s.op, region, offset: self.offset, length: s.bytes });
            self.offset += s.bytes;
        }
        self.next_batch += 1;
        self.open += 1;
        self.batches.push_back((now, s.batch.max(1)));
    }

    /// Takes what a lane has for us. All of it before the next send: whoever answers each piece of what came with a
    /// request of its own soon sends and gets nothing but small frames.
    fn receive(&mut self, i: usize, report: &mut CeilingReport) -> io::Result<bool> {
        let (lane, mut any) = (&mut self.lanes[i], false);
        for _ in 0..READS_A_TURN {
            let received = lane.read(&self.memory)?;
            any |= received != Received::Nothing;
            while let Some(tag) = lane.answered(&self.memory)? {
                report.requests += 1;
                report.bytes += self.settings.bytes;
                let oldest = (self.next_batch - self.batches.len() as u64) as u32;
                let at = tag.sequence.wrapping_sub(oldest) as usize;
                let batch = self.batches.get_mut(at).filter(|b| b.1 > 0);
                let batch = batch.ok_or_else(|| broken("an answer to nothing"))?;
                batch.1 -= 1;
                if batch.1 == 0 {
                    self.open -= 1;
                    if report.batch_ns.len() < LATENCIES {
                        report.batch_ns.push(batch.0.elapsed().as_nanos() as u64);
                    }
                }
            }
            if received != Received::More {
                break;
            }
        }
        while let Some((_, 0)) = self.batches.front() {
            self.batches.pop_front();
        }
        Ok(any)
    }
}

impl Lane {
    fn connect(settings: &CeilingSettings, target: SocketAddr, working_set: u64) -> io::Result<Self> {
        let domain = if target.is_ipv4() { socket2::Domain::IPV4 } else { socket2::Domain::IPV6 };
        let raw = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
        socket::before_connect(&raw, &settings.sockets).map_err(refused)?;
        raw.connect(&target.into())?;
        socket::connected(&raw, &settings.sockets).map_err(refused)?;
        let mut stream: TcpStream = raw.into();
        let name = settings.sockets.congestion.as_deref().unwrap_or("");
        let mut hello = [0; HELLO_BYTES];
        hello[..8].copy_from_slice(&MAGIC);
        hello[8..10].copy_from_slice(&settings.lanes.max(1).to_le_bytes());
        hello[10..12].copy_from_slice(&settings.target_wait.to_wire().to_le_bytes());
        hello[12..16].copy_from_slice(&(name.len() as u32).to_le_bytes());
        hello[16..].copy_from_slice(&working_set.to_le_bytes());
        stream.write_all(&hello)?;
        stream.write_all(name.as_bytes())?;
        let window = AHEAD * (settings.batch.max(1) * settings.depth.max(1)) as usize;
        Ok(Self {
            stream,
            queue: VecDeque::with_capacity(window),
            head: Box::new([0; frame::REQUEST_BYTES_MAX]),
            vector: Vector::with_capacity(1 + COUNT_MAX),
            blocked: false,
            inbox: Inbox::new(COUNT_MAX),
            answers: [Answer::default(); COUNT_MAX],
            count: 0,
            next: 0,
            filled: 0,
            expected: VecDeque::with_capacity(window),
        })
    }

    fn send(&mut self, settings: &CeilingSettings, memory: &Memory) -> io::Result<bool> {
        if self.blocked {
            return Ok(false);
        }
        if self.vector.is_empty() && !self.build(settings, memory) {
            return Ok(false);
        }
        // SAFETY: the head and the working set live as long as the run.
        match unsafe { self.vector.send(self.stream.as_fd(), SEND_BYTES) } {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                self.blocked = true;
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }

    fn build(&mut self, settings: &CeilingSettings, memory: &Memory) -> bool {
        let (mut count, mut payload) = (0, 0);
        self.vector.clear();
        let max = usize::from(settings.sockets.hello().descriptors);
        while count < max && payload < settings.sockets.frame_bytes {
            let Some(descriptor) = self.queue.pop_front() else { break };
            frame::put_descriptor(&mut self.head[..], count, &descriptor);
            self.expected.push_back(descriptor);
            payload += descriptor.length;
            count += 1;
        }
        if count == 0 {
            return false;
        }
        frame::put_head(&mut self.head[..], Kind::Request, count);
        self.vector.push(self.head.as_mut_ptr(), HEAD_BYTES + count * frame::DESCRIPTOR_BYTES);
        let frame = self.expected.range(self.expected.len() - count..);
        for d in frame.filter(|d| d.op == Op::Write) {
            self.vector.push(memory.ptr().wrapping_add(d.offset as usize), d.length as usize);
        }
        true
    }

    fn read(&mut self, memory: &Memory) -> io::Result<Received> {
        let mut filled = self.filled;
        // Answers come in the order of the requests, so those of this frame stand first in `expected`.
        for (answer, d) in self.answers[self.next..self.count].iter().zip(&self.expected) {
            let missing = (answer.length - filled) as usize;
            self.inbox.pieces().push(memory.ptr().wrapping_add((d.offset + filled) as usize), missing);
            filled = 0;
        }
        // SAFETY: the pieces lie in the working set: `answered` has checked their lengths.
        match unsafe { self.inbox.receive(self.stream.as_fd()) } {
            Received::Closed(_) => Err(broken("the target closed the lane")),
            received => Ok(received),
        }
    }

    /// The next answered request, if all of it has come.
    fn answered(&mut self, memory: &Memory) -> io::Result<Option<Tag>> {
        if self.next == self.count && !self.parse()? {
            return Ok(None);
        }
        let answer = self.answers[self.next];
        let expected = self.expected.front().ok_or_else(|| broken("an answer to nothing"))?;
        let payload = if expected.op == Op::Read { expected.length } else { 0 };
        if answer.tag != expected.tag || answer.refusal.is_some() || answer.length != payload {
            return Err(broken("not the answer expected"));
        }
        let at = memory.ptr().wrapping_add((expected.offset + self.filled) as usize);
        // SAFETY: the request's range in the working set.
        self.filled += unsafe { self.inbox.take(Some(at), payload - self.filled) };
        if self.filled < payload {
            return Ok(None);
        }
        self.expected.pop_front();
        (self.next, self.filled) = (self.next + 1, 0);
        Ok(Some(answer.tag))
    }

    fn parse(&mut self) -> io::Result<bool> {
        let bytes = self.inbox.bytes();
        if bytes.len() < HEAD_BYTES {
            return Ok(false);
        }
        let violation = |v: frame::Violation| broken(&v.to_string());
        let count = frame::head(bytes, Kind::Answer, COUNT_MAX).map_err(violation)?;
        let whole = HEAD_BYTES + count * ANSWER_BYTES;
        if bytes.len() < whole {
            return Ok(false);
        }
        for (i, answer) in self.answers[..count].iter_mut().enumerate() {
            *answer = frame::answer(bytes, i).map_err(violation)?;
            // What follows relies on each being the answer to the request it stands for.
            let payload = self.expected.get(i).map_or(0, |d| if d.op == Op::Read { d.length } else { 0 });
            if answer.length != payload {
                return Err(broken("not the answer expected"));
            }
        }
        self.inbox.consume(whole);
        (self.count, self.next, self.filled) = (count, 0, 0);
        Ok(true)
    }
}
