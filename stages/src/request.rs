//! What a caller asks for: bytes between a local region and a peer's segment.
//! Deliberately by name and offset, never by address: a wrong number is refused, not followed.

use std::sync::Arc;
use std::time::Duration;

use pipeline_transports::{Op, RegionId};

pub use pipeline_transports::control::message::NOTICE_MAX;

use crate::delivery::Doorbell;
use crate::peer::PeerId;

/// A place in a peer's segment, as [`crate::World`]'s peers describe it after they were opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// The peer.
    pub peer: PeerId,
    /// Its start that was opened: a restarted peer has other memory, and such requests fail `StalePeer`.
    pub incarnation: u64,
    /// Index of the segment in the peer's list.
    pub segment: u32,
    /// First byte, from the segment's start.
    pub offset: u64,
}

/// One request: moves `len` bytes in one direction, or so many in each of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Direction.
    pub op: Op,
    /// Rows; 1 unless it is [strided](Self::strided), 0 is refused.
    pub rows: u32,
    /// The local region. It stays pinned until the request has ended.
    pub local: RegionId,
    /// First byte in it.
    pub local_offset: u64,
    /// The remote place.
    pub remote: Remote,
    /// Bytes of a row; 0 is refused.
    pub len: u64,
    /// From the start of a row to that of the next one, in the local region; means nothing with one row.
    pub local_stride: u64,
    /// The same in the peer's segment.
    pub remote_stride: u64,
}

impl Request {
    /// Remote bytes into a local region.
    pub fn read(local: impl Into<RegionId>, local_offset: u64, remote: Remote, len: u64) -> Self {
        Self::of(Op::Read, local.into(), local_offset, remote, len)
    }

    /// Local bytes to a peer.
    pub fn write(local: impl Into<RegionId>, local_offset: u64, remote: Remote, len: u64) -> Self {
        Self::of(Op::Write, local.into(), local_offset, remote, len)
    }

    fn of(op: Op, local: RegionId, local_offset: u64, remote: Remote, len: u64) -> Self {
        Self { op, rows: 1, local, local_offset, remote, len, local_stride: 0, remote_stride: 0 }
    }

    /// The same in `rows` rows: each is `len` bytes, and begins `local_stride` and `remote_stride` bytes after the one
    /// before it. One request, one result; its rows are slices that travel on their own, in no promised order. The heads
    /// of a layer, or a block of every layer of a KV cache:
    ///
    /// ```
    /// # use pipeline_stages::{Remote, Request, peer::PeerId};
    /// # use pipeline_transports::RegionId;
    /// # let (cache, remote) = (RegionId(1), Remote { peer: PeerId(0), incarnation: 1, segment: 0, offset: 0 });
    /// // 32 layers, each 1 MiB after the last here, and packed there.
    /// let request = Request::write(cache, 0, remote, 65_536).strided(32, 1 << 20, 65_536);
    /// assert_eq!(request.bytes(), Some(32 * 65_536));
    /// ```
    ///
    /// Rows of the destination must not overlap; those of the source may, a stride of 0 sends the same row again. Where
    /// rows touch on both sides they are one run of bytes and cut as such.
    #[must_use]
    pub fn strided(self, rows: u32, local_stride: u64, remote_stride: u64) -> Self {
        Self { rows, local_stride, remote_stride, ..self }
    }

    /// Bytes of all rows; `None` when that passes 64 bits.
    pub fn bytes(&self) -> Option<u64> {
        self.len.checked_mul(u64::from(self.rows))
    }

    /// Whether its bytes are one run on both sides.
    #[inline]
    pub(crate) fn is_run(&self) -> bool {
        self.rows == 1 || (self.local_stride == self.len && self.remote_stride == self.len)
    }

