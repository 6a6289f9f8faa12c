//! Paths from the wire: relative, plain names only. Deliberately stricter than the sandbox behind it, which
//! alone would already keep everything inside the root: what looks like an escape is refused by name.

use super::error::FileError;
use super::unfinished::UNFINISHED;

/// Checks a path that may be empty (the root itself); answers what to hand to the directory.
pub(super) fn below(path: &str) -> Result<&str, FileError> {
    if path.is_empty() {
        return Ok(".");
    }
    file(path)
}

/// Checks a path that must name something below the root.
pub(super) fn file(path: &str) -> Result<&str, FileError> {
    let bad = |reason| Err(FileError::BadPath { path: path.to_owned(), reason });
    if path.starts_with('/') {
        return bad("it is absolute; name it relative to the segment");
    }
    if path.contains('\0') {
        return bad("it contains NUL");
    }
    for name in path.split('/') {
        match name {
            "" => return bad("it has an empty name; write `a/b`"),
            "." | ".." => return bad("`.` and `..` are not followed"),
            UNFINISHED => return bad("that folder holds unfinished uploads, which have no names"),
            name if name.len() > 255 => return bad("a name is longer than 255 bytes"),
            _ => {}
        }
    }
    Ok(path)
}

/// Directory part (`.` for none) and last name of a checked path.
pub(super) fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or((".", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that could mean another place than it says is refused; plain paths pass as they are.
    #[test]
    fn escapes_are_refused() {
        for path in [
            "/etc/passwd",
            "../x",
            "a/../../x",
            "a/./b",
            "a//b",
            "a/",
            ".",
            "..",
            "a\0b",
            "",
            "/",
            ".pipeline-node",
            "a/.pipeline-node/b",
        ] {
            assert!(matches!(file(path), Err(FileError::BadPath { .. })), "{path:?}");
        }
        assert!(file(&"n".repeat(256)).is_err());
        for path in ["a", "a/b", "...", "é/ü", "a b/..c", "-rf"] {
            assert_eq!(file(path).unwrap(), path);
        }
        assert_eq!((below("").unwrap(), split("a/b/c"), split("a")), (".", ("a/b", "c"), (".", "a")));
    }
}
