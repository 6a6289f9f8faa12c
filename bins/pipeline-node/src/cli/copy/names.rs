//! Names that come from a peer and become paths here: nothing from the wire is trusted.

use std::path::{Path, PathBuf};

/// Longest name of one file or folder, bytes: what Linux file systems take.
const NAME_MAX: usize = 255;

/// `folder/name`, if `name` can only mean something in `folder`.
///
/// # Errors
/// Why it is refused.
pub fn join(folder: &Path, name: &str) -> Result<PathBuf, String> {
    let bad = match name {
        "" => Some("it is empty"),
        "." | ".." => Some("it leads out of its folder"),
        _ if name.contains('/') => Some("it contains `/`"),
        _ if name.contains('\0') => Some("it contains a zero byte"),
        _ if name.len() > NAME_MAX => Some("it is longer than 255 bytes"),
        _ => None,
    };
    match bad {
        Some(why) => Err(format!("the peer sent the name {name:?}, which is refused: {why}")),
        None => Ok(folder.join(name)),
    }
}

/// `a/b` of a path in a segment and a name in it; just the name at the root.
pub fn under(path: &str, name: &str) -> String {
    match (path, name) {
        ("", _) => name.to_owned(),
        (_, "") => path.to_owned(),
        _ => format!("{path}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name from a peer never leads out of the folder it is put in.
    #[test]
    fn names_stay_in_their_folder() {
        for name in ["", ".", "..", "a/b", "/etc/passwd", "../x", "a\0b", &"x".repeat(256)] {
            assert!(join(Path::new("/f"), name).is_err(), "{name:?}");
        }
        for name in ["a", "...", "-x", "new\nline", "❄", "a:b"] {
            let path = join(Path::new("/f"), name).unwrap();
            assert_eq!(path.parent(), Some(Path::new("/f")), "{name:?}");
        }
        assert_eq!(
            (under("", "a"), under("p/q", "a"), under("p", "")),
            ("a".into(), "p/q/a".into(), "p".into())
        );
    }
}
