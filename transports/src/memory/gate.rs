//! A counting gate with a generation: who holds a thing, and whether more may.
//!
//! One word: generation (32 bits), live, shut, two rights, count (28 bits). Every step is one
//! compare-exchange on it, so "nobody holds it" and "nobody can any more" become true together.
//! Deliberately no waiting: an owner that finds holders is told so and comes again.

use crate::sync::{AtomicU64, Ordering};

const LIVE: u64 = 1 << 31;
const SHUT: u64 = 1 << 30;
const RIGHTS: u64 = 0b11 << 28;
const COUNT: u64 = (1 << 28) - 1;

/// Rights that [`Gate::enter`] may ask for.
pub(super) const READ: u64 = 1 << 28;
pub(super) const WRITE: u64 = 1 << 29;

/// Why [`Gate::enter`] said no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Barred {
    /// Not this generation, or not alive.
    Unknown,
    /// The rights asked for are not given.
    Denied,
    /// Shut: the owner is taking the thing away.
    Shut,
    /// 2^28 holders: no more can be counted.
    Full,
}

/// See the file's head.
pub(super) struct Gate(AtomicU64);

impl Gate {
    /// A dead gate whose first life will be after `generation`.
    pub(super) fn dead(generation: u32) -> Self {
        Self(AtomicU64::new(u64::from(generation) << 32))
    }

    /// The current life, or the last one.
    pub(super) fn generation(&self) -> u32 {
        (self.0.load(Ordering::Relaxed) >> 32) as u32
    }

    /// Starts life `generation`. Only the owner, on a dead gate; what it wrote before is visible to all who
    /// enter after.
    pub(super) fn open(&self, generation: u32, rights: u64) {
        debug_assert_eq!(rights & !RIGHTS, 0);
        self.0.store(u64::from(generation) << 32 | LIVE | rights, Ordering::Release);
    }

    /// Becomes one more holder.
    #[inline]
    pub(super) fn enter(&self, generation: u32, rights: u64) -> Result<(), Barred> {
        self.enter_times(generation, rights, 1)
    }

    /// Becomes `n` more holders, or none; `n` is far below 2^28.
    #[inline]
    pub(super) fn enter_times(&self, generation: u32, rights: u64, n: u32) -> Result<(), Barred> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word >> 32 != u64::from(generation) || word & LIVE == 0 {
                return Err(Barred::Unknown);
            }
            if word & rights != rights {
                return Err(Barred::Denied);
            }
            if word & SHUT != 0 {
                return Err(Barred::Shut);
            }
            if COUNT - (word & COUNT) < u64::from(n) {
                return Err(Barred::Full);
            }
            match self.0.compare_exchange_weak(
                word,
                word + u64::from(n),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(seen) => word = seen,
            }
        }
    }

    /// Becomes one holder more beside those that there are, shut or not; `false` if there are none, or no more can be counted.
    pub(super) fn join(&self, generation: u32) -> bool {
        let more = |word| (word & COUNT != 0 && word & COUNT != COUNT).then_some(word + 1);
        self.step(generation, more).is_some()
    }

    /// A holder leaves; all it did happens before whoever sees the count without it.
    pub(super) fn leave(&self) {
        let before = self.0.fetch_sub(1, Ordering::Release);
        debug_assert!(before & COUNT != 0, "left a gate that nobody held");
    }

    /// `n` holders leave on behalf of `generation`; `false`, and none does, if fewer hold that life.
    pub(super) fn leave_checked(&self, generation: u32, n: u32) -> bool {
        self.step(generation, |word| (word & COUNT >= u64::from(n)).then(|| word - u64::from(n))).is_some()
    }

    /// How many hold this life; `None` when it is over.
    pub(super) fn holders(&self, generation: u32) -> Option<u64> {
        let word = self.0.load(Ordering::Acquire);
        (word >> 32 == u64::from(generation) && word & LIVE != 0).then_some(word & COUNT)
    }

    /// Shuts it: holders stay, nobody enters. Whether it was open before; `None` when that life is over.
    pub(super) fn shut(&self, generation: u32) -> Option<bool> {
        self.step(generation, |word| Some(word | SHUT)).map(|before| before & SHUT == 0)
    }

    /// Opens a shut gate again.
    pub(super) fn reopen(&self, generation: u32) {
        self.step(generation, |word| Some(word & !SHUT));
    }

    /// Ends the life if nobody holds it, in one step. `false` if somebody does.
    pub(super) fn end_if_idle(&self, generation: u32) -> bool {
        self.step(generation, |word| (word & COUNT == 0).then_some(word & !(LIVE | SHUT | RIGHTS))).is_some()
    }

    /// One transition of a live gate; answers the word before, or `None` if it is not to be.
    fn step(&self, generation: u32, next: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word >> 32 != u64::from(generation) || word & LIVE == 0 {
                return None;
            }
            match self.0.compare_exchange_weak(word, next(word)?, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(before) => return Some(before),
                Err(seen) => word = seen,
            }
        }
    }
}

