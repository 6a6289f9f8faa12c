//! Seeded draws: the same for the same seed, on every machine. Deliberately without floating point functions, whose
//! last bit differs between systems, and not for secrets.

/// A sequence of draws (splitmix64).
pub struct Draw(u64);

impl Draw {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number below `n`; 0 of none.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// A number from `mean - mean * vary_pct / 100` to as much above, each as likely.
    pub fn around(&mut self, mean: u64, vary_pct: u64) -> u64 {
        let off = (u128::from(mean) * u128::from(vary_pct.min(100)) / 100) as u64;
        mean - off + self.below(off.saturating_mul(2).saturating_add(1))
    }
}

/// A number that looks unlike its argument: for places that are to be spread, and the same in every run.
pub fn mix(number: u64) -> u64 {
    let z = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sequence is that of splitmix64, so that files made by it are the same everywhere; bounds are kept.
    #[test]
    fn the_sequence_is_fixed() {
        let mut draw = Draw::new(1_234_567);
        assert_eq!([draw.next(), draw.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
        assert!((0..1000).all(|_| draw.below(3) < 3 && (50..=150).contains(&draw.around(100, 50))));
        assert_eq!((draw.below(0), draw.around(7, 0)), (0, 7));
    }
}
