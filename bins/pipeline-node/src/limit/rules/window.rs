//! As many bytes or slices are in flight as the file allows. A window that takes long to drain is long enough: then it is full
//! because the wire or the peer is slower.

use super::super::look::{Look, percent, time};
use super::super::{Because, Limit, Rule, knob};

/// Cutters find no window for this part of the interval.
const SHORT: f64 = 0.3;
/// A window that is worth more of the wire's time covers what round trips and wake-ups take.
const LONG_NS: f64 = 5e6;

/// One that is worth less makes stages busy beside: each slice is sent, received and waited for by itself.
const TINY_NS: f64 = 1e6;

/// Asked before who is busy: a tiny window is a reason for that.
pub(crate) const TINY: Rule = Rule {
    because: Because::Window,
    says: "a stage that cuts requests finds no window for 30 % of the time, and what the window holds moves within a millisecond: slices go nearly one by one",
    apply: |look| limit(look, &Full::of(look).filter(|full| full.drain_ns < TINY_NS)?),
};

/// See the head of the file.
pub(crate) const RULE: Rule = Rule {
    because: Because::Window,
    says: "a stage that cuts requests finds no window for 30 % of the time: as much is in flight as the file allows",
    apply: |look| limit(look, &Full::of(look)?),
};

/// A window that is used up.
struct Full {
    /// For what part of the time.
    short: f64,
    /// Whether slices are what there is too few of, and not bytes.
    by_slices: bool,
    /// Bytes that move in a nanosecond.
    per_ns: f64,
    /// How long what it holds takes at that rate.
    drain_ns: f64,
    /// The part of the whole that peers may have together.
    used: f64,
}

impl Full {
    fn of(look: &Look<'_>) -> Option<Self> {
        let cutters: usize = look.of_kind("request_split").map(|(stage, _)| stage.threads).sum();
        let short = look.share(look.interval.window_short_ns) / cutters.max(1) as f64;
        let (bytes, slices) = look.moved();
        if short < SHORT || bytes == 0 {
            return None;
        }
        let limits = &look.config.limits;
        let each = bytes as f64 / slices.max(1) as f64;
        // What one peer may have, or all together if they are so many that the whole is used up first.
        let peers = look.interval.peers.iter().filter(|peer| peer.outstanding > 0).count().max(1) as u64;
        let used = (peers * limits.peer_share_percent).min(100) as f64 / 100.0;
        let (room, room_slices) = (limits.bytes_in_flight as f64 * used, limits.slices as f64 * used * each);
        let per_ns = bytes as f64 / (look.seconds() * 1e9).max(1.0);
        let (by_slices, drain_ns) = (room_slices < room, room.min(room_slices) / per_ns);
        Some(Self { short, by_slices, per_ns, drain_ns, used })
    }
}

fn limit(look: &Look<'_>, full: &Full) -> Option<Limit> {
    let (_, split) = look.of_kind("request_split").next()?;
    let whose = if full.used < 1.0 { "one peer's share of " } else { "" };
    let key = if full.by_slices { "limits.slices" } else { "limits.bytes_in_flight" };
    let mut words = format!(
        "{} of the time {whose}`{key}` is used up, worth {} of what moves",
        percent(full.short),
        time(full.drain_ns)
    );
    let knob = if full.drain_ns > LONG_NS {
        words.push_str(": the wire or the peer is slower");
        knob::lanes(look)
    } else if full.by_slices {
        knob::slices(look)
    } else {
        let enough = (2.0 * LONG_NS * full.per_ns / full.used) as u64;
        // Not at once: four times as many show whether it was that.
        knob::bytes_in_flight(look, enough.min(look.config.limits.bytes_in_flight.saturating_mul(4)))
    };
    Some(Limit { stage: Some(split.name.clone()), because: Because::Window, words, knob })
}
