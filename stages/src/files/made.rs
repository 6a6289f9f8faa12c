//! Directories that were made for something that may never come. Those of them that are still empty go with it; deliberately
//! by `rmdir` alone, which refuses as soon as anything is in a directory, whoever put it there.

use std::io;

use cap_std::fs::Dir;

use super::path;

/// How often it is begun again where another copy takes away what it had made itself.
const ATTEMPTS: usize = 8;

/// Directories below one base, in the order in which they were made.
#[derive(Debug, Default)]
pub struct Made(Vec<String>);

impl Made {
    /// Makes the directory `place` and those above it, and remembers those that were not there.
    pub(super) fn make(&mut self, base: &Dir, place: &str) -> io::Result<()> {
        let mut made = Err(io::ErrorKind::NotFound.into());
        for _ in 0..ATTEMPTS {
            made = self.once(base, place);
            if !made.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::NotFound) {
                break;
            }
        }
        made
    }

    fn once(&mut self, base: &Dir, place: &str) -> io::Result<()> {
        let mut made = base.create_dir(place);
        let (above, _) = path::split(place);
        if made.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::NotFound) && above != "." {
            self.once(base, above)?;
            made = base.create_dir(place);
        }
        match made {
            Ok(()) => self.0.push(place.to_owned()),
            Err(_) if base.is_dir(place) => {}
            Err(e) => return Err(e),
        }
        Ok(())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Takes those of another one in.
    pub fn add(&mut self, later: &Self) {
        self.0.extend_from_slice(&later.0);
    }

    /// Removes those that are empty, the innermost first.
    pub(super) fn remove(&self, base: &Dir) {
        for place in self.0.iter().rev() {
            let _ = base.remove_dir(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cap_std::ambient_authority;

    /// What was there already, and whatever has something in it, stays; what was made and is empty goes.
    #[test]
    fn only_what_was_made_and_is_empty_goes() {
        let folder = tempfile::tempdir().unwrap();
        let base = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        base.create_dir_all("there/empty").unwrap();
        let mut made = Made::default();
        for place in ["there/empty", "there/new/deep", "new/a", "new/b", "new/a"] {
            made.make(&base, place).unwrap();
        }
        assert_eq!(made.0, ["there/new", "there/new/deep", "new", "new/a", "new/b"]);
        base.write("new/b/file", "somebody else's").unwrap();
        made.remove(&base);
        assert!(base.is_dir("there/empty") && !base.exists("there/new") && !base.exists("new/a"));
        assert_eq!(base.read("new/b/file").unwrap(), b"somebody else's");
    }

    /// A file in the way is refused, also above.
    #[test]
    fn a_file_in_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let base = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        base.write("file", "").unwrap();
        let refused = |place: &str| Made::default().make(&base, place).map_err(|e| e.kind());
        assert_eq!(refused("file"), Err(io::ErrorKind::AlreadyExists));
        assert_eq!(refused("file/a"), Err(io::ErrorKind::NotADirectory));
    }
}
