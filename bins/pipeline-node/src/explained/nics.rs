//! What an explanation says of NICs, as text and as JSON: what each is, and which one memory of each place gets.
//! Deliberately short where there is one NIC: then there is nothing to choose.

use std::fmt::Write as _;

use pipeline_configs::Location;
use pipeline_configs::units::show_bits_per_second;
use pipeline_graph::plan::readable_bytes;
use pipeline_stages::explain::{Chosen, FromPlace, NicLanes};
use pipeline_stages::topology::Nearness;
use serde_json::{Value, json};

/// For people.
pub fn plain(text: &mut String, chosen: &Chosen) {
    for nic in &chosen.nics {
        let (live, wanted, outstanding) = (nic.live, nic.wanted, nic.outstanding);
        let next = match chosen.next() == Some(nic.nic.as_str()) && chosen.nics.len() == 1 {
            true => "; the next slice goes here",
            false => "",
        };
        let rests = nic.resting.as_ref().map_or(String::new(), |why| format!("; rests: {why}"));
        let (name, facts) = (&nic.nic, facts(nic));
        let _ = writeln!(
            text,
            "    nic     {name}{facts}: {live} of {wanted} lanes live, {outstanding} slices on them{next}{rests}"
        );
    }
    if chosen.next().is_none() {
        let _ = writeln!(text, "    no lane is live: slices wait until one is dialled");
    }
    if chosen.nics.len() > 1 {
        let _ = writeln!(text, "    policy  {}", chosen.policy);
        chosen.from.iter().for_each(|from| place(text, from));
    }
}

/// What is known of a NIC, in brackets.
fn facts(nic: &NicLanes) -> String {
    let device = nic.device.as_ref().filter(|device| **device != nic.nic);
    let parts = [
        device.cloned(),
        nic.address.clone(),
        nic.numa.map(|node| format!("NUMA node {node}")),
        nic.rail.map(|rail| format!("rail {rail}")),
        nic.bits_per_s.map(show_bits_per_second),
        nic.measured_bytes_per_s.map(|bytes| format!("{}/s measured", readable_bytes(bytes))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

fn place(text: &mut String, from: &FromPlace) {
    let next = from.next.as_deref().unwrap_or("none");
    let place = if from.place == Location::Any { "unknown place".to_owned() } else { from.place.to_string() };
    let _ =
        writeln!(text, "    from    {place}: the next slice goes by {next}; nearest first: {}", groups(from));
    for (nic, why) in &from.passed {
        let _ = writeln!(text, "      not {nic}: {}", why.text());
    }
}

/// `eth0, eth1 (same NUMA node), then eth2 (…)`.
pub fn groups(from: &FromPlace) -> String {
    let group = |(near, nics): &(_, Vec<String>)| format!("{} ({near})", nics.join(", "));
    from.groups.iter().map(group).collect::<Vec<_>>().join(", then ")
}

/// For programs.
pub fn json(chosen: &Chosen) -> (Value, Value) {
    let nic = |n: &NicLanes| {
        json!({
            "nic": n.nic, "lanes_wanted": n.wanted, "lanes_live": n.live, "slices": n.outstanding,
            "device": n.device, "address": n.address, "numa": n.numa, "rail": n.rail,
            "bits_per_s": n.bits_per_s, "measured_bytes_per_s": n.measured_bytes_per_s, "resting": n.resting,
        })
    };
    (chosen.nics.iter().map(nic).collect(), chosen.from.iter().map(of_place).collect())
}

fn of_place(from: &FromPlace) -> Value {
    let group = |(near, nics): &(Nearness, Vec<String>)| json!({ "nearness": near.to_string(), "near": near.is_near(), "nics": nics });
    let passed =
        from.passed.iter().map(|(nic, why)| json!({ "nic": nic, "why": why.word(), "text": why.text() }));
    json!({
        "place": from.place.to_string(), "next_nic": from.next,
        "groups": from.groups.iter().map(group).collect::<Vec<_>>(), "passed": passed.collect::<Vec<_>>(),
    })
}
