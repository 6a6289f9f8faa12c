//! Every way a request can end other than well, as a type; each names peer and stage and says what to do next.
//! Deliberately two forms: [`Code`], four bytes in a slot, and [`Failure`], made only when somebody looks.

use std::sync::Arc;

use pipeline_transports::Refusal;

/// Why a request or a slice failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// An edge with `when_full = "reject"` was full.
    Busy,
    /// One slice would be larger than all bytes that may be in flight.
    TooLarge {
        /// Bytes asked for.
        asked: u64,
        /// `limits.bytes_in_flight`.
        limit: u64,
    },
    /// The local region is not registered (any more), or is being unregistered.
    NotRegistered,
    /// Offset and length pass the end of the local region.
    LocalBounds,
    /// The peer has no such segment or region (any more).
    UnknownSegment,
    /// Offset and length pass the end of the remote segment.
    RemoteBounds,
    /// The remote region does not allow this direction.
    Denied,
    /// The peer cannot be reached (any more).
    PeerGone,
    /// The peer is about to stop and takes nothing new; what was submitted before still ends.
    PeerLeaving,
    /// The peer was restarted: its memory is not the one that was opened.
    StalePeer,
    /// No declared transport can carry it: both sides must have it, and it must know the direction.
    NoRoute,
    /// Time ran out. No byte is moved any more.
    Deadline,
    /// It was cancelled. No byte is moved any more.
    Cancelled,
    /// A WRITE of which a byte may have left, without an answer, and nobody has confirmed that its target let go of
    /// it: the source is free, the destination holds old bytes, new bytes, or some of each, and may still change.
    /// Later WRITEs of this node wait for that confirmation, so they are never overwritten by it.
    Undetermined,
    /// The target or the transport refused or failed it, as often as `attempts` allows.
    Transport(Transport),
    /// It was carried out, and what lies on the other side is not what is here: the sums over the bytes of a slice differ.
    /// Nothing, where the sums of more recent slices have taken the place of its own.
    Corrupt(Option<Mismatch>),
    /// It was carried out, and what lies on the other side could not be read back to be compared: the peer's region may only
    /// be written, the transport only writes, or the slice is longer than a piece of the scratch.
    Unverified,
    /// The notice of the batch failed; what its requests came to stands in their own results.
    Notice(NoticeFault),
    /// The stage that held it panicked.
    StagePanic,
    /// The engine was stopped while it was inside.
    Stopped,
    /// This process was forked while it was under way: it goes on in the parent, and only there.
    Forked,
}

/// What a check of bytes found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mismatch {
    /// First byte of the slice, in the local region.
    pub offset: u64,
    /// Sum over its bytes here.
    pub here: u64,
    /// Sum over those of the other side.
    pub there: u64,
}

/// What a transport said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// The target refused the work request.
    Refused(Refusal),
    /// It completed with an error.
    Failed,
}

/// Why a notice failed, where that is nothing that a request could fail of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoticeFault {
    /// Nobody on the peer asks for notices.
    Unheard,
    /// The peer's queue of notices stayed full until time ran out.
    Full,
    /// It was sent, and no answer came in time: it has been taken, or may still be, once at most.
    Unanswered,
    /// Requests of its batch have failed, and the peer runs another engine, whose notices cannot say so: it was not sent.
    Withheld,
    /// The peer runs another engine, whose notices cannot carry these bytes.
    Unfit,
}

/// A [`Reason`] with its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("peer `{peer}`, stage `{stage}`: {what}; {next}", what = .reason.what(), next = .reason.next())]
pub struct Failure {
    /// Why.
    pub reason: Reason,
    /// The peer's name.
    pub peer: Arc<str>,
    /// Name of the stage that found it; `submit` for what was found before the graph.
    pub stage: Arc<str>,
}

