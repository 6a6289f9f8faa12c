//! A unified diff of two short texts, as `diff -u` prints it. Deliberately the plain table of longest common subsequences: files
//! have hundreds of lines, and no crate is worth that.

use std::fmt::Write as _;

/// Lines around a change.
const CONTEXT: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Line<'a> {
    Both(&'a str),
    Old(&'a str),
    New(&'a str),
}

/// The diff; empty where nothing differs.
pub fn unified(name: &str, old: &str, new: &str) -> String {
    // With what ends them: a line that has no end differs from one that has.
    let (a, b): (Vec<&str>, Vec<&str>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let lines = lines(&a, &b);
    let is_change = |line: &Line<'_>| !matches!(line, Line::Both(_));
    let mut text = String::new();
    let mut at = 0;
    while let Some(first) = lines[at..].iter().position(is_change).map(|i| at + i) {
        // A hunk goes on while the next change is within its context.
        let mut last = first;
        while let Some(next) = lines[last + 1..].iter().take(2 * CONTEXT + 1).position(is_change) {
            last += 1 + next;
        }
        let (begin, end) = (first.saturating_sub(CONTEXT).max(at), (last + 1 + CONTEXT).min(lines.len()));
        if text.is_empty() {
            let _ = writeln!(text, "--- {name}\n+++ {name}");
        }
        hunk(&mut text, &lines, begin..end);
        at = end;
    }
    text
}

fn hunk(text: &mut String, lines: &[Line<'_>], range: std::ops::Range<usize>) {
    let olds = |lines: &[Line<'_>]| lines.iter().filter(|line| !matches!(line, Line::New(_))).count();
    let news = |lines: &[Line<'_>]| lines.iter().filter(|line| !matches!(line, Line::Old(_))).count();
    let (before, these) = (&lines[..range.start], &lines[range]);
    let _ =
        writeln!(text, "@@ -{} +{} @@", place(olds(before), olds(these)), place(news(before), news(these)));
    for line in these {
        let (mark, line) = match line {
            Line::Both(line) => (' ', line),
            Line::Old(line) => ('-', line),
            Line::New(line) => ('+', line),
        };
        let _ = write!(text, "{mark}{line}");
        if !line.ends_with('\n') {
            text.push_str("\n\\ No newline at end of file\n");
        }
    }
}

/// Where lines of a hunk are: the first and how many; one alone without its number, and none by the line before.
fn place(before: usize, these: usize) -> String {
    match these {
        0 => format!("{before},0"),
        1 => (before + 1).to_string(),
        _ => format!("{},{these}", before + 1),
    }
}

fn lines<'a>(a: &[&'a str], b: &[&'a str]) -> Vec<Line<'a>> {
    // common[i][j]: how many lines a[i..] and b[j..] have in common.
    let mut common = vec![vec![0_usize; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i][j] =
                if a[i] == b[j] { common[i + 1][j + 1] + 1 } else { common[i + 1][j].max(common[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            lines.push(Line::Both(a[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == b.len() || i < a.len() && common[i + 1][j] >= common[i][j + 1] {
            lines.push(Line::Old(a[i]));
            i += 1;
        } else {
            lines.push(Line::New(b[j]));
            j += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `diff -u` prints for the same two texts; nothing where they are equal.
    #[test]
    fn as_diff_prints_it() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\n";
        let new = "a\nB\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\nn\n";
        let told = unified("x.toml", old, new);
        let wanted = "--- x.toml\n+++ x.toml\n@@ -1,5 +1,5 @@\n a\n-b\n+B\n c\n d\n e\n@@ -11,3 +11,4 @@\n k\n l\n m\n+n\n";
        assert_eq!(told, wanted);
        assert_eq!(unified("x", old, old), "");
        assert_eq!(unified("x", "", "a\n"), "--- x\n+++ x\n@@ -0,0 +1 @@\n+a\n");
        let cut = "--- x\n+++ x\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n";
        assert_eq!(unified("x", "a\nb", "a\nb\n"), cut);
    }
}
