//! As many bytes or slices are in flight as the file allows. A window that takes long to drain is long enough: then it is full
//! because the wire or the peer is slower.

use super::super::look::{Look, percent, time};
use super::super::{Because, Limit, Rule, knob};

/// Cutters find no window for this part of the interval.
const SHORT: f64 = 0.3;
/// A window that is worth more of the wire's time covers what round trips and wake-ups take.
const LONG_NS: f64 = 5e6;

/// See the head of the file.
pub(crate) const RULE: Rule = Rule {
    because: Because::Window,
    says: "a stage that cuts requests finds no window for 30 % of the time: as much is in flight as the file allows",
    apply,
};

fn apply(look: &Look<'_>) -> Option<Limit> {
    let cutters: usize = look.of_kind("request_split").map(|(stage, _)| stage.threads).sum();
    let short = look.share(look.interval.window_short_ns) / cutters.max(1) as f64;
    if short < SHORT {
        return None;
    }
    let (_, split) = look.of_kind("request_split").next()?;
    let limits = &look.config.limits;
    let (bytes, slices) = look.moved();
    let each = bytes as f64 / slices.max(1) as f64;
    // What one peer may have, or all together if they are so many that the whole is used up first.
    let peers = look.interval.peers.iter().filter(|peer| peer.outstanding > 0).count().max(1) as u64;
    let percent_used = (peers * limits.peer_share_percent).min(100) as f64 / 100.0;
    let (room_bytes, room_slices) =
        (limits.bytes_in_flight as f64 * percent_used, limits.slices as f64 * percent_used);
    let by_slices = bytes > 0 && room_slices * each < room_bytes;
    let room = if by_slices { room_slices * each } else { room_bytes };
    let per_ns = bytes as f64 / (look.seconds() * 1e9).max(1.0);
    let drain_ns = if per_ns > 0.0 { room / per_ns } else { 0.0 };
    let whose = if percent_used < 1.0 { "one peer's share of " } else { "" };
    let key = if by_slices { "limits.slices" } else { "limits.bytes_in_flight" };
    let full = format!("{} of the time {whose}`{key}` is used up", percent(short));
    let (words, knob) = if drain_ns > LONG_NS {
        let words = format!("{full}, worth {} of what moves: the wire or the peer is slower", time(drain_ns));
        (words, knob::lanes(look))
    } else if by_slices {
        (format!("{full}, worth {} of what moves", time(drain_ns)), knob::slices(look))
    } else {
        let enough = (2.0 * LONG_NS * per_ns / percent_used) as u64;
        // Not at once: four times as many show whether it was that.
        let enough = enough.min(limits.bytes_in_flight.saturating_mul(4));
        let words = format!("{full}, worth {} of what moves", time(drain_ns));
        (words, knob::bytes_in_flight(look, enough))
    };
    Some(Limit { stage: Some(split.name.clone()), because: Because::Window, words, knob })
}
