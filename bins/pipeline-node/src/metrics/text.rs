//! A recorder that keeps what it is told and renders it as Prometheus text. Made anew for each scrape by the endpoint, which
//! exports a whole observation into it; an application may as well keep one.
//!
//! Deliberately for one thread at a time to write much: one lock over all series.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use ::metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

use super::names::{Kind, METRICS};

/// Upper bounds of the buckets: 2^10 ns (1 µs) to 2^35 ns (34 s), doubling. They are bounds of the engine's own buckets, so
/// what it counted falls on the right side of each.
const BOUNDS: std::ops::RangeInclusive<u32> = 10..=35;
const BUCKETS: usize = (*BOUNDS.end() - *BOUNDS.start()) as usize + 1;

/// The bounds in seconds: as numbers, and as they are written.
static LIMITS: LazyLock<Vec<(f64, String)>> = LazyLock::new(|| {
    let seconds = |power: u32| (1u64 << power) as f64 / 1e9;
    BOUNDS.map(|power| (seconds(power), seconds(power).to_string())).collect()
});

/// See the module. Cheap to clone: clones are the same recorder.
#[derive(Clone, Default)]
pub struct Text(Arc<Mutex<Families>>);

/// All series, in the order in which their families were first named.
#[derive(Default)]
struct Families {
    by_name: HashMap<String, usize>,
    all: Vec<Family>,
}

#[derive(Default)]
struct Family {
    name: String,
    help: String,
    kind: Option<Kind>,
    by_labels: HashMap<String, usize>,
    series: Vec<Arc<Series>>,
}

/// One series: a number, or a histogram whose sum is that number.
struct Series {
    /// As they are written, without braces.
    labels: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    value: f64,
    /// Values in each bucket and, last, above all bounds; empty for a number.
    counts: Vec<u64>,
}

impl Text {
    /// What has been recorded so far, in the text format of Prometheus, version 0.0.4.
    pub fn render(&self) -> String {
        let families = self.lock();
        let mut out = String::with_capacity(64 << 10);
        for family in families.all.iter().filter(|family| !family.series.is_empty()) {
            family.render(&mut out);
        }
        out
    }

    /// The value of a counter or gauge, or the sum of a histogram; `None` if nobody has recorded it.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let families = self.lock();
        let family = &families.all[*families.by_name.get(name)?];
        let series = &family.series[*family.by_labels.get(&written(labels.iter().copied()))?];
        Some(series.lock().value)
    }

    fn lock(&self) -> MutexGuard<'_, Families> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn describe(&self, name: &str, kind: Kind, help: &str) {
        let mut families = self.lock();
        let family = families.named(name, kind);
        help.clone_into(&mut family.help);
    }

    /// `None` for a histogram of a name whose series are numbers, and for a number among histograms: text of both would not be
    /// read, so who comes second is not recorded.
    fn series(&self, key: &Key, kind: Kind) -> Option<Arc<Series>> {
        let mut families = self.lock();
        let family = families.named(key.name(), kind);
        if (family.kind == Some(Kind::Histogram)) != (kind == Kind::Histogram) {
            return None;
        }
        let labels = written(key.labels().map(|label| (label.key(), label.value())));
        if let Some(at) = family.by_labels.get(&labels) {
            return Some(family.series[*at].clone());
        }
        let counts = if kind == Kind::Histogram { vec![0; BUCKETS + 1] } else { Vec::new() };
        let state = Mutex::new(State { value: 0.0, counts });
        let series = Arc::new(Series { labels: labels.clone(), state });
        family.by_labels.insert(labels, family.series.len());
        family.series.push(series.clone());
        Some(series)
    }
}

