//! Sums over bytes of registered memory, copied out a stretch at a time: whoever else may touch them gets no say in what is
//! summed twice. Deliberately the plain sums that other tools compute as well.

use pipeline_transports::{Error, Regions, Span};
use twox_hash::xxhash3_64::Hasher as Xxh3;

/// What is copied out at once: as much as stays in the first cache.
const STRETCH: usize = 16 << 10;

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// CRC-32C (Castagnoli): what many processors have an instruction for.
    Crc32c,
    /// XXH3, 64 bits.
    Xxh3,
}

impl Algorithm {
    pub(super) fn named(name: &str) -> Self {
        if name == "xxh3" { Self::Xxh3 } else { Self::Crc32c }
    }
}

/// Sums with a stretch of its own.
pub(super) struct Summer {
    algorithm: Algorithm,
    stretch: Box<[u8]>,
}

impl Summer {
    pub(super) fn new(algorithm: Algorithm) -> Self {
        Self { algorithm, stretch: vec![0; STRETCH].into() }
    }

    /// The sum of `len` bytes of a region that a request holds, also while it is being unregistered.
    ///
    /// # Errors
    /// The region is gone, or the range passes its end.
    pub(super) fn sum(&mut self, regions: &Regions, at: Span, len: u64) -> Result<u64, Error> {
        let (mut crc, mut xxh3) = (0, (self.algorithm == Algorithm::Xxh3).then(Xxh3::new));
        let mut done = 0;
        while done < len {
            let n = (len - done).min(STRETCH as u64);
            let stretch = &mut self.stretch[..n as usize];
            regions.read_held(at.region, at.offset + done, stretch)?;
            match &mut xxh3 {
                Some(hasher) => std::hash::Hasher::write(hasher, stretch),
                None => crc = crc32c::crc32c_append(crc, stretch),
            }
            done += n;
        }
        Ok(xxh3.map_or(u64::from(crc), |hasher| std::hash::Hasher::finish(&hasher)))
    }
}

#[cfg(test)]
mod tests {
    use pipeline_transports::{Access, Memory};

    use super::*;

    /// The sums are those of the algorithms' own descriptions, whatever the length, also over several stretches.
    #[test]
    fn known_sums() {
        let regions = Regions::new(4);
        let mut memory = Memory::allocate(3 * STRETCH as u64 + 9).unwrap();
        memory.write(0, b"123456789").unwrap();
        let long: Vec<u8> = (0..3 * STRETCH).map(|i| (i * 7 % 251) as u8).collect();
        memory.write(9, &long).unwrap();
        let id = regions.add(memory, Access::Local).unwrap();
        regions.pin(id).unwrap();
        let at = |offset| Span { region: id, offset };
        let (mut crc, mut xxh3) =
            (Summer::new(Algorithm::named("crc32c")), Summer::new(Algorithm::named("xxh3")));
        assert_eq!(crc.sum(&regions, at(0), 9).unwrap(), 0xe306_9283);
        assert_eq!(xxh3.sum(&regions, at(0), 0).unwrap(), 0x2d06_8005_38d3_94c2);
        assert_eq!(crc.sum(&regions, at(9), long.len() as u64).unwrap(), u64::from(crc32c::crc32c(&long)));
        assert_eq!(xxh3.sum(&regions, at(9), long.len() as u64).unwrap(), Xxh3::oneshot(&long));
        regions.shut(id).unwrap();
        assert_eq!(
            crc.sum(&regions, at(0), 9).unwrap(),
            0xe306_9283,
            "held, though nobody else gets it any more"
        );
        assert!(crc.sum(&regions, at(10), long.len() as u64).is_err());
        regions.unpin(id);
        assert!(crc.sum(&regions, at(0), 9).is_err(), "held by nobody");
    }
}
