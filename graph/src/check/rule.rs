//! The rules by name, so that other crates can give each a code and a page.
//! Deliberately no severity: what breaks a rule does not run.

/// A rule of [`crate::check()`]. Meant to be matched exhaustively: a new rule wants a code of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// An edge or a stage names a stage, port or pool that is not there.
    Dangling,
    /// Two pools or two stages share a name, or a stage is called `submit`.
    NameTaken,
    /// A port that must be wired is not.
    PortUnwired,
    /// A port is wired twice: there is no fan-out.
    PortWiredTwice,
    /// A ring holds no batch, or absurdly many.
    Capacity,
    /// `reject` without a wired `failed` port, or on the wire of `failed` itself.
    RejectNowhere,
    /// A pool without threads, or with absurdly many.
    Threads,
    /// A pool where no stage runs.
    PoolUnused,
    /// More stages on one worker than it can keep track of.
    PoolCrowded,
    /// A CPU named twice or out of range.
    Cpus,
    /// A pool of the callers' threads with threads or CPUs of its own.
    CallerThreads,
    /// A stage that needs a thread, in a pool that has none.
    CallerStage,
    /// A stage that is not `parallel`, in a pool that steals.
    NotParallel,
    /// A stage without a pool that cannot run just anywhere.
    PoolMissing,
    /// A queue or return edge to a stage without a pool.
    QueueToNowhere,
    /// An inline edge between stages that different workers run.
    InlineAcrossPools,
    /// `submit` over anything but a queue.
    SubmitMode,
    /// A source that the engine would never call.
    SourceUnpolled,
    /// A stage that nothing enters.
    NoInput,
    /// A stage that no item can reach.
    Unreachable,
    /// A stage from which no item can end.
    DeadEnd,
    /// A resource that is waited for and that no stage gives.
    NoGiver,
    /// Edges and resource waits that can stop each other for ever.
    Deadlock,
    /// A return edge that closes no cycle.
    ReturnForward,
    /// A return edge in a graph without a token limit.
    ReturnUnbounded,
    /// A stage inside a loop that makes more items than it takes.
    LoopExpands,
}

impl Rule {
    /// All of them, in order.
    pub const ALL: [Self; 26] = [
        Self::Dangling,
        Self::NameTaken,
        Self::PortUnwired,
        Self::PortWiredTwice,
        Self::Capacity,
        Self::RejectNowhere,
        Self::Threads,
        Self::PoolUnused,
        Self::PoolCrowded,
        Self::Cpus,
        Self::CallerThreads,
        Self::CallerStage,
        Self::NotParallel,
        Self::PoolMissing,
        Self::QueueToNowhere,
        Self::InlineAcrossPools,
        Self::SubmitMode,
        Self::SourceUnpolled,
        Self::NoInput,
        Self::Unreachable,
        Self::DeadEnd,
        Self::NoGiver,
        Self::Deadlock,
        Self::ReturnForward,
        Self::ReturnUnbounded,
        Self::LoopExpands,
    ];

    /// Its name, which does not change.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dangling => "dangling",
            Self::NameTaken => "name-taken",
            Self::PortUnwired => "port-unwired",
            Self::PortWiredTwice => "port-wired-twice",
            Self::Capacity => "capacity",
            Self::RejectNowhere => "reject-nowhere",
            Self::Threads => "threads",
            Self::PoolUnused => "pool-unused",
            Self::PoolCrowded => "pool-crowded",
            Self::Cpus => "cpus",
            Self::CallerThreads => "caller-threads",
            Self::CallerStage => "caller-stage",
            Self::NotParallel => "not-parallel",
            Self::PoolMissing => "pool-missing",
            Self::QueueToNowhere => "queue-to-nowhere",
            Self::InlineAcrossPools => "inline-across-pools",
            Self::SubmitMode => "submit-mode",
            Self::SourceUnpolled => "source-unpolled",
            Self::NoInput => "no-input",
            Self::Unreachable => "unreachable",
            Self::DeadEnd => "dead-end",
            Self::NoGiver => "no-giver",
            Self::Deadlock => "deadlock",
            Self::ReturnForward => "return-forward",
            Self::ReturnUnbounded => "return-unbounded",
            Self::LoopExpands => "loop-expands",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list is complete and in order, and no two rules share a name.
    #[test]
    fn list_is_complete() {
        for (i, rule) in Rule::ALL.iter().enumerate() {
            assert_eq!(*rule as usize, i);
            assert!(Rule::ALL[..i].iter().all(|other| other.name() != rule.name()));
        }
        assert_eq!(Rule::LoopExpands as usize + 1, Rule::ALL.len(), "the last rule is in the list");
    }
}