    /// From the first byte to behind the last one, there and here; for one that makes sense.
    #[inline]
    pub(crate) fn spans(&self) -> (u64, u64) {
        if self.rows == 1 {
            return (self.len, self.len);
        }
        let steps = u64::from(self.rows) - 1;
        (steps * self.local_stride + self.len, steps * self.remote_stride + self.len)
    }

    /// What is wrong with its numbers, whatever the memory: such a request is a bug of the caller.
    #[inline]
    pub(crate) fn nonsense(&self) -> Option<&'static str> {
        if self.len == 0 {
            return Some("its length is 0");
        }
        if self.rows != 1 {
            return self.odd_rows();
        }
        if self.local_offset.checked_add(self.len).is_none() {
            return Some("local offset and length wrap around");
        }
        let wraps = self.remote.offset.checked_add(self.len).is_none();
        wraps.then_some("remote offset and length wrap around")
    }

    fn odd_rows(&self) -> Option<&'static str> {
        let Some(steps) = u64::from(self.rows).checked_sub(1) else { return Some("it has no rows") };
        let end =
            |offset: u64, stride: u64| steps.checked_mul(stride)?.checked_add(self.len)?.checked_add(offset);
        if end(self.local_offset, self.local_stride).is_none() {
            return Some("its last local row wraps around");
        }
        if end(self.remote.offset, self.remote_stride).is_none() {
            return Some("its last remote row wraps around");
        }
        let stride = match self.op {
            Op::Read => self.local_stride,
            Op::Write => self.remote_stride,
        };
        (stride < self.len).then_some("its rows overlap at the destination: the stride is less than a row")
    }
}

/// How a batch is to be carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Each of its requests ends within this time; `None`: `limits.deadline`.
    pub deadline: Option<Duration>,
    /// What the application of the peer shall be told when all of its requests have ended: at most [`NOTICE_MAX`]
    /// bytes, which may be none. All requests must name the same peer. See [`crate::notices`].
    pub notice: Option<Arc<[u8]>>,
    /// What is rung when the batch has ended: one doorbell for as many batches as you like. Needs `"eventfd"` in `via`.
    pub notify: Option<Doorbell>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(at: u64, offset: u64, len: u64) -> Request {
        let remote = Remote { peer: PeerId(0), incarnation: 1, segment: 0, offset };
        Request::write(RegionId(1), at, remote, len)
    }

    /// Rows are judged without overflow, at both ends of the last one, and may overlap where they are read only.
    #[test]
    fn rows_are_judged() {
        let says = |request: Request| request.nonsense().unwrap_or("sound");
        assert!(says(write(0, 0, 8).strided(0, 8, 8)).contains("no rows"));
        assert!(says(write(0, 0, 8).strided(3, u64::MAX / 2, 8)).contains("local row wraps"));
        assert!(says(write(u64::MAX - 23, 0, 8).strided(3, 8, 8)).contains("local row wraps"));
        assert!(says(write(0, u64::MAX - 23, 8).strided(3, 8, 8)).contains("remote row wraps"));
        assert!(says(write(0, 0, 8).strided(u32::MAX, 1 << 33, 8)).contains("local row wraps"));
        assert_eq!(says(write(u64::MAX - 24, u64::MAX - 24, 8).strided(3, 8, 8)), "sound");
        for (op, local, remote, sound) in [
            (Op::Write, 0, 8, true),
            (Op::Write, 8, 7, false),
            (Op::Read, 8, 0, true),
            (Op::Read, 7, 8, false),
        ] {
            let request = Request { op, ..write(0, 0, 8).strided(2, local, remote) };
            assert_eq!(request.nonsense().is_none(), sound, "{request:?}");
        }
        assert_eq!(write(0, 0, 8).strided(4, 100, 10).spans(), (308, 38));
        assert_eq!(write(0, 0, u64::MAX).strided(2, 0, 0).bytes(), None);
        assert!(write(0, 0, 8).strided(4, 8, 8).is_run() && !write(0, 0, 8).strided(4, 8, 9).is_run());
    }
}
