//! `--check`: puts known bytes where they are taken from, and counts wrong ones where they should have arrived.
//! Deliberately outside the timed loop.

use super::pattern::{PIECE, fill, wrong};
use crate::cli::load::Direction;
use crate::cli::load::timed::Load;

/// Puts the bytes of `seed` at the source of the transfers, and others at their destination.
///
/// # Errors
/// When the target cannot be written to.
pub fn prepare(load: &Load<'_>, seed: u64) -> Result<(), String> {
    let all = vec![true; load.layout.slots as usize];
    match load.op {
        Direction::Write => {
            fill_region(load, !seed)?;
            load.transfer(&all, Direction::Write)?;
            fill_region(load, seed)
        }
        Direction::Read => {
            fill_region(load, seed)?;
            load.transfer(&all, Direction::Write)?;
            fill_region(load, !seed)
        }
    }
}

/// How many bytes of the places in `used` are not those of `seed` at the destination.
///
/// # Errors
/// When the target cannot be read from.
pub fn count_wrong(load: &Load<'_>, seed: u64, used: &[bool]) -> Result<u64, String> {
    if load.op == Direction::Write {
        fill_region(load, !seed)?;
        load.transfer(used, Direction::Read)?;
    }
    let (mut bytes, mut scratch) = (vec![0; PIECE], vec![0; PIECE]);
    let mut count = 0;
    for slot in (0..load.layout.slots).filter(|s| used[*s as usize]) {
        for (offset, len) in load.layout.pieces(slot) {
            for (at, n) in steps(offset, len) {
                let bytes = &mut bytes[..n];
                load.region.read(at, bytes).map_err(|e| e.to_string())?;
                count += wrong(bytes, &mut scratch, seed, at);
            }
        }
    }
    Ok(count)
}

/// A range in steps of a megabyte.
fn steps(offset: u64, len: u64) -> impl Iterator<Item = (u64, usize)> {
    (0..len).step_by(PIECE).map(move |i| (offset + i, (len - i).min(PIECE as u64) as usize))
}

fn fill_region(load: &Load<'_>, seed: u64) -> Result<(), String> {
    let mut bytes = vec![0; PIECE];
    for (at, n) in steps(0, load.layout.bytes()) {
        fill(&mut bytes[..n], seed, at);
        load.region.write(at, &bytes[..n]).map_err(|e| e.to_string())?;
    }
    Ok(())
}
