//! All places of a load moved once, outside the timed loop: for memory of their own, and for what is verified.

use std::time::Duration;

use pipeline_node::{Batch, Options, Request, Status};

use super::direction::Direction;
use super::timed::Load;
use crate::cli::failures;

/// Requests of a batch.
const BATCH: usize = 64;
/// No kernel has smaller pages.
const PAGE: usize = 4096;
/// For room in the engine's tables.
const PATIENCE: Duration = Duration::from_secs(30);

impl Load<'_> {
    /// Gives every page of its places memory of its own: here, and at a target that is `ours`. What nobody has ever
    /// written to is one page of zeros to the kernel, which stays in the cache however much is sent from there.
    ///
    /// # Errors
    /// When the target cannot be written to.
    pub fn touch(&self, ours: bool) -> Result<(), String> {
        for page in (0..self.layout.bytes()).step_by(PAGE) {
            self.region.write(page, &[page as u8]).map_err(|e| e.to_string())?;
        }
        if !ours {
            return Ok(());
        }
        self.transfer(&vec![true; self.layout.slots as usize], Direction::Write)
    }

    /// Moves every place in `used`.
    ///
    /// # Errors
    /// The first request that fails.
    pub fn transfer(&self, used: &[bool], op: Direction) -> Result<(), String> {
        let mut requests = Vec::with_capacity(BATCH);
        for slot in (0..self.layout.slots).filter(|s| used[*s as usize]) {
            for (offset, len) in self.layout.pieces(slot) {
                requests.push(match op {
                    Direction::Write => Request::write(self.region, offset, self.segment.at(offset), len),
                    Direction::Read => Request::read(self.region, offset, self.segment.at(offset), len),
                });
                if requests.len() == BATCH {
                    self.flush(&mut requests)?;
                }
            }
        }
        self.flush(&mut requests)
    }

    fn flush(&self, requests: &mut Vec<Request>) -> Result<(), String> {
        if requests.is_empty() {
            return Ok(());
        }
        let batch = self.engine.submit_wait(requests, Options::default(), PATIENCE);
        let batch = batch.map_err(|e| e.to_string())?;
        requests.clear();
        // Its deadline ends it, so this ends.
        while batch.wait(Duration::from_secs(60)).is_err() {}
        first_failure(&batch).map_or(Ok(()), Err)
    }
}

fn first_failure(batch: &Batch) -> Option<String> {
    batch.results().find_map(|status| match status {
        Status::Failed(failure) => Some(failures::request(&failure)),
        _ => None,
    })
}
