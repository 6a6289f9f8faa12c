//! Whether this thread runs stages right now: there, waiting for what stages bring forth would wait for itself.
//! Deliberately about threads and not about engines: of two engines that wait for each other neither goes on.

use std::cell::Cell;

thread_local! {
    static INSIDE: Cell<u32> = const { Cell::new(0) };
}

/// Whether the calling thread is a worker's, or steps a worker of a `caller` pool at this moment: whatever is called
/// from here must not wait for an engine.
pub fn on_engine_thread() -> bool {
    INSIDE.get() > 0
}

/// The thread runs stages while this lives.
pub(crate) struct Inside(());

impl Inside {
    pub(crate) fn enter() -> Self {
        INSIDE.set(INSIDE.get() + 1);
        Self(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(INSIDE.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mark is this thread's alone, counts how often it was entered, and goes with the last exit.
    #[test]
    fn marks_nest() {
        assert!(!on_engine_thread());
        let outer = Inside::enter();
        drop(Inside::enter());
        assert!(on_engine_thread());
        assert!(!std::thread::spawn(on_engine_thread).join().unwrap());
        drop(outer);
        assert!(!on_engine_thread());
    }
}
