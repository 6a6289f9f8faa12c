//! The one place where user space moves payload.
//!
//! A peer, a device or another worker may touch the same bytes at the same time: the content of bytes that
//! two transfers touch together is undefined, the process never is. What that rests on, exactly:
//!
//! - Registered memory is never seen through a reference (`&[u8]`, `&mut [u8]`) by this crate, so the
//!   compiler may assume nothing about it between two accesses; it is raw bytes that a device owns as well.
//! - The bytes are never looked at: they decide no branch, index or length here, so a torn value has no effect.
//! - `ptr::copy` (`memmove`) makes plain loads and stores within the two ranges, in any order and width,
//!   any number of times. Kernels (`readv`, `sendmsg`), NICs and GPUs are such a counterpart too.
//! - The language has no copy that may race (RFC 3301 is open), so a race of two *threads of this process*
//!   is outside its memory model; an out-of-line call keeps the optimiser from ever seeing both sides.
//!
//! Nothing here checks bounds: callers hold a [`crate::memory::Guard`] or a pin, whose range was checked.

/// Copies `len` bytes; the ranges may overlap (as `memmove`).
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes, until it returns. Others may access
/// the same bytes at the same time through raw pointers; then the bytes in question are undefined.
#[inline(never)]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: both ranges are valid by the caller's promise; overlap is allowed.
    unsafe { std::ptr::copy(from, to, len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Overlapping ranges come out as if the source had been set aside first.
    #[test]
    fn overlap_is_a_memmove() {
        let mut bytes: Vec<u8> = (0..100).collect();
        let base = bytes.as_mut_ptr();
        // SAFETY: both ranges lie in the vector.
        unsafe { copy(base, base.add(10), 90) };
        assert!(bytes[10..].iter().enumerate().all(|(i, b)| *b == i as u8));
    }
}
