//! The rows as JSON: one object a file, whose keys spell their units. A file without figures has the same keys, null, and
//! says why.

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::entrant::Why;
use super::figure::Figure;
use super::pairs::against_first;
use super::report::{Column, Place, Row};
use crate::cli::exit::Failure;
use crate::cli::interval::Estimate;
use crate::cli::load::Waiting;

/// An object whose keys stay in their order: a model is found at the head of its line.
struct Object(Vec<(String, Value)>);

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// One line for each file.
///
/// # Errors
/// 71: what cannot be written as JSON, which no figure is.
pub fn json(rows: &[Row<'_>], columns: &[Column], place: Place, rounds: Counted) -> Result<String, Failure> {
    let bare = rows.iter().find(|row| row.file.is_none());
    let files = (0..rows.len()).filter(|row| rows[*row].file.is_some());
    let line = |row| {
        let object = object((rows, row), bare, columns, place, rounds);
        serde_json::to_string(&object).map(|line| line + "\n")
    };
    files.map(line).collect::<Result<String, _>>().map_err(Failure::system)
}

/// Rounds, and what of them does not count.
#[derive(Clone, Copy)]
pub struct Counted {
    /// As asked.
    pub rounds: u64,
    /// Cells of a round whose bare loop was slow.
    pub left_out: usize,
    /// Cells of all rounds.
    pub cells: usize,
}

fn object(
    (rows, at): (&[Row<'_>], usize),
    bare: Option<&Row<'_>>,
    columns: &[Column],
    place: Place,
    rounds: Counted,
) -> Object {
    let row = &rows[at];
    let mut object = Vec::new();
    let mut put = |key: &str, value: Value| object.push((key.to_owned(), value));
    put("model", json!(row.model));
    put("file", json!(row.file));
    for column in columns {
        let figure = column.of(row);
        put(&column.key, median(figure));
        if column.is_spread {
            put(&format!("{}_least", column.key), json!(figure.map(|f| f.least)));
            put(&format!("{}_most", column.key), json!(figure.map(|f| f.most)));
            put(&format!("{}_rounds", column.key), json!(column.rounds(row)));
            put(&format!("{}_against_first", column.key), against(against_first(column, rows, at)));
        }
        if let Some(ceiling) = bare.and_then(|bare| column.of(bare)) {
            put(&format!("ceiling_{}", column.key), median(Some(ceiling)));
        }
    }
    put("spread_pct", json!(row.spread_pct(columns)));
    let ready = row.ready();
    put("return_bytes", json!(ready.map(|ready| ready.return_bytes)));
    put("spinning_threads", json!(ready.map(|ready| ready.application.spinning)));
    put("cpus", json!(place.cpus));
    put("over_subscribed", json!(ready.map(|_| row.is_over_subscribed())));
    put("application", json!(ready.map(|ready| &ready.application.words)));
    put("application_waits", json!(ready.map(|ready| waits(ready.application.waits))));
    put("replaced_transports", json!(ready.and_then(|ready| ready.replaced.as_ref())));
    put("rounds", json!(rounds.rounds));
    put("round_cells", json!(rounds.cells));
    put("round_cells_left_out", json!(rounds.left_out));
    let why = row.told.as_ref().err();
    put("not_applicable", json!(why.is_some_and(|why| matches!(why, Why::NotApplicable(_)))));
    put("why", json!(why.map(|why| why.text())));
    Object(object)
}

/// Percent; ends that so few rounds do not have are null.
fn against(first: Option<Estimate>) -> Value {
    let percent = |ln: f64| ln.is_finite().then(|| 100.0 * (ln.exp() - 1.0));
    first.map_or(Value::Null, |estimate| {
        let Estimate { mid, low, high, pairs } = estimate;
        json!({ "pct": percent(mid), "low_pct": percent(low), "high_pct": percent(high), "pairs": pairs })
    })
}

/// Bytes are whole.
fn median(figure: Option<Figure>) -> Value {
    match figure.map(|figure| figure.median) {
        Some(whole) if whole.fract() == 0.0 && (0.0..9e15).contains(&whole) => json!(whole as u64),
        other => json!(other),
    }
}

fn waits(waits: Waiting) -> &'static str {
    match waits {
        Waiting::Wait => "wait",
        Waiting::Poll => "poll",
        Waiting::Step => "step",
        Waiting::Epoll => "epoll",
    }
}
