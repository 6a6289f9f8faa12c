//! What the status of a completion means: how its work request ended, and whose fault the end of its link is. The first
//! error on a queue pair is the cause, all that follows it is flushed. Deliberately pure: every case is in one table.

use ibverbs_sys::ibv_wc_status as status;

use crate::wr::{Blame, Outcome, Refusal};

/// Why a link ends. The first that is named counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// It was asked for, or one of its halves was dropped.
    Asked,
    /// It gave its place on the NIC to another link.
    Evicted,
    /// The device did not take what was posted: an `errno`.
    NotTaken(i32),
    /// A completion with this status.
    Status(u32),
    /// Work was outstanding, and nothing completed.
    Stalled,
    /// This side's port has been down, or its address gone, for longer than the grace.
    Down,
}

/// How far the first error lets one say of what was flushed behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flushed {
    /// The target stopped at the error, as it is bound to: nothing that was posted later had an effect.
    Nothing,
    /// Nobody knows how much of it had an effect.
    Unknown,
}

impl Cause {
    /// As a word, never 0.
    pub(super) fn to_word(self) -> u64 {
        let (kind, detail) = match self {
            Self::Asked => (1, 0),
            Self::Evicted => (2, 0),
            Self::NotTaken(errno) => (3, errno as u32),
            Self::Status(code) => (4, code),
            Self::Stalled => (5, 0),
            Self::Down => (6, 0),
        };
        kind << 32 | u64::from(detail)
    }

    /// From [`Self::to_word`].
    pub(super) fn from_word(word: u64) -> Option<Self> {
        let detail = word as u32;
        match word >> 32 {
            1 => Some(Self::Asked),
            2 => Some(Self::Evicted),
            3 => Some(Self::NotTaken(detail as i32)),
            4 => Some(Self::Status(detail)),
            5 => Some(Self::Stalled),
            6 => Some(Self::Down),
            _ => None,
        }
    }

    /// Who rests for it. `is_down`: this side's port is down, which is reason enough for any path to fail.
    pub(super) fn blame(self, is_down: bool) -> Blame {
        match self {
            Self::Asked | Self::Evicted => Blame::Nobody,
            Self::NotTaken(_) | Self::Down => Blame::LocalNic,
            Self::Stalled if is_down => Blame::LocalNic,
            Self::Stalled => Blame::Path,
            Self::Status(code) => match blame(code) {
                Blame::Path if is_down => Blame::LocalNic,
                blame => blame,
            },
        }
    }

    /// What is known of work requests that were flushed behind it.
    pub(super) fn flushed(self) -> Flushed {
        match self {
            // The responder answers such a request with a NAK, turns its queue pair to the error state, and carries
            // out nothing of what comes after (InfiniBand specification, 9.9.3: responder error behaviour, class C).
            Self::Status(status::IBV_WC_REM_ACCESS_ERR) => Flushed::Nothing,
            _ => Flushed::Unknown,
        }
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Asked => f.write_str("it was closed"),
            Self::Evicted => f.write_str("its place on the NIC was needed"),
            Self::NotTaken(errno) => {
                let error = std::io::Error::from_raw_os_error(*errno);
                write!(f, "the device did not take what was posted ({error})")
            }
            Self::Status(code) => write!(f, "{} (status {code})", name(*code)),
            Self::Stalled => f.write_str("nothing completed on it for `stall`"),
            Self::Down => f.write_str("this side's port is down, or its address is gone"),
        }
    }
}

/// How the work request ended that a completion with this status names. `flushed`: what the first error said, if this
/// is not it.
pub(super) fn outcome(code: u32, flushed: Flushed) -> Outcome {
    match code {
        status::IBV_WC_SUCCESS => Outcome::Done,
        status::IBV_WC_REM_ACCESS_ERR => Outcome::Refused(Refusal::UnknownRegion),
        // (Invalid requests are not refusals: what is posted was checked, so packets were lost or mixed up on the way, as
        // soft-RoCE has it under load. It may be posted again.) Found before a packet leaves:
        status::IBV_WC_LOC_LEN_ERR => Outcome::Failed,
        status::IBV_WC_WR_FLUSH_ERR if flushed == Flushed::Nothing => Outcome::NotBegun,
        _ => Outcome::Begun,
    }
}

