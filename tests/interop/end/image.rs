//! What lies in the region: bytes of a seed, and checksums of the pieces that a transfer moves and of all that lies between
//! them, which no transfer may touch. The same shapes and checksums as `ends/image.py`.

use pipeline_node::Region;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{Answer, number};

/// First byte of the first piece.
pub const MARGIN: u64 = 64;
/// Longer than a MiB and no multiple of a page, so that no two pieces hold the same bytes.
const BLOCK: usize = (1 << 20) + 13;

/// Pieces of equal size, each `stride` bytes behind the one before it; from the end of the buffer on they begin anew.
pub struct Shape {
    pub size: u64,
    pub count: u64,
    pub stride: u64,
}

impl Shape {
    /// From a command.
    pub fn of(command: &Value) -> Result<Self, String> {
        let [size, count, stride] = ["size", "count", "stride"].map(|key| number(command, key));
        Ok(Self { size: size?, count: count?, stride: stride? })
    }

    /// Where the pieces begin, in a buffer of so many bytes.
    pub fn offsets(&self, length: u64) -> impl Iterator<Item = u64> + use<> {
        let (size, stride) = (self.size, self.stride);
        let places = ((length - 2 * MARGIN - size) / stride + 1).max(1);
        (0..self.count).map(move |at| MARGIN + at % places * stride)
    }
}

/// Puts the bytes of a seed in, from the start on.
pub fn fill(region: &Region, seed: u64, length: u64) -> Answer {
    let mut state = seed;
    let block: Vec<u8> =
        std::iter::repeat_with(|| random(&mut state).to_le_bytes()).flatten().take(BLOCK).collect();
    for at in (0..length).step_by(BLOCK) {
        let len = BLOCK.min((length - at) as usize);
        region.write_shared(at, &block[..len]).map_err(|e| e.to_string())?;
    }
    Ok(Value::Null)
}

/// SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Checksums of the pieces, one behind the other, and of the gaps: before, between and behind them.
pub fn image(region: &Region, shape: &Shape) -> Answer {
    let (mut pieces, mut gaps) = (Sha256::new(), Sha256::new());
    let mut at = 0;
    let mut buffer = vec![0; BLOCK];
    let mut add = |sum: &mut Sha256, mut from: u64, to: u64| -> Result<(), String> {
        while from < to {
            let part = &mut buffer[..BLOCK.min((to - from) as usize)];
            region.read_shared(from, part).map_err(|e| e.to_string())?;
            sum.update(&*part);
            from += part.len() as u64;
        }
        Ok(())
    };
    let mut offsets: Vec<u64> = shape.offsets(region.len()).collect();
    offsets.sort_unstable();
    offsets.dedup();
    for offset in offsets {
        add(&mut gaps, at, offset)?;
        add(&mut pieces, offset, offset + shape.size)?;
        at = offset + shape.size;
    }
    add(&mut gaps, at, (at + MARGIN).min(region.len()))?;
    let hex = |sum: Sha256| sum.finalize().iter().map(|b| format!("{b:02x}")).collect::<String>();
    Ok(json!({ "pieces": hex(pieces), "gaps": hex(gaps) }))
}
