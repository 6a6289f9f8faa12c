//! The machine that is asked about: `cores=64 nics=8x400Gbit/s peers=1000`, or `here`.

use super::model::setup::Nic;

/// One way, if nobody says otherwise: a switch, two NICs, and no queue.
const LATENCY_NS: f64 = 10_000.0;
/// Interfaces times peers, at most: 8 x 10 000 take six seconds and 600 MB.
const WAYS_MAX: usize = 80_000;

/// A machine, its wires and its peers.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// CPUs that the process has.
    pub cores: f64,
    /// Its interfaces; none: loopback, and the other end is a process on the same CPUs.
    pub nics: Vec<Nic>,
    /// Peers, with CPUs of their own.
    pub peers: usize,
    /// Bytes a second that its memory moves, for all copies; `None`: never what limits.
    pub memory_bytes_per_s: Option<f64>,
}

impl Site {
    /// This one: its CPUs, and a peer on them.
    pub fn here() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        Self { cores, nics: Vec::new(), peers: 1, memory_bytes_per_s: None }
    }

    /// Whether the other end shares its CPUs.
    pub fn is_here(&self) -> bool {
        self.nics.is_empty()
    }

    /// What is written after `--what-if`.
    ///
    /// # Errors
    /// What may be written.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut site = Self::here();
        if text.trim() == "here" {
            return Ok(site);
        }
        let (mut rtt_ns, mut said) = (2.0 * LATENCY_NS, Vec::new());
        for word in text.split_whitespace() {
            let usage = "write cores=N nics=NxRATE peers=N rtt=TIME memory=RATE, or `here`";
            let (key, value) = word.split_once('=').ok_or_else(|| format!("`{word}`: {usage}"))?;
            if said.contains(&key) {
                return Err(format!("`{word}`: {key} is said twice; leave one out"));
            }
            said.push(key);
            let number = || value.parse::<usize>().ok().filter(|n| (1..=1_000_000).contains(n));
            let wrong = |what: &str| format!("`{word}`: {what}");
            match key {
                "cores" => site.cores = number().ok_or_else(|| wrong("a number of CPUs"))? as f64,
                "peers" => site.peers = number().ok_or_else(|| wrong("a number of peers"))?,
                "nics" => {
                    site.nics = nics(value).ok_or_else(|| wrong("write 8x400Gbit/s, or 25GB/s for one"))?
                }
                "rtt" => {
                    rtt_ns =
                        pipeline_configs::units::nanos(value).map_err(|_| wrong("write 20us or 1ms"))? as f64;
                }
                "memory" => {
                    site.memory_bytes_per_s = Some(rate(value).ok_or_else(|| wrong("write 300GB/s"))?);
                }
                _ => return Err(format!("`{key}` is not known: {usage}")),
            }
        }
        if said.is_empty() {
            return Err("a machine is wanted: `here`, or as in cores=64 nics=8x400Gbit/s peers=1000".into());
        }
        if site.nics.is_empty() && said.contains(&"rtt") {
            return Err(
                "a way there and back has wires: say them, as in nics=1x100Gbit/s, or leave rtt out".into()
            );
        }
        // Every peer has lanes over every interface, and all of them are laid out before the first byte moves.
        let ways = site.nics.len().saturating_mul(site.peers);
        if ways > WAYS_MAX {
            return Err(format!(
                "{} interfaces to {} peers are {ways} ways, and the model lays out {WAYS_MAX} at most; what limits a machine with many \
                 peers shows with a thousand of them",
                site.nics.len(),
                site.peers
            ));
        }
        if site.nics.is_empty() && site.peers > 1 {
            return Err(
                "several peers are not on one machine: say their wires, as in nics=1x100Gbit/s".into()
            );
        }
        site.nics.iter_mut().for_each(|nic| nic.latency_ns = rtt_ns / 2.0);
        Ok(site)
    }

    /// In words.
    pub fn words(&self) -> String {
        let cores = self.cores;
        if self.is_here() {
            return format!("{cores} CPUs, a peer on the same CPUs over loopback");
        }
        let rate = self.nics[0].bytes_per_s.unwrap_or(0.0) * 8.0 / 1e9;
        let (nics, peers, rtt) = (self.nics.len(), self.peers, 2.0 * self.nics[0].latency_ns / 1e3);
        let memory =
            self.memory_bytes_per_s.map_or(String::new(), |b| format!(", memory {:.0} GB/s", b / 1e9));
        format!("{cores} CPUs, {nics} x {rate:.0} Gbit/s, {peers} peers, {rtt:.0} us there and back{memory}")
    }
}

fn nics(text: &str) -> Option<Vec<Nic>> {
    let (count, each) = match text.split_once('x') {
        Some((count, each)) => (count.parse::<usize>().ok()?, each),
        None => (1, text),
    };
    let nic = Nic { bytes_per_s: Some(rate(each)?), latency_ns: LATENCY_NS };
    (1..=1024).contains(&count).then(|| vec![nic; count])
}

/// `400Gbit/s` or `50GB/s`, in bytes a second.
fn rate(text: &str) -> Option<f64> {
    let text = text.strip_suffix("/s")?;
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(at);
    let factor = match unit {
        "Mbit" => 1e6 / 8.0,
        "Gbit" => 1e9 / 8.0,
        "Tbit" => 1e12 / 8.0,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|n| n * factor).filter(|rate| *rate > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What can be written is read as it is meant, what cannot is answered with what can.
    #[test]
    fn machines() {
        let site = Site::parse("cores=64 nics=8x400Gbit/s peers=1000 rtt=30us memory=300GB/s").unwrap();
        assert_eq!((site.cores, site.nics.len(), site.peers), (64.0, 8, 1000));
        assert_eq!(site.nics[7], Nic { bytes_per_s: Some(50e9), latency_ns: 15_000.0 });
        assert_eq!(site.memory_bytes_per_s, Some(300e9));
        assert!(!site.is_here() && Site::parse("here").unwrap().is_here());
        assert_eq!(Site::parse("nics=25GB/s").unwrap().nics[0].bytes_per_s, Some(25e9));
        let wrong = ["cores", "cores=0", "nics=8x400", "nics=0x1Gbit/s", "peers=7", "disks=2", "rtt=1"];
        for wrong in wrong.into_iter().chain(["", " ", "cores=64 cores=3"]) {
            assert!(Site::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Site::parse("disks=2").unwrap_err().contains("cores=N"));
        assert!(Site::parse("cores=8 rtt=5ms").unwrap_err().contains("leave rtt out"));
        assert!(Site::parse("nics=8x400Gbit/s peers=10000").is_ok());
        assert!(Site::parse("nics=8x400Gbit/s peers=1000000").unwrap_err().contains("8000000 ways"));
    }
}
