//! What `cores` may say: `all`, a list of CPUs as the kernel writes them (`0-3,8`), or a place that they are near to.
//! Deliberately without a look at the machine: whether a CPU exists is judged apart, as a warning.

use crate::codes;
use crate::finding::{Finding, Report};
use crate::source::Span;

/// Highest CPU number that a list may name.
const MAX_CPU: usize = 8191;

/// CPUs, as a pool names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cores {
    /// All that this process may use.
    All,
    /// These; each once, in the order of the list.
    List(Vec<usize>),
    /// Those of a NUMA node.
    Numa(u32),
    /// Those near a NIC of this name.
    Nic(String),
}

/// Reads them; `None` was reported.
pub fn read(text: &str, at: Span, report: &mut Report) -> Option<Cores> {
    let cores = match (text, text.split_once(':')) {
        ("all", _) => Ok(Cores::All),
        (_, Some(("numa", node))) => match node.parse::<u16>() {
            Ok(node) => Ok(Cores::Numa(node.into())),
            Err(_) => Err(format!("\"{node}\" is not the number of a NUMA node")),
        },
        (_, Some(("nic", ""))) => Err("\"nic:\" names no NIC".into()),
        (_, Some(("nic", name))) => Ok(Cores::Nic(name.into())),
        _ => parse(text).map(Cores::List),
    };
    cores
        .inspect_err(|message| {
            let finding = Finding::error(codes::CPUS, at, format!("`cores`: {message}"));
            let help = "write \"all\", a list such as \"0-3\" or \"0,2,8-11\", \"numa:0\" or \"nic:eth0\"";
            report.push(finding.help(help));
        })
        .ok()
}

fn parse(text: &str) -> Result<Vec<usize>, String> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let part = part.trim();
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| -> Result<usize, String> {
            let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            let cpu = text.parse().ok().filter(|cpu| plain && *cpu <= MAX_CPU);
            cpu.ok_or_else(|| format!("\"{part}\" is not a CPU from 0 to {MAX_CPU}, nor a range of them"))
        };
        let (first, last) = (number(first.trim())?, number(last.trim())?);
        if first > last {
            return Err(format!("the range {first}-{last} runs backwards"));
        }
        for cpu in first..=last {
            if cpus.contains(&cpu) {
                return Err(format!("CPU {cpu} is listed twice"));
            }
            cpus.push(cpu);
        }
    }
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Good lists are expanded; bad ones are refused with the part that is bad.
    #[test]
    fn lists() {
        assert_eq!(parse("0-3, 8"), Ok(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse("7"), Ok(vec![7]));
        for bad in ["", "a", "3-1", "0,0", "1-", "-1", "0-99999", "+1", "99999999999999999999"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
