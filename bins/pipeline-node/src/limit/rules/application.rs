//! The node would take more than it is given.

use super::super::look::{Look, percent};
use super::super::{Because, Limit, Rule};

/// See the head of the file.
pub(crate) const RULE: Rule = Rule {
    because: Because::Application,
    says: "nothing of the above: workers have time and nothing is full, so the node would take more than it is given",
    apply,
};

fn apply(look: &Look<'_>) -> Option<Limit> {
    let busiest = look.busiest();
    let (name, busy) = busiest.map_or(("none", 0.0), |(worker, busy)| (worker.name.as_str(), busy));
    let words = format!(
        "the application submits less than the node would take: {:.0} requests are under way, nothing is full, and the busiest \
         worker (`{name}`) has {} of its time left; submit more at a time, or from more threads",
        look.open_requests(),
        percent(1.0 - busy)
    );
    Some(Limit { stage: None, because: Because::Application, words, knob: None })
}
