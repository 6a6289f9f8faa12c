//! The answers on a lane of this engine's own frames: they end work requests, and READ payload goes straight to
//! registered memory. Deliberately no lanes' turns and no deaths: [`super::halves`] has those.

use std::os::fd::AsFd;

use super::frame::{self, ANSWER_BYTES, Answer, COUNT_MAX, HEAD_BYTES, Kind, Violation};
use super::halves::{Digested, Ends, Inbound, StreamReap, TakenBack};
use super::inbox::{Inbox, Received};
use super::lane::Lane;
use super::slots::{Awaited, Left};
use crate::clock::Nanos;
use crate::wr::{Blame, Op, Outcome, WrId};

/// The read half of lanes on the dialler's side.
pub(super) type TcpReap = StreamReap<AnswerFrames>;

/// See the file's head.
pub(super) struct AnswerFrames {
    inbox: Inbox,
    answers: [Answer; COUNT_MAX],
    count: usize,
    /// The answer being worked on, and how much of its payload has come.
    next: usize,
    filled: u64,
    /// Slots that no answer is awaited for any more, of those ever posted.
    settled: u64,
    cancel_hint: u32,
    /// Flushing a dead lane: the next slot to look at.
    flushed: usize,
}

impl Inbound for AnswerFrames {
    type Lane = Lane;
    type Violation = Violation;
    const STALLED: Blame = Blame::Path;

    fn new(_lane: &Lane) -> Self {
        Self {
            inbox: Inbox::new(COUNT_MAX),
            answers: [Answer::default(); COUNT_MAX],
            count: 0,
            next: 0,
            filled: 0,
            settled: 0,
            cancel_hint: 0,
            flushed: 0,
        }
    }

    fn depth(lane: &Lane) -> usize {
        lane.slots.depth()
    }

    fn posted(lane: &Lane) -> u64 {
        lane.slots.posted()
    }

    fn settled(&self) -> u64 {
        self.settled
    }

    fn handed(lane: &Lane) -> u64 {
        lane.slots.handed()
    }

    fn is_midstream(&self) -> bool {
        self.next < self.count
    }

    fn may_go_on(&self, _lane: &Lane) -> bool {
        false
    }

    fn has_ended_here(&self, lane: &Lane) -> bool {
        lane.slots.has_failed()
    }

    /// What was impossible to post.
    fn end_here(&mut self, lane: &Lane, ends: &mut Ends<'_>) {
        while ends.room() > 0
            && let Some(id) = lane.slots.take_failed()
        {
            self.settled += 1;
            ends.complete(id, Outcome::Failed);
        }
    }

    fn digest(&mut self, lane: &Lane, ends: &mut Ends<'_>, bytes: &mut u64) -> Result<Digested, Violation> {
        loop {
            while self.next < self.count {
                if ends.room() == 0 {
                    return Ok(Digested::Full);
                }
                let answer = self.answers[self.next];
                let awaited = awaited(lane, &answer)?;
                if !awaited.handed_over {
                    return Ok(Digested::Early);
                }
                let at = (!awaited.discarding).then(|| awaited.at.wrapping_add(self.filled as usize));
                // SAFETY: a READ that is begun and not taken back: its local bytes are pinned, and `length`
                // of them were asked for.
                let got = unsafe { self.inbox.take(at, answer.length - self.filled) };
                self.filled += got;
                *bytes += got;
                if self.filled < answer.length {
                    return Ok(Digested::All);
                }
                self.finish(lane, &answer, &awaited, ends);
            }
            if !self.parse(lane)? {
                return Ok(Digested::All);
            }
        }
    }

    fn receive(&mut self, lane: &Lane, scratch: &mut [u8]) -> Result<Received, Violation> {
        self.gather(lane, scratch)?;
        let socket = lane.connection.stream.as_fd();
        // SAFETY: the pieces are the scratch, and local bytes of READs that are begun and not taken back:
        // only this half completes or takes back, and it is busy here.
        Ok(unsafe { self.inbox.receive(socket) })
    }

    fn cancel(&mut self, lane: &Lane, id: WrId) -> TakenBack {
        let taken = lane.slots.cancel(id, &mut self.cancel_hint);
        self.settled += u64::from(taken == TakenBack::Dropped);
        taken
    }

    fn flush(&mut self, lane: &Lane, ends: &mut Ends<'_>) -> bool {
        while self.flushed < lane.slots.depth() {
            if ends.room() == 0 {
                return false;
            }
            match lane.slots.flush(self.flushed) {
                Left::NotBegun(id) => ends.complete(id, Outcome::NotBegun),
                Left::Begun(id) => ends.complete(id, Outcome::Begun),
                Left::Failed(id) => ends.complete(id, Outcome::Failed),
                Left::Nothing => {}
            }
            self.flushed += 1;
        }
        true
    }

    fn accuse(lane: &Lane, now: Nanos, violation: Violation) -> Blame {
        lane.counters.violation(now, &lane.connection.peer, violation);
        Blame::Nobody
    }

    fn is_room_wanted(lane: &Lane) -> bool {
        lane.slots.room_wanted()
    }
}

impl AnswerFrames {
    fn finish(&mut self, lane: &Lane, answer: &Answer, awaited: &Awaited, ends: &mut Ends<'_>) {
        lane.slots.finish(answer.tag.slot);
        (self.next, self.filled) = (self.next + 1, 0);
        self.settled += 1;
        if !awaited.discarding {
            ends.complete(awaited.id, answer.refusal.map_or(Outcome::Done, Outcome::Refused));
        }
    }

    /// Reads the next frame's answers off the buffer; `false` until they are all there.
    fn parse(&mut self, lane: &Lane) -> Result<bool, Violation> {
        let bytes = self.inbox.bytes();
        if bytes.len() < HEAD_BYTES {
            return Ok(false);
        }
        let count = frame::head(bytes, Kind::Answer, usize::from(lane.agreed.descriptors))?;
        let whole = HEAD_BYTES + count * ANSWER_BYTES;
        if bytes.len() < whole {
            return Ok(false);
        }
        for (i, answer) in self.answers[..count].iter_mut().enumerate() {
            *answer = frame::answer(bytes, i)?;
        }
        self.inbox.consume(whole);
        (self.count, self.next, self.filled) = (count, 0, 0);
        Ok(true)
    }

    /// Names where the payload of this frame that has not come yet shall go.
    fn gather(&mut self, lane: &Lane, scratch: &mut [u8]) -> Result<(), Violation> {
        let mut filled = self.filled;
        for i in self.next..self.count {
            let answer = self.answers[i];
            let awaited = awaited(lane, &answer)?;
            let missing = (answer.length - filled) as usize;
            if awaited.discarding {
                self.inbox.pieces().push(scratch.as_mut_ptr(), missing.min(scratch.len()));
                if missing > scratch.len() {
                    // What follows in the stream is not the next answer's yet.
                    self.inbox.stop_at_pieces();
                    break;
                }
            } else {
                self.inbox.pieces().push(awaited.at.wrapping_add(filled as usize), missing);
            }
            filled = 0;
        }
        Ok(())
    }
}

/// What an answer answers: something that waits, with the length it waits for.
fn awaited(lane: &Lane, answer: &Answer) -> Result<Awaited, Violation> {
    let awaited = lane.slots.awaited(answer.tag).ok_or(Violation::Unexpected(answer.tag.slot))?;
    let payload = if awaited.op == Op::Read && answer.refusal.is_none() { awaited.length } else { 0 };
    if payload == answer.length { Ok(awaited) } else { Err(Violation::Mismatch(answer.length)) }
}