impl Families {
    fn named(&mut self, name: &str, kind: Kind) -> &mut Family {
        let at = match self.by_name.get(name) {
            Some(at) => *at,
            None => {
                self.by_name.insert(name.to_owned(), self.all.len());
                // What the facade calls a gauge may be a counter of ours, with fractions.
                let ours = METRICS.iter().find(|metric| metric.name == name).map(|metric| metric.kind);
                let kind = Some(ours.unwrap_or(kind));
                self.all.push(Family { name: name.to_owned(), kind, ..Family::default() });
                self.all.len() - 1
            }
        };
        &mut self.all[at]
    }
}

impl Family {
    fn render(&self, out: &mut String) {
        let Self { name, help, .. } = self;
        if !help.is_empty() {
            let _ = writeln!(out, "# HELP {name} {}", help.replace('\\', r"\\").replace('\n', r"\n"));
        }
        let _ = writeln!(out, "# TYPE {name} {}", self.kind.map_or("untyped", Kind::name));
        for series in &self.series {
            let (labels, state) = (&series.labels, series.lock());
            if state.counts.is_empty() {
                line(out, name, "", labels, format_args!("{}", Number(state.value)));
                continue;
            }
            let mut below = 0;
            let comma = if labels.is_empty() { "" } else { "," };
            for (count, bound) in
                state.counts.iter().zip(LIMITS.iter().map(|(_, text)| text.as_str()).chain(["+Inf"]))
            {
                below = u64::saturating_add(below, *count);
                let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {below}");
            }
            line(out, name, "_sum", labels, format_args!("{}", Number(state.value)));
            line(out, name, "_count", labels, format_args!("{below}"));
        }
    }
}

fn line(out: &mut String, name: &str, suffix: &str, labels: &str, value: std::fmt::Arguments<'_>) {
    let _ = match labels.is_empty() {
        true => writeln!(out, "{name}{suffix} {value}"),
        false => writeln!(out, "{name}{suffix}{{{labels}}} {value}"),
    };
}

/// A number as Prometheus reads it.
struct Number(f64);

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            v if v.is_nan() => f.write_str("NaN"),
            v if v.is_infinite() => f.write_str(if v > 0.0 { "+Inf" } else { "-Inf" }),
            v => write!(f, "{v}"),
        }
    }
}

/// Labels as they are written, without braces.
fn written<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut out = String::new();
    for (key, value) in labels {
        let comma = if out.is_empty() { "" } else { "," };
        let _ = write!(out, "{comma}{key}=\"");
        for c in value.chars() {
            match c {
                '\\' => out.push_str(r"\\"),
                '"' => out.push_str("\\\""),
                '\n' => out.push_str(r"\n"),
                c => out.push(c),
            }
        }
        out.push('"');
    }
    out
}

impl Series {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CounterFn for Series {
    fn increment(&self, value: u64) {
        self.lock().value += value as f64;
    }

    fn absolute(&self, value: u64) {
        let mut state = self.lock();
        state.value = state.value.max(value as f64);
    }
}

impl GaugeFn for Series {
    fn increment(&self, value: f64) {
        self.lock().value += value;
    }

    fn decrement(&self, value: f64) {
        self.lock().value -= value;
    }

    fn set(&self, value: f64) {
        self.lock().value = value;
    }
}

impl HistogramFn for Series {
    fn record(&self, value: f64) {
        self.record_many(value, 1);
    }

    fn record_many(&self, value: f64, count: usize) {
        let at = LIMITS.partition_point(|(bound, _)| *bound < value);
        let mut state = self.lock();
        state.value += value * count as f64;
        state.counts[at] = state.counts[at].saturating_add(count as u64);
    }
}

impl Recorder for Text {
    fn describe_counter(&self, key: KeyName, _: Option<Unit>, description: SharedString) {
        self.describe(key.as_str(), Kind::Counter, &description);
    }

    fn describe_gauge(&self, key: KeyName, _: Option<Unit>, description: SharedString) {
        self.describe(key.as_str(), Kind::Gauge, &description);
    }

