//! Nothing is asked of the node.

use super::super::look::Look;
use super::super::{Because, Limit, Rule};

/// See the head of the file.
pub(crate) const RULE: Rule =
    Rule { because: Because::Idle, says: "no request is under way and no stage has done anything", apply };

fn apply(look: &Look<'_>) -> Option<Limit> {
    let done = look.stages().any(|(_, stage)| stage.items > 0 || stage.busy_polls > 0);
    if done || look.open_requests() > 0.0 {
        return None;
    }
    Some(Limit {
        stage: None,
        because: Because::Idle,
        words: "nothing is asked of this node: no request is under way, its own or a peer's".to_owned(),
        knob: None,
    })
}
