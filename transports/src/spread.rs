//! Work that a transport may do on several threads at once, without knowing whose: registering one region with many
//! devices, or in many pieces. Deliberately only for work that is waited for.

/// Threads that take part. A thread that waits for its share may carry out other work of this kind meanwhile, that of the
/// same transport included: whoever calls holds no lock.
pub trait Spread: Sync {
    /// Calls `work` with each of `0..count`, in any order, several at a time if there are threads for it, and comes back
    /// when all calls have.
    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync));
}

/// Nobody else takes part: one after the other, here.
#[derive(Clone, Copy, Debug, Default)]
pub struct InTurn;

impl Spread for InTurn {
    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        (0..count).for_each(work);
    }
}
