//! A local tree, file by file, in a fixed order. Follows symbolic links as `scp -r` does, and sees when one leads
//! back to a folder it is in. Deliberately lazy: memory grows with the tree's depth, not with its size.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pipeline_stages::files::UNFINISHED;

/// The deepest tree that is walked.
const DEPTH: usize = 128;

/// One thing found.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// Where it is here.
    pub path: PathBuf,
    /// Names from the root of the walk down; empty for the root itself.
    pub names: Vec<String>,
    /// What it is.
    pub kind: Kind,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file of so many bytes.
    File(u64),
    /// A folder; what is in it follows.
    Folder,
}

/// What could not be looked at, and why.
#[derive(Debug)]
pub struct Missed {
    /// Where.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

struct Level {
    identity: (u64, u64),
    names: Vec<String>,
    /// Paths still to visit, the next one last.
    rest: Vec<PathBuf>,
}

/// An iterator over a tree.
pub struct Walk {
    root: Option<PathBuf>,
    levels: Vec<Level>,
}

impl Walk {
    /// Of a file or a folder.
    pub fn new(root: &Path) -> Self {
        Self { root: Some(root.to_path_buf()), levels: Vec::new() }
    }

    fn visit(&mut self, path: PathBuf, names: Vec<String>) -> Result<Found, Missed> {
        let missed = |path: &Path, reason: String| Missed { path: path.to_path_buf(), reason };
        let facts = fs::metadata(&path).map_err(|e| missed(&path, e.to_string()))?;
        if facts.is_file() {
            return Ok(Found { path, names, kind: Kind::File(facts.len()) });
        }
        if !facts.is_dir() {
            return Err(missed(&path, "neither a file nor a folder".into()));
        }
        if self.levels.iter().any(|l| l.identity == identity(&facts)) {
            return Err(missed(&path, "a link back to a folder that it is in".into()));
        }
        if self.levels.len() >= DEPTH {
            return Err(missed(&path, format!("deeper than {DEPTH} folders")));
        }
        let rest = sorted(&path).map_err(|e| missed(&path, e.to_string()))?;
        self.levels.push(Level { identity: identity(&facts), names: names.clone(), rest });
        Ok(Found { path, names, kind: Kind::Folder })
    }
}

impl Iterator for Walk {
    type Item = Result<Found, Missed>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(root) = self.root.take() {
            return Some(self.visit(root, Vec::new()));
        }
        loop {
            let level = self.levels.last_mut()?;
            let Some(path) = level.rest.pop() else {
                self.levels.pop();
                continue;
            };
            let Some(name) = path.file_name().and_then(|n| n.to_str()) else {
                return Some(Err(Missed { path, reason: "its name is not UTF-8".into() }));
            };
            if name == UNFINISHED {
                continue;
            }
            let mut names = level.names.clone();
            names.push(name.to_owned());
            return Some(self.visit(path, names));
        }
    }
}

fn identity(facts: &Metadata) -> (u64, u64) {
    (facts.dev(), facts.ino())
}

/// What a folder holds, the first name last.
fn sorted(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(folder)?.map(|e| Ok(e?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort_unstable_by(|a, b| b.cmp(a));
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Folders come before what is in them, names are in order, empty folders and odd names are there.
    #[test]
    fn a_tree_in_order() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("b/empty")).unwrap();
        fs::write(dir.path().join("b/new\nline"), "xy").unwrap();
        fs::write(dir.path().join("-a"), "").unwrap();
        let found: Vec<_> =
            Walk::new(dir.path()).map(|f| f.unwrap()).map(|f| (f.names.join("/"), f.kind)).collect();
        let wanted = [
            ("", Kind::Folder),
            ("-a", Kind::File(0)),
            ("b", Kind::Folder),
            ("b/empty", Kind::Folder),
            ("b/new\nline", Kind::File(2)),
        ];
        assert_eq!(found, wanted.map(|(n, k)| (n.to_owned(), k)));
    }

    /// A link to a file or a folder is followed; one that leads back, or nowhere, is reported and the walk ends.
    #[test]
    fn links() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "x").unwrap();
        symlink("file", dir.path().join("good")).unwrap();
        symlink(".", dir.path().join("loop")).unwrap();
        symlink("nothing", dir.path().join("dangling")).unwrap();
        let (good, bad): (Vec<_>, Vec<_>) = Walk::new(dir.path()).partition(Result::is_ok);
        assert_eq!(good.len(), 3);
        assert_eq!(bad.len(), 2);
    }
}
