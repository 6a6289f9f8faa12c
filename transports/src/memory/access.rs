//! Names of regions, and what peers may do to them. Deliberately plain data.

use crate::wr::Op;

/// Names a region of one node: index in its table (low 32 bits) and generation (high 32 bits), so that an
/// old name never means new memory. Travels on the wire. The default, 0, names no region ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegionId(pub u64);

impl RegionId {
    /// From its parts.
    pub(crate) fn new(index: u32, generation: u32) -> Self {
        Self(u64::from(generation) << 32 | u64::from(index))
    }

    /// Index in its node's table.
    pub fn index(self) -> u32 {
        self.0 as u32
    }

    /// Which life of that index.
    pub fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// What peers may do to a region. The node itself may always do both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Access {
    /// Nothing: a source or destination of our own requests only.
    #[default]
    Local,
    /// READ.
    Read,
    /// WRITE.
    Write,
    /// Both.
    ReadWrite,
}

impl Access {
    /// Whether a peer may do `op`.
    pub fn allows(self, op: Op) -> bool {
        match op {
            Op::Read => matches!(self, Self::Read | Self::ReadWrite),
            Op::Write => matches!(self, Self::Write | Self::ReadWrite),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name keeps its two parts, and access allows exactly what its name says.
    #[test]
    fn parts_and_rights() {
        let id = RegionId::new(7, 0xDEAD_BEEF);
        assert_eq!((id.index(), id.generation(), id.0), (7, 0xDEAD_BEEF, 0xDEAD_BEEF_0000_0007));
        let rights = |a: Access| (a.allows(Op::Read), a.allows(Op::Write));
        assert_eq!(rights(Access::Local), (false, false));
        assert_eq!(rights(Access::Read), (true, false));
        assert_eq!(rights(Access::Write), (false, true));
        assert_eq!(rights(Access::ReadWrite), (true, true));
    }
}
