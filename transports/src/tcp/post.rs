//! Work requests of a lane as frames, gathered straight from registered memory.
//!
//! What was posted before a `flush` is coalesced into frames; a frame is one `sendmsg` as long as the socket
//! takes it. Deliberately no lanes' turns: [`super::halves`] has those.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;

use super::frame::{self, COUNT_MAX, Descriptor, Kind, REQUEST_BYTES_MAX, Tag};
use super::halves::{Outbound, StreamPost};
use super::lane::Lane;
use super::vector::Vector;
use crate::memory::Regions;
use crate::wr::{Op, WorkRequest};

/// The write half of lanes.
pub(super) type TcpPost = StreamPost<Frames>;

/// See the file's head.
pub(super) struct Frames {
    frame: Outgoing,
    free: Vec<u32>,
    queue: VecDeque<u32>,
    /// Where each slot's bytes are on the other side.
    remote: Box<[Descriptor]>,
}

/// The frame being sent.
struct Outgoing {
    head: Box<[u8; REQUEST_BYTES_MAX]>,
    head_bytes: usize,
    tags: [Tag; COUNT_MAX],
    count: usize,
    sent: usize,
    /// Payload bytes of all frames before this one.
    payload_before: u64,
    payload: u64,
    vector: Vector,
}

impl Outbound for Frames {
    type Lane = Lane;
    const MOVE_BYTES: usize = super::TURN_BYTES;

    fn new(lane: &Lane) -> Self {
        let depth = lane.slots.depth();
        Self {
            frame: Outgoing {
                head: Box::new([0; REQUEST_BYTES_MAX]),
                head_bytes: 0,
                tags: [Tag::default(); COUNT_MAX],
                count: 0,
                sent: 0,
                payload_before: 0,
                payload: 0,
                vector: Vector::with_capacity(1 + COUNT_MAX),
            },
            free: (0..depth as u32).rev().collect(),
            queue: VecDeque::with_capacity(depth),
            remote: vec![Descriptor::default(); depth].into_boxed_slice(),
        }
    }

    fn room(&self, lane: &Lane) -> usize {
        match self.free.len() {
            0 => lane.slots.freed_or_starve(),
            own => own + lane.slots.freed(),
        }
    }

    fn has_work(&self, _lane: &Lane) -> bool {
        !self.frame.vector.is_empty() || !self.queue.is_empty()
    }

    fn take(&mut self, lane: &Lane, regions: &Regions, work: &[WorkRequest]) -> usize {
        for (i, w) in work.iter().enumerate() {
            let Some(slot) = self.free.pop().or_else(|| lane.slots.take_freed_or_starve()) else { return i };
            // A pinned region within bounds, by the poster's contract; what is not fails this one alone.
            let span = regions.local(w.local.region, w.local.offset, w.len).ok();
            let at = span.filter(|_| w.len > 0 && w.len <= lane.agreed.max_bytes).map(|s| s.ptr);
            let tag = lane.slots.queue(slot, w.id, w.op, at, w.len);
            let (region, offset) = (w.remote.region, w.remote.offset);
            self.remote[slot as usize] = Descriptor { tag, op: w.op, region, offset, length: w.len };
            match at {
                Some(_) => self.queue.push_back(slot),
                None => lane.connection.pair.wakes.reap.wake(),
            }
        }
        work.len()
    }

    /// Makes the next frame of what is queued; nothing when all of that was taken back.
    fn build(&mut self, lane: &Lane) -> bool {
        let frame = &mut self.frame;
        if !frame.vector.is_empty() {
            return true;
        }
        frame.vector.clear();
        frame.payload_before += frame.payload;
        (frame.count, frame.sent, frame.payload) = (0, 0, 0);
        let max = usize::from(lane.agreed.descriptors);
        while frame.count < max && frame.payload < lane.agreed.frame_bytes {
            let Some(slot) = self.queue.pop_front() else { break };
            let descriptor = &self.remote[slot as usize];
            let payload = if descriptor.op == Op::Write { descriptor.length } else { 0 };
            if !lane.slots.begin(descriptor.tag, frame.payload_before + frame.payload + payload) {
                self.free.push(slot);
                continue;
            }
            frame::put_descriptor(&mut frame.head[..], frame.count, descriptor);
            frame.tags[frame.count] = descriptor.tag;
            frame.count += 1;
            frame.payload += payload;
        }
        if frame.count == 0 {
            return false;
        }
        frame::put_head(&mut frame.head[..], Kind::Request, frame.count);
        frame.head_bytes = frame::HEAD_BYTES + frame.count * frame::DESCRIPTOR_BYTES;
        frame.vector.push(frame.head.as_mut_ptr(), frame.head_bytes);
        for tag in &frame.tags[..frame.count] {
            if let (Op::Write, at, length) = lane.slots.local(tag.slot) {
                frame.vector.push(at, length as usize);
            }
        }
        true
    }

    unsafe fn send(&mut self, lane: &Lane, limit: usize) -> io::Result<usize> {
        // SAFETY: the head is ours; payload by the caller's promise.
        unsafe { self.frame.vector.send(lane.connection.stream.as_fd(), limit) }
    }

    fn sent(&mut self, lane: &Lane, bytes: usize) -> bool {
        self.frame.sent += bytes;
        lane.slots.hand_over(self.frame.handed())
    }

    /// Of the last frame: a WRITE has no effect before a byte of its payload has left.
    fn disown(&mut self, lane: &Lane) {
        let frame = &mut self.frame;
        if !frame.vector.is_empty() {
            let mut payload_at = frame.head_bytes;
            for tag in &frame.tags[..frame.count] {
                let (op, _, length) = lane.slots.local(tag.slot);
                let payload_bytes = if op == Op::Write { length as usize } else { 0 };
                if frame.sent == 0 || (op == Op::Write && frame.sent <= payload_at) {
                    lane.slots.revert(*tag);
                }
                payload_at += payload_bytes;
            }
        }
        frame.vector.clear();
        self.queue.clear();
    }
}

impl Outgoing {
    /// Payload bytes the kernel has taken since the lane began.
    fn handed(&self) -> u64 {
        self.payload_before + self.sent.saturating_sub(self.head_bytes) as u64
    }
}
