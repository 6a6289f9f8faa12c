//! `wait` of a pool: a word, or a table of the three thresholds.

use pipeline_graph::blueprint::Wait;

use crate::body::{self, Form};
use crate::codes;
use crate::finding::Finding;
use crate::schema::{Change, Key, Kind, Values};
use crate::suggest;
use crate::tree::{Node, Tree};
use crate::units::show_nanos;
use crate::value::Scope;

/// A microsecond of CPU is worth a quarter of one of latency: then it pays to stay awake while somebody else in the same
/// loop sleeps, and each of its gaps is the other's wake-up, which varies by a factor of three.
const PRICE_PERCENT: u64 = 25;

/// `wait = "adaptive"`, and a pool that says nothing.
pub const ADAPTIVE: Wait = Wait { adaptive: true, ..fixed(20_000, 180_000, 1_000_000_000) };

const WORDS: &[(&str, Wait)] = &[
    ("spin", fixed(u64::MAX, 0, 0)),
    ("yield", fixed(0, u64::MAX, 0)),
    ("park", fixed(0, 0, 1_000_000_000)),
    ("adaptive", ADAPTIVE),
];

const fn fixed(spin_ns: u64, yield_ns: u64, park_ns: u64) -> Wait {
    Wait { spin_ns, yield_ns, park_ns, adaptive: false, price_percent: PRICE_PERCENT }
}

/// `wait` of a pool as a key: one of the words, or a table of [`KEYS`].
pub const WAIT: Key = Key {
    name: "wait",
    kind: Kind::Word(&["spin", "yield", "park", "adaptive"]),
    default: Some("adaptive"),
    required: false,
    doc: "How its threads wait for work: a word, or a table of thresholds.",
    change: Change::Live,
    ..Key::PLAIN
};

const fn time(name: &'static str, default: &'static str, max_ns: u64, doc: &'static str) -> Key {
    let kind = Kind::Time { min_ns: 0, max_ns };
    Key { name, kind, default: Some(default), required: false, doc, change: Change::Live, ..Key::PLAIN }
}

/// Keys of the table form.
pub const KEYS: &[Key] = &[
    time("spin", "0s", 3_600_000_000_000, "Spin this long with `pause` before anything else."),
    time("yield", "0s", 3_600_000_000_000, "Then give the CPU away between looks for this long."),
    time("park", "1s", 3_600_000_000_000, "Then sleep, at most this long at a time; 0s: never sleep."),
    Key {
        name: "adaptive",
        kind: Kind::Flag,
        default: Some("false"),
        required: false,
        doc: "Whether it learns how long to spin and yield, with the times as bounds, from its gaps and from what a sleep costs it.",
        change: Change::Live,
        ..Key::PLAIN
    },
    Key {
        name: "price",
        kind: Kind::Percent { min: 1, max: 10_000 },
        default: Some("25%"),
        required: false,
        doc: "For adaptive: what CPU time is worth, in latency. 25%: it spends up to 4 µs of a CPU to find work 1 µs sooner.",
        change: Change::Live,
        ..Key::PLAIN
    },
];

/// As TOML: the word that means it, or the table.
pub fn written(wait: &Wait) -> String {
    if let Some((word, _)) = WORDS.iter().find(|(_, means)| means == wait) {
        return format!("\"{word}\"");
    }
    let times = [("spin", wait.spin_ns), ("yield", wait.yield_ns), ("park", wait.park_ns)];
    let mut keys: Vec<String> =
        times.iter().map(|(key, ns)| format!("{key} = \"{}\"", show_nanos(*ns))).collect();
    if wait.adaptive {
        keys.push("adaptive = true".to_owned());
        if wait.price_percent != PRICE_PERCENT {
            keys.push(format!("price = \"{}%\"", wait.price_percent));
        }
    }
    format!("{{ {} }}", keys.join(", "))
}

/// Reads it; what cannot be read counts as adaptive, with a finding.
pub fn read(pool: &str, node: &Node, scope: &mut Scope<'_>) -> Wait {
    let names = || WORDS.iter().map(|(name, _)| *name);
    match &node.value {
        Tree::Text(word) => {
            if let Some((_, wait)) = WORDS.iter().find(|(name, _)| name == word) {
                return *wait;
            }
            let finding = Finding::error(codes::WAIT, node.span, format!("`wait` cannot be \"{word}\""));
            let table = "or a table: { spin = \"20us\", yield = \"180us\", park = \"1s\" }";
            scope.report.push(finding.help(suggest::help(word, "words", names())).help(table));
            ADAPTIVE
        }
        Tree::Table(table) => {
            let form = Form::new(format!("`wait` of pool `{pool}`"), KEYS);
            let body = body::read(table, node.span, &form, scope);
            if let Some(at) = body.spans.get("price").filter(|_| !body.values.flag("adaptive")) {
                let message = format!("`price` of pool `{pool}` has no effect: its `wait` does not adapt");
                let finding = Finding::warning(codes::WAIT_PRICE, *at, message);
                let help =
                    "add adaptive = true, so that it weighs CPU time against latency, or take `price` out";
                scope.report.push(finding.help(help));
            }
            typed(&body.values)
        }
        other => {
            let message = format!("`wait` must be a word or a table, not {}", other.type_name());
            let words: Vec<&str> = names().collect();
            let finding = Finding::error(codes::WAIT, node.span, message);
            scope.report.push(finding.help(format!("words: {}", suggest::list(&words))));
            ADAPTIVE
        }
    }
}

fn typed(values: &Values) -> Wait {
    let nanos = |key| values.time(key).map_or(0, |t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX));
    Wait {
        spin_ns: nanos("spin"),
        yield_ns: nanos("yield"),
        park_ns: nanos("park"),
        adaptive: values.flag("adaptive"),
        price_percent: values.number("price").unwrap_or(PRICE_PERCENT),
    }
}
