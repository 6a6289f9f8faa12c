//! Chance with a seed: the same seed, the same run. Deliberately a generator of four lines (splitmix64) and not a crate: it has
//! to be the same in every release.

/// See the file's head.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// More than 0 and less than 1.
    pub fn share(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Less than `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// Exponential of mean 1: gaps of arrivals that know nothing of each other.
    pub fn exponential(&mut self) -> f64 {
        -self.share().ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A seed gives the same numbers again; exponential ones have mean 1 and variance 1.
    #[test]
    fn seeded_and_exponential() {
        let (mut a, mut b) = (Dice::new(7), Dice::new(7));
        assert!((0..100).all(|_| a.share() == b.share()));
        let n = 200_000;
        let drawn: Vec<f64> = (0..n).map(|_| a.exponential()).collect();
        let mean = drawn.iter().sum::<f64>() / f64::from(n);
        let variance = drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(n);
        assert!((mean - 1.0).abs() < 0.01 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
    }
}
