//! Gathered sends and scattered receives straight from and to registered memory.
//!
//! Payload is never seen through a reference (a peer or a device may write it at the same time): what goes to
//! the kernel is an address and a length. Deliberately no ownership: whoever builds a vector holds the
//! guard, pin or buffer behind each piece until the call that uses it has returned and the piece is gone.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Laid out as the kernel's `struct iovec`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Piece {
    base: *mut u8,
    len: usize,
}

const _: () = assert!(
    size_of::<Piece>() == size_of::<libc::iovec>() && align_of::<Piece>() == align_of::<libc::iovec>()
);

/// Pieces of memory in wire order; what has been moved is gone from the front.
pub(crate) struct Vector {
    pieces: Vec<Piece>,
    first: usize,
}

// SAFETY: addresses and lengths; they are only dereferenced by the kernel in `send` and `receive`, whose
// callers answer for them wherever they are.
unsafe impl Send for Vector {}

impl Vector {
    /// Room for `capacity` pieces, at most the kernel's 1024.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        debug_assert!(capacity <= 1024);
        Self { pieces: Vec::with_capacity(capacity), first: 0 }
    }

    /// Forgets all pieces.
    pub(crate) fn clear(&mut self) {
        self.pieces.clear();
        self.first = 0;
    }

    /// Adds a piece; `false` when there is no room. An empty piece is nothing.
    pub(crate) fn push(&mut self, base: *mut u8, len: usize) -> bool {
        if self.pieces.len() == self.pieces.capacity() {
            return false;
        }
        if len > 0 {
            self.pieces.push(Piece { base, len });
        }
        true
    }

    /// Whether nothing is left to move.
    pub(crate) fn is_empty(&self) -> bool {
        self.first == self.pieces.len()
    }

    /// Bytes left to move.
    pub(crate) fn bytes(&self) -> usize {
        self.pieces[self.first..].iter().map(|p| p.len).sum()
    }

    /// Keeps the first `limit` bytes; whether there were more.
    pub(crate) fn truncate(&mut self, limit: usize) -> bool {
        let mut bytes = 0usize;
        for i in self.first..self.pieces.len() {
            let left = limit - bytes;
            if self.pieces[i].len > left {
                self.pieces[i].len = left;
                self.pieces.truncate(i + usize::from(left > 0));
                return true;
            }
            bytes += self.pieces[i].len;
        }
        false
    }

    /// Drops `n` bytes from the front: they have been moved.
    fn advance(&mut self, mut n: usize) {
        while n > 0 {
            let piece = &mut self.pieces[self.first];
            if n < piece.len {
                piece.base = piece.base.wrapping_add(n);
                piece.len -= n;
                return;
            }
            n -= piece.len;
            self.first += 1;
        }
    }

    /// Sends at most about `limit` bytes from the front; answers how many the kernel took. Never blocks, never
    /// raises SIGPIPE.
    ///
    /// # Safety
    /// Every piece must be readable until this returns.
    ///
    /// # Errors
    /// `WouldBlock` when the socket is full; else the lane is broken.
    pub(crate) unsafe fn send(&mut self, socket: BorrowedFd<'_>, limit: usize) -> io::Result<usize> {
        let (mut count, mut bytes) = (0, 0usize);
        for piece in &self.pieces[self.first..] {
            if bytes >= limit {
                break;
            }
            bytes = bytes.saturating_add(piece.len);
            count += 1;
        }
        let last = self.first + count - 1;
        let excess = bytes.saturating_sub(limit);
        self.pieces[last].len -= excess;
        // SAFETY: `msghdr` is plain data, for which zero is "nothing".
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = self.pieces[self.first..].as_mut_ptr().cast();
        message.msg_iovlen = count as _;
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: the vector is laid out as iovecs, and readable by the caller's promise.
        let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) };
        self.pieces[last].len += excess;
        let sent = usize::try_from(sent).map_err(|_| io::Error::last_os_error())?;
        self.advance(sent);
        Ok(sent)
    }

    /// Receives into the pieces; answers how many bytes came, 0 at the end of the stream. Never blocks (the
    /// socket is non-blocking). The pieces stay as they are.
    ///
    /// # Safety
    /// Every piece must be writable until this returns.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there; else the lane is broken.
    pub(crate) unsafe fn receive(&self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let pieces = &self.pieces[self.first..];
        // SAFETY: the vector is laid out as iovecs, and writable by the caller's promise.
        let got = unsafe { libc::readv(socket.as_raw_fd(), pieces.as_ptr().cast(), pieces.len() as i32) };
        usize::try_from(got).map_err(|_| io::Error::last_os_error())
    }
}

#[cfg(all(test, not(pipeline_loom)))]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    /// However small the limit, the bytes arrive in order and the vector is empty exactly at the end.
    #[test]
    fn partial_sends_resume_exactly() {
        let (tx, rx) = UnixStream::pair().unwrap();
        rx.set_nonblocking(true).unwrap();
        let mut parts: Vec<Vec<u8>> = (1..=5u8).map(|i| vec![i; usize::from(i) * 7]).collect();
        let want = parts.concat();
        for limit in [1, 3, 7, 20, 1000] {
            let mut vector = Vector::with_capacity(8);
            for part in &mut parts {
                assert!(vector.push(part.as_mut_ptr(), part.len()));
            }
            let mut calls = 0;
            while !vector.is_empty() {
                calls += 1;
                // SAFETY: `parts` lives.
                let sent = unsafe { vector.send(tx.as_fd(), limit) }.unwrap();
                assert!(sent > 0 && sent <= limit);
            }
            assert_eq!(calls, want.len().div_ceil(limit));
            let (mut a, mut b) = ([0u8; 50], [0u8; 100]);
            let mut into = Vector::with_capacity(2);
            assert!(into.push(a.as_mut_ptr(), 50) && into.push(b.as_mut_ptr(), 100));
            assert!(!into.push(b.as_mut_ptr(), 1), "no third piece fits");
            assert!(!into.truncate(150));
            // SAFETY: both arrays live and are not looked at meanwhile.
            let got = unsafe { into.receive(rx.as_fd()) }.unwrap();
            assert_eq!([&a[..], &b[..]].concat()[..got], want);
        }
    }

    /// What is cut off a vector is never received into.
    #[test]
    fn truncated_at_any_byte() {
        for limit in 0..=12 {
            let (tx, rx) = UnixStream::pair().unwrap();
            rx.set_nonblocking(true).unwrap();
            std::io::Write::write_all(&mut &tx, &[9; 20]).unwrap();
            let mut bytes = [0u8; 12];
            let mut into = Vector::with_capacity(3);
            for part in bytes.chunks_mut(4) {
                assert!(into.push(part.as_mut_ptr(), part.len()));
            }
            assert_eq!(into.truncate(limit), limit < 12);
            assert_eq!(into.bytes(), limit);
            if limit > 0 {
                // SAFETY: the array lives and is not looked at meanwhile.
                assert_eq!(unsafe { into.receive(rx.as_fd()) }.unwrap(), limit);
            }
            assert_eq!(bytes.iter().filter(|b| **b == 9).count(), limit);
        }
    }

    /// A closed peer is an error, not a signal.
    #[test]
    fn broken_pipe_is_an_error() {
        let (tx, rx) = UnixStream::pair().unwrap();
        drop(rx);
        let mut byte = [1u8];
        let mut vector = Vector::with_capacity(1);
        vector.push(byte.as_mut_ptr(), 1);
        // SAFETY: `byte` lives.
        let error = unsafe { vector.send(tx.as_fd(), 10) }.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
