//! What `bench` says of NICs: what moved over each while a size ran, all rounds together, and how it stands at the end.
//! Deliberately the engine's own count of slices that were applied; nothing is estimated.

use std::fmt::Write as _;

use pipeline_node::NicStats;
use serde::Serialize;

use crate::cli::load::tally::ratio;

/// One NIC of one transport.
#[derive(Debug, Serialize)]
pub struct NicLine {
    /// Its name in the file.
    pub name: String,
    /// Its transport's name in the file.
    pub transport: String,
    /// The address that it is used by; empty where the system chooses.
    pub address: String,
    /// 10⁹ bytes a second over all rounds.
    pub gb_per_s: f64,
    /// Bytes applied at the destination; what was read back to be compared as well, which went over it too.
    pub bytes: u64,
    /// Slices of those.
    pub slices: u64,
    /// Its part of the bytes of all NICs, 0 to 1.
    pub share: f64,
    /// Attempts that came back without having been done.
    pub errors: u64,
    /// Links that ended, and dials that failed, because of it.
    pub local_failures: u64,
    /// Links on it that ended because of the way to a NIC of a peer.
    pub path_failures: u64,
    /// Slices on it at the end.
    pub outstanding: u64,
    /// Links on it that live at the end.
    pub links: usize,
    /// Why no link is chosen on it at the end; null: it is well.
    pub resting: Option<String>,
}

/// Adds what moved in one round.
pub fn add(sum: &mut Vec<NicStats>, before: &[NicStats], after: &[NicStats]) {
    let round = after.iter().zip(before).map(|(after, before)| after.since(before));
    if sum.is_empty() {
        sum.extend(round);
        return;
    }
    for (sum, round) in sum.iter_mut().zip(round) {
        *sum = NicStats {
            slices: sum.slices + round.slices,
            bytes: sum.bytes + round.bytes,
            errors: sum.errors + round.errors,
            local_failures: sum.local_failures + round.local_failures,
            path_failures: sum.path_failures + round.path_failures,
            ..round
        };
    }
}

/// The lines of all NICs, for rounds that took so long together.
pub fn lines(nics: Vec<NicStats>, elapsed_ns: u64) -> Vec<NicLine> {
    let all: u64 = nics.iter().map(|nic| nic.bytes).sum();
    let line = |nic: NicStats| NicLine {
        name: nic.name,
        transport: nic.transport,
        address: nic.facts.address,
        gb_per_s: ratio(nic.bytes as f64, elapsed_ns as f64),
        bytes: nic.bytes,
        slices: nic.slices,
        share: ratio(nic.bytes as f64, all as f64),
        errors: nic.errors,
        local_failures: nic.local_failures,
        path_failures: nic.path_failures,
        outstanding: nic.outstanding,
        links: nic.links,
        resting: nic.facts.resting,
    };
    nics.into_iter().map(line).collect()
}

/// The table by NIC; empty where there is one.
pub fn table(nics: &[NicLine]) -> String {
    if nics.len() < 2 {
        return String::new();
    }
    let name = |nic: &NicLine| format!("{}/{}", nic.transport, nic.name);
    let width = nics.iter().map(|nic| name(nic).len()).max().unwrap_or(0).max(3);
    let mut table =
        format!("  {:<width$} links    GB/s share%          bytes      slices   errors  address\n", "nic");
    for nic in nics {
        let _ = write!(
            table,
            "  {:<width$} {:>5} {:>7.3} {:>6.1} {:>14} {:>11} {:>8}  {}",
            name(nic),
            nic.links,
            nic.gb_per_s,
            100.0 * nic.share,
            nic.bytes,
            nic.slices,
            nic.errors,
            nic.address,
        );
        if let Some(why) = &nic.resting {
            let _ = write!(table, "  rests: {why}");
        }
        table.push('\n');
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nic(name: &str, bytes: u64, slices: u64, links: usize) -> NicStats {
        let (name, transport) = (name.to_owned(), "tcp".to_owned());
        NicStats { name, transport, bytes, slices, links, ..NicStats::default() }
    }

    /// Rounds add up, shares are of the bytes of all NICs, and rates over the time of all rounds.
    #[test]
    fn rounds_add_up() {
        let mut sum = Vec::new();
        add(
            &mut sum,
            &[nic("a", 5, 1, 9), nic("b", 0, 0, 9)],
            &[nic("a", 3_000_000_005, 4, 2), nic("b", 0, 0, 2)],
        );
        add(
            &mut sum,
            &[nic("a", 3_000_000_005, 4, 2), nic("b", 0, 0, 2)],
            &[nic("a", 3_000_000_005, 4, 1), nic("b", 1_000_000_000, 1, 0)],
        );
        let lines = lines(sum, 2_000_000_000);
        let told: Vec<_> =
            lines.iter().map(|l| (&*l.name, l.bytes, l.slices, l.share, l.gb_per_s, l.links)).collect();
        assert_eq!(told, [("a", 3_000_000_000, 3, 0.75, 1.5, 1), ("b", 1_000_000_000, 1, 0.25, 0.5, 0)]);
        assert_eq!(super::lines(Vec::new(), 0).len(), 0);
    }

    /// The table stands under its head, says why a NIC rests, and is left out for a single NIC.
    #[test]
    fn the_table() {
        let mut nics =
            lines(vec![nic("rail0", 1 << 40, 1 << 30, 2), nic("r1", 1 << 40, 7, 2)], 1_000_000_000_000);
        let text = table(&nics);
        let ends: Vec<_> =
            text.lines().map(|line| line.trim_end_matches("address").trim_end().len()).collect();
        assert_eq!([ends[0], ends[0]], [ends[1], ends[2]], "\n{text}");
        nics[1].resting = Some("interface `r1` is down".into());
        assert!(
            table(&nics).lines().nth(2).is_some_and(|line| line.ends_with("rests: interface `r1` is down"))
        );
        assert_eq!(table(&nics[..1]), "");
    }
}
