//! Files that a command writes after minutes of measuring: whether one can be written is told before, and it is there as a whole or
//! not at all. A file keeps its mode and, where that is permitted, its owner. A symbolic link stays one: what it points to is written, whether that is there yet or not.
//!
//! Deliberately not for what is written while it happens, such as a record: half of one is worth something.

use std::fs::{File, Metadata, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use super::exit::{Failure, Outcome};

/// Links that follow each other, at most: as many as the system takes.
const LINKS_MAX: usize = 40;

/// Nobody waits for minutes to hear that a folder takes no file.
///
/// # Errors
/// 71 when it cannot be written, with what to do.
pub fn can_be_written(to: &Path) -> Outcome {
    let shown = to.display();
    let refused = |why: &dyn std::fmt::Display, help: &str| {
        Failure::system(format!("{shown} cannot be written: {why}; {help}"))
    };
    let place = place(to).map_err(|e| refused(&e, "name a file"))?;
    if place.file_name().is_none() || to.as_os_str().as_encoded_bytes().ends_with(b"/") && !place.is_dir() {
        return Err(refused(&"it is no name of a file", "name one"));
    }
    if place.is_dir() {
        return Err(refused(&"it is a folder", "name a file in it"));
    }
    if !is_replaced(&place) {
        let opened = File::options().write(true).open(&place);
        return opened.map(drop).map_err(|e| refused(&e, "name a file"));
    }
    let beside = beside(&place);
    let made = std::fs::write(&beside, "").and_then(|()| std::fs::remove_file(&beside));
    let whither = if place == to { String::new() } else { format!(" (which is {})", place.display()) };
    made.map_err(|e| {
        Failure::system(format!(
            "{shown}{whither} cannot be written: {e}; name a file in a folder that is there and takes files"
        ))
    })
}

/// Writes a file as a whole, or not at all.
///
/// # Errors
/// What the system says, after the name of the file.
pub fn put(to: &Path, text: &str) -> Result<(), String> {
    let named = |e: io::Error| format!("{}: {e}", to.display());
    let place = place(to).map_err(named)?;
    if !is_replaced(&place) {
        return std::fs::write(&place, text).map_err(named);
    }
    let beside = beside(&place);
    let written = match std::fs::metadata(&place) {
        Ok(old) => like(&old, &beside, text),
        Err(_) => std::fs::write(&beside, text),
    };
    let done = written.and_then(|()| std::fs::rename(&beside, &place));
    if done.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    done.map_err(named)
}

/// A new file that whoever may read the old one may read, and nobody else, at no moment. It keeps owner and group as far as this user
/// may give files away; a group that it cannot have must not lend its rights to another one.
fn like(old: &Metadata, path: &Path, text: &str) -> io::Result<()> {
    let mut new = File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    new.write_all(text.as_bytes())?;
    let own = new.metadata()?;
    let both = fchown(&new, Some(old.uid()), Some(old.gid()));
    let group = both.or_else(|_| fchown(&new, None, Some(old.gid())));
    let mode = match group.is_err() && own.gid() != old.gid() {
        true => old.mode() & 0o707 | (old.mode() & 0o007) << 3 & old.mode(),
        false => old.mode() & 0o7777,
    };
    new.set_permissions(Permissions::from_mode(mode))
}

/// Where a file is, or will be: at the end of all links, also of one whose end is not there yet.
fn place(path: &Path) -> io::Result<PathBuf> {
    let mut at = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        match std::fs::canonicalize(&at) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        let Ok(to) = std::fs::read_link(&at) else { return Ok(at) };
        at = at.parent().unwrap_or(Path::new("")).join(to);
    }
    Err(io::Error::other("its links have no end"))
}

/// Whether a new file takes the name. A pipe, a terminal or `/dev/null` has to stay what it is.
fn is_replaced(place: &Path) -> bool {
    std::fs::metadata(place).map_or(true, |there| there.is_file())
}

/// The name of a new file beside another one.
fn beside(place: &Path) -> PathBuf {
    let mut name = place.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    place.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt as _, symlink};

    use super::*;

    /// The names in a folder.
    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// What a link points to is written, through several of them and where nothing is there yet; the links stay, and nothing else
    /// is left.
    #[test]
    fn links_stay() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("real")).unwrap();
        symlink("real/file", at("link")).unwrap();
        symlink("link", at("again")).unwrap();
        for text in ["first", "second"] {
            can_be_written(&at("again")).unwrap();
            put(&at("again"), text).unwrap();
            assert_eq!(std::fs::read_to_string(at("real/file")).unwrap(), text);
        }
        assert!(at("again").is_symlink() && at("link").is_symlink());
        assert_eq!((names(folder.path()).len(), names(&at("real")).len()), (3, 1));
    }

    /// What no file can be at is refused before, with what to do: a missing folder, also behind a link, which is told; a folder;
    /// links without end.
    #[test]
    fn refusals() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        symlink("gone/file", at("astray")).unwrap();
        symlink("b", at("a")).unwrap();
        symlink("a", at("b")).unwrap();
        for (name, says) in [
            ("gone/file", "a folder that is there"),
            ("astray", "gone/file) cannot be written"),
            ("", "it is a folder; name a file in it"),
            ("new/", "no name of a file; name one"),
            ("gone/..", "no name of a file; name one"),
            ("a", "links"),
        ] {
            let refused = can_be_written(&at(name)).unwrap_err();
            assert!(refused.code() == 71 && refused.to_string().contains(says), "{name}: {refused}");
            assert!(put(&at(name), "").is_err(), "{name}");
        }
        assert_eq!(names(folder.path()), ["a", "astray", "b"]);
    }

    /// What is no file is written to and stays what it is: nobody's `/dev/null` becomes a file.
    #[test]
    fn devices_stay() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("null");
        symlink("/dev/null", &link).unwrap();
        can_be_written(&link).unwrap();
        put(&link, "nothing").unwrap();
        assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        assert_eq!(names(folder.path()), ["null"]);
    }

    /// A file that is written anew keeps who may read it.
    #[test]
    fn permissions_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for mode in [0o600, 0o644, 0o640] {
            std::fs::write(&path, "old").unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            put(&path, "new").unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, mode);
        }
    }

    /// Its owner and its group stay too where this user may give files away, as root may; also through a link.
    #[test]
    fn owners_stay() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root gives files away");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&path, "old").unwrap();
        symlink("file", &link).unwrap();
        std::os::unix::fs::chown(&path, Some(1234), Some(2345)).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        put(&link, "new").unwrap();
        let now = std::fs::metadata(&path).unwrap();
        assert_eq!((now.uid(), now.gid(), now.mode() & 0o7777), (1234, 2345, 0o640));
        assert!(link.is_symlink() && std::fs::read_to_string(&path).unwrap() == "new");
    }
}
