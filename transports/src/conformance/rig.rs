//! Drives a fixture and keeps the books: what was posted, what it came to, what the bytes must be.
//! Deliberately strict: a completion that nobody waits for fails the case at once.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::conformance::fixture::Fixture;
use crate::error::Error;
use crate::link::LinkId;
use crate::memory::{Access, Memory, RegionId};
use crate::wr::{Completions, Op, Outcome, Span, WorkRequest, WrId};

/// A case that makes no progress for so long has lost something.
const PATIENCE: Duration = Duration::from_secs(20);

/// A region, and the bytes it must hold.
pub(super) struct Buffer {
    pub(super) region: RegionId,
    pub(super) expect: Vec<u8>,
}

impl Buffer {
    /// The span from `offset` on.
    pub(super) fn at(&self, offset: u64) -> Span {
        Span { region: self.region, offset }
    }
}

/// A fixture under test.
pub(super) struct Rig<F> {
    pub(super) fixture: F,
    out: Completions,
    next_id: u64,
    waiting: HashMap<WrId, (LinkId, RegionId)>,
    ended: HashMap<WrId, Outcome>,
    pub(super) closed: Vec<LinkId>,
}

impl<F: Fixture> Rig<F> {
    pub(super) fn new() -> Self {
        Self {
            fixture: F::new(),
            out: Completions::with_capacity(64),
            next_id: 0,
            waiting: HashMap::new(),
            ended: HashMap::new(),
            closed: Vec::new(),
        }
    }

    /// Memory of the initiator, filled by `seed`.
    pub(super) fn local(&mut self, len: u64, seed: u64) -> Buffer {
        let (memory, expect) = filled(len, seed);
        Buffer { region: self.fixture.add_local(memory), expect }
    }

    /// Memory of the target, filled by `seed`.
    pub(super) fn remote(&mut self, len: u64, seed: u64, access: Access) -> Buffer {
        let (memory, expect) = filled(len, seed);
        let region = self.fixture.add_remote(memory, access);
        Buffer { region, expect }
    }

    /// The longest request that the transport takes, up to `len` bytes.
    pub(super) fn longest(&self, len: u64) -> u64 {
        len.min(self.fixture.caps().max_bytes)
    }

    /// Another link, if this one has closed because its target refused something.
    pub(super) fn reopen(&mut self, link: &mut LinkId) {
        if self.closed.contains(link) {
            assert!(!self.fixture.asks_the_table(), "a refusal closed the link");
            *link = self.fixture.connect();
        }
    }

    /// A request with a fresh id.
    pub(super) fn request(&mut self, op: Op, local: Span, remote: Span, len: u64) -> WorkRequest {
        self.next_id += 1;
        WorkRequest { id: WrId(self.next_id << 32 | 0xC0DE), op, local, remote, len }
    }

    /// Offers work once; what was taken is waited for, its regions are pinned until it ends.
    pub(super) fn offer(&mut self, link: LinkId, work: &[WorkRequest]) -> usize {
        for request in work {
            self.fixture.initiator().pin(request.local.region).expect("the case's region is live");
        }
        let now = self.fixture.now();
        let taken = self.fixture.halves().post.post(now, link, work).taken;
        assert!(taken <= work.len(), "took {taken} of {}", work.len());
        for request in &work[taken..] {
            self.fixture.initiator().unpin(request.local.region);
        }
        for request in &work[..taken] {
            let twice = self.waiting.insert(request.id, (link, request.local.region));
            assert!(twice.is_none(), "the suite's ids are unique");
        }
        taken
    }

    /// Posts all, stepping while there is no room.
    #[track_caller]
    pub(super) fn post(&mut self, link: LinkId, mut work: &[WorkRequest]) {
        let begin = Instant::now();
        loop {
            work = &work[self.offer(link, work)..];
            if work.is_empty() {
                return;
            }
            self.step();
            let (left, closed) = (work.len(), &self.closed);
            assert!(!closed.contains(&link), "{link:?} closed before {left} requests had found room");
            assert!(begin.elapsed() < PATIENCE, "no room for {left} requests on {link:?}; closed {closed:?}");
        }
    }

    /// Drives everything once and books what came.
    pub(super) fn step(&mut self) -> usize {
        self.out.clear();
        let came = self.fixture.step(&mut self.out);
        self.book(came)
    }

    /// As [`Self::step`], while the target stands still.
    pub(super) fn step_near(&mut self) -> usize {
        self.out.clear();
        let came = self.fixture.step_near(&mut self.out);
        self.book(came)
    }

