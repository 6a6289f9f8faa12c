//! Every file against the first one, round by round: by how much its figures differ, and between which bounds that lies. Medians
//! beside each other cannot say that: what the machine does to both in a round, and what it does to one of them, is in both alike.
//!
//! Deliberately no verdict: what a difference is worth, its reader knows.

use super::report::{Column, Row};
use crate::cli::interval::Estimate;

/// How sure the intervals are.
const SURE: f64 = 0.95;

/// How many times as large a figure of a file is as that of the first one, as a logarithm; `None` where either has none, or where
/// it is the first.
pub fn against_first(column: &Column, rows: &[Row<'_>], row: usize) -> Option<Estimate> {
    if row == 0 || rows[row].file.is_none() || !column.is_spread {
        return None;
    }
    let (first, other) = column.rounds(&rows[0]).zip(column.rounds(&rows[row]))?;
    let pairs: Vec<f64> = first.iter().zip(&other).map(|(first, other)| (other / first).ln()).collect();
    let is_whole =
        first.len() == other.len() && !pairs.is_empty() && pairs.iter().all(|pair| pair.is_finite());
    is_whole.then(|| Estimate::of(&pairs, SURE))
}

/// What is told of each file but the first: its model, and its figures. Nothing where there is one file, or one round.
fn told<'a>(rows: &'a [Row<'_>], columns: &[Column]) -> Vec<(&'a str, String)> {
    let figures = |row: usize| {
        let told = columns.iter().filter_map(|column| {
            let estimate = against_first(column, rows, row).filter(|estimate| estimate.pairs > 1)?;
            Some(format!("{} {}", name(column), estimate.words()))
        });
        told.collect::<Vec<_>>().join(", ")
    };
    let told = (1..rows.len()).map(|row| (rows[row].model, figures(row)));
    told.filter(|(_, figures)| !figures.is_empty()).collect()
}

/// For people: a head, and a line a file.
pub fn words(rows: &[Row<'_>], columns: &[Column]) -> String {
    let told = told(rows, columns);
    let longest = told.iter().map(|(model, _)| model.chars().count()).max().unwrap_or(0);
    let lines = told.iter().map(|(model, figures)| format!("  {model:<longest$}  {figures}\n"));
    match told.is_empty() {
        true => String::new(),
        false => format!("against {}, round by round, at 95 %\n{}", rows[0].model, lines.collect::<String>()),
    }
}

/// The same as a list, with an empty line behind it.
pub fn markdown(rows: &[Row<'_>], columns: &[Column]) -> String {
    let told = told(rows, columns);
    let lines = told.iter().map(|(model, figures)| format!("* `{model}`: {figures}\n"));
    match told.is_empty() {
        true => String::new(),
        false => format!(
            "Against `{}`, round by round, at 95 %:\n\n{}\n",
            rows[0].model,
            lines.collect::<String>()
        ),
    }
}

/// `GB/s 4K`.
fn name(column: &Column) -> String {
    match column.group {
        "GB/s" => format!("GB/s {}", column.head).trim_end().to_owned(),
        _ => column.head.clone(),
    }
}