impl Reason {
    /// What requests can fail for, as labels of figures: a fixed list, so that the number of series is bounded.
    pub const LABELS: [&'static str; 21] = [
        "busy",
        "too_large",
        "not_registered",
        "local_bounds",
        "unknown_segment",
        "remote_bounds",
        "denied",
        "peer_gone",
        "peer_leaving",
        "stale_peer",
        "no_route",
        "deadline",
        "cancelled",
        "undetermined",
        "refused",
        "transport",
        "corrupt",
        "unverified",
        "stage_panic",
        "stopped",
        "forked",
    ];

    /// Its label: one of [`Self::LABELS`], or `notice`, which no request fails for.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::TooLarge { .. } => "too_large",
            Self::NotRegistered => "not_registered",
            Self::LocalBounds => "local_bounds",
            Self::UnknownSegment => "unknown_segment",
            Self::RemoteBounds => "remote_bounds",
            Self::Denied => "denied",
            Self::PeerGone => "peer_gone",
            Self::PeerLeaving => "peer_leaving",
            Self::StalePeer => "stale_peer",
            Self::NoRoute => "no_route",
            Self::Deadline => "deadline",
            Self::Cancelled => "cancelled",
            Self::Undetermined => "undetermined",
            Self::Transport(Transport::Refused(_)) => "refused",
            Self::Transport(Transport::Failed) => "transport",
            Self::Corrupt(_) => "corrupt",
            Self::Unverified => "unverified",
            Self::Notice(_) => "notice",
            Self::StagePanic => "stage_panic",
            Self::Stopped => "stopped",
            Self::Forked => "forked",
        }
    }

    /// What happened, in a few words.
    pub fn what(&self) -> String {
        match self {
            Self::Busy => "an edge with `when_full = \"reject\"` was full".into(),
            Self::TooLarge { asked, limit } => {
                format!("a slice of {asked} bytes where {limit} may be in flight")
            }
            Self::NotRegistered => "the local region is not registered (any more)".into(),
            Self::LocalBounds => "the range passes the end of the local region".into(),
            Self::UnknownSegment => "the peer has no such segment or region (any more)".into(),
            Self::RemoteBounds => "the range passes the end of the remote segment".into(),
            Self::Denied => "the remote region does not allow this direction".into(),
            Self::PeerGone => "the peer cannot be reached".into(),
            Self::PeerLeaving => "the peer is leaving and takes nothing new".into(),
            Self::StalePeer => "the peer was restarted since it was opened".into(),
            Self::NoRoute => "no transport of `prefer` is on both sides and knows this direction".into(),
            Self::Deadline => "time ran out".into(),
            Self::Cancelled => "it was cancelled".into(),
            Self::Undetermined => "the link ended after bytes had left and before the answer came".into(),
            Self::Transport(Transport::Refused(Refusal::Unsaid)) => {
                "the target refused it, and its protocol cannot say why".into()
            }
            Self::Transport(Transport::Refused(r)) => format!("the target refused it ({r:?})"),
            Self::Transport(Transport::Failed) => "the transport completed it with an error".into(),
            Self::Corrupt(Some(Mismatch { offset, here, there })) => {
                format!(
                    "the bytes of the slice at offset {offset} have the sum {here:#x} here and {there:#x} there"
                )
            }
            Self::Corrupt(None) => "bytes of a slice differ here and there".into(),
            Self::Unverified => {
                "it was carried out, and its bytes could not be read back to be compared".into()
            }
            Self::Notice(NoticeFault::Unheard) => "nobody on the peer listens to notices".into(),
            Self::Notice(NoticeFault::Full) => "the peer's queue of notices stayed full".into(),
            Self::Notice(NoticeFault::Unanswered) => "the notice was sent and not answered in time".into(),
            Self::Notice(NoticeFault::Withheld) => {
                "requests of the batch failed, which notices to this peer cannot say: it was not sent".into()
            }
            Self::Notice(NoticeFault::Unfit) => "the peer's protocol has no notices with these bytes".into(),
            Self::StagePanic => "the stage panicked while it held it".into(),
            Self::Stopped => "the engine was stopped".into(),
            Self::Forked => "it goes on in the process that this one was forked from".into(),
        }
    }

    /// What to do next.
    pub fn next(&self) -> &'static str {
        match self {
            Self::Busy => "submit it again later, or give that edge `when_full = \"wait\"` or a longer queue",
            Self::TooLarge { .. } => "raise `limits.bytes_in_flight` or lower the stage's `slice`",
            Self::NotRegistered => {
                "register the memory before submitting, and unregister it only when batches ended"
            }
            Self::LocalBounds | Self::RemoteBounds => "check offset and length",
            Self::UnknownSegment | Self::StalePeer => "open the peer again",
            Self::Denied => "change `access` of the segment on the peer",
            Self::PeerGone => "see why in the peer's state, and submit again when it is back",
            Self::PeerLeaving => "use another peer, or open it again when it is back",
            Self::NoRoute => "declare a transport that the peer has too, or widen `prefer` or `fallback`",
            Self::Deadline => "give more time, or see which stage it waited in",
            Self::Cancelled => "submit it again if it is still wanted",
            Self::Undetermined => "write the whole range again, or treat the destination as lost",
            Self::Transport(Transport::Refused(Refusal::Denied)) => {
                "change `access` of the segment on the peer"
            }
            Self::Transport(Transport::Refused(Refusal::Unsaid)) => {
                "see its log: the memory is gone (open the peer again), or its rights do not allow it"
            }
            Self::Transport(Transport::Refused(_)) => "open the peer again: its regions have changed",
            Self::Transport(Transport::Failed) => "submit it again; raise `attempts` if this happens often",
            Self::Corrupt(_) => {
                "submit it again, and find what changes bytes on the way: a NIC, memory, or who else writes there"
            }
            Self::Unverified => {
                "let the peer's region be read (`access`), or take the check out for what is only written"
            }
            Self::Notice(NoticeFault::Unheard) => {
                "call `Engine::notices` on the peer before it is written to"
            }
            Self::Notice(NoticeFault::Full) => "read notices faster there, or raise `limits.notices` there",
            Self::Notice(NoticeFault::Unanswered) => {
                "ask the receiver whether it has it before you send another"
            }
            Self::Notice(NoticeFault::Withheld) => {
                "see which requests failed, and submit them again with the notice"
            }
            Self::Notice(NoticeFault::Unfit) => "send text (UTF-8)",
            Self::StagePanic => "report the panic message in the log as a bug, and submit again",
            Self::Stopped => "start the engine again",
            Self::Forked => "ask there, or start a new engine here",
        }
    }
}

