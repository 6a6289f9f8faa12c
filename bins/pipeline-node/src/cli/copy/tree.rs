//! A peer's tree, page by page. Deliberately lazy: memory grows with the tree's depth and the size of a page.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use pipeline_node::{FileAnswer, FileEntry, FileKind, FileRequest};

use super::names::{join, under};
use super::session::Session;

/// The deepest tree that is walked.
const DEPTH: usize = 128;

/// One thing found there, and where it belongs here.
pub struct RemoteFile {
    /// Path in the segment.
    pub path: String,
    /// Path here.
    pub local: PathBuf,
    /// What it is.
    pub entry: FileEntry,
}

struct Level {
    path: String,
    local: PathBuf,
    page: VecDeque<FileEntry>,
    last: String,
    more: bool,
}

/// An iterator over a peer's tree; a folder comes before what is in it.
pub struct RemoteTree<'a> {
    session: &'a Session<'a>,
    segment: String,
    root: Option<(String, PathBuf)>,
    levels: Vec<Level>,
}

type Item = Result<RemoteFile, (String, String)>;

impl<'a> RemoteTree<'a> {
    /// Of what stands at `path`, to be put at `local`.
    pub fn new(session: &'a Session<'a>, segment: &str, path: &str, local: &Path) -> Self {
        let root = Some((path.to_owned(), local.to_path_buf()));
        Self { session, segment: segment.to_owned(), root, levels: Vec::new() }
    }

    fn list(&self, path: &str, after: &str) -> Result<(FileKind, Vec<FileEntry>, bool), String> {
        let request = FileRequest::List {
            segment: self.segment.clone(),
            path: path.to_owned(),
            after: after.to_owned(),
        };
        match self.session.ask(request)? {
            FileAnswer::Listing { kind, entries, more } => Ok((kind, entries, more)),
            other => Err(format!("unexpected answer {other:?}")),
        }
    }

    /// Looks at the root, or enters a folder.
    fn enter(&mut self, path: String, local: PathBuf) -> Item {
        if self.levels.len() >= DEPTH {
            return Err((path, format!("deeper than {DEPTH} folders")));
        }
        let (kind, entries, more) = match self.list(&path, "") {
            Ok(listing) => listing,
            Err(reason) => return Err((path, reason)),
        };
        if kind != FileKind::Directory {
            return match entries.into_iter().next() {
                Some(entry) => Ok(RemoteFile { path, local, entry }),
                None => Err((path, "the peer says that it is a file and does not describe it".into())),
            };
        }
        let last = entries.last().map(|e| e.name.clone()).unwrap_or_default();
        let entry = FileEntry { name: String::new(), kind, len: 0, executable: false };
        let level = Level { path: path.clone(), local: local.clone(), page: entries.into(), last, more };
        self.levels.push(level);
        Ok(RemoteFile { path, local, entry })
    }

    /// The next page of the innermost folder; `false` when there is none.
    fn turn(&mut self) -> Result<bool, (String, String)> {
        let Some(level) = self.levels.last() else { return Ok(false) };
        if !level.more {
            return Ok(false);
        }
        let (path, after) = (level.path.clone(), level.last.clone());
        let listing = self.list(&path, &after);
        let Some(level) = self.levels.last_mut() else { return Ok(false) };
        level.more = false;
        let (_, entries, more) = listing.map_err(|reason| (path.clone(), reason))?;
        match entries.last() {
            // Names come in order, so a page that does not lead on would be asked for for ever.
            Some(last) if last.name > after => {
                level.last = last.name.clone();
                level.more = more;
                level.page = entries.into();
                Ok(true)
            }
            Some(_) => Err((path, "the peer's listing goes in circles".into())),
            None => Ok(false),
        }
    }
}

impl Iterator for RemoteTree<'_> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        if let Some((path, local)) = self.root.take() {
            return Some(self.enter(path, local));
        }
        loop {
            let level = self.levels.last_mut()?;
            let Some(entry) = level.page.pop_front() else {
                match self.turn() {
                    Ok(true) => continue,
                    Ok(false) => {
                        self.levels.pop();
                        continue;
                    }
                    Err(trouble) => return Some(Err(trouble)),
                }
            };
            let path = under(&level.path, &entry.name);
            let local = match join(&level.local, &entry.name) {
                Ok(local) => local,
                Err(reason) => return Some(Err((path, reason))),
            };
            if entry.kind == FileKind::Directory {
                return Some(self.enter(path, local));
            }
            return Some(Ok(RemoteFile { path, local, entry }));
        }
    }
}
