//! Whose fault the end of a connection was, as the first one said who saw it. Deliberately no opinion on what follows from
//! it: control has that.

use crate::sync::{AtomicU32, Ordering};
use crate::wr::Blame;

/// Whose fault the error of a socket is. A reset is not the way's: somebody at the other end sent it, and whether that is
/// gone its session tells.
pub(crate) fn broken_by(error: &std::io::Error) -> Blame {
    use std::io::ErrorKind::{HostUnreachable, NetworkUnreachable, TimedOut};
    match error.kind() {
        TimedOut | HostUnreachable | NetworkUnreachable => Blame::Path,
        _ => Blame::Nobody,
    }
}

/// A [`Blame`] that the first one sets.
#[derive(Default)]
pub(crate) struct Fault(AtomicU32);

impl Fault {
    /// Says whose; the first word counts.
    pub(crate) fn set(&self, blame: Blame) {
        let code = match blame {
            Blame::Nobody => 1,
            Blame::LocalNic => 2,
            Blame::Path => 3,
            Blame::Peer => 4,
        };
        // Whoever came first was nearer to it.
        let _ = self.0.compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Whose it was; nobody's where nobody said.
    pub(crate) fn get(&self) -> Blame {
        match self.0.load(Ordering::Acquire) {
            2 => Blame::LocalNic,
            3 => Blame::Path,
            4 => Blame::Peer,
            _ => Blame::Nobody,
        }
    }
}