/// A reason in four bytes: kind, detail, and the index of the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(u32);

/// Index of a stage in the file, or [`SUBMIT_STAGE`].
pub type StageIx = u16;

/// The outside.
pub const SUBMIT_STAGE: StageIx = u16::MAX;

/// Where notices are sent.
pub const NOTICE_STAGE: StageIx = u16::MAX - 1;

const PLAIN: &[Reason] = &[
    Reason::Busy,
    Reason::NotRegistered,
    Reason::LocalBounds,
    Reason::UnknownSegment,
    Reason::RemoteBounds,
    Reason::Denied,
    Reason::PeerGone,
    Reason::StalePeer,
    Reason::NoRoute,
    Reason::Deadline,
    Reason::Cancelled,
    Reason::Undetermined,
    Reason::Transport(Transport::Failed),
    Reason::StagePanic,
    Reason::Stopped,
    Reason::Forked,
    Reason::Notice(NoticeFault::Unheard),
    Reason::Notice(NoticeFault::Full),
    Reason::Notice(NoticeFault::Unanswered),
    Reason::PeerLeaving,
    Reason::Unverified,
    Reason::Notice(NoticeFault::Withheld),
    Reason::Notice(NoticeFault::Unfit),
];
const TOO_LARGE: u32 = 100;
const REFUSED: u32 = 101;
const CORRUPT: u32 = 102;

impl Code {
    /// Nothing has failed.
    pub const DONE: Self = Self(0);

