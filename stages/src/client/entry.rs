//! A submission on its way in: fills the tables request by request, merges neighbours into runs, chains cover slices by
//! the worker they go to, and pushes all chains or none. Deliberately nothing that waits: room was reserved before.

use std::sync::atomic::Ordering::Relaxed;

use pipeline_graph::Nanos;
use pipeline_transports::{RegionId, Span};

use super::judge::Judge;
use super::wanted::Wanted;
use super::{Client, SubmitError};
use crate::key::Key;
use crate::ledger::{Birth, Marks, NIL, Opening, Phase, Rows, Slot};
use crate::reason::{Code, SUBMIT_STAGE};
use crate::request::Request;

/// Chains are built on the stack up to this many workers of the first stage.
const WORKERS: usize = 64;

/// Request slots taken in one step.
const AT_ONCE: usize = 64;

/// Requests of one destination worker, linked through their cover slices.
#[derive(Clone, Copy)]
struct Chain {
    first: u32,
    last: u32,
    /// Requests that came in with it: more than are linked where some were merged.
    len: u32,
}

const NO_CHAIN: Chain = Chain { first: NIL, last: NIL, len: 0 };

/// What a batch has besides its requests.
#[derive(Clone, Copy)]
pub(super) struct Header {
    pub(super) batch: u32,
    pub(super) deadline: Nanos,
    pub(super) marks: Marks,
    /// Now.
    pub(super) at: Nanos,
}

/// Fills the tables with a batch, for whose requests there is room, and pushes it.
pub(super) fn enter<W: Wanted>(client: &Client, wanted: &W, header: Header) -> Result<(), SubmitError> {
    // What is not needed is not filled either: for a single request that is much of the price.
    let (mut one, mut on_stack, mut on_heap);
    let workers = client.inlet.workers().max(1);
    let chains: &mut [Chain] = match workers {
        1 => {
            one = [NO_CHAIN];
            &mut one
        }
        2..=WORKERS => {
            on_stack = [NO_CHAIN; WORKERS];
            &mut on_stack[..workers]
        }
        _ => {
            on_heap = vec![NO_CHAIN; workers];
            &mut on_heap
        }
    };
    let judge = Judge::new(&client.world);
    let longest = client.world.ledger.runs.longest();
    let run = Run { last: None, first: NIL, worker: 0, len: 0, behind: 0, longest };
    let divided = client.world.ledger.parts.are_of(workers);
    let mut entry =
        Entry { client, header, chains, divided, judge, run, all: NO_CHAIN, refused: 0, merged: 0, len: 0 };
    let mut at = 0;
    while at < wanted.len() {
        let (mut one, mut many);
        let slots: &mut [u32] = match (wanted.len() - at).min(AT_ONCE) {
            1 => {
                one = [NIL];
                &mut one
            }
            n => {
                many = [NIL; AT_ONCE];
                &mut many[..n]
            }
        };
        client.world.ledger.take_requests(slots);
        for slot in slots {
            entry.add(wanted, at, *slot);
            at += 1;
        }
    }
    entry.push()
}

/// The requests that travel as one with the last one that was added.
struct Run<'a> {
    /// The last of them; `None` when nothing may follow it.
    last: Option<&'a Request>,
    /// Slot of the first.
    first: u32,
    /// Where they go.
    worker: usize,
    /// Bytes.
    len: u64,
    /// How many are behind the first.
    behind: u32,
    /// Most bytes; 0: nothing is merged.
    longest: u64,
}

impl Run<'_> {
    /// Whether a request goes on where the last one ended, on both sides. The two offsets first: they tell most of those
    /// apart that do not.
    #[inline]
    fn goes_on(&self, request: &Request) -> bool {
        let Some(last) = self.last else { return false };
        request.local_offset == last.local_offset + last.len
            && request.remote.offset == last.remote.offset + last.len
            && request.rows == 1
            && self.len + request.len <= self.longest
            && (request.op, request.local) == (last.op, last.local)
            && request.remote.peer == last.remote.peer
            && request.remote.segment == last.remote.segment
            && request.remote.incarnation == last.remote.incarnation
    }
}

/// See the file's head.
struct Entry<'a> {
    client: &'a Client,
    header: Header,
    chains: &'a mut [Chain],
    /// Each worker counts its own part.
    divided: bool,
    judge: Judge<'a>,
    run: Run<'a>,
    all: Chain,
    refused: u32,
    merged: u32,
    len: u32,
}