#[cfg(all(test, not(pipeline_loom)))]
mod tests {
    use super::*;

    /// Each reason to be barred is given for its own cause, and only then.
    #[test]
    fn barred_for_the_right_reason() {
        let gate = Gate::dead(4);
        assert_eq!(gate.enter(4, 0), Err(Barred::Unknown));
        gate.open(5, READ);
        assert_eq!(gate.enter(4, 0), Err(Barred::Unknown));
        assert_eq!(gate.enter(5, WRITE), Err(Barred::Denied));
        assert_eq!(gate.enter(5, READ), Ok(()));
        assert_eq!(gate.shut(5), Some(true));
        assert_eq!(gate.enter(5, READ), Err(Barred::Shut));
        assert_eq!(gate.holders(5), Some(1));
        gate.reopen(5);
        assert_eq!(gate.enter(5, READ), Ok(()));
    }

    /// A life ends only when nobody holds it, and a leave for an old life changes nothing.
    #[test]
    fn ends_only_when_idle() {
        let gate = Gate::dead(0);
        gate.open(1, 0);
        gate.enter(1, 0).unwrap();
        assert!(!gate.end_if_idle(1));
        assert!(gate.leave_checked(1, 1));
        assert!(!gate.leave_checked(1, 1));
        assert!(gate.end_if_idle(1));
        assert_eq!(gate.holders(1), None);
        gate.open(2, 0);
        gate.enter(2, 0).unwrap();
        assert!(!gate.leave_checked(1, 1));
        assert_eq!((gate.holders(2), gate.generation()), (Some(1), 2));
    }
}

#[cfg(all(test, pipeline_loom))]
mod loom_tests {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    /// Whoever entered is done with the memory before its owner, having ended the life, touches it; in
    /// every interleaving (of up to three preemptions) of two holders and an owner, the gate shut in between.
    #[test]
    fn no_holder_after_the_end() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let shared = Arc::new((Gate::dead(0), UnsafeCell::new(0u32)));
            shared.0.open(1, READ);
            let holders: Vec<_> = (0..2)
                .map(|_| {
                    let shared = shared.clone();
                    loom::thread::spawn(move || {
                        if shared.0.enter(1, READ).is_ok() {
                            shared.1.with(|bytes| {
                                // SAFETY: loom checks that no write runs at the same time: the very point.
                                assert_eq!(unsafe { *bytes }, 0)
                            });
                            shared.0.leave();
                        }
                    })
                })
                .collect();
            shared.0.shut(1);
            let ended = shared.0.end_if_idle(1);
            if ended {
                // SAFETY: as above.
                shared.1.with_mut(|bytes| unsafe { *bytes = 1 });
                shared.0.open(2, READ);
            } else {
                shared.0.reopen(1);
            }
            for holder in holders {
                holder.join().unwrap();
            }
            assert_eq!(shared.0.holders(if ended { 2 } else { 1 }), Some(0));
        });
    }
}
