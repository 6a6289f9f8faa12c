//! Requests of one size, so many a batch, so many batches in flight: what most work is made of.

use std::time::Duration;

use pipeline_configs::units;

use crate::cli::load::Direction;
use crate::cli::load::layout::Layout;
use crate::cli::quantity;

/// Bytes on each side that requests lie in; beyond it places are used again.
pub const MEMORY: u64 = 64 << 20;
/// What is supposed of a transport where nothing has been measured yet, bytes a second and requests a second.
pub const SUPPOSED: f64 = 1e9;
const SUPPOSED_REQUESTS: f64 = 250_000.0;

/// See the file's head.
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

    /// `8x1MiBx4`: requests of a batch, their size, batches in flight; WRITEs.
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

    /// The same the other way.
    pub fn towards(self, op: Direction) -> Self {
        Self { op, ..self }
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

    /// About how long that takes which is in flight when the time is over, with so many requests at most: it is waited for.
    pub fn tail(&self, requests_max: u64) -> Duration {
        let requests = (self.batch * self.depth).min(requests_max.max(self.batch)) as f64;
        Duration::from_secs_f64((requests * self.bytes as f64 / SUPPOSED).max(requests / SUPPOSED_REQUESTS))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Course;
    use super::*;

    /// What is told beforehand counts what is in flight when the time is over: by bytes for large requests, by requests for
    /// small ones, and never more than the engine takes.
    #[test]
    fn what_is_in_flight_takes_its_time() {
        let tail = |bytes, batch, depth, most| {
            Shape::new(Direction::Write, bytes, batch, depth).unwrap().tail(most).as_secs_f64()
        };
        assert!((tail(1 << 20, 64, 4, 1 << 18) - 0.268).abs() < 0.001);
        assert!((tail(1 << 20, 4096, 1024, 1 << 18) - 274.9).abs() < 0.1, "as many as the engine takes");
        assert!((tail(4096, 4096, 16, 1 << 18) - 0.268).abs() < 0.01);
        assert!((tail(64, 4096, 1024, 250_000) - 1.0).abs() < 0.001);
        let course = Course {
            shapes: vec![Shape::new(Direction::Write, 1 << 20, 4096, 1024).unwrap()],
            ..Course::default()
        };
        assert!(course.about(Duration::from_millis(30), 1 << 18).as_secs_f64() > 500.0);
    }

    /// A shape is written as it is told, and what is none says what is one.
    #[test]
    fn shapes_are_written() {
        let shape = Shape::parse("8x1MiBx4").unwrap();
        assert_eq!((shape.op, shape.batch, shape.bytes, shape.depth), (Direction::Write, 8, 1 << 20, 4));
        let words = shape.towards(Direction::Read).words();
        assert_eq!(words, "read, batches of 8 x 1MiB, 4 in flight");
        for wrong in ["", "8x1MiB", "0x1MiBx4", "8x1MiBx4x2", "8xmanyx4"] {
            assert!(Shape::parse(wrong).is_err(), "{wrong}");
        }
    }
}