    fn describe_histogram(&self, key: KeyName, _: Option<Unit>, description: SharedString) {
        self.describe(key.as_str(), Kind::Histogram, &description);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.series(key, Kind::Counter).map_or_else(Counter::noop, Counter::from_arc)
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.series(key, Kind::Gauge).map_or_else(Gauge::noop, Gauge::from_arc)
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        self.series(key, Kind::Histogram).map_or_else(Histogram::noop, Histogram::from_arc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use ::metrics::{Label, Level};

    const META: Metadata<'static> = Metadata::new("test", Level::INFO, None);

    fn key(name: &'static str, labels: &[(&'static str, &'static str)]) -> Key {
        Key::from_parts(name, labels.iter().map(|(k, v)| Label::new(*k, *v)).collect::<Vec<_>>())
    }

    /// The text has a head for each name and a line for each series, in the order of their coming; the same key is the same
    /// series, and what labels and help may hold is escaped.
    #[test]
    fn numbers_as_text() {
        let text = Text::default();
        text.describe_gauge("a".into(), None, "Says \\ and\nmore.".into());
        text.describe_gauge("unused".into(), None, "Is not there.".into());
        text.register_gauge(&key("a", &[]), &META).set(-1.5);
        for (more, peer) in [(3, "x"), (4, "q\"\\\n"), (u64::MAX >> 12, "x")] {
            text.register_counter(&key("b_total", &[("peer", peer)]), &META).increment(more);
        }
        text.register_gauge(&key("c", &[]), &META).set(f64::INFINITY);
        let want = "# HELP a Says \\\\ and\\nmore.\n# TYPE a gauge\na -1.5\n# TYPE b_total counter\n\
                    b_total{peer=\"x\"} 4503599627370498\nb_total{peer=\"q\\\"\\\\\\n\"} 4\n# TYPE c gauge\nc +Inf\n";
        assert_eq!(text.render(), want);
        assert_eq!(text.value("b_total", &[("peer", "q\"\\\n")]), Some(4.0));
        assert_eq!(text.value("b_total", &[]), None);
    }

    /// Buckets are cumulative, a value on a bound counts below it, and `_sum` and `_count` are those of all values.
    #[test]
    fn histograms_as_text() {
        let text = Text::default();
        let times = text.register_histogram(&key("t_seconds", &[("stage", "post")]), &META);
        times.record(1.024e-6);
        times.record_many(1.025e-6, 5);
        times.record(40.0);
        let text = text.render();
        let has = |line: &str| assert!(text.contains(&format!("\n{line}\n")), "{line} in {text}");
        has("t_seconds_bucket{stage=\"post\",le=\"0.000001024\"} 1");
        has("t_seconds_bucket{stage=\"post\",le=\"0.000002048\"} 6");
        has("t_seconds_bucket{stage=\"post\",le=\"34.359738368\"} 6");
        has("t_seconds_bucket{stage=\"post\",le=\"+Inf\"} 7");
        has("t_seconds_count{stage=\"post\"} 7");
        has("t_seconds_sum{stage=\"post\"} 40.000006149");
        assert_eq!(text.lines().filter(|line| line.contains("_bucket")).count(), BUCKETS + 1);
    }

    /// A name has one kind of series, that of who came first: the others record nothing, and nothing that is recorded ends in a
    /// panic, however much of it there is.
    #[test]
    fn a_name_has_one_kind() {
        let text = Text::default();
        text.register_counter(&key("a", &[]), &META).increment(2);
        text.register_histogram(&key("a", &[]), &META).record(1.0);
        text.register_histogram(&key("a", &[("of", "others")]), &META).record(1.0);
        let times = text.register_histogram(&key("t", &[]), &META);
        times.record_many(1.0, usize::MAX);
        times.record_many(1.0, usize::MAX);
        times.record_many(1e-9, 1);
        text.register_gauge(&key("t", &[]), &META).set(7.0);
        let text = text.render();
        assert!(text.starts_with("# TYPE a counter\na 2\n# TYPE t histogram\n"), "{text}");
        assert!(text.ends_with(&format!("\nt_count {}\n", u64::MAX)), "{text}");
    }
}
