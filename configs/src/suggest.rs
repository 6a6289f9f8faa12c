//! Did you mean: the nearest valid name, and the list of valid ones.
//! Deliberately shy: a suggestion that is not near is worse than none.

use crate::plain;

/// Names that are compared at most: a suggestion must not cost more than reading the file.
const MOST: usize = 1000;

/// The nearest of `names` to `word`, if it is near enough to be what was meant.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.chars().count() > 64 {
        return None;
    }
    let word = word.to_lowercase();
    let names: Vec<&str> = names.into_iter().take(MOST).collect();
    let far = |name: &&&str| distance(&word, &name.to_lowercase());
    // One slip in a word of three, two in a word of six.
    let near = |name: &&&str| far(name) <= (word.chars().count().max(name.chars().count()) / 3).max(1);
    let starts = |name: &&&str| word.chars().count() >= 3 && name.to_lowercase().starts_with(&word);
    if word.is_empty() {
        return None;
    }
    names.iter().min_by_key(far).filter(near).or_else(|| names.iter().find(starts)).copied()
}

/// `did you mean `x`?  names: a, b, c`, or only the second half.
pub fn help<'a>(word: &str, what: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let list = list(&names);
    match nearest(word, names.iter().copied()) {
        Some(name) => format!("did you mean `{}`?  {what}: {list}", plain::line(name)),
        None if names.is_empty() => format!("there are no {what}"),
        None => format!("{what}: {list}"),
    }
}

/// The names with commas between, at most twenty of them.
pub fn list(names: &[&str]) -> String {
    const SHOWN: usize = 20;
    let mut text = names.iter().take(SHOWN).map(|name| plain::line(name)).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(", and {} more", names.len() - SHOWN));
    }
    text
}

/// Edit distance in which swapping two neighbours is one slip (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (above[j] + 1).min(row[j - 1] + 1).min(above[j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slips are found, strangers are not offered.
    #[test]
    fn near_names_only() {
        let names = ["front", "nic", "files"];
        assert_eq!(nearest("fornt", names), Some("front"));
        assert_eq!(nearest("Front", names), Some("front"));
        assert_eq!(nearest("nci", names), Some("nic"));
        assert_eq!(nearest("fil", names), Some("files"));
        assert_eq!(nearest("zebra", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest("x", []), None);
    }

    /// A swap of neighbours is one slip, not two.
    #[test]
    fn distances() {
        assert_eq!([distance("ab", "ba"), distance("", "abc"), distance("kitten", "sitting")], [1, 3, 3]);
    }
}
