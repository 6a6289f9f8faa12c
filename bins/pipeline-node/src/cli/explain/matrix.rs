//! `explain --matrix`: what lies near to what on this machine, for a file; contacts nobody and starts nothing. With `--json`
//! as Mooncake's priority matrix, which `[topology] matrix` and Mooncake (MC_CUSTOM_TOPO_JSON) read.

use std::fmt::Write as _;
use std::path::Path;

use pipeline_configs::units::show_bits_per_second;
use pipeline_configs::{Config, Location};
use pipeline_node::{Sysfs, Topology};

use super::super::exit::{Failure, Outcome};
use super::super::file;

/// Prints it.
///
/// # Errors
/// 1 for a transport that the file does not have.
pub fn run(config: &Config, transport: Option<&str>, sys: Option<&Path>, as_json: bool) -> Outcome {
    let sys = sys.map_or_else(Sysfs::of_machine, Sysfs::below);
    let topology = Topology::of(config, &sys);
    let at = transport_of(config, transport)?;
    file::print(&match as_json {
        true => topology.matrix(at).to_json(),
        false => plain(&config.transports[usize::from(at)].name, &topology, at),
    })
}

/// The one that is named, else the one with most NICs.
fn transport_of(config: &Config, named: Option<&str>) -> Result<u16, Failure> {
    let all = config.transports.iter().enumerate();
    let found = match named {
        Some(named) => all.clone().find(|(_, t)| t.name == named),
        // The first of several.
        None => all.clone().rev().max_by_key(|(_, t)| t.nics.len()),
    };
    found.map(|(at, _)| at as u16).ok_or_else(|| {
        let names: Vec<&str> = config.transports.iter().map(|t| t.name.as_str()).collect();
        let named = named.unwrap_or_default();
        Failure::failed(format!("the file declares no transport `{named}`; it has: {}", names.join(", ")))
    })
}

fn plain(name: &str, topology: &Topology, transport: u16) -> String {
    let mut text = format!("transport {name}\n\n");
    let dash = || "-".to_owned();
    let mut rows = vec![["NIC", "device", "NUMA node", "rail", "speed"].map(str::to_owned)];
    rows.extend(topology.nics(transport).iter().map(|nic| {
        [
            nic.name.clone(),
            nic.device.clone().unwrap_or_else(dash),
            nic.numa().map_or_else(dash, |node| node.to_string()),
            nic.rail.map_or_else(dash, |rail| rail.to_string()),
            nic.bits_per_s.map_or_else(dash, show_bits_per_second),
        ]
    }));
    table(&mut text, &rows);
    text.push('\n');
    let nics = topology.nics(transport);
    let name = |nic: &u16| nics[usize::from(*nic)].name.as_str();
    for (at, place) in topology.places().iter().enumerate() {
        let groups = topology.ranking(transport, at as u16).groups();
        let group = |(near, nics): (_, &[u16])| {
            format!("{} ({near})", nics.iter().map(name).collect::<Vec<_>>().join(", "))
        };
        let place = if *place == Location::Any { "unknown".to_owned() } else { place.to_string() };
        let _ =
            writeln!(text, "memory of {place}: {}", groups.map(group).collect::<Vec<_>>().join(", then "));
    }
    text
}

/// Columns as wide as their widest cell.
fn table(text: &mut String, rows: &[[String; 5]]) {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3, 4].map(width);
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}
