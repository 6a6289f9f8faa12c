//! How long a thread ran and how long it waited for a CPU, as the kernel's scheduler counts.
//! Deliberately asked of the kernel when somebody looks: a thread cannot see by itself that it waits, its time just passes.

use crate::clock::Nanos;

/// Time on a CPU, and time runnable without one. `None` where the kernel does not tell, or of a thread that is not there
/// (any more, or in this process after a fork).
pub(crate) fn of_thread(thread: u64) -> Option<(Nanos, Nanos)> {
    if thread == 0 {
        return None;
    }
    read(&std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?)
}

/// The calling thread's number, for [`of_thread`].
pub(crate) fn this_thread() -> u64 {
    u64::from(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs())
}

fn read(text: &str) -> Option<(Nanos, Nanos)> {
    let mut words = text.split_ascii_whitespace();
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread's own time grows while it works, and one that is not there is not told of.
    #[test]
    fn tells_of_a_thread() {
        assert_eq!(read("12 34 5\n"), Some((12, 34)));
        assert_eq!([read(""), read("12"), read("a b")], [None; 3]);
        assert_eq!([of_thread(0), of_thread(u64::MAX)], [None; 2]);
        let Some(before) = of_thread(this_thread()) else { return };
        let begun = crate::clock::thread_cpu_ns();
        while crate::clock::thread_cpu_ns() - begun < 30_000_000 {
            std::hint::black_box(begun);
        }
        let after = of_thread(this_thread()).unwrap();
        assert!(after.0 > before.0 && after.1 >= before.1, "{before:?} {after:?}");
    }
}
