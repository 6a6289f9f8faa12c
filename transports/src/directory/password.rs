//! A password for a directory. Deliberately never shown: not in logs, not in messages, not by `{:?}`.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::error::Error;

/// Longest password, bytes.
const PASSWORD_MAX: u64 = 4096;

/// See the module.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// From text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// From a file, without the line end behind it.
    ///
    /// # Errors
    /// [`Error::Io`] with the path, [`Error::BadArgument`] for a file that is empty, too long or no text.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        let what = || format!("reading the directory's password from {}", path.display());
        let mut text = Vec::new();
        File::open(path)
            .and_then(|file| file.take(PASSWORD_MAX + 1).read_to_end(&mut text))
            .map_err(|source| Error::Io { what: what(), source })?;
        let text = String::from_utf8(text).ok();
        let text = text
            .filter(|text| text.len() as u64 <= PASSWORD_MAX)
            .map(|text| text.trim_end_matches(['\r', '\n']).to_owned());
        match text {
            Some(text) if !text.is_empty() => Ok(Self(text)),
            _ => Err(Error::BadArgument(format!(
                "{}: write one line of text there, at most {PASSWORD_MAX} bytes",
                what()
            ))),
        }
    }

    /// The text itself, for who sends it.
    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A password comes from a file without its line end, is never shown, and a file without one is refused by name.
    #[test]
    fn from_files() {
        let path = std::env::temp_dir().join(format!("pipeline-password-{}", std::process::id()));
        std::fs::write(&path, "s3 cret\n").unwrap();
        let password = Password::from_file(&path).unwrap();
        assert_eq!((password.text(), format!("{password:?}").as_str()), ("s3 cret", "Password(secret)"));
        std::fs::write(&path, "\n").unwrap();
        let error = Password::from_file(&path).unwrap_err().to_string();
        assert!(error.contains("one line") && error.contains("pipeline-password"), "{error}");
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(Password::from_file(&path), Err(Error::Io { .. })));
    }
}
