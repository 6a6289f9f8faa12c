//! Tables: columns as wide as their widest cell, texts to the left and numbers to the right. What nodes and peers say of
//! themselves writes to no terminal.

use pipeline_configs::plain;

/// A column: its head, and whether its cells are texts.
pub struct Column(pub &'static str, pub bool);

/// A column of texts.
pub const fn words(head: &'static str) -> Column {
    Column(head, true)
}

/// A column of numbers.
pub const fn numbers(head: &'static str) -> Column {
    Column(head, false)
}

/// The table, with a line for the heads.
pub fn table(columns: &[Column], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| plain::line(cell).into_owned()).collect()).collect();
    let width = |at: usize, head: &str| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
        cells.max().unwrap_or(0).max(head.chars().count())
    };
    let widths: Vec<usize> = columns.iter().enumerate().map(|(at, column)| width(at, column.0)).collect();
    let heads: Vec<String> = columns.iter().map(|column| column.0.to_owned()).collect();
    let mut text = String::new();
    for row in std::iter::once(&heads).chain(&rows) {
        let mut line = String::new();
        for ((cell, Column(_, is_text)), width) in row.iter().zip(columns).zip(&widths) {
            let width = *width;
            line.push_str(&if *is_text { format!("{cell:<width$}  ") } else { format!("{cell:>width$}  ") });
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// `1.2 M`, `340 k`, `12.5`: three digits that matter.
pub fn short(number: f64) -> String {
    match number.abs() {
        n if n >= 1e9 => format!("{:.2}G", number / 1e9),
        n if n >= 1e6 => format!("{:.2}M", number / 1e6),
        n if n >= 1e4 => format!("{:.1}k", number / 1e3),
        n if n >= 100.0 || number.fract() == 0.0 => format!("{number:.0}"),
        _ => format!("{number:.1}"),
    }
}

/// Two times, `0.3/1.2`; a dash where nothing was measured.
pub fn pair(middle: f64, most: f64) -> String {
    if middle == 0.0 && most == 0.0 { "-".to_owned() } else { format!("{}/{}", short(middle), short(most)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns line up, whatever is in them, and what a stranger calls itself moves no cursor.
    #[test]
    fn columns_line_up() {
        let rows = [vec!["a\x1b[2J".to_owned(), "1".to_owned()], vec!["bc".to_owned(), "12345".to_owned()]];
        assert_eq!(
            table(&[words("name"), numbers("n")], &rows),
            "name            n\na\\u001b[2J      1\nbc          12345\n"
        );
        assert_eq!(table(&[words("name")], &[]), "name\n");
    }

    /// Numbers keep three digits that matter.
    #[test]
    fn short_numbers() {
        let cases = [(0.0, "0"), (0.25, "0.2"), (12.5, "12.5"), (999.9, "1000"), (12_345.0, "12.3k")];
        for (number, text) in cases.into_iter().chain([(1_234_567.0, "1.23M"), (2e9, "2.00G")]) {
            assert_eq!(short(number), text);
        }
        assert_eq!([pair(0.0, 0.0), pair(1.0, 20.5)], ["-", "1/20.5"]);
    }
}
