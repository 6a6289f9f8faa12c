//! The rows as a table for people: at most 160 columns wide for names of usual length, and the best of each column marked.

use std::fmt::Write as _;

use super::report::{Best, Column, Place, Row};
use crate::cli::quantity::human;

/// How the best figure of a column is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Bold, as terminals do it.
    Bold,
    /// A `*` behind it.
    Star,
}

/// One figure as it is printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// The figure.
    pub text: String,
    /// None of its column is better.
    pub is_best: bool,
}

/// Three digits, more only before the point.
pub fn number(value: f64) -> String {
    match value {
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v if v >= 0.9995 => format!("{v:.2}"),
        v if v >= 0.01 => format!("{v:.3}"),
        v if v >= 0.000_05 => format!("{v:.4}"),
        _ => "0".into(),
    }
}

/// A value of a column, in its unit.
pub fn value(column: &Column, value: f64) -> String {
    if column.key.ends_with("_bytes") { human(value as u64).replace(' ', "") } else { number(value) }
}

/// The figures of a column, row by row; a dash where there is none. Of files only one can be the best, and only where not all
/// are the same.
pub fn texts(
    column: &Column,
    rows: &[Row<'_>],
    write: impl Fn(&Column, &Row<'_>) -> Option<String>,
) -> Vec<Text> {
    let figures: Vec<_> = rows.iter().map(|row| column.of(row).map(|figure| figure.median)).collect();
    let of_files = || rows.iter().zip(&figures).filter(|(row, _)| row.file.is_some()).filter_map(|(_, f)| *f);
    let best = match column.best {
        Best::Least => of_files().reduce(f64::min),
        Best::Most => of_files().reduce(f64::max),
        Best::None => None,
    };
    // As it is printed: nobody is better by what nobody can see.
    let best = best.map(|best| value(column, best));
    let differs = best.as_ref().is_some_and(|best| of_files().any(|other| value(column, other) != *best));
    let text = |(row, figure): (&Row<'_>, &Option<f64>)| Text {
        text: write(column, row).unwrap_or_else(|| "-".into()),
        is_best: differs && row.file.is_some() && figure.map(|f| value(column, f)) == best,
    };
    rows.iter().zip(&figures).map(text).collect()
}

/// Heads and texts of what is no figure: spinning threads, and how far rounds lie apart.
fn notes(rows: &[Row<'_>], columns: &[Column], place: Place) -> [(&'static str, Vec<Text>); 2] {
    let spins = rows.iter().map(|row| spins(row, place));
    let spread = |row: &Row<'_>| row.spread_pct(columns).map_or("-".into(), |pct| format!("{pct:.0}%"));
    let plain = |text: String| Text { text, is_best: false };
    [("spin/CPUs", spins.map(plain).collect()), ("spread", rows.iter().map(spread).map(plain).collect())]
}

/// `3/2 !`.
pub fn spins(row: &Row<'_>, place: Place) -> String {
    let mark = if row.is_over_subscribed() { " !" } else { "" };
    row.ready().map_or("-".into(), |ready| format!("{}/{}{mark}", ready.application.spinning, place.cpus))
}

/// The whole table.
pub fn table(rows: &[Row<'_>], columns: &[Column], place: Place, mark: Mark) -> String {
    let median = |column: &Column, row: &Row<'_>| column.of(row).map(|figure| value(column, figure.median));
    let shown = columns.iter().filter(|column| column.is_shown);
    let mut all: Vec<(&str, &str, Vec<Text>)> =
        shown.map(|column| (column.group, column.head.as_str(), texts(column, rows, median))).collect();
    let notes = notes(rows, columns, place);
    all.extend(notes.iter().map(|(head, texts)| ("", *head, texts.clone())));
    let longest = |(_, head, texts): &(&str, &str, Vec<Text>)| {
        texts.iter().map(|text| text.text.len()).chain([head.len()]).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = all.iter().map(longest).collect();
    make_room(&all, &mut widths);
    let models = rows.iter().map(|row| row.model.chars().count()).chain([5]).max().unwrap_or(5);
    let mut table = groups(&all, &widths, models);
    let _ = write!(table, "{:<models$}", "model");
    for ((_, head, _), width) in all.iter().zip(&widths) {
        let _ = write!(table, " {head:>width$} ");
    }
    table = table.trim_end().to_owned() + "\n";
    for (i, row) in rows.iter().enumerate() {
        let mut line = format!("{:<models$}", row.model);
        match &row.told {
            Ok(_) => all
                .iter()
                .zip(&widths)
                .for_each(|((_, _, texts), width)| cell(&mut line, &texts[i], *width, mark)),
            Err(why) => line = format!("{line}  {}", why.text().lines().next().unwrap_or_default()),
        }
        let _ = writeln!(table, "{}", line.trim_end());
    }
    table
}

/// Each cell has a place behind it for a mark, marked or not, so that points stand under points.
fn cell(line: &mut String, text: &Text, width: usize, mark: Mark) {
    let _ = match (text.is_best, mark) {
        (true, Mark::Bold) => {
            let lead = width.saturating_sub(text.text.len());
            write!(line, " {:lead$}\u{1b}[1m{}\u{1b}[0m ", "", text.text)
        }
        (true, _) => write!(line, " {:>width$}*", text.text),
        (false, _) => write!(line, " {:>width$} ", text.text),
    };
}

/// Widens the last column of a group whose name is longer than its columns.
fn make_room(all: &[(&str, &str, Vec<Text>)], widths: &mut [usize]) {
    let mut begin = 0;
    for end in 1..=all.len() {
        if end < all.len() && all[end].0 == all[begin].0 {
            continue;
        }
        let has: usize = widths[begin..end].iter().map(|width| width + 2).sum();
        widths[end - 1] += (all[begin].0.len() + 4).saturating_sub(has);
        begin = end;
    }
}

/// The line above the heads: each group's name over its columns.
fn groups(all: &[(&str, &str, Vec<Text>)], widths: &[usize], models: usize) -> String {
    let mut line = " ".repeat(models);
    let mut i = 0;
    while i < all.len() {
        let group = all[i].0;
        let count = all[i..].iter().take_while(|(other, ..)| *other == group).count();
        let width: usize = widths[i..i + count].iter().map(|width| width + 2).sum();
        let name =
            if group.is_empty() { String::new() } else { format!("{group:-^0$}", width.saturating_sub(2)) };
        let _ = write!(line, " {name:<0$} ", width.saturating_sub(2));
        i += count;
    }
    line.trim_end().to_owned() + "\n"
}

/// What every file asks of the application, a line each; then what the marks mean.
pub fn words(rows: &[Row<'_>], place: Place) -> String {
    let models = rows.iter().map(|row| row.model.chars().count()).max().unwrap_or(0);
    let mut text = String::from("what the application has to do\n");
    for row in rows {
        if let Some(ready) = row.ready() {
            let _ = writeln!(text, "  {:<models$}  {}", row.model, ready.application.words);
        }
    }
    if rows.iter().any(Row::is_over_subscribed) {
        let target = if place.has_target { ", with the target's worker" } else { "" };
        let _ = writeln!(
            text,
            "! over-subscribed: more threads than the {} CPUs want one all the time{target}; such a row says more about the \
             scheduler than about the model",
            place.cpus
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures have three digits, and more only before the point.
    #[test]
    fn numbers() {
        let told = [0.000_049, 0.001_234, 0.123_44, 0.9996, 1.234, 12.34, 99.96, 1234.4].map(number);
        assert_eq!(told, ["0", "0.0012", "0.123", "1.00", "1.23", "12.3", "100", "1234"]);
    }
}
