//! An explanation as text, and as JSON. Deliberately only words: what is said was decided elsewhere.

use std::fmt::Write as _;

mod nics;
mod verdict;

use pipeline_configs::plain;
use pipeline_graph::plan::readable_bytes;
use pipeline_stages::explain::{Chosen, Decision, Explanation, ForeignPeer, Why};
use pipeline_stages::peer::PeerState;
use pipeline_transports::Access;
use serde_json::{Value, json};

use crate::peer::Segment;

pub use verdict::verdict;

/// For people.
pub fn plain(explained: &Explanation, segment: Option<&Segment>) -> String {
    let mut text = format!(
        "peer      {} ({}), {}\n",
        plain::line(&explained.label),
        plain::line(&explained.name),
        state(explained.state)
    );
    if let Some(ForeignPeer { transport, protocol }) = &explained.foreign {
        let protocol = if protocol.is_empty() { String::new() } else { format!(", {protocol}") };
        let _ = writeln!(text, "foreign   runs another engine, found by {transport}{protocol}");
    }
    let offers: Vec<_> = explained.offers.iter().map(|(name, kind)| named(name, kind)).collect();
    let _ =
        writeln!(text, "offers    {}", if offers.is_empty() { "nothing".into() } else { offers.join(", ") });
    if let Some(segment) = segment {
        let (name, kind) = (plain::line(segment.name()), segment.kind());
        let bytes = readable_bytes(segment.len());
        let _ = writeln!(text, "segment   {name}: {kind}, {bytes}, {}", access(segment.access()));
    }
    for route in &explained.routes {
        let _ = writeln!(text, "\nstage `{}`", route.stage);
        if route.read == route.write {
            decision(&mut text, "READ, WRITE", &route.read);
        } else {
            decision(&mut text, "READ", &route.read);
            decision(&mut text, "WRITE", &route.write);
        }
    }
    if let Some(stage) = &explained.reads_back {
        let _ =
            writeln!(text, "\nchecked   stage `{stage}` reads back what was written: WRITEs need READ too");
    }
    let (bytes, slices) = (readable_bytes(explained.window_bytes), explained.window_slices);
    let _ = writeln!(text, "\nwindow    {bytes} and {slices} slices in flight to one peer");
    let _ = match explained.coalesce_bytes {
        0 => writeln!(text, "coalesce  off: each request on its own"),
        bytes => writeln!(text, "coalesce  neighbouring requests as one, up to {}", readable_bytes(bytes)),
    };
    text
}

fn decision(text: &mut String, direction: &str, decision: &Decision) {
    match &decision.chosen {
        None => {
            let _ = writeln!(text, "  {direction}: no way; such requests fail NoRoute");
        }
        Some(chosen) => {
            let _ = writeln!(
                text,
                "  {direction}: {}, {}",
                named(&chosen.transport, &chosen.kind),
                why(chosen.why)
            );
            let _ = writeln!(text, "    slices  {}", slices(chosen));
            nics::plain(text, chosen);
        }
    }
    for (transport, rejection) in &decision.rejected {
        let _ = writeln!(text, "    not {transport}: {}", rejection.text());
    }
}

fn named(name: &str, kind: &str) -> String {
    let both = if name == kind { name.to_owned() } else { format!("{name} ({kind})") };
    plain::line(&both).into_owned()
}

fn why(why: Why) -> &'static str {
    match why {
        Why::Preferred => "the first of `prefer` that both sides have",
        Why::Fallback => "as a fallback: none of `prefer` can be taken",
        Why::OfItsName => "the transport that the peer is named by",
        Why::FirstDeclared => "the first declared that both sides have (there is no `prefer`)",
    }
}

fn slices(chosen: &Chosen) -> String {
    chosen
        .slice_bytes
        .map_or_else(|| "whole requests".into(), |bytes| format!("up to {}", readable_bytes(bytes)))
}

fn state(state: PeerState) -> &'static str {
    match state {
        PeerState::Connecting => "connecting",
        PeerState::Up => "up",
        PeerState::Down => "down",
        PeerState::Leaving => "leaving: takes nothing new",
    }
}

fn access(access: Option<Access>) -> &'static str {
    match access {
        Some(Access::Read) => "allows READ",
        Some(Access::Write) => "allows WRITE",
        Some(Access::ReadWrite) => "allows READ and WRITE",
        Some(Access::Local) => "allows neither READ nor WRITE",
        None => "its regions differ in what they allow, or there are none",
    }
}

/// For programs.
pub fn json(explained: &Explanation, segment: Option<&Segment>) -> Value {
    let offer = |(name, kind): &(String, String)| json!({ "name": name, "type": kind });
    let route = |r: &pipeline_stages::explain::Route| json!({ "stage": r.stage, "read": decided(&r.read), "write": decided(&r.write) });
    json!({
        "peer": explained.label, "name": explained.name, "state": format!("{:?}", explained.state).to_lowercase(),
        "foreign": explained.foreign.as_ref().map(|f| json!({ "transport": f.transport, "protocol": f.protocol })),
        "offers": explained.offers.iter().map(offer).collect::<Vec<_>>(),
        "segment": segment.map(|s| json!({
            "name": s.name(), "kind": s.kind(), "bytes": s.len(),
            "access": s.access().map(|a| format!("{a:?}")),
        })),
        "routes": explained.routes.iter().map(route).collect::<Vec<_>>(),
        "window_bytes": explained.window_bytes, "window_slices": explained.window_slices,
        "coalesce_bytes": explained.coalesce_bytes, "lane_error": explained.lane_error,
        "reads_back": explained.reads_back,
    })
}

fn decided(decision: &Decision) -> Value {
    let chosen = decision.chosen.as_ref().map(|chosen| {
        let (nics, from) = nics::json(chosen);
        json!({
            "transport": chosen.transport, "type": chosen.kind, "why": format!("{:?}", chosen.why),
            "slice_bytes": chosen.slice_bytes, "nics": nics,
            "policy": chosen.policy, "from": from, "next_nic": chosen.next(),
        })
    });
    let rejected = decision.rejected.iter().map(
        |(transport, why)| json!({ "transport": transport, "why": format!("{why:?}"), "text": why.text() }),
    );
    json!({ "chosen": chosen, "rejected": rejected.collect::<Vec<_>>() })
}
