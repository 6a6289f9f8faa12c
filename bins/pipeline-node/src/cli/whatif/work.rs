//! What is asked of a file here: requests of one size, so many a batch, so many batches in flight.

use pipeline_configs::units;

use crate::cli::load::Direction;
use crate::cli::load::layout::Layout;
use crate::cli::quantity;

/// Bytes on each side that requests lie in; beyond it places are used again.
const MEMORY: u64 = 64 << 20;

/// One shape of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Direction.
    pub op: Direction,
    /// Bytes a request.
    pub bytes: u64,
    /// Requests a batch.
    pub batch: u64,
    /// Batches in flight.
    pub depth: u64,
    /// Where they lie.
    pub layout: Layout,
}

impl Shape {
    /// With its places.
    ///
    /// # Errors
    /// When that many have no place.
    pub fn new(op: Direction, bytes: u64, batch: u64, depth: u64) -> Result<Self, String> {
        Ok(Self { op, bytes, batch, depth, layout: Layout::new(bytes, 1, batch * depth, MEMORY)? })
    }

    /// `8x1MiBx4`: requests of a batch, their size, batches in flight.
    ///
    /// # Errors
    /// What may be written.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no shape; write BATCHxBYTESxDEPTH, as in 8x1MiBx4");
        let parts: Vec<&str> = text.split('x').collect();
        let [batch, bytes, depth] = parts.as_slice() else { return Err(wrong()) };
        let number = |text: &str| text.parse::<u64>().ok().filter(|n| (1..=65_536).contains(n));
        let (batch, depth) = number(batch).zip(number(depth)).ok_or_else(wrong)?;
        Self::new(Direction::Write, quantity::bytes(bytes)?, batch, depth)
    }

    /// In words.
    pub fn words(&self) -> String {
        let size = units::show_bytes(self.bytes);
        let (op, batch, depth) = (self.op.name(), self.batch, self.depth);
        match (batch, depth) {
            (1, 1) => format!("{op}, one request of {size} at a time"),
            _ => format!("{op}, batches of {batch} x {size}, {depth} in flight"),
        }
    }
}