    fn book(&mut self, came: usize) -> usize {
        assert_eq!(came, self.out.done().len(), "reap answers how many completions it added");
        for completion in self.out.done() {
            let Some((link, region)) = self.waiting.remove(&completion.id) else {
                panic!("{completion:?}: completed twice, never posted, or discarded");
            };
            assert_eq!(link, completion.link, "{completion:?} was posted on another link");
            assert!(!self.closed.contains(&link), "{completion:?} after its link was closed");
            self.ended.insert(completion.id, completion.outcome);
            self.fixture.initiator().unpin(region);
        }
        for link in self.out.closed() {
            assert!(!self.closed.contains(link), "{link:?} was reported closed twice");
            assert!(
                !self.waiting.values().any(|(l, _)| l == link),
                "{link:?} closed before its last completion"
            );
            self.closed.push(*link);
        }
        if came == 0 {
            std::thread::yield_now();
        }
        came
    }

    /// Steps until `done`.
    #[track_caller]
    pub(super) fn until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let begin = Instant::now();
        while !done(self) {
            self.step();
            assert!(
                begin.elapsed() < PATIENCE,
                "waited {PATIENCE:?} for {what}; {} waiting",
                self.waiting.len()
            );
        }
    }

    /// Has a link die while the target stands still: all of it ends, without any help of the target.
    #[track_caller]
    pub(super) fn kill(&mut self, link: LinkId) {
        self.fixture.halves().reap.abort(link);
        let begin = Instant::now();
        while !self.closed.contains(&link) {
            self.step_near();
            assert!(begin.elapsed() < PATIENCE, "a link dies only with the help of its target");
        }
    }

    /// Steps until all that was posted has ended, and on a little: nothing more may come.
    #[track_caller]
    pub(super) fn finish(&mut self) {
        self.until("all completions", |rig| rig.waiting.is_empty());
        self.linger();
        assert_eq!(self.fixture.halves().reap.outstanding(), 0, "nothing is outstanding when all has ended");
    }

    /// Some steps more, to catch what should not come.
    pub(super) fn linger(&mut self) {
        for _ in 0..64 {
            self.step();
        }
    }

    /// How a request ended; `None` if it has not.
    pub(super) fn outcome(&self, request: &WorkRequest) -> Option<Outcome> {
        self.ended.get(&request.id).copied()
    }

    /// All of these ended so.
    #[track_caller]
    pub(super) fn all_ended(&self, work: &[WorkRequest], outcome: Outcome) {
        for request in work {
            assert_eq!(self.outcome(request), Some(outcome), "{request:?}");
        }
    }

    /// Waits for no completion of this one any more: it was discarded, its buffer is free.
    pub(super) fn forget(&mut self, request: &WorkRequest) {
        let (_, region) = self.waiting.remove(&request.id).expect("it was posted and has not ended");
        self.fixture.initiator().unpin(region);
    }

    /// Waits for nothing that was posted: its reap half is gone.
    pub(super) fn forget_all(&mut self) {
        for (_, (_, region)) in self.waiting.drain() {
            self.fixture.initiator().unpin(region);
        }
    }

    /// The initiator's buffer holds exactly what it must.
    #[track_caller]
    pub(super) fn check_local(&self, buffer: &Buffer) {
        let regions = self.fixture.initiator();
        self.check("initiator", buffer, |into| regions.read_shared(buffer.region, 0, into));
    }

    /// The target's buffer holds exactly what it must: in, before and after the spans written.
    #[track_caller]
    pub(super) fn check_remote(&self, buffer: &Buffer) {
        let regions = self.fixture.target();
        self.check("target", buffer, |into| regions.read_shared(buffer.region, 0, into));
    }

    #[track_caller]
    fn check(&self, side: &str, buffer: &Buffer, read: impl Fn(&mut [u8]) -> Result<(), Error>) {
        if !self.fixture.moves_bytes() {
            return;
        }
        let mut got = vec![0; buffer.expect.len()];
        read(&mut got).expect("the case's region is live");
        if got != buffer.expect {
            let at = got.iter().zip(&buffer.expect).position(|(a, b)| a != b);
            let wrong = got.iter().zip(&buffer.expect).filter(|(a, b)| a != b).count();
            panic!("the {side}'s region {:?}: {wrong} bytes differ, first at {at:?}", buffer.region);
        }
    }
}

/// Memory that holds a pattern in which no two places look alike, and a copy of it.
fn filled(len: u64, seed: u64) -> (Memory, Vec<u8>) {
    let mut word = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = vec![0; len as usize];
    for chunk in bytes.chunks_mut(8) {
        word = word.wrapping_mul(0xD134_2543_DE82_EF95).wrapping_add(1);
        let value = word ^ word >> 29;
        chunk.copy_from_slice(&value.to_le_bytes()[..chunk.len()]);
    }
    let mut memory = Memory::allocate(len).expect("the suite's buffers fit into memory");
    memory.write(0, &bytes).expect("the whole is within the whole");
    (memory, bytes)
}
