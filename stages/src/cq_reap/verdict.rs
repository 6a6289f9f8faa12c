//! What a completion means for its slice. Deliberately a pure function: every case is in one table.

use pipeline_transports::{Op, Outcome};

use crate::ledger::Slot;
use crate::reason::{Code, Reason, StageIx, Transport};

/// What becomes of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Applied at the destination.
    Done,
    /// It ends so.
    Failed(Code),
    /// It may be posted again. `strike`: the attempt counts. `code`: what is said if it may not.
    Again {
        /// Why it came back.
        code: Code,
        /// Whether the attempt was its own fault.
        strike: bool,
    },
    /// As [`Self::Again`], but not before its link is fenced.
    Fence {
        /// What is said if it may not.
        code: Code,
        /// Whether the attempt was its own fault.
        strike: bool,
    },
}

/// What keeps a dead link from writing at its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Its death: nothing of a dead link of this transport touches its target.
    Death,
    /// The target's word that it let go of it.
    Fence,
    /// Nothing that this side can know of.
    Nothing,
}

/// `spoken`: what speaks against going on (its deadline has passed, or it was cancelled). `aborted`: we killed the
/// link, for the sake of some slice.
pub(super) fn judge(
    outcome: Outcome,
    op: Op,
    spoken: Option<Code>,
    aborted: bool,
    stop: Stop,
    stage: StageIx,
) -> Verdict {
    let code = |reason| Code::new(reason, stage);
    let again = |reason, strike| match spoken {
        Some(code) => Verdict::Failed(code),
        None => Verdict::Again { code: code(reason), strike },
    };
    match (outcome, op) {
        // What is applied is done, however late.
        (Outcome::Done, _) => Verdict::Done,
        (Outcome::Refused(refusal), _) => {
            Verdict::Failed(code(Reason::Transport(Transport::Refused(refusal))))
        }
        (Outcome::NotBegun, _) => again(Reason::PeerGone, false),
        (Outcome::Begun, Op::Read) => again(Reason::PeerGone, !aborted),
        (Outcome::Begun, Op::Write) if stop == Stop::Death => again(Reason::Undetermined, !aborted),
        // Sent again, it could meet itself; and nobody will ever know more.
        (Outcome::Begun, Op::Write) if stop == Stop::Nothing => Verdict::Failed(code(Reason::Undetermined)),
        // Time is up: nobody knows, and nobody waits to know.
        (Outcome::Begun, Op::Write) if spoken.is_some_and(|code| code.is_late()) => {
            Verdict::Failed(code(Reason::Undetermined))
        }
        // A cancelled one too: with the fence it is known that no byte of it moves any more.
        (Outcome::Begun, Op::Write) => Verdict::Fence { code: code(Reason::Undetermined), strike: !aborted },
        (Outcome::Failed, _) => again(Reason::Transport(Transport::Failed), true),
    }
}

/// Writes down in a slice what was judged of it.
pub(super) fn note(slot: Slot, verdict: Verdict) {
    match verdict {
        Verdict::Done => {}
        // It was carried out; what the peer does not allow is to look at it again.
        Verdict::Failed(code) if slot.is_back() && code.is_denied() => {
            slot.set_code(Code::new(Reason::Unverified, code.stage()));
        }
        Verdict::Failed(code) => slot.set_code(code),
        Verdict::Again { code, strike } | Verdict::Fence { code, strike } => {
            slot.set_code(code);
            if strike {
                slot.set_strike();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipeline_transports::Refusal;

    /// The whole table: each outcome of READ and WRITE, in time, too late, cancelled, and on a link that we aborted.
    #[test]
    fn every_case() {
        let code = |reason| Code::new(reason, 3);
        let late = Some(code(Reason::Deadline));
        let failed = |reason| Verdict::Failed(code(reason));
        let cancelled = Some(code(Reason::Cancelled));
        let again = |reason, strike| Verdict::Again { code: code(reason), strike };
        let fence = |strike| Verdict::Fence { code: code(Reason::Undetermined), strike };
        let broken = Reason::Transport(Transport::Failed);
        let refused = Outcome::Refused(Refusal::Denied);
        let denied = failed(Reason::Transport(Transport::Refused(Refusal::Denied)));
        let (r, w) = (Op::Read, Op::Write);
        let table = [
            (Outcome::Done, w, late, true, Verdict::Done),
            (Outcome::Done, r, None, false, Verdict::Done),
            (refused, r, None, false, denied),
            (refused, w, late, false, denied),
            (Outcome::NotBegun, w, None, false, again(Reason::PeerGone, false)),
            (Outcome::NotBegun, w, late, false, failed(Reason::Deadline)),
            (Outcome::Begun, r, None, false, again(Reason::PeerGone, true)),
            (Outcome::Begun, r, None, true, again(Reason::PeerGone, false)),
            (Outcome::Begun, r, late, true, failed(Reason::Deadline)),
            (Outcome::Begun, w, None, false, fence(true)),
            (Outcome::Begun, w, None, true, fence(false)),
            (Outcome::Begun, w, cancelled, true, fence(false)),
            (Outcome::Begun, w, late, true, failed(Reason::Undetermined)),
            (Outcome::Failed, w, None, true, again(broken, true)),
            (Outcome::Failed, r, late, false, failed(Reason::Deadline)),
        ];
        for (outcome, op, spoken, aborted, expected) in table {
            let verdict = judge(outcome, op, spoken, aborted, Stop::Fence, 3);
            assert_eq!(verdict, expected, "{outcome:?} {op:?} {spoken:?}");
            if !(outcome == Outcome::Begun && op == w) {
                let others = [Stop::Death, Stop::Nothing].map(|s| judge(outcome, op, spoken, aborted, s, 3));
                assert_eq!(others, [expected; 2], "only begun WRITEs need a fence");
            }
        }
        for (spoken, aborted) in [(None, false), (None, true), (cancelled, true), (late, true)] {
            let verdict = judge(Outcome::Begun, w, spoken, aborted, Stop::Nothing, 3);
            assert_eq!(verdict, failed(Reason::Undetermined), "never again, and at once");
        }
        let of_fenced = |spoken, aborted| judge(Outcome::Begun, w, spoken, aborted, Stop::Death, 3);
        assert_eq!(of_fenced(None, false), again(Reason::Undetermined, true));
        assert_eq!(of_fenced(None, true), again(Reason::Undetermined, false));
        assert_eq!(
            [late, cancelled].map(|why| of_fenced(why, true)),
            [Reason::Deadline, Reason::Cancelled].map(failed)
        );
    }
}
