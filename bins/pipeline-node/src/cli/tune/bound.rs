//! `--bound`: what every candidate must keep to, before it runs (sizes) or by what was measured of it (figures).
//! Deliberately one comparison a bound: `threads<=4`, `gb_per_s>=2`.

use std::fmt;

use pipeline_configs::{suggest, units};

/// What a bound is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// Threads of all pools that carry transfers.
    Threads,
    /// Batches of each queue.
    Queue,
    /// Lanes of each transport.
    Lanes,
    /// Bytes of a slice.
    Slice,
    /// One of `[limits]`, which may be raised up to there.
    Limit(String),
    /// A key, by its path: `pools.nic.threads`.
    Path(String),
    /// A figure of the work.
    Figure(Figure),
}

/// A measured figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Nanoseconds: the median.
    P50,
    /// Nanoseconds.
    P99,
    /// 10⁹ bytes a second.
    GbPerS,
    /// CPU seconds of both sides for 10⁹ bytes.
    CpuSPerGb,
}

/// One bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// What it is about.
    pub about: About,
    /// At most, or at least.
    pub at_most: bool,
    /// Bytes, nanoseconds, or a plain number.
    pub value: f64,
    text: String,
}

const LIMITS: &[&str] = &["bytes_in_flight", "slices", "requests"];
const NAMES: &[&str] = &[
    "threads",
    "queue",
    "lanes",
    "slice",
    "bytes_in_flight",
    "slices",
    "requests",
    "p50",
    "p99",
    "gb_per_s",
    "cpu_s_per_gb",
];

impl Bound {
    /// As the option spells it.
    ///
    /// # Errors
    /// What may be written.
    pub fn parse(text: &str) -> Result<Self, String> {
        let at_most = text.split_once("<=").map(|(name, value)| (name, value, true));
        let at_least = || text.split_once(">=").map(|(name, value)| (name, value, false));
        let (name, value, at_most) = at_most
            .or_else(at_least)
            .ok_or_else(|| format!("`{text}` compares nothing; write 'threads<=4' or 'gb_per_s>=2'"))?;
        let (name, value) = (name.trim(), value.trim());
        let about = match name {
            "threads" => About::Threads,
            "queue" => About::Queue,
            "lanes" => About::Lanes,
            "slice" => About::Slice,
            limit if LIMITS.contains(&limit) => About::Limit(limit.to_owned()),
            "p50" => About::Figure(Figure::P50),
            "p99" => About::Figure(Figure::P99),
            "gb_per_s" => About::Figure(Figure::GbPerS),
            "cpu_s_per_gb" => About::Figure(Figure::CpuSPerGb),
            path if path.contains('.') || path.contains("->") => by_path(path)?,
            other => {
                let known = NAMES.iter().copied();
                return Err(format!(
                    "there is no `{other}` to bound; {}",
                    suggest::help(other, "names", known)
                ));
            }
        };
        if matches!(about, About::Limit(_)) && !at_most {
            return Err(format!("`{name}` is a limit: say how far it may be raised, '{name}<={value}'"));
        }
        Ok(Self { value: about.value(value)?, about, at_most, text: text.to_owned() })
    }

    /// Whether a value keeps to it.
    pub fn holds(&self, value: f64) -> bool {
        if self.at_most { value <= self.value } else { value >= self.value }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A key, as `--set` writes it too; which there are is for the file to say.
fn by_path(path: &str) -> Result<About, String> {
    if let Some(limit) = path.strip_prefix("limits.") {
        let help = || suggest::help(limit, "limits", LIMITS.iter().copied());
        return match LIMITS.contains(&limit) {
            true => Ok(About::Limit(limit.to_owned())),
            false => Err(format!("`limits.{limit}` is none that is raised; {}", help())),
        };
    }
    // An edge is known by its stages alone, and its size is that of its queue.
    let edge = path.strip_prefix("edges.").unwrap_or(path);
    let edge = edge.strip_suffix(".queue").unwrap_or(edge).trim_matches('"');
    Ok(About::Path(if edge.contains("->") { format!("\"{edge}\"") } else { path.to_owned() }))
}

impl About {
    /// What it is compared with, in the units of what it is about: a plain number, bytes, or nanoseconds.
    ///
    /// # Errors
    /// What may be written.
    fn value(&self, text: &str) -> Result<f64, String> {
        let plain = || text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        let size = || units::bytes(text).ok().map(|bytes| bytes as f64);
        let time = || units::nanos(text).ok().map(|ns| ns as f64);
        let (read, write) = match self {
            Self::Figure(Figure::P50 | Figure::P99) => (time(), "is no time: write 200us or 1ms"),
            Self::Slice => (plain().or_else(size), "is no size: write 64KiB"),
            Self::Limit(name) if name == "bytes_in_flight" => {
                (plain().or_else(size), "is no size: write 1GiB")
            }
            Self::Path(_) => {
                (plain().or_else(size).or_else(time), "is no number, size or time: write 4, 64KiB or 200us")
            }
            _ => (plain(), "is no number: write 4 or 2.5"),
        };
        read.ok_or_else(|| format!("`{text}` {write}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bounds are read with their units, either way round, and hold at their own value.
    #[test]
    fn bounds_are_read() {
        let bound = |text: &str| Bound::parse(text).unwrap();
        let p99 = bound("p99 <= 200us");
        assert_eq!((&p99.about, p99.value), (&About::Figure(Figure::P99), 200_000.0));
        assert!(p99.holds(200_000.0) && !p99.holds(200_001.0));
        let rate = bound("gb_per_s>=2.5");
        assert!(rate.holds(2.5) && !rate.holds(2.4));
        assert_eq!(bound("bytes_in_flight<=1GiB").value, f64::from(1 << 30));
        assert_eq!(bound("pools.nic.threads<=2").about, About::Path("pools.nic.threads".into()));
        assert_eq!(bound("threads<=4").to_string(), "threads<=4");
        assert_eq!(bound("limits.slices<=4096").about, About::Limit("slices".into()));
        for edge in ["edges.\"select -> post\".queue<=8", "\"select -> post\"<=8", "select -> post<=8"] {
            assert_eq!(bound(edge).about, About::Path("\"select -> post\"".into()), "{edge}");
        }
    }

    /// What compares nothing, names nothing, or has no number is refused with what may be written; a limit has no least.
    #[test]
    fn nonsense_is_refused() {
        let why = |text: &str| Bound::parse(text).unwrap_err();
        assert!(why("threads=4").contains("compares nothing"));
        assert!(why("thread<=4").contains("threads"));
        assert!(why("threads<=many").contains("no number"));
        assert!(why("slices>=4").contains("slices<=4"));
        assert!(why("p99<=-1").contains("no time"));
        assert!(why("p99<=200").contains("200us"), "a number without a unit would be nanoseconds");
        assert!(why("gb_per_s>=2GiB").contains("no number") && why("threads<=4us").contains("no number"));
        assert!(why("limits.slice<=4").contains("slices"));
    }
}
