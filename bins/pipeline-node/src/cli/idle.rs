//! What idle CPUs of this machine do, as far as whoever waits for a wake-up pays for it: a CPU of a virtual machine that halts is
//! started again by the host, and a core that sleeps deeply takes its time. What that costs, and what it costs to avoid it, was measured
//! in docs/tuning.md.
//!
//! Deliberately read and never changed: it is a setting of the whole machine, and belongs to its owner.

use std::fs;
use std::path::Path;

/// A core that takes longer to wake is told of: about what a request takes from end to end.
const LONG_US: u64 = 20;

/// See the file's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Idle {
    /// The kernel does not tell.
    Untold,
    /// A virtual machine whose idle CPUs halt at once.
    Halts,
    /// A virtual machine whose idle CPUs look for work first, for up to so many nanoseconds.
    Polls(u64),
    /// The deepest state that is allowed, and how long it takes to leave it, as the kernel has it.
    Sleeps {
        /// Its name.
        state: String,
        /// Microseconds.
        exit_us: u64,
    },
}

impl Idle {
    /// Of the machine whose `/sys` is below `root`.
    pub fn of(root: &Path) -> Self {
        let cpuidle = root.join("sys/devices/system/cpu/cpuidle");
        match (text(&cpuidle.join("current_driver")), text(&cpuidle.join("current_governor"))) {
            // With another governor this driver's states are those of any other.
            (Some(driver), Some(governor)) if driver == "haltpoll" && governor == "haltpoll" => {
                match number(&root.join("sys/module/haltpoll/parameters/guest_halt_poll_ns")) {
                    Some(0) => Self::Halts,
                    Some(ns) => Self::Polls(ns),
                    None => Self::Untold,
                }
            }
            (Some(_), _) => deepest(&root.join("sys/devices/system/cpu/cpu0/cpuidle")),
            (None, _) => Self::Untold,
        }
    }

    /// `idle CPUs halt at once`; nothing where it is not told.
    pub fn words(&self) -> Option<String> {
        match self {
            Self::Untold => None,
            Self::Halts => Some("idle CPUs halt at once".into()),
            Self::Polls(ns) => Some(format!("idle CPUs poll for up to {} us before they halt", ns / 1_000)),
            Self::Sleeps { state, exit_us } => {
                Some(format!("idle CPUs sleep as deep as {state}, {exit_us} us to wake"))
            }
        }
    }

    /// What makes wake-ups cheaper, where they need not cost what they do.
    pub fn mend(&self) -> Option<String> {
        match self {
            Self::Halts => Some(
                "for latency try echo 200000 > /sys/module/haltpoll/parameters/guest_halt_poll_ns (to stay: haltpoll.guest_halt_poll_ns=200000 \
                 on the kernel's command line), or [node] cpu_dma_latency = \"0us\"; either may cost throughput where two CPUs \
                 share a core: docs/tuning.md"
                    .into(),
            ),
            Self::Sleeps { exit_us, .. } if *exit_us >= LONG_US => {
                Some(format!("cpupower idle-set -D {LONG_US}, or [node] cpu_dma_latency = \"{LONG_US}us\" (for latency; costs power)"))
            }
            _ => None,
        }
    }
}

fn deepest(states: &Path) -> Idle {
    let folders = fs::read_dir(states).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_allowed = |state: &Path| number(&state.join("disable")).is_none_or(|disabled| disabled == 0);
    let told = |state: &Path| Some((number(&state.join("latency"))?, text(&state.join("name"))?));
    let allowed = folders.filter(|state| is_allowed(state)).filter_map(|state| told(&state));
    match allowed.max() {
        Some((exit_us, state)) => Idle::Sleeps { state, exit_us },
        None => Idle::Untold,
    }
}

fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?.trim().to_owned();
    (!text.is_empty() && text != "none").then_some(text)
}

fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join("sys").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        root
    }

    fn guest(poll_ns: &str) -> Idle {
        let root = machine(&[
            ("devices/system/cpu/cpuidle/current_driver", "haltpoll"),
            ("devices/system/cpu/cpuidle/current_governor", "haltpoll"),
            ("module/haltpoll/parameters/guest_halt_poll_ns", poll_ns),
        ]);
        Idle::of(root.path())
    }

    /// A virtual machine says whether its idle CPUs halt at once, and what to do about it only if they do.
    #[test]
    fn of_a_virtual_machine() {
        assert_eq!(guest("0"), Idle::Halts);
        assert!(guest("0").mend().is_some_and(|mend| mend.contains("guest_halt_poll_ns")));
        assert_eq!(guest("200000"), Idle::Polls(200_000));
        assert_eq!(guest("200000").mend(), None);
        assert_eq!(guest("many"), Idle::Untold);
    }

    /// Of a machine of its own the deepest state counts that is allowed; one that wakes soon is no reason to change anything, and
    /// one without a driver tells nothing.
    #[test]
    fn of_a_machine_of_its_own() {
        let cpu0 = "devices/system/cpu/cpu0/cpuidle";
        let states = |c6_disabled: &str| {
            let state = |i: u32, name: &str, latency: &str, disabled: &str| {
                [("name", name), ("latency", latency), ("disable", disabled)]
                    .map(|(file, text)| (format!("{cpu0}/state{i}/{file}"), text.to_owned()))
            };
            let all =
                [state(0, "POLL", "0", "0"), state(1, "C1E", "10", "0"), state(2, "C6", "133", c6_disabled)];
            let mut files = all.concat();
            files.push(("devices/system/cpu/cpuidle/current_driver".into(), "intel_idle".into()));
            let files: Vec<(&str, &str)> =
                files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
            Idle::of(machine(&files).path())
        };
        let (deep, shallow) = (states("0"), states("1"));
        assert_eq!(deep, Idle::Sleeps { state: "C6".into(), exit_us: 133 });
        assert!(deep.mend().is_some());
        assert_eq!(shallow, Idle::Sleeps { state: "C1E".into(), exit_us: 10 });
        assert_eq!(shallow.mend(), None);
        let none = machine(&[("devices/system/cpu/cpuidle/current_driver", "none")]);
        assert_eq!((Idle::of(none.path()), Idle::of(none.path()).words()), (Idle::Untold, None));
    }
}
