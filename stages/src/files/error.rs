//! What can go wrong with a file, typed, with its path and what to do; and its number on the wire.

use pipeline_transports::control::ErrorCode;

/// Why a file request failed at the node that serves it.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Not a path below the segment.
    #[error("path `{path}` is refused: {reason}")]
    BadPath {
        /// As it came.
        path: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// No `dir` segment of this name.
    #[error("there is no segment `{0}` of kind `dir`")]
    UnknownSegment(String),
    /// The segment's `access` does not allow it, or the system does not.
    #[error("`{path}` may not be {what}: {reason}")]
    Denied {
        /// The path.
        path: String,
        /// `read`, `written` …
        what: &'static str,
        /// Whose rule, and what to change.
        reason: String,
    },
    /// Nothing there.
    #[error("`{0}` does not exist")]
    NotFound(String),
    /// The device or the quota is full.
    #[error("no space for `{0}`; free some on the target and copy again")]
    NoSpace(String),
    /// A directory where a file is needed.
    #[error("`{0}` is a directory")]
    IsDirectory(String),
    /// Something else where a directory is needed.
    #[error("`{0}` is not a directory")]
    NotDirectory(String),
    /// A link, a pipe, a device, a socket.
    #[error("`{0}` is not a regular file; links, pipes and devices are not copied")]
    NotAFile(String),
    /// More than is allowed at a time.
    #[error("limit reached: {what}, at most {limit}; wait for others to end")]
    Limit {
        /// Of what.
        what: &'static str,
        /// How many.
        limit: u64,
    },
    /// Length or checksum of an upload are not what was announced; it was thrown away.
    #[error("`{path}` was not put in its place: {reason}; copy it again")]
    Mismatch {
        /// The path.
        path: String,
        /// What differs.
        reason: String,
    },
    /// The file system cannot do what was asked.
    #[error("`{path}`: {reason}")]
    Unsupported {
        /// The path.
        path: String,
        /// What it cannot, and what to do instead.
        reason: &'static str,
    },
    /// No such upload or generation in this session.
    #[error("no upload or generation {0} in this session; begin it again")]
    NoUpload(u32),
    /// No such lease in this session, or a range outside it.
    #[error("no such bytes in lease {0} of this session; attach again")]
    NoLease(u32),
    /// All workers of `file_serve` are busy, or there are none.
    #[error("{0}")]
    Busy(&'static str),
    /// This node is not made for it.
    #[error("{0}")]
    Unable(&'static str),
    /// This node may not pull from there.
    #[error(
        "segment `{segment}` does not pull from {peer}: {reason}; name it under [peers] there, set [auth] key_file on \
         all nodes, or say segments.{segment}.pull = \"any\" where everybody in reach is trusted"
    )]
    PullDenied {
        /// Segment of the upload.
        segment: String,
        /// Name or address of the node to pull from.
        peer: String,
        /// The rule.
        reason: &'static str,
    },
    /// The node to pull from did not give the bytes: nothing is wrong here, and they may come from elsewhere.
    #[error("cannot pull from {peer}: {reason}")]
    Upstream {
        /// Name or address of the node to pull from.
        peer: String,
        /// Why not.
        reason: String,
    },
    /// A token that stands for nothing (any more).
    #[error("no lease for this token; the copy that it belongs to has ended")]
    NoToken,
    /// Anything else the system says.
    #[error("`{path}`: {source}")]
    Io {
        /// The path.
        path: String,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The bounce region is being unregistered or the node is misconfigured.
    #[error("bounce region: {0}")]
    Bounce(#[from] pipeline_transports::Error),
}

impl FileError {
    /// From what the system says about `path`.
    pub(super) fn io(path: &str, what: &'static str, source: std::io::Error) -> Self {
        use std::io::ErrorKind as Kind;
        let path = path.to_owned();
        match source.kind() {
            Kind::NotFound => Self::NotFound(path),
            Kind::PermissionDenied => Self::Denied { path, what, reason: source.to_string() },
            Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge => Self::NoSpace(path),
            Kind::IsADirectory => Self::IsDirectory(path),
            Kind::NotADirectory => Self::NotDirectory(path),
            _ => Self::Io { path, source },
        }
    }

    /// Its number on the wire.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::BadPath { .. } => ErrorCode::BAD_PATH,
            Self::UnknownSegment(_) => ErrorCode::UNKNOWN_SEGMENT,
            Self::Denied { .. } => ErrorCode::DENIED,
            Self::NotFound(_) => ErrorCode::NOT_FOUND,
            Self::NoSpace(_) => ErrorCode::NO_SPACE,
            Self::IsDirectory(_) => ErrorCode::IS_DIRECTORY,
            Self::NotDirectory(_) => ErrorCode::NOT_DIRECTORY,
            Self::NotAFile(_) => ErrorCode::NOT_A_FILE,
            Self::Limit { .. } => ErrorCode::LIMIT,
            Self::Mismatch { .. } => ErrorCode::MISMATCH,
            Self::Unsupported { .. } => ErrorCode::UNSUPPORTED,
            Self::NoUpload(_) => ErrorCode::NO_UPLOAD,
            Self::NoLease(_) => ErrorCode::NO_LEASE,
            Self::Busy(_) => ErrorCode::BUSY,
            Self::Unable(_) => ErrorCode::UNSUPPORTED,
            Self::PullDenied { .. } => ErrorCode::DENIED,
            Self::Upstream { .. } => ErrorCode::UPSTREAM,
            Self::NoToken => ErrorCode::NO_LEASE,
            Self::Io { .. } | Self::Bounce(_) => ErrorCode::IO,
        }
    }
}
