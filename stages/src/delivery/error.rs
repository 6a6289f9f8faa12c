//! Why nobody can be told the way that was asked for. What becomes of a batch is no error of these.

/// Why a task cannot await a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AwaitError {
    /// Nobody would wake it. Said at the first poll, also of a batch that is done, so that no test passes by luck.
    #[error(
        "this pipeline wakes no tasks: add \"waker\" to `via` of completion_notify (in a pool that is not of kind \
         `caller`; with one, poll `Engine::fd` and step instead)"
    )]
    NotDeclared,
}

/// Why there is no descriptor to poll.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptorError {
    /// Nobody would write to it.
    #[error(
        "this pipeline tells no descriptors: add \"eventfd\" to `via` of completion_notify (in a pool that is not of \
         kind `caller`; with one, poll `Engine::fd` and step instead)"
    )]
    NotDeclared,
    /// The system gave none.
    #[error(
        "no descriptor: {0}; raise the limit (`ulimit -n`), or name one doorbell for many batches (`Options::notify`)"
    )]
    System(#[source] std::io::Error),
    /// This process was forked from the one whose engine it is.
    #[error(
        "not usable after fork: the engine's threads stayed in the parent; start a new engine in the child"
    )]
    Forked,
}
