//! What things cost on a machine: the numbers that a calibration measures and a model is fed with.
//! Deliberately plain data that says its units: it is what a calibration file holds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::dice::Dice;

/// CPU time of one piece of work: so much each time, so much an item, so much a byte; nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Service {
    /// Each time that it is done at all.
    pub call_ns: f64,
    /// For each item of it.
    pub item_ns: f64,
    /// For each byte of payload.
    pub byte_ns: f64,
}

impl Service {
    /// For so many items of so many bytes in all.
    pub fn ns(&self, items: usize, bytes: u64) -> f64 {
        self.call_ns + self.item_ns * items as f64 + self.byte_ns * bytes as f64
    }
}

/// How single services vary around their mean, which is 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Variation {
    /// Not at all.
    #[default]
    None,
    /// As a Poisson process has it: for comparison with theory.
    Exponential,
    /// Equally likely factors, as measured.
    Factors(Vec<f64>),
}

impl Variation {
    /// One factor.
    pub fn draw(&self, dice: &mut Dice) -> f64 {
        match self {
            Self::None => 1.0,
            Self::Exponential => dice.exponential(),
            Self::Factors(factors) if factors.is_empty() => 1.0,
            Self::Factors(factors) => factors[dice.below(factors.len())],
        }
    }
}

/// What it costs to sleep and to be woken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sleep {
    /// From the ring until the sleeper runs, nanoseconds: no CPU time.
    pub wake_ns: f64,
    /// CPU time of the sleeper, to fall asleep and to wake.
    pub sleeper_ns: f64,
    /// CPU time of who rings.
    pub ringer_ns: f64,
    /// From the ring until one sees it who looks without sleeping, nanoseconds of its CPU time.
    pub look_ns: f64,
}

/// What an application does by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Caller {
    /// To submit a batch (call) of requests (item).
    pub submit: Service,
    /// To find a batch ended, and let go of it.
    pub collect_ns: f64,
}

/// A TCP connection as both kernels make it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Connection {
    /// Bytes that it holds which the reader has not taken.
    pub bytes: u64,
    /// Bytes that reach the reader together.
    pub segment: u64,
}

/// CPU time for a byte of payload that is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Read {
    /// Of who takes it in.
    pub initiator_ns: f64,
    /// Of who sends it.
    pub target_ns: f64,
}

/// What it costs threads to share a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sharing {
    /// How much more CPU time a byte takes: of what it takes alone.
    pub more: f64,
    /// Of the time of the CPU, what none of them gets.
    pub lost: f64,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// By type of stage. `wr_post` writes to sockets, `cq_reap` reads from them.
    pub stages: BTreeMap<String, Service>,
    /// How the services of a type vary.
    pub variation: BTreeMap<String, Variation>,
    /// The other end of a link: reading requests, and answering them.
    pub target: Service,
    /// How those vary.
    pub target_variation: Variation,
    /// Payload that goes the other way: from the other end.
    #[serde(default)]
    pub read: Read,
    /// Threads that share a CPU.
    #[serde(default)]
    pub sharing: Sharing,
    /// What the kernel does for a byte of payload beside those threads: timers and acknowledgements of TCP.
    pub kernel_byte_ns: f64,
    /// One turn of a worker in which anything moved, beside its stages.
    pub turn_ns: f64,
    /// To pass a batch (call) of items through a ring between two workers, both ends together.
    pub hop: Service,
    /// Sleeping, of who waits for another thread.
    pub sleep: Sleep,
    /// CPU time of who sleeps until a socket has something: falling asleep, waking, and being cold afterwards.
    pub socket_sleeper_ns: f64,
    /// The application.
    pub caller: Caller,
    /// Connections.
    pub connection: Connection,
}

impl Costs {
    /// Of a type of stage; of one that was never measured, and whose work is not known to grow with bytes, that of a
    /// stage which only passes on.
    pub fn stage(&self, kind: &str) -> Service {
        let usual = || self.stages.get("protocol_route").copied().unwrap_or_default();
        self.stages.get(kind).copied().unwrap_or_else(usual)
    }

    /// Whether time passes with them: where nothing takes any, what is asked of a model is asked again at the same instant, for ever.
    ///
    /// # Errors
    /// What makes no sense.
    pub fn check(&self) -> Result<(), String> {
        for kind in ["wr_post", "cq_reap"] {
            let Service { call_ns, item_ns, byte_ns } = self.stage(kind);
            let parts = [call_ns, item_ns, byte_ns];
            if parts.iter().any(|part| !part.is_finite() || *part < 0.0) || call_ns + item_ns <= 0.0 {
                return Err(format!(
                    "{kind} takes {call_ns} ns a call, {item_ns} ns a slice and {byte_ns} ns a byte"
                ));
            }
        }
        let rest = self.stages.values().chain([&self.target, &self.hop]);
        let mut rest = rest.flat_map(|service| [service.call_ns, service.item_ns, service.byte_ns]);
        match rest.find(|part| !part.is_finite() || *part < 0.0) {
            Some(part) => Err(format!("something takes {part} ns")),
            None => Ok(()),
        }
    }

    /// How services of a type vary.
    pub fn variation(&self, kind: &str) -> Variation {
        self.variation.get(kind).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service is the sum of its three parts; factors keep their mean.
    #[test]
    fn parts_and_factors() {
        let service = Service { call_ns: 100.0, item_ns: 10.0, byte_ns: 0.5 };
        assert_eq!(service.ns(3, 1000), 630.0);
        let variation = Variation::Factors(vec![0.5, 1.0, 1.5]);
        let mut dice = Dice::new(1);
        let mean = (0..30_000).map(|_| variation.draw(&mut dice)).sum::<f64>() / 30_000.0;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
        assert_eq!(Variation::None.draw(&mut dice), 1.0);
    }
}