impl<'a> Entry<'a> {
    fn add<W: Wanted>(&mut self, wanted: &'a W, at: usize, index: u32) {
        let request = wanted.at(at);
        let ledger = &*self.client.world.ledger;
        let (slot, cover) = (ledger.request(index), ledger.cover_of(index));
        self.len += 1;
        match self.all.last {
            NIL => self.all.first = index,
            last => ledger.request(last).chain.store(index, Relaxed),
        }
        self.all.last = index;
        if self.run.goes_on(request) && self.judge.reaches(request) {
            slot.follow(self.run.len);
            self.run.len += request.len;
            self.run.behind += 1;
            self.chains[self.run.worker].len += 1;
            self.run.last = Some(request);
            return;
        }
        self.close_run();
        slot.open(request.remote.segment, request.remote.incarnation);
        self.bear(request, index, cover);
        let position = ledger.position(Key::cover(index, cover.generation()));
        let judged = match W::SOUND {
            true => self.judge.judge_again(request, wanted.far_end(at)),
            false => self.judge.judge(request),
        };
        if let Err(reason) = judged {
            cover.step_on(cover.generation(), Phase::Live, Phase::Free);
            slot.refuse(Code::new(reason, SUBMIT_STAGE));
            self.refused += 1;
            return;
        }
        cover.set_target(self.judge.target());
        let worker = self.client.inlet.worker_of(ledger.key_at(position)).min(self.chains.len() - 1);
        let chain = &mut self.chains[worker];
        match chain.last {
            NIL => chain.first = position,
            last => ledger.at(last).next().store(position, Relaxed),
        }
        chain.last = position;
        chain.len += 1;
        if self.divided {
            slot.set_part(worker);
        }
        self.run.worker = worker;
        self.run.last = (request.rows == 1 && self.run.longest > 0).then_some(request);
        (self.run.first, self.run.len) = (index, request.len);
    }

    /// The run is as long as it will be.
    #[inline]
    fn close_run(&mut self) {
        self.run.last = None;
        if self.run.behind > 0 {
            let ledger = &*self.client.world.ledger;
            ledger.request(self.run.first).lead(self.run.behind);
            ledger.cover_of(self.run.first).set_len(self.run.len);
            self.merged += self.run.behind;
            self.run.behind = 0;
        }
    }

    #[inline]
    fn bear(&self, request: &Request, index: u32, cover: Slot) {
        let len = request.len * u64::from(request.rows);
        cover.bear(&Birth {
            request: index,
            batch: self.header.batch,
            peer: request.remote.peer,
            op: request.op,
            local: Span { region: request.local, offset: request.local_offset },
            remote: Span { region: RegionId(0), offset: request.remote.offset },
            len,
            deadline: self.header.deadline,
            transport: None,
        });
        if !request.is_run() {
            let Request { len, local_stride, remote_stride, .. } = *request;
            cover.set_rows(&Rows { len, local_stride, remote_stride });
        }
    }

    fn push(mut self) -> Result<(), SubmitError> {
        self.close_run();
        let ledger = &*self.client.world.ledger;
        let Header { batch, marks, at, .. } = self.header;
        let Chain { first, last, .. } = self.all;
        ledger.batches.open(batch, Opening { len: self.len, first, last, failed: self.refused, marks, at });
        let (mut one, mut on_stack, mut on_heap);
        let heads: &mut [Key] = match self.chains.len() {
            1 => {
                one = [Key::default()];
                &mut one
            }
            chains if chains <= WORKERS => {
                on_stack = [Key::default(); WORKERS];
                &mut on_stack
            }
            chains => {
                on_heap = vec![Key::default(); chains];
                &mut on_heap
            }
        };
        let mut n = 0;
        for (worker, chain) in self.chains.iter().enumerate().filter(|(_, c)| c.first != NIL) {
            heads[n] = ledger.key_at(chain.first);
            n += 1;
            if self.divided {
                ledger.parts.open(worker, batch, chain.len);
            }
        }
        if self.divided && n > 0 {
            ledger.batches.divide(batch, n as u32);
        }
        // Before it is pushed: afterwards others may have failed too.
        let refusals = (self.refused > 0).then(|| ledger.refusals(first, last));
        if n == 0 {
            refusals.iter().for_each(|refusals| ledger.counted.refused(refusals));
            // Nobody will count it down.
            if marks.notice {
                ledger.outbox.tell_due(batch);
            } else if marks.doorbell
                && let Some(doorbell) = ledger.take_doorbell(batch)
            {
                ledger.count_told(u64::from(doorbell.ring(1)));
            }
            return Ok(());
        }
        self.client.inlet.push_all(&heads[..n]).inspect_err(|_| self.roll_back())?;
        refusals.iter().for_each(|refusals| ledger.counted.refused(refusals));
        let sound = self.len - self.refused;
        ledger.runs.count(sound, sound - self.merged);
        Ok(())
    }

    /// Nothing has been pushed: everything goes back.
    fn roll_back(&self) {
        let ledger = &*self.client.world.ledger;
        for chain in self.chains.iter() {
            let mut at = chain.first;
            while at != NIL {
                let cover = ledger.at(at);
                if cover.step_on(cover.generation(), Phase::Live, Phase::Free) {
                    self.client.world.regions.unpin(cover.local().region);
                }
                at = cover.next().load(Relaxed);
            }
        }
        let Header { batch, marks, .. } = self.header;
        if marks.notice {
            ledger.outbox.remove(batch);
        }
        if marks.doorbell {
            drop(ledger.take_doorbell(batch));
        }
        ledger.free_batch(batch);
    }
}
