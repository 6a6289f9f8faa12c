//! Lanes hold as many slices as their `depth` allows, and others wait for room on one although those come back soon. Where they
//! come back late the lanes are full because the wire or the peer is slower: that is [`super::peer`].

use super::super::look::{Look, percent, time};
use super::super::{Because, Limit, Rule, knob};

/// Slices wait for room on a lane this part of their time.
const WAIT: f64 = 0.3;
/// On a lane they take less than this, on average: the time that a window may be worth.
const SOON_NS: f64 = 5e6;

/// See the head of the file.
pub(crate) const RULE: Rule = Rule {
    because: Because::Window,
    says: "slices wait for room on a lane for 30 % of their time, and those on one come back within 5 ms: lanes hold no more",
    apply,
};

fn apply(look: &Look<'_>) -> Option<Limit> {
    let stages = look.of_kind("wr_post").chain(look.of_kind("nic_select"));
    let (waits_in, _) = stages.max_by(|(a, _), (b, _)| a.held.total().total_cmp(&b.held.total()))?;
    let (back, there) = (look.moved().1, look.held("cq_reap"));
    let waits = look.without_lane() / look.slice_time().max(1.0);
    let takes = there / back.max(1) as f64;
    if waits < WAIT || back == 0 || takes > SOON_NS {
        return None;
    }
    let words = format!(
        "slices wait for room on a lane for {} of their time, although those on one are back after {}",
        percent(waits),
        time(takes)
    );
    // Larger slices are fewer.
    let knob = knob::slice(look).or_else(|| knob::depth(look));
    Some(Limit { stage: Some(waits_in.name.clone()), because: Because::Window, words, knob })
}
