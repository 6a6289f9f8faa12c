//! How fast the CPUs are just now. On machines with neighbours that nobody sees, a CPU is at half speed for seconds at a time; a
//! figure from such a moment says nothing about a file. Deliberately without our own code: each CPU copies memory, by itself.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::cli::load::tally::median;

/// Bytes of a copy: more than a first-level cache, less than what CPUs share.
const BYTES: usize = 256 << 10;
/// Copies of a piece, and pieces: together some milliseconds.
const COPIES: usize = 40;
const PIECES: usize = 7;
/// A moment slower than this share of the usual one does not count.
const STEADY: f64 = 0.8;

/// 10⁹ bytes a second that the slowest CPU copies while all do.
pub fn speed() -> f64 {
    let Ok(allowed) = sched_getaffinity(None) else { return 0.0 };
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    let barrier = Barrier::new(cpus.len());
    let speeds: Vec<f64> = std::thread::scope(|scope| {
        let copiers: Vec<_> = cpus.iter().map(|cpu| scope.spawn(|| copier(*cpu, &barrier))).collect();
        copiers.into_iter().filter_map(|copier| copier.join().ok()).collect()
    });
    speeds.into_iter().reduce(f64::min).unwrap_or(0.0)
}

fn copier(cpu: usize, barrier: &Barrier) -> f64 {
    let mut one = CpuSet::new();
    one.set(cpu);
    // Not pinned it measures some CPU, which is better than nothing.
    let _ = sched_setaffinity(None, &one);
    let (from, mut to) = (vec![1_u8; BYTES], vec![0_u8; BYTES]);
    barrier.wait();
    let mut speeds: Vec<f64> = (0..PIECES)
        .map(|_| {
            let begun = Instant::now();
            for _ in 0..COPIES {
                black_box(&mut to).copy_from_slice(black_box(&from));
            }
            (BYTES * COPIES) as f64 / begun.elapsed().as_nanos().max(1) as f64
        })
        .collect();
    median(&mut speeds)
}

/// Which of these moments count: all that are not much slower than the one in the middle of the faster half.
pub fn steady(speeds: &[f64]) -> Vec<bool> {
    let mut sorted = speeds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let usual = sorted.get(sorted.len() * 3 / 4).copied().unwrap_or(0.0);
    speeds.iter().map(|speed| *speed >= STEADY * usual).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPUs copy something; moments at half speed are left out, also where they are nearly half of all.
    #[test]
    fn slow_moments_are_left_out() {
        assert!(speed() > 0.01);
        let moments = [10.0, 5.1, 9.6, 5.0, 10.2, 9.9, 4.8];
        assert_eq!(steady(&moments), [true, false, true, false, true, true, false]);
        assert!(steady(&[]).is_empty());
    }
}
