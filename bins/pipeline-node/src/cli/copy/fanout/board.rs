//! What each destination has by now, so that others can pull it from there; and whether a destination gets on, so that
//! nobody waits for one that does not. Deliberately no transfers: carriers write here, read here, and wait here.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::cli::copy::carry::Placed;

/// A destination that has got nothing for so long, and waits for nobody, is passed over.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Files remembered. Only those are that some destination has and another may still want; what a slow one finds forgotten
/// is sent by the source.
const FILES: usize = 65_536;

/// See the file's head. Shared by all workers of a copy.
pub struct Board {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    members: Vec<Member>,
    files: HashMap<PathBuf, Known>,
    /// Some were not remembered: what is unknown may have been there long ago, and is not waited for.
    overflowed: bool,
}

struct Member {
    /// When it last got something, or began to get something in another way.
    moved: Instant,
    /// Its workers that wait for another member.
    waiting: usize,
    run: Run,
}

/// How far a destination is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    /// Its copy is under way.
    Going,
    /// Its copy has ended, and the node is there.
    Over,
    /// The node is gone.
    Lost,
}

struct Known {
    /// Checksums of extents, by offset and length: each is read and summed once.
    sums: HashMap<(u64, u64), u32>,
    at: Vec<Stand>,
}

/// How a file stands at one destination.
#[derive(Default)]
enum Stand {
    #[default]
    Unseen,
    /// Its upload, and which bytes have come: offset to end, neighbours merged.
    Coming { upload: u32, come: BTreeMap<u64, u64> },
    /// It is there.
    Whole(Placed),
    /// It failed, or was forgotten.
    Missed,
}

/// Where bytes can be pulled from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An upload that has them.
    Upload(usize, u32),
    /// A file that is whole.
    File(usize, Placed),
}

impl Source {
    /// Which destination it is.
    pub fn member(&self) -> usize {
        match self {
            Self::Upload(member, _) | Self::File(member, _) => *member,
        }
    }
}

