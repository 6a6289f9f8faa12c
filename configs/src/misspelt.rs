//! A file that is not there: which one of its folder was meant. Deliberately only for the words of a finding: nothing but what
//! was named is ever read.

use std::path::{Path, PathBuf};

use crate::preset::directory;
use crate::suggest;

/// Names of a folder that are looked at, at most.
const MOST: usize = 1000;

/// The file beside a missing one that has nearly its name. Stems are compared: what all names share makes none of them near.
pub fn meant(path: &Path) -> Option<PathBuf> {
    if path.exists() {
        return None;
    }
    let folder = directory(path).unwrap_or_else(|| PathBuf::from("."));
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let stems = names.filter_map(|name| name.strip_suffix(".toml").map(str::to_owned)).take(MOST);
    let stems: Vec<String> = stems.collect();
    let near = suggest::nearest(path.file_stem()?.to_str()?, stems.iter().map(String::as_str))?;
    Some(path.with_file_name(format!("{near}.toml")))
}
