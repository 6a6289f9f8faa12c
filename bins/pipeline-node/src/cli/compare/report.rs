//! From what was measured to rows and columns. Deliberately one list of columns for all three ways to print it, so that no two
//! of them can say different things.

use super::entrant::{Entrant, Ready, Why};
use super::figure::Figure;
use super::rounds::Results;
use crate::cli::bench::ceiling::Bare;
use crate::cli::work::{Course, Measured, Shape};

/// The size of batches whose CPU time a table shows.
const MIDDLE: u64 = 64 << 10;

/// A line of the table.
pub struct Row<'a> {
    /// What it is called.
    pub model: &'a str,
    /// Its file; `None` of the bare loop.
    pub file: Option<String>,
    /// What is known of it, if it ran.
    pub told: Result<Told<'a>, &'a Why>,
}

/// A row that has figures.
pub struct Told<'a> {
    /// By cell: the rounds that count.
    cells: Vec<Vec<Measured>>,
    /// By round.
    idle_pct: Vec<f64>,
    /// The file; `None` of the bare loop.
    pub ready: Option<&'a Ready>,
    /// More threads that do not sleep than CPUs.
    pub is_over_subscribed: bool,
}

/// Which figure of a column is the best one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Best {
    /// The least.
    Least,
    /// The most.
    Most,
    /// None: it is no merit of the file.
    None,
}

