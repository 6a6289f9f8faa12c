//! Who submits: threads that keep so many batches in flight, or are given batches by chance; each waits as it is told.

use std::collections::VecDeque;

use super::agenda::Time;
use super::setup::{Arrival, Edge};
use super::thread::{Doing, Op, Whose};
use super::world::{Batch, Event, Request, Token, World};

/// What a thread of the application has before it.
#[derive(Default)]
pub struct Desk {
    /// Batches in flight.
    flights: usize,
    /// When those that came and were not submitted have come.
    waiting: VecDeque<Time>,
    /// Batches that have ended.
    ended: VecDeque<u32>,
    /// Batches submitted so far.
    submitted: usize,
}

impl World<'_> {
    /// The first arrivals.
    pub fn open(&mut self) {
        if let Arrival::Poisson(_) = self.setup.application.arrival {
            (0..self.applications.len()).for_each(|app| self.expect(app));
        }
    }

    fn expect(&mut self, app: usize) {
        if let Arrival::Poisson(rate) = self.setup.application.arrival {
            let gap = self.dice.exponential() * 1e9 * self.applications.len() as f64 / rate;
            self.agenda.enter(self.now + gap, Event::Arrival(app));
        }
    }

    /// A batch has come.
    pub fn arrival(&mut self, app: usize) {
        self.applications[app].waiting.push_back(self.now);
        self.expect(app);
        self.notify(app, None);
    }

    /// What a thread does next by itself. Threads of the application come first among all.
    pub fn application_next(&mut self, t: usize) -> Option<Op> {
        let Whose::Application(app) = self.threads[t].whose else { return None };
        let desk = &self.applications[app];
        let may = match self.setup.application.arrival {
            Arrival::Closed(depth) => desk.flights < depth,
            Arrival::Poisson(_) => !desk.waiting.is_empty(),
        };
        if may && self.has_room(app, t) {
            return Some(Op::Submit);
        }
        (!self.applications[app].ended.is_empty()).then_some(Op::Collect)
    }

    /// The peer that a thread's next batch is for.
    fn next_peer(&self, app: usize) -> usize {
        let desk = &self.applications[app];
        (app + desk.submitted * self.applications.len()) % self.setup.peers.count
    }

    fn entrance(&self, peer: usize) -> (usize, usize) {
        let first = &self.setup.stages[0];
        let ring = if matches!(first.input, Edge::Shared(_)) { 0 } else { peer % first.workers.len().max(1) };
        (0, ring)
    }

    fn has_room(&mut self, app: usize, t: usize) -> bool {
        let (stage, ring) = self.entrance(self.next_peer(app));
        let needed = self.setup.application.batch.div_ceil(self.setup.batch);
        let ring = &mut self.rings[stage][ring];
        // A batch that is more than the ring holds goes in pieces; here at once, when it is empty.
        let has = ring.batches.is_empty() || ring.batches.len() + needed <= ring.capacity;
        if !has && !ring.awaited.contains(&t) {
            ring.awaited.push(t);
        }
        has
    }

    /// Begins to submit or to collect.
    pub fn apply(&mut self, t: usize, op: Op) -> bool {
        let Whose::Application(app) = self.threads[t].whose else { return false };
        let caller = self.setup.costs.caller;
        match op {
            Op::Submit => {
                let since = self.applications[app].waiting.pop_front().unwrap_or(self.now);
                let n = self.setup.application.batch;
                self.applications[app].flights += 1;
                self.start(t, Doing::Submit { since }, caller.submit.ns(n, 0));
            }
            _ => {
                let Some(batch) = self.applications[app].ended.pop_front() else { return false };
                self.start(t, Doing::Collect { batch }, caller.collect_ns);
            }
        }
        true
    }

    /// A batch was submitted: it lies before the first stage.
    pub fn submitted(&mut self, t: usize, since: Time) {
        let Whose::Application(app) = self.threads[t].whose else { return };
        let peer = self.next_peer(app);
        self.applications[app].submitted += 1;
        let (n, bytes) = (self.setup.application.batch, self.setup.application.bytes);
        let batch = self.batches.add(Batch { application: app as u32, left: n as u32, since });
        let tokens: Vec<u32> = (0..n)
            .map(|_| {
                let request = Request { batch, peer: peer as u32, uncut: bytes, open: 0 };
                let request = self.requests.add(request);
                self.tokens.add(Token { request, bytes, since: self.now, ..Token::default() })
            })
            .collect();
        let (stage, ring) = self.entrance(peer);
        for piece in tokens.chunks(self.setup.batch) {
            self.rings[stage][ring].batches.push_back(piece.to_vec());
        }
        self.ring_bell(stage, ring, t);
        // The thread that holds a seat takes a turn with what it has brought.
        if !self.threads[t].seats.is_empty() {
            self.threads[t].bell = false;
            self.begin_turn(t);
        }
    }

    /// A batch has ended; whoever waits for it is told: to wake it is in the measured price of the stage.
    pub fn ended(&mut self, batch: u32) {
        let app = self.batches[batch].application as usize;
        self.applications[app].ended.push_back(batch);
        self.notify(app, None);
    }

    /// The application knows.
    pub fn collected(&mut self, t: usize, batch: u32) {
        let Whose::Application(app) = self.threads[t].whose else { return };
        self.applications[app].flights -= 1;
        let since = self.batches[batch].since;
        self.batches.free(batch);
        if self.measuring {
            self.counts.batch(self.now, since, self.setup.application.batch as u64);
        }
    }
}
