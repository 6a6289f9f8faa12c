//! What a worker does in a turn, as `graph/src/worker.rs` walks it: first what waits before its stages, downstream first; then
//! polls, upstream first; behind each the inline stages at once.

use super::setup::{Edge, Role};
use super::thread::{Doing, Op, Whose};
use super::world::{Token, World};

/// Most polls of one stage in a turn.
const POLLS: usize = 4;

impl World<'_> {
    /// Lays out the next turn of a thread.
    pub fn begin_turn(&mut self, t: usize) {
        let mut ops = std::mem::take(&mut self.threads[t].ops);
        if let Whose::Peer(_) = self.threads[t].whose {
            ops.push_back(Op::Serve);
        }
        for seat in 0..self.threads[t].seats.len() {
            let worker = self.threads[t].seats[seat];
            let stages = self.setup.stages.iter().enumerate();
            let mine = stages.filter(|(_, stage)| stage.workers.contains(&worker));
            for (stage, _) in mine.clone().rev() {
                if !self.places[stage][worker].inbox.is_empty() {
                    ops.push_back(Op::Run { worker, stage });
                }
            }
            for (stage, s) in mine.clone().rev() {
                if s.input != Edge::Inline {
                    ops.push_back(Op::TakeIn { worker, stage });
                }
            }
            let polled = |role| matches!(role, Role::Split | Role::Post);
            for (stage, _) in mine.clone().filter(|(_, s)| polled(s.role)) {
                ops.push_back(Op::Poll { worker, stage, round: 0 });
            }
            for (stage, _) in mine.filter(|(_, s)| s.role == Role::Reap) {
                ops.push_back(Op::Poll { worker, stage, round: 0 });
            }
            ops.push_back(Op::Flush { worker });
        }
        self.threads[t].ops = ops;
        self.threads[t].turn_due = true;
    }

    /// Begins with something; whether there was anything to do.
    pub fn perform(&mut self, t: usize, op: Op) -> bool {
        match op {
            Op::TakeIn { worker, stage } => self.take_in(t, worker, stage),
            Op::Run { worker, stage } => self.run_inline(t, worker, stage),
            Op::Poll { worker, stage, round } => match self.setup.stages[stage].role {
                Role::Split => self.cut(t, worker, stage, round),
                Role::Post => self.post(t, worker, stage, round),
                Role::Reap => self.reap(t, worker, stage, round),
                _ => false,
            },
            Op::Flush { worker } => {
                let moved = self.threads[t].moved;
                let any = self.flush_all(t, worker, !moved);
                self.threads[t].moved |= any;
                false
            }
            Op::Serve => self.serve(t),
            Op::Submit | Op::Collect => self.apply(t, op),
        }
    }

    /// What was in hand is over. Whether more of it began.
    pub fn finish(&mut self, t: usize, doing: Doing) -> bool {
        match doing {
            Doing::Coming => {}
            Doing::Stage { worker, stage, tokens } => self.ran(t, worker, stage, tokens),
            Doing::Write { lane, backward, piece, left } => {
                return self.wrote(t, lane, backward, piece, left);
            }
            Doing::Read { lane, backward, bytes } => self.was_read(t, lane, backward, bytes),
            Doing::Submit { since } => self.submitted(t, since),
            Doing::Collect { batch } => self.collected(t, batch),
        }
        false
    }

    /// Items that the stage behind takes from this worker now.
    pub fn room_behind(&self, worker: usize, stage: usize) -> usize {
        let (batch, Some(next)) = (self.setup.batch, self.setup.stages[stage].next) else {
            return usize::MAX;
        };
        let waiting = match self.setup.stages[next].input {
            Edge::Inline => self.places[next][worker].inbox.len(),
            // What a slice's own ring has no room for is kept apart, and the others go on.
            _ => self.places[stage][worker]
                .staged
                .iter()
                .map(std::collections::VecDeque::len)
                .max()
                .unwrap_or(0),
        };
        batch.saturating_sub(waiting)
    }

    fn index_of(&self, stage: usize, worker: usize) -> usize {
        self.setup.stages[stage].workers.iter().position(|w| *w == worker).unwrap_or(0)
    }

    /// Takes a batch from the ring of a stage; small ones are merged.
    fn take_in(&mut self, t: usize, worker: usize, stage: usize) -> bool {
        let shared = matches!(self.setup.stages[stage].input, Edge::Shared(_));
        let at = if shared { 0 } else { self.index_of(stage, worker) };
        let room = self.room_behind(worker, stage).min(self.setup.batch);
        let consumers = if shared { self.setup.stages[stage].workers.len() } else { 1 };
        let mut share = self.rings[stage][at].batches.len().div_ceil(consumers);
        let mut tokens = Vec::new();
        while share > 0 && tokens.len() < room {
            let ring = &mut self.rings[stage][at];
            let Some(batch) = ring.batches.front_mut() else { break };
            let fits = batch.len().min(room - tokens.len());
            tokens.extend(batch.drain(..fits));
            if batch.is_empty() {
                ring.batches.pop_front();
            }
            share -= 1;
        }
        if tokens.is_empty() {
            return false;
        }
        for waiter in std::mem::take(&mut self.rings[stage][at].awaited) {
            self.notify(waiter, Some(t));
        }
        self.waited(stage, &tokens);
        let hop = self.setup.costs.hop.ns(tokens.len(), 0);
        self.begin(t, worker, stage, tokens, hop);
        true
    }

    fn run_inline(&mut self, t: usize, worker: usize, stage: usize) -> bool {
        let room = self.room_behind(worker, stage).min(self.setup.batch);
        let inbox = &mut self.places[stage][worker].inbox;
        let tokens: Vec<u32> = inbox.drain(..room.min(inbox.len())).collect();
        if tokens.is_empty() {
            return false;
        }
        self.begin(t, worker, stage, tokens, 0.0);
        true
    }

    /// A stage begins with a batch. Payload costs where it is touched: not in front of a socket, where it is only named.
    fn begin(&mut self, t: usize, worker: usize, stage: usize, tokens: Vec<u32>, more_ns: f64) {
        let s = &self.setup.stages[stage];
        let touches = !matches!(s.role, Role::Post | Role::Reap);
        let bytes = if touches { tokens.iter().map(|token| self.tokens[*token].bytes).sum() } else { 0 };
        let ns =
            s.service.ns(tokens.len(), bytes) * s.variation.draw(&mut self.dice) + more_ns + self.turn_due(t);
        self.counts.stage(stage, tokens.len(), ns);
        self.start(t, Doing::Stage { worker, stage, tokens }, ns);
    }

    /// The price of a turn, with the first thing that is done in it.
    pub fn turn_due(&mut self, t: usize) -> f64 {
        if std::mem::take(&mut self.threads[t].turn_due) { self.setup.costs.turn_ns } else { 0.0 }
    }

    /// A stage has run.
    fn ran(&mut self, t: usize, worker: usize, stage: usize, tokens: Vec<u32>) {
        match self.setup.stages[stage].role {
            Role::Pass => self.pass_on(t, worker, stage, &tokens),
            Role::Select => {
                tokens.iter().for_each(|token| self.choose(*token));
                self.pass_on(t, worker, stage, &tokens);
            }
            Role::Split => {
                for token in tokens {
                    let request = self.tokens[token].request;
                    let peer = self.requests[request].peer as usize;
                    self.tokens.free(token);
                    let place = &mut self.places[stage][worker];
                    if place.open[peer].is_empty() {
                        place.peers.push_back(peer);
                    }
                    place.open[peer].push_back(request);
                }
                let cut = self.cut_some(worker, stage);
                self.pass_on(t, worker, stage, &cut);
            }
            Role::Post => self.hand_over(&tokens),
            Role::Notify => self.end(t, &tokens),
            Role::Reap => {}
        }
    }

    /// Polls the split stage: cuts as far as there is room and window.
    fn cut(&mut self, t: usize, worker: usize, stage: usize, round: usize) -> bool {
        let cut = self.cut_some(worker, stage);
        if cut.is_empty() {
            return false;
        }
        let s = &self.setup.stages[stage];
        let ns = s.service.ns(cut.len(), 0) + self.turn_due(t);
        self.counts.stage(stage, 0, ns);
        if cut.len() == self.setup.batch && round + 1 < POLLS {
            self.threads[t].ops.push_front(Op::Poll { worker, stage, round: round + 1 });
        }
        self.pass_on(t, worker, stage, &cut);
        self.threads[t].debt_ns += ns;
        self.start(t, Doing::Coming, 0.0);
        true
    }

    /// Up to a batch of slices for one peer, from its first request, which then is its last.
    fn cut_some(&mut self, worker: usize, stage: usize) -> Vec<u32> {
        let room = self.room_behind(worker, stage).min(self.setup.batch);
        let mut cut = Vec::new();
        for _ in 0..self.places[stage][worker].peers.len() {
            let Some(peer) = self.places[stage][worker].peers.pop_front() else { break };
            while cut.len() < room
                && let Some(request) = self.places[stage][worker].open[peer].front().copied()
            {
                let before = cut.len();
                self.cut_one(request, peer, room, &mut cut);
                if self.requests[request].uncut == 0 {
                    self.places[stage][worker].open[peer].pop_front();
                } else if cut.len() == before {
                    break;
                }
            }
            let place = &mut self.places[stage][worker];
            if !place.open[peer].is_empty() {
                place.open[peer].rotate_left(1);
                place.peers.push_back(peer);
            }
            if !cut.is_empty() || room == 0 {
                break;
            }
        }
        cut
    }

    fn cut_one(&mut self, request: u32, peer: usize, room: usize, cut: &mut Vec<u32>) {
        while cut.len() < room && self.requests[request].uncut > 0 {
            let (uncut, most) = (self.requests[request].uncut, self.setup.slice_bytes);
            let bytes = uncut.min(most);
            let is_piece = self.requests[request].open > 0 || uncut > most;
            if !self.window.take(peer, bytes, is_piece) {
                return;
            }
            let open = &mut self.requests[request];
            (open.uncut, open.open) = (uncut - bytes, open.open + 1);
            cut.push(self.tokens.add(Token { request, bytes, is_slice: true, since: self.now, lane: 0 }));
        }
    }

    /// Passes items on to the stage behind.
    pub fn pass_on(&mut self, t: usize, worker: usize, stage: usize, tokens: &[u32]) {
        let Some(next) = self.setup.stages[stage].next else { return };
        if tokens.is_empty() {
            return;
        }
        let now = self.now;
        if self.setup.stages[next].input == Edge::Inline {
            self.places[next][worker].inbox.extend(tokens);
            return self.threads[t].ops.push_front(Op::Run { worker, stage: next });
        }
        for token in tokens {
            self.tokens[*token].since = now;
            let ring = self.ring_for(next, *token);
            self.places[stage][worker].staged[ring].push_back(*token);
        }
        self.flush(t, worker, stage, false);
    }

    fn ring_for(&self, stage: usize, token: u32) -> usize {
        let token = self.tokens[token];
        let s = &self.setup.stages[stage];
        match s.input {
            Edge::Inline | Edge::Shared(_) => 0,
            Edge::Owner(_) => self.index_of(stage, self.lanes[token.lane as usize].post_worker),
            Edge::Hash(_) => self.requests[token.request].peer as usize % s.workers.len().max(1),
        }
    }

    fn flush_all(&mut self, t: usize, worker: usize, all: bool) -> bool {
        let mut moved = false;
        for stage in 0..self.setup.stages.len() {
            if self.places[stage][worker].staged.iter().any(|staged| !staged.is_empty()) {
                moved |= self.flush(t, worker, stage, all);
            }
        }
        moved
    }

    /// Sends on what waits for rings: full batches always, others when their ring is empty or `all` is set.
    fn flush(&mut self, t: usize, worker: usize, stage: usize, all: bool) -> bool {
        let Some(next) = self.setup.stages[stage].next else { return false };
        let mut moved = false;
        for at in 0..self.rings[next].len() {
            loop {
                let staged = &mut self.places[stage][worker].staged[at];
                let ring = &mut self.rings[next][at];
                let goes = staged.len() >= self.setup.batch
                    || (!staged.is_empty() && (all || ring.batches.is_empty()));
                if !goes {
                    break;
                }
                if ring.batches.len() >= ring.capacity {
                    if !ring.awaited.contains(&t) {
                        ring.awaited.push(t);
                    }
                    self.counts.full(next);
                    break;
                }
                let batch = staged.drain(..staged.len().min(self.setup.batch)).collect();
                ring.batches.push_back(batch);
                moved = true;
                self.ring_bell(next, at, t);
            }
        }
        moved
    }

    /// Rings for who reads a ring: of several the first that is idle, or nobody if all are at work.
    pub fn ring_bell(&mut self, stage: usize, ring: usize, ringer: usize) {
        let s = &self.setup.stages[stage];
        if matches!(s.input, Edge::Shared(_)) {
            let threads: Vec<usize> = s.workers.iter().map(|w| self.thread_of[*w]).collect();
            let idle = threads.iter().find(|t| self.threads[**t].is_idle());
            match idle {
                Some(t) => self.notify(*t, Some(ringer)),
                None => threads.iter().for_each(|t| self.threads[*t].bell = true),
            }
            return;
        }
        let t = self.thread_of[s.workers[ring]];
        if t != ringer {
            self.notify(t, Some(ringer));
        } else {
            self.threads[t].bell = true;
        }
    }

    /// Slices have ended; with the last of a request that, with the last of a batch that as well.
    fn end(&mut self, t: usize, tokens: &[u32]) {
        for token in tokens {
            let Token { request, bytes, is_slice, .. } = self.tokens[*token];
            self.tokens.free(*token);
            let Some(peer) = is_slice.then(|| self.requests[request].peer as usize) else { continue };
            self.window.give(peer, bytes);
            self.counts.slice(bytes);
            let open = &mut self.requests[request];
            open.open -= 1;
            if open.open == 0 && open.uncut == 0 {
                let batch = open.batch;
                self.requests.free(request);
                self.batches[batch].left -= 1;
                if self.batches[batch].left == 0 {
                    self.ended(batch);
                }
            }
        }
        if std::mem::take(&mut self.window.short) {
            self.ring_cutters(t);
        }
    }

    fn ring_cutters(&mut self, ringer: usize) {
        for stage in 0..self.setup.stages.len() {
            if self.setup.stages[stage].role != Role::Split {
                continue;
            }
            for worker in 0..self.setup.workers.len() {
                if !self.places[stage][worker].peers.is_empty() {
                    self.notify(self.thread_of[worker], Some(ringer));
                }
            }
        }
    }

    fn waited(&mut self, stage: usize, tokens: &[u32]) {
        let waited = tokens.iter().map(|token| self.now - self.tokens[*token].since).sum();
        self.counts.waited(stage, waited);
    }
}