fn blame(code: u32) -> Blame {
    match code {
        status::IBV_WC_LOC_QP_OP_ERR
        | status::IBV_WC_LOC_EEC_OP_ERR
        | status::IBV_WC_LOC_ACCESS_ERR
        | status::IBV_WC_FATAL_ERR
        | status::IBV_WC_GENERAL_ERR => Blame::LocalNic,
        status::IBV_WC_RETRY_EXC_ERR
        | status::IBV_WC_RNR_RETRY_EXC_ERR
        | status::IBV_WC_RESP_TIMEOUT_ERR
        | status::IBV_WC_BAD_RESP_ERR => Blame::Path,
        status::IBV_WC_REM_OP_ERR | status::IBV_WC_REM_ABORT_ERR => Blame::Peer,
        // A region that is gone, a request of our own that makes no sense: no NIC is to blame for them.
        _ => Blame::Nobody,
    }
}

fn name(code: u32) -> &'static str {
    match code {
        status::IBV_WC_LOC_LEN_ERR => "longer than the port's messages",
        status::IBV_WC_LOC_QP_OP_ERR => "the local queue pair failed",
        status::IBV_WC_LOC_PROT_ERR => "local memory is not registered (any more)",
        status::IBV_WC_WR_FLUSH_ERR => "the local queue pair was in error",
        status::IBV_WC_REM_INV_REQ_ERR => "the peer's NIC found the request invalid",
        status::IBV_WC_REM_ACCESS_ERR => "the peer's NIC refused access to its memory",
        status::IBV_WC_REM_OP_ERR => "the peer's NIC could not carry it out",
        status::IBV_WC_RETRY_EXC_ERR => "no acknowledgement after all `retries`",
        status::IBV_WC_RNR_RETRY_EXC_ERR => "the peer was not ready",
        status::IBV_WC_FATAL_ERR => "the device failed",
        _ => "a completion with error",
    }
}

#[cfg(all(test, not(pipeline_loom)))]
mod tests {
    use super::*;

    /// The whole table: what each status means for its request, for those flushed behind it, and who rests; a path
    /// that fails while this side's own port is down is not the path's fault.
    #[test]
    fn every_status() {
        use Blame::{LocalNic, Nobody, Path, Peer};
        use Outcome::{Begun, Failed, NotBegun, Refused};
        let unknown = Refused(Refusal::UnknownRegion);
        for (code, ended, behind, blame, blame_down) in [
            (status::IBV_WC_LOC_LEN_ERR, Failed, Begun, Nobody, Nobody),
            (status::IBV_WC_LOC_QP_OP_ERR, Begun, Begun, LocalNic, LocalNic),
            (status::IBV_WC_LOC_PROT_ERR, Begun, Begun, Nobody, Nobody),
            (status::IBV_WC_WR_FLUSH_ERR, Begun, Begun, Nobody, Nobody),
            (status::IBV_WC_REM_INV_REQ_ERR, Begun, Begun, Nobody, Nobody),
            (status::IBV_WC_REM_ACCESS_ERR, unknown, NotBegun, Nobody, Nobody),
            (status::IBV_WC_REM_OP_ERR, Begun, Begun, Peer, Peer),
            (status::IBV_WC_RETRY_EXC_ERR, Begun, Begun, Path, LocalNic),
            (status::IBV_WC_RNR_RETRY_EXC_ERR, Begun, Begun, Path, LocalNic),
            (status::IBV_WC_FATAL_ERR, Begun, Begun, LocalNic, LocalNic),
        ] {
            let cause = Cause::Status(code);
            assert_eq!(outcome(code, Flushed::Unknown), ended, "{cause}");
            assert_eq!(outcome(status::IBV_WC_WR_FLUSH_ERR, cause.flushed()), behind, "{cause}");
            assert_eq!((cause.blame(false), cause.blame(true)), (blame, blame_down), "{cause}");
        }
        assert_eq!(outcome(status::IBV_WC_SUCCESS, Flushed::Nothing), Outcome::Done);
        for (cause, blame) in [
            (Cause::Asked, Nobody),
            (Cause::Evicted, Nobody),
            (Cause::NotTaken(22), LocalNic),
            (Cause::Stalled, Path),
            (Cause::Down, LocalNic),
        ] {
            assert_eq!((cause.blame(false), cause.flushed()), (blame, Flushed::Unknown), "{cause}");
        }
    }

    /// Every cause comes back from its word.
    #[test]
    fn causes_as_words() {
        use Cause::{Asked, Down, Evicted, NotTaken, Stalled, Status};
        for cause in [Asked, Evicted, NotTaken(i32::MAX), Status(0), Status(u32::MAX), Stalled, Down] {
            assert_eq!(Cause::from_word(cause.to_word()), Some(cause));
        }
        assert_eq!(Cause::from_word(0), None);
    }
}
