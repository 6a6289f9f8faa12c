//! What the places of a command line say together: which way a copy goes, from where, and to where. Deliberately by the text alone,
//! but for sources here that have no name of their own (`.`): nothing is asked of a peer yet.

use std::collections::HashMap;
use std::hash::Hash;
use std::path::{Path, PathBuf};

use super::place::{Place, RemotePlace};
use crate::cli::exit::Failure;

/// Which way, and what it is about.
pub enum Way {
    /// To one destination.
    Up { from: Vec<PathBuf>, to: RemotePlace },
    /// To several.
    Out { from: Vec<PathBuf>, to: Vec<RemotePlace> },
    /// From one peer's segment to here, into that folder or as that name.
    Down { from: Vec<RemotePlace>, to: PathBuf, into: bool },
}

impl Way {
    /// Reads them: sources, then where to.
    ///
    /// # Errors
    /// Why they make no sense together.
    pub fn parse(places: &[String]) -> Result<Self, Failure> {
        let parsed: Vec<_> =
            places.iter().map(|s| Place::parse(s)).collect::<Result<_, _>>().map_err(Failure::usage)?;
        let (mut local, mut remote, mut order) = (Vec::new(), Vec::<RemotePlace>::new(), Vec::new());
        for place in parsed {
            order.push(matches!(place, Place::Remote(_)));
            match place {
                Place::Local(path) => local.push(path),
                Place::Remote(place) => remote.push(place),
            }
        }
        let is_from_here = [order.first(), order.last()] == [Some(&false), Some(&true)];
        if is_from_here && !order.is_sorted() {
            return Err(Failure::usage("sources come first, then all destinations"));
        }
        if is_from_here {
            let place = |to: &RemotePlace| (to.peer.clone(), to.segment.clone(), to.path.clone());
            if let Some((a, b)) = alike(&remote, |to| Some(place(to))) {
                return Err(Failure::usage(format!("a destination is named twice: `{a}` and `{b}`")));
            }
            apart(&local, |path| name_of(path).ok(), |path| path.display().to_string())?;
            return Ok(match <[RemotePlace; 1]>::try_from(remote) {
                Ok([to]) => Self::Up { from: local, to },
                Err(to) => Self::Out { from: local, to },
            });
        }
        match (order.first(), order.last()) {
            (Some(true), Some(false)) if local.len() == 1 => {
                if remote.iter().any(|r| (&r.peer, &r.segment) != (&remote[0].peer, &remote[0].segment)) {
                    return Err(Failure::usage("the sources are in several segments: copy them one by one"));
                }
                apart(&remote, |from| Some(from.name().to_owned()), ToString::to_string)?;
                let into = places.last().is_some_and(|last| last.ends_with('/')) || remote.len() > 1;
                Ok(Self::Down { from: remote, to: local.swap_remove(0), into })
            }
            (_, Some(true)) => {
                Err(Failure::usage("both sides are a peer's: copy to here first, then from here"))
            }
            _ => Err(Failure::usage(
                "no side is PEER:SEGMENT[/PATH], or only some of the places of a side are; exactly one side is a peer's",
            )),
        }
    }
}

/// The name under which a source here lands inside a folder.
///
/// # Errors
/// Why it has none.
pub fn name_of(source: &Path) -> Result<String, String> {
    // `.` and `..` have no name of their own.
    let named = if source.file_name().is_some() {
        source.to_path_buf()
    } else {
        source.canonicalize().map_err(|e| e.to_string())?
    };
    let name = named.file_name().ok_or("it has no name; name the destination in full")?;
    Ok(name.to_str().ok_or("its name is not UTF-8")?.to_owned())
}

/// Refuses sources that would land on each other: who came last would win, and nobody would hear of it. Trees are not merged either,
/// as files in them could be alike.
fn apart<T>(
    sources: &[T],
    name: impl Fn(&T) -> Option<String>,
    say: impl Fn(&T) -> String,
) -> Result<(), Failure> {
    let Some((a, b)) = alike(sources, &name) else { return Ok(()) };
    let (name, a, b) = (name(a).unwrap_or_default(), say(a), say(b));
    Err(Failure::usage(format!(
        "`{a}` and `{b}` would both become `{name}` in the destination: copy them one by one, each to a place of its own"
    )))
}

/// The first two that have the same key; those that have none are like nothing.
fn alike<T, K: Hash + Eq>(all: &[T], key: impl Fn(&T) -> Option<K>) -> Option<(&T, &T)> {
    let mut seen = HashMap::new();
    all.iter().find_map(|one| seen.insert(key(one)?, one).map(|earlier| (earlier, one)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(places: &[&str]) -> Option<String> {
        let places: Vec<String> = places.iter().map(ToString::to_string).collect();
        Way::parse(&places).err().map(|failure| failure.to_string())
    }

    /// Two sources that would become the same file or folder are refused by both their names, either way; those that would not are
    /// copied.
    #[test]
    fn sources_do_not_land_on_each_other() {
        for places in [
            &["s1/x", "s2/x", "n:t/d"][..],
            &["x", "./x", "n:t"],
            &["s1/x", "s2/x", "n:t", "m:t"],
            &["n:t/a/x", "n:t/b/x", "d"],
            &["n:t", "n:t/t", "d"],
        ] {
            let refused = refused(places).unwrap_or_default();
            assert!(refused.contains("would both become"), "{places:?}: {refused}");
        }
        for places in
            [&["s1/x", "s2/y", "n:t/d"][..], &["x", "n:t", "m:t"], &["n:t/a", "n:t/b", "d"], &["n:t/a", "d"]]
        {
            assert_eq!(refused(places), None, "{places:?}");
        }
    }

    /// A destination is named twice whether or not one of the two ends with `/`: two copies would write the same files.
    #[test]
    fn a_destination_is_one() {
        for places in [&["x", "n:t", "n:t/"][..], &["x", "n:t/a/", "m:t", "n:t/a"]] {
            let refused = refused(places).unwrap_or_default();
            assert!(refused.contains("named twice"), "{places:?}: {refused}");
        }
        assert_eq!(refused(&["x", "n:t/a", "n:t/b", "n:u/a", "m:t/a"]), None);
    }
}
