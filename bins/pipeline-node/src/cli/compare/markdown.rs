//! The rows as markdown: each figure that has a spread with its least and most, and what the application has to do as a
//! second table.

use super::pairs;
use super::report::{Column, Place, Row};
use super::table::{spins, texts, value};

/// Both tables.
pub fn markdown(rows: &[Row<'_>], columns: &[Column], place: Place) -> String {
    let shown: Vec<&Column> = columns.iter().filter(|column| column.is_shown).collect();
    let heads = shown.iter().map(|column| head(column));
    let heads: Vec<String> =
        ["model".into()].into_iter().chain(heads).chain(["spinning / CPUs".into()]).collect();
    let cells: Vec<_> = shown.iter().map(|column| texts(column, rows, with_spread)).collect();
    let mut text = line(&heads) + &line(&vec!["---".to_owned(); heads.len()]);
    for (i, row) in rows.iter().enumerate() {
        let mut line_of: Vec<String> = vec![name(row)];
        match &row.told {
            Ok(_) => {
                line_of.extend(cells.iter().map(|texts| match texts[i].is_best {
                    true => format!("**{}**", texts[i].text),
                    false => texts[i].text.clone(),
                }));
                line_of.push(spins(row, place));
            }
            Err(why) => line_of.push(why.text().lines().next().unwrap_or_default().to_owned()),
        }
        line_of.resize(heads.len(), String::new());
        text += &line(&line_of);
    }
    format!("{text}\n{}{}", pairs::markdown(rows, columns), applications(rows))
}

/// `p50 us (one at a time)` is too long; the group says the unit, the head which.
fn head(column: &Column) -> String {
    match column.group {
        "" => column.head.clone(),
        "one at a time, us" | "requests, us" => format!("{} µs", column.head),
        "a request" => format!("{} a request", column.head),
        "CPU us" => "CPU µs a request".into(),
        group => format!("{group} {}", column.head).trim_end().to_owned(),
    }
}

fn name(row: &Row<'_>) -> String {
    if row.file.is_some() { format!("`{}`", row.model) } else { row.model.to_owned() }
}

/// `18.2 (17.0–24.9)`.
fn with_spread(column: &Column, row: &Row<'_>) -> Option<String> {
    let figure = column.of(row)?;
    let median = value(column, figure.median);
    if !column.is_spread || figure.rounds < 2 {
        return Some(median);
    }
    Some(format!("{median} ({}–{})", value(column, figure.least), value(column, figure.most)))
}

fn applications(rows: &[Row<'_>]) -> String {
    let heads = ["model", "what the application has to do"].map(str::to_owned);
    let mut text = line(&heads) + &line(&["---", "---"].map(str::to_owned));
    for row in rows {
        if let Some(ready) = row.ready() {
            text += &line(&[name(row), ready.application.words.clone()]);
        }
    }
    text
}

/// One line of a table; what would end a cell is escaped.
fn line(cells: &[String]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {} |\n", cells.join(" | "))
}
