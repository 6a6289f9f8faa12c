//! Little-endian fields in and out of byte strings: the one place where control bytes are cut.
//! Deliberately no reflection and no allocation before a length has been checked against its bound.

use crate::control::WireError;

/// Appends fields to a byte string. All integers are little-endian.
pub(crate) trait Put {
    fn put_u8(&mut self, v: u8);
    fn put_u16(&mut self, v: u16);
    fn put_u32(&mut self, v: u32);
    fn put_u64(&mut self, v: u64);
    /// Length as u32, then the bytes. The caller has checked the bound.
    fn put_bytes(&mut self, v: &[u8]);
}

impl Put for Vec<u8> {
    fn put_u8(&mut self, v: u8) {
        self.push(v);
    }

    fn put_u16(&mut self, v: u16) {
        self.extend_from_slice(&v.to_le_bytes());
    }

    fn put_u32(&mut self, v: u32) {
        self.extend_from_slice(&v.to_le_bytes());
    }

    fn put_u64(&mut self, v: u64) {
        self.extend_from_slice(&v.to_le_bytes());
    }

    fn put_bytes(&mut self, v: &[u8]) {
        self.put_u32(v.len() as u32);
        self.extend_from_slice(v);
    }
}

/// Takes fields from the front of a byte string.
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Fields<'a> {
    /// Over `bytes`; `what` names the thing in errors.
    pub(crate) fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { rest: bytes, what }
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or(WireError::Malformed(self.what))?;
        self.rest = rest;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, WireError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, WireError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A length (u32) and that many bytes, at most `max`.
    pub(crate) fn bytes(&mut self, max: usize) -> Result<&'a [u8], WireError> {
        let len = self.u32()? as usize;
        if len > max {
            return Err(WireError::TooLong { what: self.what, got: len as u64, limit: max as u64 });
        }
        self.take(len)
    }

    /// As [`Self::bytes`], and valid UTF-8.
    pub(crate) fn text(&mut self, max: usize) -> Result<String, WireError> {
        let bytes = self.bytes(max)?;
        let text = std::str::from_utf8(bytes).map_err(|_| WireError::Malformed(self.what))?;
        Ok(text.to_owned())
    }

    /// A count (u32) of things of at least `least` bytes each. A count that the bytes at hand cannot hold
    /// is refused, so that nothing is allocated on the word of a peer.
    pub(crate) fn count(&mut self, least: usize) -> Result<usize, WireError> {
        let count = self.u32()? as usize;
        if count > self.rest.len() / least.max(1) {
            return Err(WireError::Malformed(self.what));
        }
        Ok(count)
    }

    /// Demands that nothing is left.
    pub(crate) fn end(self) -> Result<(), WireError> {
        if self.rest.is_empty() { Ok(()) } else { Err(WireError::Malformed(self.what)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is put comes out again; every cut short of the end is malformed, as is a byte too many.
    #[test]
    fn fields_round_trip_and_short_input_is_refused() {
        let mut out = Vec::new();
        out.put_u8(1);
        out.put_u16(0x0203);
        out.put_u32(0x0405_0607);
        out.put_u64(u64::MAX - 1);
        out.put_bytes("näme".as_bytes());
        let read = |bytes: &[u8]| -> Result<String, WireError> {
            let mut f = Fields::new(bytes, "test");
            assert_eq!((f.u8()?, f.u16()?, f.u32()?, f.u64()?), (1, 0x0203, 0x0405_0607, u64::MAX - 1));
            let text = f.text(16)?;
            f.end()?;
            Ok(text)
        };
        assert_eq!(read(&out).unwrap(), "näme");
        for cut in 0..out.len() {
            assert!(read(&out[..cut]).is_err(), "{cut} bytes were enough");
        }
        out.push(0);
        assert!(matches!(read(&out), Err(WireError::Malformed("test"))));
    }

    /// A length or count larger than its bound or than the input is refused before anything is allocated.
    #[test]
    fn announced_sizes_are_not_believed() {
        let huge = u32::MAX.to_le_bytes();
        assert!(matches!(Fields::new(&huge, "t").bytes(64), Err(WireError::TooLong { .. })));
        assert!(matches!(Fields::new(&huge, "t").count(1), Err(WireError::Malformed(_))));
    }
}
