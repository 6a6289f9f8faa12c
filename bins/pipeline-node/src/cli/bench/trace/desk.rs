//! What becomes of a request: which of its blocks are here, which are on their way for another one, which are to be
//! moved, and when it has them all. Deliberately without bytes, peers and clocks, so that any order of events can be
//! tried.

use std::collections::VecDeque;

use super::args::Fill;
use super::cache::Cache;
use super::form::Trace;

/// A block to be moved for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Where it lies here. Pinned until [`Desk::has_read`] or [`Desk::has_written`].
    pub slot: u32,
    /// Which block.
    pub block: u32,
    /// For which of the open requests.
    pub request: u32,
}

/// What has happened to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Its blocks are all here, or some of them will not come.
    Loaded {
        /// What [`Desk::begin`] was told.
        since_ns: u64,
        /// Whether a block had to come from a peer.
        waited: bool,
        /// None failed.
        ok: bool,
    },
    /// Its new blocks are all at their peers, or some of them never will be.
    Written {
        /// What [`Desk::begin`] was told.
        since_ns: u64,
        /// None failed.
        ok: bool,
    },
    /// Nothing of it is left.
    Closed {
        /// None of its blocks failed.
        ok: bool,
    },
}

/// Blocks that requests asked for, by what became of them: each is one of the four.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// They were here.
    pub local: u64,
    /// They were on their way for another request, which this one waited for as well.
    pub joined: u64,
    /// A peer had them.
    pub read: u64,
    /// Nobody had them: they were made here.
    pub made: u64,
}

/// The requests that are open, and the cache they share.
pub struct Desk<'a> {
    trace: &'a Trace,
    fill: Fill,
    cache: Cache,
    /// By block: a peer has it, or is being sent it.
    kept: Vec<bool>,
    /// By slot: who waits for the block that is on its way there. `None`: nothing is on its way.
    waiting: Vec<Option<Vec<u32>>>,
    open: Vec<Open>,
    unused: Vec<u32>,
    /// By block: the request that looked for it last.
    looked: Vec<usize>,
    /// There was no room for the next request, and nothing has been released since.
    full: bool,
    /// To be read.
    pub reads: VecDeque<Job>,
    /// To be written.
    pub writes: VecDeque<Job>,
    /// So far.
    pub counts: Counts,
}

#[derive(Default)]
struct Open {
    since_ns: u64,
    /// Slots it holds, in the order of its blocks.
    pins: Vec<u32>,
    /// Blocks that are on their way.
    waits: u32,
    /// Blocks that are being written.
    writes: u32,
    waited: bool,
    failed: bool,
}

