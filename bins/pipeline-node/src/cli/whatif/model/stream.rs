//! One direction of a lane: items become frames, frames bytes, bytes reach the other end and are read there. As a TCP connection
//! carries them: what was written and not read is bounded, and a writer that found no room is told once a third is free again.

use std::collections::VecDeque;

use super::setup::Setup;

/// An item on its way, with what it is on the wire.
#[derive(Clone, Copy, Debug)]
pub struct Parcel {
    /// What the world knows it by.
    pub item: u32,
    /// Its bytes on this wire: payload, or that of a descriptor or an answer.
    pub bytes: u64,
}

/// See the file's head.
#[derive(Debug, Default)]
pub struct Stream {
    queue: VecDeque<Parcel>,
    /// Bytes of the frame at hand that were not written yet.
    frame_left: u64,
    written: u64,
    arrived: u64,
    read: u64,
    /// Where each item that was framed ends, in bytes since the lane began.
    ends: VecDeque<(u64, u32)>,
    framed: u64,
    /// Where frames end.
    frame_ends: VecDeque<u64>,
    capacity: u64,
    /// The writer found no room.
    pub blocked: bool,
    /// A write or a read is under way: nobody else begins one.
    pub writing: bool,
    /// The same of reading.
    pub reading: bool,
}

impl Stream {
    /// One that holds so many bytes.
    pub fn new(capacity: u64) -> Self {
        Self { capacity, ..Self::default() }
    }

    /// Hands an item over to be sent.
    pub fn push(&mut self, parcel: Parcel) {
        self.queue.push_back(parcel);
    }

    /// Items that were handed over and are in no frame yet.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Whether there is something to write.
    pub fn has_work(&self) -> bool {
        self.frame_left > 0 || !self.queue.is_empty()
    }

    /// Begins the next frame if none is at hand: how many bytes of the frame are left.
    pub fn frame(&mut self, setup: &Setup) -> u64 {
        if self.frame_left == 0 {
            let mut items = 0;
            while items < setup.frame_items && self.frame_left < setup.frame_bytes {
                let Some(parcel) = self.queue.pop_front() else { break };
                self.frame_left += parcel.bytes;
                self.framed += parcel.bytes;
                self.ends.push_back((self.framed, parcel.item));
                items += 1;
            }
            if items > 0 {
                self.frame_ends.push_back(self.framed);
            }
        }
        self.frame_left
    }

    /// Bytes that it takes now.
    pub fn room(&self) -> u64 {
        self.capacity.saturating_sub(self.written - self.read)
    }

    /// Writes so many bytes of the frame at hand.
    pub fn write(&mut self, bytes: u64) {
        self.written += bytes;
        self.frame_left -= bytes;
    }

    /// So many bytes have come to the other end.
    pub fn arrive(&mut self, bytes: u64) {
        self.arrived += bytes;
    }

    /// Bytes that have come and were not read.
    pub fn readable(&self) -> u64 {
        self.arrived - self.read
    }

    /// Items that end within the next so many bytes.
    pub fn ending_within(&self, bytes: u64) -> usize {
        self.ends.partition_point(|(end, _)| *end <= self.read + bytes)
    }

    /// Bytes up to the end of the `n`-th item from here.
    pub fn bytes_of(&self, n: usize) -> u64 {
        let end = self.ends.get(n.saturating_sub(1)).map_or(self.arrived, |(end, _)| *end);
        end - self.read
    }

    /// Reads so many bytes: the items that are whole with them, and whether a frame is.
    pub fn take(&mut self, bytes: u64, whole: &mut Vec<u32>) -> bool {
        self.read += bytes;
        while let Some((end, item)) = self.ends.front().copied()
            && end <= self.read
        {
            whole.push(item);
            self.ends.pop_front();
        }
        let mut is_whole = false;
        while self.frame_ends.front().is_some_and(|end| *end <= self.read) {
            self.frame_ends.pop_front();
            is_whole = true;
        }
        is_whole
    }

    /// Whether a writer that found no room is told now.
    pub fn unblocks(&mut self) -> bool {
        let tells = self.blocked && self.room() * 3 >= self.capacity;
        self.blocked &= !tells;
        tells
    }
}