impl Board {
    /// For so many destinations.
    pub fn new(members: usize) -> Self {
        let member = |_| Member { moved: Instant::now(), waiting: 0, run: Run::Going };
        let state =
            State { members: (0..members).map(member).collect(), files: HashMap::new(), overflowed: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The checksum of an extent, if somebody has summed it.
    pub fn sum(&self, file: &Path, extent: (u64, u64)) -> Option<u32> {
        self.state().files.get(file)?.sums.get(&extent).copied()
    }

    /// Bytes have come into an upload of a destination.
    pub fn came(&self, member: usize, file: &Path, upload: u32, (offset, len): (u64, u64), crc: u32) {
        let mut state = self.state();
        if let Some(known) = state.known(file) {
            known.sums.insert((offset, len), crc);
            let stand = &mut known.at[member];
            match stand {
                Stand::Coming { upload: of, come } if *of == upload => merge(come, offset, offset + len),
                // Another upload of the same file: what came into the one before is gone with it.
                _ => *stand = Stand::Coming { upload, come: BTreeMap::from([(offset, offset + len)]) },
            }
        }
        state.members[member].moved = Instant::now();
        self.changed.notify_all();
    }

    /// A file is in its place at a destination.
    pub fn whole(&self, member: usize, file: &Path, place: &Placed) {
        self.settle(member, file, Stand::Whole(place.clone()));
    }

    /// A file has failed at a destination.
    pub fn missed(&self, member: usize, file: &Path) {
        self.settle(member, file, Stand::Missed);
    }

    fn settle(&self, member: usize, file: &Path, stand: Stand) {
        let mut state = self.state();
        if let Some(known) = state.known(file) {
            known.at[member] = stand;
        }
        state.members[member].moved = Instant::now();
        state.forget(file);
        self.changed.notify_all();
    }

    /// The copy to a destination has ended.
    pub fn over(&self, member: usize, lost: bool) {
        let mut state = self.state();
        state.members[member].run = if lost { Run::Lost } else { Run::Over };
        let State { members, files, .. } = &mut *state;
        files.retain(|_, known| wanted(members, &known.at));
        self.changed.notify_all();
    }

    /// Waits for news, a moment at most.
    pub fn pause(&self) {
        let _ = self.changed.wait_timeout(self.state(), Duration::from_millis(20));
    }

    /// Waits until an extent can be pulled from one of `way_back`, and answers from whom; `None` when none of them has it
    /// or is getting it. `passed_over`: those that are not to be asked.
    pub fn source(
        &self,
        member: usize,
        file: &Path,
        (offset, len): (u64, u64),
        way_back: &[usize],
        passed_over: &dyn Fn(usize) -> bool,
    ) -> Option<Source> {
        let mut state = self.state();
        state.members[member].waiting += 1;
        let found = loop {
            let asked = way_back.iter().copied().filter(|m| !passed_over(*m));
            match state.look(file, (offset, len), asked) {
                Look::Have(source) => break Some(source),
                Look::Nobody => break None,
                Look::Soon(until) => {
                    let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
                    let woken = self.changed.wait_timeout(state, left);
                    state = woken.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        };
        let me = &mut state.members[member];
        me.waiting -= 1;
        me.moved = Instant::now();
        found
    }
}

enum Look {
    Have(Source),
    /// Somebody is getting it; look again by then at the latest.
    Soon(Instant),
    Nobody,
}

impl State {
    /// What is known of a file; `None` when nothing more can be kept.
    fn known(&mut self, file: &Path) -> Option<&mut Known> {
        if !self.files.contains_key(file) {
            if self.files.len() >= FILES {
                self.overflowed = true;
                return None;
            }
            let at = self.members.iter().map(|_| Stand::default()).collect();
            self.files.insert(file.to_path_buf(), Known { sums: HashMap::new(), at });
        }
        self.files.get_mut(file)
    }

    /// Forgets a file that nobody will want any more.
    fn forget(&mut self, file: &Path) {
        if self.files.get(file).is_some_and(|known| !wanted(&self.members, &known.at)) {
            self.files.remove(file);
        }
    }

    /// The nearest that has the extent or will have it decides.
    fn look(&self, file: &Path, (offset, len): (u64, u64), way_back: impl Iterator<Item = usize>) -> Look {
        let now = Instant::now();
        for member in way_back {
            let Member { moved, waiting, run } = &self.members[member];
            let until = if *waiting > 0 { now + PATIENCE } else { *moved + PATIENCE };
            if *run == Run::Lost || *run == Run::Going && until <= now {
                continue;
            }
            match self.files.get(file).map(|known| &known.at[member]) {
                Some(Stand::Whole(place)) => return Look::Have(Source::File(member, place.clone())),
                Some(Stand::Coming { upload, come }) if covers(come, offset, offset + len) => {
                    return Look::Have(Source::Upload(member, *upload));
                }
                Some(Stand::Missed) => {}
                None if self.overflowed => {}
                Some(Stand::Coming { .. } | Stand::Unseen) | None if *run == Run::Going => {
                    return Look::Soon(until);
                }
                _ => {}
            }
        }
        Look::Nobody
    }
}

/// Whether a destination may still ask for a file.
fn wanted(members: &[Member], at: &[Stand]) -> bool {
    let open = |stand: &Stand| matches!(stand, Stand::Unseen | Stand::Coming { .. });
    members.iter().zip(at).any(|(member, stand)| member.run == Run::Going && open(stand))
}

fn merge(come: &mut BTreeMap<u64, u64>, mut start: u64, mut end: u64) {
    while let Some((&from, &to)) = come.range(..=end).next_back().filter(|(_, to)| **to >= start) {
        come.remove(&from);
        (start, end) = (start.min(from), end.max(to));
    }
    come.insert(start, end);
}

fn covers(come: &BTreeMap<u64, u64>, start: u64, end: u64) -> bool {
    come.range(..=start).next_back().is_some_and(|(_, to)| *to >= end)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "/f";

    fn placed(path: &str) -> Placed {
        Placed { path: path.to_owned(), staged: None }
    }

    fn look(board: &Board, member: usize, extent: (u64, u64)) -> Option<Source> {
        let way_back: Vec<usize> = (0..member).rev().collect();
        board.source(member, Path::new(FILE), extent, &way_back, &|_| false)
    }

    /// An extent is pulled from the nearest node as soon as that has it, however its bytes came; from a file in its place
    /// by its path there; and whoever has waited goes on at that moment.
    #[test]
    fn the_nearest_that_has_it() {
        let (board, file) = (Board::new(3), Path::new(FILE));
        std::thread::scope(|s| {
            let waiter = s.spawn(|| look(&board, 1, (10, 20)));
            for extent in [(20, 10), (0, 10), (10, 10)] {
                board.came(0, file, 7, extent, 1);
            }
            assert_eq!(waiter.join().unwrap(), Some(Source::Upload(0, 7)));
        });
        assert_eq!(board.sum(file, (20, 10)), Some(1));
        board.came(1, file, 9, (0, 30), 2);
        assert_eq!(look(&board, 2, (5, 25)), Some(Source::Upload(1, 9)));
        board.whole(0, file, &placed("there/f"));
        assert_eq!(look(&board, 1, (0, 30)), Some(Source::File(0, placed("there/f"))));
    }

    /// Who is lost, or has missed a file, or has ended without it, is passed over for the one behind it; with nobody left
    /// the source sends.
    #[test]
    fn the_next_one_stands_in() {
        let (board, file) = (Board::new(3), Path::new(FILE));
        board.came(0, file, 7, (0, 30), 1);
        board.came(1, file, 8, (0, 10), 1);
        board.over(1, true);
        assert_eq!(look(&board, 2, (0, 10)), Some(Source::Upload(0, 7)));
        board.missed(0, file);
        assert_eq!(look(&board, 2, (0, 10)), None);
        let other = Path::new("/g");
        board.over(0, false);
        assert_eq!(board.source(2, other, (0, 1), &[1, 0], &|_| false), None);
    }

    /// One that gets nothing and waits for nobody is passed over when the patience has passed, and counts again once it
    /// gets on; one that waits is waited for.
    #[test]
    fn patience_ends() {
        let (board, file) = (Board::new(3), Path::new(FILE));
        let late = || Instant::now().checked_sub(PATIENCE).unwrap();
        board.state().members[0].moved = late();
        assert_eq!(look(&board, 1, (0, 10)), None);
        board.came(0, file, 7, (0, 10), 1);
        assert_eq!(look(&board, 1, (0, 10)), Some(Source::Upload(0, 7)));
        board.state().members[1].moved = late();
        board.state().members[1].waiting = 1;
        let state = board.state();
        assert!(matches!(state.look(file, (0, 10), [1, 0].into_iter()), Look::Soon(_)));
    }

    /// What every destination has, or can no longer want, is forgotten; there is a bound on what is remembered.
    #[test]
    fn nothing_is_kept_for_ever() {
        let (board, file) = (Board::new(2), Path::new(FILE));
        board.came(0, file, 7, (0, 10), 1);
        board.whole(0, file, &placed("f"));
        assert_eq!(board.state().files.len(), 1);
        board.missed(1, file);
        assert_eq!(board.state().files.len(), 0);
        for i in 0..FILES + 10 {
            board.whole(0, Path::new(&i.to_string()), &placed("f"));
        }
        assert_eq!(board.state().files.len(), FILES);
        assert_eq!(look(&board, 1, (0, 10)), None, "what may have been forgotten is not waited for");
        board.over(1, false);
        assert_eq!(board.state().files.len(), 0);
    }

    proptest::proptest! {
        /// Ranges that came are covered, whatever their order and overlap, and nothing else is.
        #[test]
        fn ranges_merge(ranges in proptest::collection::vec((0..60u64, 1..9u64), 0..20), start in 0..60u64, len in 1..9u64) {
            let (mut come, mut bytes) = (BTreeMap::new(), [false; 80]);
            for (start, len) in ranges {
                merge(&mut come, start, start + len);
                bytes[start as usize..(start + len) as usize].fill(true);
            }
            let wanted = bytes[start as usize..(start + len) as usize].iter().all(|b| *b);
            proptest::prop_assert_eq!(covers(&come, start, start + len), wanted);
        }
    }
}
