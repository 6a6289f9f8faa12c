//! Whether requests to a peer have a way, and if not, why: what `explain` ends with.

use pipeline_stages::explain::{Chosen, Decision, Explanation, Route};
use pipeline_transports::Access;

use crate::peer::Segment;

/// What stands against it; `None`: both directions have a way, and a lane lives on each.
pub fn verdict(explained: &Explanation, segment: Option<&Segment>) -> Option<String> {
    let mut routes = explained.routes.iter();
    let barren = |r: &&Route| r.read.chosen.is_none() || r.write.chosen.is_none();
    if let Some(route) = routes.find(barren) {
        return Some(format!("stage `{}` has no way {}to {}", route.stage, of_what(route), explained.label));
    }
    lanes(explained).or_else(|| segment.and_then(|segment| refused(explained, segment)))
}

fn of_what(route: &Route) -> &'static str {
    match (route.read.chosen.is_none(), route.write.chosen.is_none()) {
        (true, true) => "",
        (true, false) => "for READs ",
        (false, _) => "for WRITEs ",
    }
}

/// A transport was chosen, and no lane of it lives.
fn lanes(explained: &Explanation) -> Option<String> {
    let ways = explained.routes.iter().flat_map(|r| [&r.read, &r.write]);
    let chosen = |way: &'_ Decision| way.chosen.clone();
    let dead = |chosen: &Chosen| chosen.nics.iter().all(|nic| nic.live == 0);
    let chosen = ways.filter_map(chosen).find(dead)?;
    let resting = chosen.nics.iter().find_map(|nic| Some((nic, nic.resting.as_ref()?)));
    let why = match (&explained.lane_error, resting) {
        (Some(error), _) => error.clone(),
        (None, Some((nic, why))) => format!("NIC `{}` rests: {why}", nic.nic),
        (None, None) => "none has been dialled yet".to_owned(),
    };
    Some(format!("no lane of transport `{}` to {} lives: {why}", chosen.transport, explained.label))
}

/// What a segment allows is not enough for requests of this file.
fn refused(explained: &Explanation, segment: &Segment) -> Option<String> {
    let name = segment.name();
    match (segment.access(), &explained.reads_back) {
        (None | Some(Access::Local), _) => Some(format!("segment `{name}` allows neither READ nor WRITE")),
        (Some(Access::Write), Some(stage)) => Some(format!(
            "segment `{name}` allows WRITE only, and stage `{stage}` of this file reads back what was written: WRITEs to it fail; \
             give the segment access = \"read_write\", or take `{stage}` out"
        )),
        _ => None,
    }
}
