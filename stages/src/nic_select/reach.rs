//! Whose links a `nic_select` may choose: every worker's if what it chooses is handed to the worker that owns the link, and
//! only its own if `wr_post` is run right behind it.
//! Deliberately found once, from the file: the data path compares one number.

use pipeline_configs::Config;
use pipeline_graph::{Mode, Seat};

use crate::peer::LinkRef;

/// See the file's head: the number of a post worker, or [`ANY`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach(u32);

const ANY: u32 = u32::MAX;

impl Reach {
    /// All links.
    pub(crate) const ALL: Self = Self(ANY);

    /// That of the stage on a seat.
    pub(super) fn of(config: &Config, stage: usize, seat: &Seat) -> Self {
        // A worker that is alone owns all.
        if seat.workers > 1 && is_followed(config, stage) { Self(seat.worker as u32) } else { Self::ALL }
    }

    #[inline]
    pub(super) fn has(self, link: &LinkRef) -> bool {
        self.0 == ANY || link.post_worker == self.0
    }
}

/// Whether a stage of type `wr_post` can be reached from it over inline edges only.
fn is_followed(config: &Config, stage: usize) -> bool {
    let (mut seen, mut open) = (vec![false; config.stages.len()], vec![stage]);
    while let Some(at) = open.pop() {
        let inline = config.blueprint.edges.iter().filter(|e| e.from == Some(at) && e.mode == Mode::Inline);
        for to in inline.map(|e| e.to) {
            if config.stages[to].kind == "wr_post" {
                return true;
            }
            if !std::mem::replace(&mut seen[to], true) {
                open.push(to);
            }
        }
    }
    false
}
