//! Text that others wrote, for people: control characters are shown and not carried out, so that no name of a file, a node or a segment
//! moves a cursor, begins a line of its own or turns the direction of one. The escapes are those of JSON, so that text which is JSON
//! already stays what it was.

use std::borrow::Cow;

/// Such text within a line: a name, a reason.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |_, _| false)
}

/// Text of ours, with such text in it: lines and tabs stay.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c, rest| matches!(c, '\n' | '\t') || c == '\r' && rest.starts_with('\n'))
}

fn escaped(text: &str, stays: impl Fn(char, &str) -> bool) -> Cow<'_, str> {
    let mut shown = String::new();
    let mut done = 0;
    for (at, c) in text.char_indices().filter(|(_, c)| steers(*c)) {
        let next = at + c.len_utf8();
        if stays(c, &text[next..]) {
            continue;
        }
        shown.push_str(&text[done..at]);
        match c {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            c => shown.push_str(&format!("\\u{:04x}", u32::from(c))),
        }
        done = next;
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    shown.push_str(&text[done..]);
    Cow::Owned(shown)
}

/// Control characters, ends of lines and paragraphs of Unicode, and what turns the direction of text.
fn steers(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What would steer a terminal is shown, other text stays as it is; lines and tabs stay where they are ours.
    #[test]
    fn nothing_is_carried_out() {
        let odd = "a\u{1b}[31m\nb\t\u{9b}é\r\u{202e}x\u{7f}";
        assert_eq!(line(odd), "a\\u001b[31m\\nb\\t\\u009bé\\r\\u202ex\\u007f");
        assert_eq!(lines(odd), "a\\u001b[31m\nb\t\\u009bé\\r\\u202ex\\u007f");
        assert_eq!(lines("a\r\nb\r"), "a\r\nb\\r");
        assert!(matches!(line("plain é 🦀 \\n"), Cow::Borrowed(_)));
        assert!(matches!(lines("plain\n"), Cow::Borrowed(_)));
    }

    proptest::proptest! {
        /// JSON stays JSON, and says the same.
        #[test]
        fn json_stays(text in ".*") {
            let json = serde_json::to_string(&text).unwrap();
            let back: String = serde_json::from_str(&lines(&json)).unwrap();
            proptest::prop_assert_eq!(back, text);
        }
    }
}