    /// `reason`, found by stage `stage`. The numbers of [`Reason::TooLarge`] are not kept: who reads a code
    /// knows them.
    pub fn new(reason: Reason, stage: StageIx) -> Self {
        let (kind, detail) = match reason {
            Reason::TooLarge { .. } => (TOO_LARGE, 0),
            Reason::Transport(Transport::Refused(r)) => (REFUSED, r as u32),
            // What was found is noted apart: see `Self::corrupt`.
            Reason::Corrupt(_) => (CORRUPT, 0),
            plain => {
                let at =
                    PLAIN.iter().position(|p| *p == plain).expect("PLAIN lists all reasons without detail");
                (at as u32 + 1, 0)
            }
        };
        Self(kind << 24 | detail << 16 | u32::from(stage))
    }

    /// [`Reason::Corrupt`], with the number under which the ledger has noted what was found.
    pub(crate) fn corrupt(noted: u8, stage: StageIx) -> Self {
        Self(CORRUPT << 24 | u32::from(noted) << 16 | u32::from(stage))
    }

    /// The number of [`Self::corrupt`].
    pub(crate) fn noted(self) -> Option<u8> {
        (self.0 >> 24 == CORRUPT).then_some((self.0 >> 16) as u8)
    }

    /// From its number.
    #[inline]
    pub fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    /// As a number.
    #[inline]
    pub fn raw(self) -> u32 {
        self.0
    }

    /// Whether nothing has failed.
    #[inline]
    pub fn is_done(self) -> bool {
        self.0 == 0
    }

    /// Whether it says that time ran out.
    pub(crate) fn is_late(self) -> bool {
        self.reason(0, 0) == Some(Reason::Deadline)
    }

    /// Whether it says that the target does not allow it, or nothing that speaks against that.
    pub(crate) fn is_denied(self) -> bool {
        let refused = |refusal| Some(Reason::Transport(Transport::Refused(refusal)));
        [refused(Refusal::Denied), refused(Refusal::Unsaid)].contains(&self.reason(0, 0))
    }

    /// The stage that found it.
    pub fn stage(self) -> StageIx {
        self.0 as u16
    }

    /// The reason; `asked` and `limit` complete [`Reason::TooLarge`]. `None` for [`Self::DONE`].
    pub fn reason(self, asked: u64, limit: u64) -> Option<Reason> {
        match self.0 >> 24 {
            0 => None,
            TOO_LARGE => Some(Reason::TooLarge { asked, limit }),
            CORRUPT => Some(Reason::Corrupt(None)),
            REFUSED => {
                let refusal = Refusal::from_number((self.0 >> 16) as u8).unwrap_or(Refusal::Malformed);
                Some(Reason::Transport(Transport::Refused(refusal)))
            }
            plain => PLAIN.get(plain as usize - 1).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every reason survives its four bytes, with its stage, and says what happened and what to do.
    #[test]
    fn codes_round_trip() {
        let more = Refusal::ALL.map(|r| Reason::Transport(Transport::Refused(r)));
        let too_large = Reason::TooLarge { asked: 7, limit: 5 };
        for reason in PLAIN.iter().copied().chain(more).chain([too_large, Reason::Corrupt(None)]) {
            let code = Code::new(reason, 513);
            assert_eq!((code.reason(7, 5), code.stage(), code.is_done()), (Some(reason), 513, false));
            let failure = Failure { reason, peer: "decode-0".into(), stage: "reap".into() };
            let text = failure.to_string();
            assert!(text.starts_with("peer `decode-0`, stage `reap`: ") && text.contains("; "), "{text}");
        }
        let corrupt = Code::corrupt(200, 513);
        assert_eq!((corrupt.noted(), corrupt.stage(), Code::DONE.noted()), (Some(200), 513, None));
        let found = Mismatch { offset: 4096, here: 0x1f, there: 0x2e };
        let text = Reason::Corrupt(Some(found)).what();
        assert_eq!(text, "the bytes of the slice at offset 4096 have the sum 0x1f here and 0x2e there");
        assert_eq!(Code::DONE.reason(0, 0), None);
    }
}
