//! The node would take more than it is given: by its application, or by its peers where it only serves.

use super::super::look::{Look, percent};
use super::super::{Because, Limit, Rule};

/// While fewer requests are under way, on average, the node waits for the next one most of the time, and what happens to each
/// counts for little.
const RARE: f64 = 0.5;

/// Most of the time nothing is asked.
pub(crate) const SELDOM: Rule = Rule {
    because: Because::Application,
    says: "nothing is under way for half of the time: the node waits for the next request",
    apply: seldom,
};

/// Nothing else.
pub(crate) const RULE: Rule = Rule {
    because: Because::Application,
    says: "nothing of the above: workers have time and nothing is full, so the node would take more than it is given",
    apply,
};

fn seldom(look: &Look<'_>) -> Option<Limit> {
    // Without times nobody knows how many were under way, only how many are when somebody looks.
    if look.is_timed() && look.open_requests() < RARE { apply(look) } else { None }
}

fn apply(look: &Look<'_>) -> Option<Limit> {
    let (name, busy) = look.busiest().map_or(("none", 0.0), |(worker, busy)| (worker.name.as_str(), busy));
    let has_time = format!("the busiest worker (`{name}`) has {} of its time left", percent(1.0 - busy));
    let words = if look.has_requests() {
        let under_way = match look.is_timed() {
            true => format!("{:.1} requests are under way at a time, ", look.open_requests()),
            false => String::new(),
        };
        format!(
            "the application submits less than the node would take: {under_way}nothing is full, and {has_time}; submit more at a \
             time, or from more threads"
        )
    } else {
        format!("peers ask for less than this node would serve: nothing is full, and {has_time}")
    };
    Some(Limit { stage: None, because: Because::Application, words, knob: None })
}
