//! One tree to several nodes. Each destination has a copy of its own (begin, commit, what is retried or skipped), and all
//! run side by side; only how an extent gets there differs: where the shape says so, a node pulls it from another one as
//! soon as that has it. So a slow or dead node costs only itself.
//!
//! Deliberately steered from the source alone: nodes carry out single pulls and know nothing of chains.

mod board;
mod export;
mod member;
mod report;
mod shape;

pub use shape::Shape;

use std::path::PathBuf;
use std::time::Instant;

use pipeline_node::{Engine, Peer};

use self::board::Board;
use self::member::{Member, Neighbour};
use self::report::{End, Report};
use super::place::RemotePlace;
use super::progress::{Counts, Progress};
use super::{How, gone, session, tally, up};
use crate::cli::exit::{Failure, Outcome};
use crate::cli::failures::engine;

/// Copies `from` to all of `to`.
///
/// # Errors
/// 69 when no destination can be reached; 1 when at least one does not have everything.
pub fn run(
    node: &Engine,
    (from, to): (&[PathBuf], &[RemotePlace]),
    shape: Shape,
    how: How<'_>,
    json: bool,
) -> Outcome {
    let peers = open(node, to);
    if peers.iter().all(Result::is_err) {
        return peers.into_iter().filter_map(Result::err).reduce(Failure::worse).map_or(Ok(()), Err);
    }
    let begin = Instant::now();
    let (files, bytes) = tally(from);
    let all = Progress::new(files * to.len() as u64, bytes * to.len() as u64);
    let neighbours: Vec<Option<Neighbour>> =
        peers.iter().zip(to).map(|(peer, place)| Some(neighbour(node, peer.as_ref().ok()?, place))).collect();
    let board = Board::new(to.len());
    let ends: Vec<End> = std::thread::scope(|scope| {
        let copies: Vec<_> = peers
            .iter()
            .zip(to)
            .enumerate()
            .map(|(index, (peer, place))| {
                let (board, all, neighbours) = (&board, &all, neighbours.as_slice());
                scope.spawn(move || {
                    let mut over = Over { board, index, is_whole: false };
                    let label = place.to_string();
                    let progress = Progress::part(&label);
                    let member = peer.as_ref().map(|peer| {
                        let way = (index, shape.way_back(index));
                        (peer, Member::new(board, way, (peer, &label), neighbours, all))
                    });
                    let ended = match &member {
                        Ok((peer, member)) => {
                            up(node, peer, (from, place), member, how, &progress).map_err(|e| e.to_string())
                        }
                        Err(reason) => Err(reason.to_string()),
                    };
                    over.is_whole = matches!(ended, Ok(true));
                    drop(over);
                    let seconds = begin.elapsed().as_secs_f64();
                    let moved = member.map_or((0, 0), |(_, member)| member.moved());
                    let counts = progress.finish(files);
                    let error = why_not_all(ended, (&place.peer, &counts), &progress);
                    End { label, error, counts, moved, seconds }
                })
            })
            .collect();
        let ended = copies.into_iter().zip(to).map(|(copy, place)| copy.join().map_err(|_| place));
        ended.map(|end| end.unwrap_or_else(|place| panicked(place, files, begin))).collect()
    });
    all.finish(0);
    let report = Report { shape, files, bytes, seconds: begin.elapsed().as_secs_f64(), ends };
    report.tell(json)
}

/// Why a destination does not have everything: nothing could be copied there, it went in the middle, or something of it failed.
fn why_not_all(
    ended: Result<bool, String>,
    (peer, counts): (&str, &Counts),
    progress: &Progress,
) -> Option<String> {
    match ended {
        Err(reason) => Some(reason),
        // It may go when it has all.
        Ok(_) if counts.failed == 0 && counts.untried() == 0 => None,
        Ok(false) => Some(gone(peer)),
        Ok(true) => progress.first_failure().map(str::to_owned),
    }
}

/// Tells the board that a copy has ended, however it did: others would wait for it until their patience is over.
struct Over<'a> {
    board: &'a Board,
    index: usize,
    is_whole: bool,
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.board.over(self.index, !self.is_whole);
    }
}

/// The end of a copy whose thread panicked: a bug, which costs that destination and is told as such.
fn panicked(place: &RemotePlace, files: u64, begin: Instant) -> End {
    let counts = Counts { wanted: files, ..Counts::default() };
    let error = Some("the copy to it panicked; its output above says where".to_owned());
    End { label: place.to_string(), error, counts, moved: (0, 0), seconds: begin.elapsed().as_secs_f64() }
}

/// Opens all destinations at once; each that cannot be has its reason.
fn open(node: &Engine, to: &[RemotePlace]) -> Vec<Result<Peer, Failure>> {
    std::thread::scope(|scope| {
        let opening: Vec<_> = to
            .iter()
            .map(|place| {
                scope.spawn(|| node.open_within(&place.peer, session::OPEN_TIMEOUT).map_err(|e| engine(&e)))
            })
            .collect();
        let failed = || Err(Failure::failed("opening it panicked"));
        opening.into_iter().map(|peer| peer.join().unwrap_or_else(|_| failed())).collect()
    })
}

/// A destination as the others shall know it: our names mean nothing to them.
fn neighbour(node: &Engine, peer: &Peer, place: &RemotePlace) -> Neighbour {
    let named = node.config().peers.iter().find(|(name, _)| *name == place.peer);
    let address = named.and_then(|(_, addresses)| addresses.first()).unwrap_or(&place.peer);
    Neighbour { peer: peer.clone(), address: address.clone(), segment: place.segment.clone() }
}