impl<'a> Desk<'a> {
    /// An empty cache of `slots` slots, and no request open.
    pub fn new(trace: &'a Trace, slots: u32, fill: Fill) -> Self {
        let blocks = trace.distinct();
        Self {
            trace,
            fill,
            cache: Cache::new(blocks, slots),
            kept: vec![fill == Fill::Warm; blocks as usize],
            waiting: vec![None; slots as usize],
            open: Vec::new(),
            unused: Vec::new(),
            looked: vec![usize::MAX; blocks as usize],
            full: false,
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// Requests that are open.
    pub fn open(&self) -> usize {
        self.open.len() - self.unused.len()
    }

    /// Begins a request: its blocks are pinned where they are or will be, and what has to be moved is put into
    /// [`Self::reads`] and [`Self::writes`]. `false`, and nothing happened, if the cache has no room for it now.
    pub fn begin(&mut self, entry: usize, since_ns: u64, events: &mut Vec<Event>) -> bool {
        if self.full || !self.pin_what_is_here(entry) {
            return false;
        }
        let request = self.unused.pop().unwrap_or_else(|| {
            self.open.push(Open::default());
            self.open.len() as u32 - 1
        });
        let pins = std::mem::take(&mut self.open[request as usize].pins);
        self.open[request as usize] = Open { since_ns, pins, ..Open::default() };
        let trace = self.trace;
        for &block in trace.blocks(entry) {
            let (slot, waits) = match self.cache.slot_of(block) {
                // Pinned already, but for one that it names twice.
                Some(slot) => (slot, self.find(slot, block, request, entry)),
                None => self.fetch(block, request),
            };
            let open = &mut self.open[request as usize];
            open.pins.push(slot);
            open.waits += u32::from(waits);
            open.waited |= waits;
        }
        let open = &self.open[request as usize];
        if open.waits == 0 {
            self.loaded(request, events);
        }
        true
    }

    /// Pins those blocks of a request that have a slot, so that making room for the others does not cost them.
    fn pin_what_is_here(&mut self, entry: usize) -> bool {
        let trace = self.trace;
        let mut wanted = 0;
        for &block in trace.blocks(entry) {
            if std::mem::replace(&mut self.looked[block as usize], entry) == entry {
                continue;
            }
            match self.cache.slot_of(block) {
                Some(slot) => self.cache.pin(slot),
                None => wanted += 1,
            }
        }
        if self.cache.has_room(wanted) {
            return true;
        }
        self.full = true;
        for &block in trace.blocks(entry).iter().rev() {
            if std::mem::replace(&mut self.looked[block as usize], usize::MAX) == entry
                && let Some(slot) = self.cache.slot_of(block)
            {
                self.cache.unpin(slot);
            }
        }
        false
    }

    /// A block that has a slot; answers whether it is still to come.
    fn find(&mut self, slot: u32, block: u32, request: u32, entry: usize) -> bool {
        // The pin of `pin_what_is_here` is for the first time it is named.
        if std::mem::replace(&mut self.looked[block as usize], usize::MAX) != entry {
            self.cache.pin(slot);
        }
        match &mut self.waiting[slot as usize] {
            Some(waiting) => {
                waiting.push(request);
                self.counts.joined += 1;
                true
            }
            None => {
                self.counts.local += 1;
                false
            }
        }
    }

    /// A block that is not here; answers where it will be and whether it is to come.
    fn fetch(&mut self, block: u32, request: u32) -> (u32, bool) {
        self.looked[block as usize] = usize::MAX;
        let slot = self.cache.take(block).expect("pin_what_is_here has seen room for every missing block");
        let job = Job { slot, block, request };
        if std::mem::replace(&mut self.kept[block as usize], true) {
            self.counts.read += 1;
            self.waiting[slot as usize] = Some(vec![request]);
            self.reads.push_back(job);
            return (slot, true);
        }
        self.counts.made += 1;
        self.cache.pin(slot);
        self.open[request as usize].writes += 1;
        self.writes.push_back(job);
        (slot, false)
    }

    /// Holds a job's slot for somebody else until [`Self::release`]: before its end is told.
    pub fn hold(&mut self, slot: u32) {
        self.cache.hold(slot);
    }

    /// Lets go of it.
    pub fn release(&mut self, slot: u32) {
        self.full = false;
        self.cache.release(slot);
    }

    fn unpin(&mut self, slot: u32) {
        self.full = false;
        self.cache.unpin(slot);
    }

    /// A block of [`Self::reads`] has come, or will not.
    pub fn has_read(&mut self, job: Job, ok: bool, events: &mut Vec<Event>) {
        if !ok {
            self.cache.forget(job.slot);
        }
        for request in self.waiting[job.slot as usize].take().unwrap_or_default() {
            let open = &mut self.open[request as usize];
            open.waits -= 1;
            open.failed |= !ok;
            if open.waits == 0 {
                self.loaded(request, events);
            }
        }
    }

    /// A block of [`Self::writes`] is at its peer, or never will be.
    pub fn has_written(&mut self, job: Job, ok: bool, events: &mut Vec<Event>) {
        if !ok && self.fill == Fill::Cold {
            self.kept[job.block as usize] = false;
        }
        self.unpin(job.slot);
        let open = &mut self.open[job.request as usize];
        open.writes -= 1;
        open.failed |= !ok;
        if open.writes == 0 {
            events.push(Event::Written { since_ns: open.since_ns, ok: !open.failed });
            self.close(job.request, events);
        }
    }

    fn loaded(&mut self, request: u32, events: &mut Vec<Event>) {
        let open = &mut self.open[request as usize];
        events.push(Event::Loaded { since_ns: open.since_ns, waited: open.waited, ok: !open.failed });
        let mut pins = std::mem::take(&mut open.pins);
        // From the last to the first: the end of a conversation goes before its beginning, which others may share.
        for slot in pins.drain(..).rev() {
            self.unpin(slot);
        }
        self.open[request as usize].pins = pins;
        self.close(request, events);
    }

    fn close(&mut self, request: u32, events: &mut Vec<Event>) {
        let open = &self.open[request as usize];
        if open.waits == 0 && open.writes == 0 && open.pins.is_empty() {
            events.push(Event::Closed { ok: !open.failed });
            self.unused.push(request);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;
    use crate::cli::draw::Draw;

    fn trace(requests: &[&[u64]]) -> Trace {
        let line = |ids: &&[u64]| {
            let tokens = ids.len() * 512;
            format!(r#"{{"timestamp":0,"input_length":{tokens},"output_length":1,"hash_ids":{ids:?}}}"#)
                + "\n"
        };
        let text: String = requests.iter().map(line).collect();
        Trace::parse(text.as_bytes(), "t", None, 512).unwrap()
    }

    fn blocks(jobs: &VecDeque<Job>) -> Vec<u32> {
        jobs.iter().map(|job| job.block).collect()
    }

    /// A block that is on its way is not fetched again: the second request waits for it, and both end when it comes.
    #[test]
    fn fetched_once() {
        let trace = trace(&[&[0, 1], &[0, 2]]);
        let (mut desk, mut events) = (Desk::new(&trace, 8, Fill::Warm), Vec::new());
        assert!(desk.begin(0, 10, &mut events) && desk.begin(1, 20, &mut events));
        assert_eq!((blocks(&desk.reads), events.len()), (vec![0, 1, 2], 0));
        let jobs: Vec<_> = desk.reads.drain(..).collect();
        for job in [jobs[2], jobs[0], jobs[1]] {
            desk.has_read(job, true, &mut events);
        }
        let loaded = |since_ns| Event::Loaded { since_ns, waited: true, ok: true };
        let closed = Event::Closed { ok: true };
        assert_eq!(events, [loaded(20), closed, loaded(10), closed]);
        assert_eq!(desk.counts, Counts { local: 0, joined: 1, read: 3, made: 0 });
    }

    /// A block that does not come fails whoever waits for it, and is fetched anew for the next one.
    #[test]
    fn a_failed_block_is_fetched_anew() {
        let trace = trace(&[&[0], &[0], &[0]]);
        let (mut desk, mut events) = (Desk::new(&trace, 1, Fill::Warm), Vec::new());
        assert!(desk.begin(0, 0, &mut events) && desk.begin(1, 0, &mut events));
        let job = desk.reads.pop_front().unwrap();
        desk.has_read(job, false, &mut events);
        assert_eq!(events.iter().filter(|e| **e == Event::Closed { ok: false }).count(), 2);
        assert!(desk.begin(2, 0, &mut events));
        assert_eq!(blocks(&desk.reads), [0]);
    }

    /// In a cold store a block that nobody has seen is written and waited for by nobody; once it is gone from here, it
    /// is read.
    #[test]
    fn cold() {
        let trace = trace(&[&[0], &[1], &[0]]);
        let (mut desk, mut events) = (Desk::new(&trace, 1, Fill::Cold), Vec::new());
        assert!(desk.begin(0, 7, &mut events));
        assert_eq!(events, [Event::Loaded { since_ns: 7, waited: false, ok: true }]);
        assert!(!desk.begin(1, 7, &mut events), "what is being written is not evicted");
        let job = desk.writes.pop_front().unwrap();
        desk.has_written(job, true, &mut events);
        assert_eq!(events[1..], [Event::Written { since_ns: 7, ok: true }, Event::Closed { ok: true }]);
        assert!(desk.begin(1, 8, &mut events));
        let job = desk.writes.pop_front().unwrap();
        desk.has_written(job, true, &mut events);
        assert!(desk.begin(2, 9, &mut events));
        assert_eq!((blocks(&desk.reads), desk.writes.len()), (vec![0], 0));
    }

    /// Whatever order blocks come in, and however few fit: every request ends once, every block asked for is counted
    /// once, none is fetched while it is here or on its way, and no slot in use is given to another block.
    #[test]
    fn any_order() {
        for seed in 0..200 {
            let mut draw = Draw::new(seed);
            let requests: Vec<Vec<u64>> =
                (0..60).map(|_| (0..1 + draw.below(6)).map(|_| draw.below(30)).collect()).collect();
            let trace = trace(&requests.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let fill = if draw.below(2) == 0 { Fill::Warm } else { Fill::Cold };
            let slots = 6 + draw.below(10) as u32;
            let mut desk = Desk::new(&trace, slots, fill);
            let (mut events, mut next) = (Vec::new(), 0);
            // By slot: the block that is moving there.
            let mut moving: HashMap<u32, u32> = HashMap::new();
            let (mut reads, mut writes): (Vec<Job>, Vec<Job>) = Default::default();
            let mut written: HashSet<u32> = HashSet::new();
            while next < 60 || desk.open() > 0 {
                if next < 60 && draw.below(3) > 0 && desk.begin(next, 0, &mut events) {
                    next += 1;
                }
                for job in desk.reads.drain(..) {
                    assert!(fill == Fill::Warm || written.contains(&job.block), "read before it was written");
                    assert!(!moving.values().any(|b| *b == job.block), "fetched twice at a time");
                    assert!(moving.insert(job.slot, job.block).is_none(), "a slot in use was taken");
                    reads.push(job);
                }
                for job in desk.writes.drain(..) {
                    assert!(moving.insert(job.slot, job.block).is_none(), "a slot in use was taken");
                    writes.push(job);
                }
                let (from, is_read) = match draw.below(2) {
                    0 => (&mut reads, true),
                    _ => (&mut writes, false),
                };
                if !from.is_empty() {
                    let job = from.swap_remove(draw.below(from.len() as u64) as usize);
                    let ok = draw.below(10) > 0;
                    assert_eq!(moving.remove(&job.slot), Some(job.block));
                    match is_read {
                        true => desk.has_read(job, ok, &mut events),
                        false => desk.has_written(job, ok, &mut events),
                    }
                    if !is_read && ok {
                        written.insert(job.block);
                    }
                }
            }
            let count = |f: fn(&Event) -> bool| events.iter().filter(|e| f(e)).count();
            assert_eq!(count(|e| matches!(e, Event::Loaded { .. })), 60, "seed {seed}");
            assert_eq!(count(|e| matches!(e, Event::Closed { .. })), 60, "seed {seed}");
            let Counts { local, joined, read, made } = desk.counts;
            assert_eq!(local + joined + read + made, trace.asked());
            assert!(desk.cache.has_room(slots as usize) && moving.is_empty(), "everything was released");
        }
    }
}
