//! What a sleep costs: latency from the ring to awake, which delays all that comes meanwhile, and the CPU time of falling
//! asleep and waking.
//!
//! All is measured, and apart by how long the sleep was: a CPU that has been idle for long takes longer to come back
//! (on a 2 vCPU VM 5 µs after a sleep of 1 µs, 11 after 10, 27 after 100). Deliberately without what it costs the one
//! who rings.

use crate::clock::Nanos;

/// Lengths of sleep that are told apart: up to 4, 32 and 256 µs, 2 and 16 ms, and longer.
pub(super) const CLASSES: usize = 6;
/// From 2¹² ns on a class spans a factor of eight.
const FIRST_BITS: u32 = 12;
const CLASS_BITS: u32 = 3;

/// What stands for a sleep as long as none was measured.
const LIKELY_NS: [f32; 3] = [30_000.0, 30_000.0, 5_000.0];
/// The first samples are averaged, each cut to a multiple of what stands,
const AVERAGED: u32 = 8;
const CUT: f32 = 2.0;
/// and each later one moves it by this share.
const STEP: f32 = 1.0 / 16.0;

/// The median of samples, as they come: each moves it a step up or down. A wake-up that waits for somebody else's time
/// slice thus counts as one that is a little late.
#[derive(Clone, Copy)]
struct Middle {
    ns: f32,
    samples: u32,
}

impl Middle {
    fn learn(&mut self, sample: Nanos) {
        self.samples = self.samples.saturating_add(1);
        let sample = (sample as f32).max(1.0);
        self.ns += match self.samples {
            ..=AVERAGED => (sample.min(CUT * self.ns) - self.ns) / self.samples as f32,
            // No further than to the sample: so it comes to rest on one that is always the same.
            _ => (sample - self.ns).clamp(-STEP * self.ns, STEP * self.ns),
        };
    }
}

/// What is measured: from the ring to awake; the same, summed over all that were delayed; CPU time.
const WAKE: usize = 0;
const DELAY: usize = 1;
const CPU: usize = 2;

/// See the head of the file.
pub(super) struct Toll {
    /// By length of sleep.
    classes: [[Middle; 3]; CLASSES],
    last: usize,
}

impl Toll {
    pub(super) fn new() -> Self {
        let likely = LIKELY_NS.map(|ns| Middle { ns, samples: 0 });
        Self { classes: [likely; CLASSES], last: CLASSES - 1 }
    }

    /// After a sleep of that length: how long it took from the ring until it was over, and what it took of the CPU, as
    /// far as they were measured.
    pub(super) fn learn(&mut self, slept: Nanos, wake_ns: Option<Nanos>, cpu_ns: Option<Nanos>) {
        self.last = class_of(slept);
        for (what, sample) in [(WAKE, wake_ns), (CPU, cpu_ns)] {
            if let Some(sample) = sample {
                self.classes[self.last][what].learn(sample);
            }
        }
    }

    /// The last sleep, which ended that late, delayed so many messages. They came one after the other, so the first
    /// waited all the time and the last not at all.
    pub(super) fn delayed(&mut self, wake_ns: Nanos, messages: u64) {
        self.classes[self.last][DELAY].learn(wake_ns * (messages.max(1) + 1) / 2);
    }

    /// Latency and CPU time of a sleep of the last length; ns.
    pub(super) fn last(&self) -> [Nanos; 2] {
        [WAKE, CPU].map(|what| self.known(self.last, what) as Nanos)
    }

    /// How late one is awake after a sleep of that length.
    pub(super) fn wake_ns(&self, slept: Nanos) -> Nanos {
        self.known(class_of(slept), WAKE) as Nanos
    }

    /// What a sleep of each class costs, in ns of latency, at a price of CPU time.
    pub(super) fn costs(&self, price: f32) -> [f32; CLASSES] {
        std::array::from_fn(|class| self.known(class, DELAY) + price * self.known(class, CPU))
    }

    /// What was measured; of the nearest class where there is nothing yet, a shorter one first.
    fn known(&self, class: usize, what: usize) -> f32 {
        let near = (0..=class).rev().chain(class + 1..CLASSES).map(|c| self.classes[c][what]);
        near.into_iter().find(|middle| middle.samples > 0).map_or(LIKELY_NS[what], |middle| middle.ns)
    }
}

/// The class of a sleep.
pub(super) fn class_of(slept: Nanos) -> usize {
    let bits = Nanos::BITS - slept.leading_zeros();
    (bits.saturating_sub(FIRST_BITS).div_ceil(CLASS_BITS) as usize).min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Classes are as the comment says; what was not measured is taken from the nearest that was.
    #[test]
    fn by_length_of_sleep() {
        let us = |us: u64| us * 1_024;
        let lengths = [0, us(4) - 1, us(4), us(32) - 1, us(32), us(256), us(2_048), us(16_384), u64::MAX];
        assert_eq!(lengths.map(class_of), [0, 0, 1, 1, 2, 3, 4, 5, 5]);
        let mut toll = Toll::new();
        assert_eq!(toll.costs(2.0), [40_000.0; CLASSES]);
        toll.learn(us(100), Some(20_000), Some(4_000));
        toll.delayed(20_000, 1);
        assert_eq!((toll.costs(0.5), toll.last()), ([22_000.0; CLASSES], [20_000, 4_000]));
        toll.learn(us(1), Some(4_000), None);
        toll.delayed(4_000, 3);
        assert_eq!(toll.costs(0.5)[..3], [10_000.0, 10_000.0, 22_000.0]);
        assert_eq!(toll.wake_ns(us(20_000)), 20_000);
    }

    /// One sample in ten that is a hundred times the others moves it by less than a tenth; a lasting change is followed
    /// within 30 samples, up and down.
    #[test]
    fn outliers_are_cut() {
        let mut toll = Toll::new();
        for i in 0..200 {
            toll.learn(0, Some(if i % 10 == 9 { 1_000_000 } else { 10_000 }), None);
            assert!(i < 20 || toll.wake_ns(0) < 11_000, "{i}: {}", toll.wake_ns(0));
        }
        (0..30).for_each(|_| toll.learn(0, Some(50_000), None));
        assert_eq!(toll.wake_ns(0), 50_000);
        (0..30).for_each(|_| toll.learn(0, Some(10_000), None));
        assert_eq!(toll.wake_ns(0), 10_000);
    }
}