/// How a column finds its figure.
type Of = Box<dyn Fn(&Told<'_>) -> Option<Figure>>;
/// How it finds those of the rounds.
type Each = Box<dyn Fn(&Told<'_>) -> Option<Vec<f64>>>;

/// A column.
pub struct Column {
    /// Over its head, where several belong together.
    pub group: &'static str,
    /// Its head in a table.
    pub head: String,
    /// Its key in JSON, with its unit.
    pub key: String,
    /// What is good.
    pub best: Best,
    /// Whether its least and most are told as well.
    pub is_spread: bool,
    /// Whether a table has room for it; JSON has them all.
    pub is_shown: bool,
    of: Of,
    rounds: Each,
}

impl Column {
    fn new(group: &'static str, head: &str, key: &str, best: Best, cell: usize, metric: Metric) -> Self {
        let of = move |told: &Told<'_>| told.figure(cell, metric);
        let rounds = Box::new(move |told: &Told<'_>| told.rounds(cell, metric));
        let (head, key) = (head.to_owned(), key.to_owned());
        Self { group, head, key, best, is_spread: false, is_shown: true, of: Box::new(of), rounds }
    }

    fn spread(self) -> Self {
        Self { is_spread: true, ..self }
    }

    /// Its figure of a row.
    pub fn of(&self, row: &Row<'_>) -> Option<Figure> {
        row.told.as_ref().ok().and_then(|told| (self.of)(told))
    }

    /// The figures of its rounds, in their order: whoever holds two files against each other pairs them.
    pub fn rounds(&self, row: &Row<'_>) -> Option<Vec<f64>> {
        row.told.as_ref().ok().and_then(|told| (self.rounds)(told))
    }
}

type Metric = fn(&Measured) -> Option<f64>;

impl Told<'_> {
    fn figure(&self, cell: usize, metric: Metric) -> Option<Figure> {
        Figure::of(self.rounds(cell, metric)?)
    }

    fn rounds(&self, cell: usize, metric: Metric) -> Option<Vec<f64>> {
        self.cells.get(cell)?.iter().map(metric).collect()
    }
}

/// The columns of a piece of work, in the order of the table.
pub fn columns(course: &Course) -> Vec<Column> {
    let single = |group, head, key, metric| Column::new(group, head, key, Best::Least, 0, metric);
    let mut columns = vec![
        single("a request", "hops", "hops_per_request", |m| m.hops),
        single("a request", "wakes", "wakeups_per_request", |m| m.wakeups),
        single("one at a time, us", "p50", "p50_us", |m| Some(m.p50_us)).spread(),
        single("one at a time, us", "p99", "p99_us", |m| Some(m.p99_us)),
        single("one at a time, us", "p99.9", "p999_us", |m| m.p999_us),
    ];
    if course.is_told() {
        columns[2..].iter_mut().for_each(|column| column.group = "requests, us");
        columns.extend(rates(0, "", ""));
        columns.extend(cpu(0, "", true));
    } else {
        let cpu_us = |m: &Measured| Some(m.cpu_us_per_request);
        let key = "cpu_us_per_request_initiator";
        columns.push(single("CPU us", "request", key, cpu_us));
        let batches = || course.shapes.iter().enumerate().skip(1);
        // Rates of all sizes stand beside each other.
        let all: Vec<Column> =
            batches().flat_map(|(cell, shape)| rates(cell, short(shape), &suffix(shape))).collect();
        let (gb, slices): (Vec<_>, Vec<_>) = all.into_iter().partition(|column| column.group == "GB/s");
        columns.extend(gb.into_iter().chain(slices));
        columns.extend(batches().flat_map(|(cell, shape)| cpu(cell, &suffix(shape), shape.bytes == MIDDLE)));
    }
    columns.extend(fixed());
    columns
}

/// Columns of one kind of batch.
fn rates(cell: usize, head: &str, suffix: &str) -> [Column; 2] {
    let key = |unit: &str| format!("{unit}{suffix}");
    [
        Column::new("GB/s", head, &key("gb_per_s"), Best::Most, cell, |m| Some(m.gb_per_s)).spread(),
        Column::new("Mslices/s", head, &key("mslices_per_s"), Best::Most, cell, |m| m.mslices_per_s),
    ]
}

fn cpu(cell: usize, suffix: &str, is_shown: bool) -> [Column; 2] {
    let group = if suffix.is_empty() { "CPU s/GB" } else { "CPU s/GB 64K" };
    let key = |side: &str| format!("cpu_s_per_gb_{side}{suffix}");
    let column =
        |head, key, best, metric| Column { is_shown, ..Column::new(group, head, key, best, cell, metric) };
    [
        column("ini", &key("initiator"), Best::Least, |m| Some(m.cpu_initiator)),
        column("tgt", &key("target"), Best::None, |m| m.cpu_target),
    ]
}

/// What does not depend on the work.
fn fixed() -> Vec<Column> {
    let column = |head: &str, key: &str, best, of: Of| Column {
        group: "",
        head: head.into(),
        key: key.into(),
        best,
        is_spread: false,
        is_shown: true,
        of,
        rounds: Box::new(|_| None),
    };
    let of_file = |what: fn(&Ready) -> u64| -> Of {
        Box::new(move |told| Figure::of(told.ready.map(|ready| what(ready) as f64)))
    };
    vec![
        column(
            "idle%",
            "idle_cpu_pct",
            Best::Least,
            Box::new(|told| Figure::of(told.idle_pct.iter().copied())),
        ),
        column("queues", "queue_bytes", Best::Least, of_file(|ready| ready.queue_bytes)),
    ]
}

/// `4K`.
fn short(shape: &Shape) -> &'static str {
    match shape.bytes {
        4096 => "4K",
        65_536 => "64K",
        _ => "1M",
    }
}

/// `_4kib`.
fn suffix(shape: &Shape) -> String {
    let (number, unit) = match shape.bytes >> 20 {
        0 => (shape.bytes >> 10, "kib"),
        mib => (mib, "mib"),
    };
    format!("_{number}{unit}")
}

/// Where it was measured.
#[derive(Clone, Copy)]
pub struct Place {
    /// How many CPUs this process may use.
    pub cpus: usize,
    /// Whether the target uses them too.
    pub has_target: bool,
}

/// All rows: the files in the order of the command line, then the bare loop.
pub fn rows<'a>(
    entrants: &'a [Entrant],
    results: &Results,
    course: &Course,
    bare: &'a str,
    place: Place,
) -> Vec<Row<'a>> {
    let row = |(entrant, (cells, idle_pct)): (&'a Entrant, (&Vec<Vec<Measured>>, &Vec<f64>))| Row {
        model: &entrant.model,
        file: Some(entrant.file.display().to_string()),
        told: entrant.state.as_ref().map(|ready| Told {
            cells: cells.iter().zip(&results.counts).map(|(cell, counts)| kept(cell, counts)).collect(),
            idle_pct: idle_pct.clone(),
            ready: Some(ready),
            is_over_subscribed: ready.application.is_over_subscribed(place.cpus, place.has_target),
        }),
    };
    let mut rows: Vec<Row<'a>> =
        entrants.iter().zip(results.cells.iter().zip(&results.idle_pct)).map(row).collect();
    if results.bare.iter().any(|cell| !cell.is_empty()) {
        let measured = |(cell, shape): (&Vec<Bare>, &Shape)| -> Vec<Measured> {
            cell.iter().map(|bare| Measured::bare(bare, shape.bytes)).collect()
        };
        let cells = results.bare.iter().zip(&course.shapes).map(measured).zip(&results.counts);
        let cells = cells.map(|(cell, counts)| kept(&cell, counts)).collect();
        let told = Told { cells, idle_pct: Vec::new(), ready: None, is_over_subscribed: false };
        rows.push(Row { model: bare, file: None, told: Ok(told) });
    }
    rows
}

fn kept(cell: &[Measured], counts: &[bool]) -> Vec<Measured> {
    cell.iter().zip(counts).filter(|(_, counts)| **counts).map(|(one, _)| *one).collect()
}

impl Row<'_> {
    /// How far its rounds lie apart at most, percent of the median, over the columns that tell it.
    pub fn spread_pct(&self, columns: &[Column]) -> Option<f64> {
        let told = columns.iter().filter(|column| column.is_spread).filter_map(|column| column.of(self));
        told.filter_map(Figure::spread_pct).reduce(f64::max)
    }

    /// The file that it is about, if it ran.
    pub fn ready(&self) -> Option<&Ready> {
        self.told.as_ref().ok().and_then(|told| told.ready)
    }

    /// Whether it is marked.
    pub fn is_over_subscribed(&self) -> bool {
        self.told.as_ref().is_ok_and(|told| told.is_over_subscribed)
    }
}
