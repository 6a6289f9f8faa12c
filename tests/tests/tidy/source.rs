//! A Rust file as the rules see it: its lines with comments, strings and characters blanked, which lines are
//! tests, and where its functions begin and end. Deliberately no parser: braces are enough for that.

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    /// Line of `fn`, from 1.
    pub line: usize,
    /// Lines from `fn` to the closing brace.
    pub lines: usize,
}

/// A scanned file.
pub struct Source {
    pub path: String,
    /// As written.
    pub raw: Vec<String>,
    /// The same lines with the inside of comments, strings and characters turned into blanks.
    pub code: Vec<String>,
    /// Whether a line belongs to tests.
    pub test: Vec<bool>,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Self {
        let code: Vec<String> = blank(text).lines().map(str::to_owned).collect();
        let raw: Vec<String> = text.lines().map(str::to_owned).collect();
        let folder = |name: &str| path.starts_with(name) || path.contains(&format!("/{name}"));
        // An example of the engine is product code that users copy; one of `transports` is a measurement.
        let measurement = path.starts_with("transports/examples/");
        let model_check = path.ends_with("_loom.rs");
        let all = folder("tests/") || folder("benches/") || folder("fuzz/") || measurement || model_check;
        let mut source = Self { path: path.into(), test: vec![all; code.len()], raw, code };
        if !all {
            source.mark_tests();
        }
        source
    }

    /// Marks what a `#[cfg(test)]` governs: up to the end of the braces that follow, or of the statement.
    fn mark_tests(&mut self) {
        for start in 0..self.code.len() {
            let line = &self.code[start];
            if line.contains("#[cfg(test)]") || line.contains("#[cfg(all(test") {
                let end = self.end_of_item(start).unwrap_or(self.code.len() - 1);
                self.test[start..=end].fill(true);
            }
        }
    }

    /// Files whose modules are declared here for tests only.
    pub fn test_files(&self) -> Vec<String> {
        let folder = match self.path.rsplit_once('/') {
            Some((folder, "mod.rs" | "lib.rs" | "main.rs")) => folder,
            _ => self.path.trim_end_matches(".rs"),
        };
        let declared = self.code.iter().zip(&self.test).filter(|(line, test)| **test && line.ends_with(';'));
        declared.filter_map(|(line, _)| Some(format!("{folder}/{}.rs", after_word(line, "mod")?))).collect()
    }

    /// All of it belongs to tests.
    pub fn all_tests(&mut self) {
        self.test.fill(true);
    }

    /// Line on which the item that begins at line `start` ends.
    fn end_of_item(&self, start: usize) -> Option<usize> {
        let (mut depth, mut round) = (0_usize, 0_usize);
        for (i, line) in self.code.iter().enumerate().skip(start) {
            for c in line.chars() {
                match c {
                    '(' | '[' => round += 1,
                    ')' | ']' => round = round.saturating_sub(1),
                    '{' => depth += 1,
                    '}' => {
                        depth = depth.saturating_sub(1);
                        if depth == 0 && round == 0 {
                            return Some(i);
                        }
                    }
                    ';' if depth == 0 && round == 0 => return Some(i),
                    _ => {}
                }
            }
        }
        None
    }

    /// Functions that have a body, nested ones included.
    pub fn functions(&self) -> Vec<Function> {
        let mut found = Vec::new();
        for (i, line) in self.code.iter().enumerate() {
            let Some(name) = after_word(line, "fn") else { continue };
            let Some(end) = self.end_of_item(i) else { continue };
            found.push(Function { name, line: i + 1, lines: end - i + 1 });
        }
        found
    }

    /// Lines of code that contain `pattern`, from 1, without tests.
    pub fn uses<'a>(&'a self, pattern: &'a str) -> impl Iterator<Item = usize> + 'a {
        let lines = self.code.iter().zip(&self.test).enumerate();
        lines.filter(move |(_, (l, test))| !**test && l.contains(pattern)).map(|(i, _)| i + 1)
    }
}

/// The identifier that follows the word `word` on a line, if it declares one.
pub fn after_word(line: &str, word: &str) -> Option<String> {
    let mut rest = line;
    while let Some(at) = rest.find(word) {
        let free = !rest[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let after = &rest[at + word.len()..];
        if free && after.starts_with(' ') {
            let name: String =
                after.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            return (!name.is_empty()).then_some(name);
        }
        rest = after;
    }
    None
}

/// Turns the inside of comments, strings and character literals into blanks; keeps every line break.
fn blank(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut i = 0;
    while i < chars.len() {
        let end = token_end(&chars, i);
        match end {
            Some(end) => {
                out.extend(chars[i..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
                i = end;
            }
            None => {
                out.push(chars[i]);
                i += 1;
            }
        }
    }
    out
}

/// Where the comment, string or character literal that begins at `i` ends; `None` when none begins there.
fn token_end(chars: &[char], i: usize) -> Option<usize> {
    let next = chars.get(i + 1).copied();
    let previous = i.checked_sub(1).map(|p| chars[p]);
    let in_word = previous.is_some_and(|c| c.is_alphanumeric() || c == '_');
    match chars[i] {
        '/' if next == Some('/') => Some(find(chars, i, |c| c == '\n')),
        '/' if next == Some('*') => Some(end_of_block(chars, i)),
        '"' => Some(end_of_quoted(chars, i + 1, '"')),
        'r' | 'b' | 'c' if !in_word => raw_end(chars, i),
        '\'' => match (next, chars.get(i + 2)) {
            (Some('\\'), _) => Some(end_of_quoted(chars, i + 1, '\'')),
            (Some(_), Some('\'')) => Some(i + 3),
            _ => None,
        },
        _ => None,
    }
}

fn find(chars: &[char], from: usize, wanted: impl Fn(char) -> bool) -> usize {
    (from..chars.len()).find(|&i| wanted(chars[i])).unwrap_or(chars.len())
}

fn end_of_block(chars: &[char], from: usize) -> usize {
    let (mut depth, mut i) = (0, from);
    while i + 1 < chars.len() {
        match (chars[i], chars[i + 1]) {
            ('/', '*') => (depth, i) = (depth + 1, i + 2),
            ('*', '/') if depth == 1 => return i + 2,
            ('*', '/') => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
    }
    chars.len()
}

fn end_of_quoted(chars: &[char], mut i: usize, quote: char) -> usize {
    while i < chars.len() {
        match chars[i] {
            '\\' => i += 2,
            c if c == quote => return i + 1,
            _ => i += 1,
        }
    }
    chars.len()
}

/// The end of `r"…"`, `r#"…"#`, `br"…"`, `b"…"`; `None` when `i` begins none of them.
fn raw_end(chars: &[char], i: usize) -> Option<usize> {
    let r = find(chars, i, |c| !matches!(c, 'b' | 'c'));
    if chars.get(r) != Some(&'r') {
        return (r > i && chars.get(r) == Some(&'"')).then(|| end_of_quoted(chars, r + 1, '"'));
    }
    let open = find(chars, r + 1, |c| c != '#');
    let hashes = open - r - 1;
    if chars.get(open) != Some(&'"') {
        return None;
    }
    let closes =
        |at: usize| chars[at] == '"' && chars[at + 1..].iter().take_while(|c| **c == '#').count() >= hashes;
    Some((open + 1..chars.len()).find(|&at| closes(at)).map_or(chars.len(), |at| at + 1 + hashes))
}

mod tests {
    use super::*;

    /// Braces, quotes and words inside comments, strings, raw strings and characters are not code.
    #[test]
    fn literals_and_comments_are_blank() {
        let text = "let a = \"} fn x\"; // fn y {\nlet b = r#\"\"{\"#; /* { /* { */ */ let c = '{'; let d = '\\''; fn z<'a>() { b\"}\"; }";
        let code = blank(text);
        assert_eq!(code.lines().count(), 2);
        assert_eq!(code.matches(['{', '}']).count(), 2, "{code}");
        assert!(!code.contains("fn x") && !code.contains("fn y") && code.contains("fn z<'a>()"), "{code}");
    }

    /// A function's length counts from `fn` to its closing brace, whatever its signature looks like.
    #[test]
    fn functions_are_measured() {
        let text = "trait T { fn decl(&self); }\nfn long(\n  a: [u8; 3],\n) -> u8\n{\n  if x { 1 }\n}\nfn one() { }\n";
        let source = Source::new("x/src/a.rs", text);
        let lengths: Vec<_> = source.functions().into_iter().map(|f| (f.name, f.line, f.lines)).collect();
        assert_eq!(lengths, [("decl".into(), 1, 1), ("long".into(), 2, 6), ("one".into(), 8, 1)]);
    }

    /// A module of tests that is a file of its own is one as well, in a folder or beside the file that declares it.
    #[test]
    fn files_of_tests_are_known() {
        let text = "mod a;\n#[cfg(test)]\nmod tests;\n#[cfg(all(test, unix))]\n#[allow(x)]\nmod more;\n";
        let files = |path: &str| Source::new(path, text).test_files();
        assert_eq!(files("x/src/b/mod.rs"), ["x/src/b/tests.rs", "x/src/b/more.rs"]);
        assert_eq!(files("x/src/b.rs"), files("x/src/b/mod.rs"));
    }

    /// A test module at the foot of a file is not product code, what stands before and after it is.
    #[test]
    fn test_modules_are_known() {
        let text = "fn a() { x.unwrap() }\n#[cfg(test)]\nmod tests {\n  fn b() { x.unwrap() }\n}\nfn c() { x.unwrap() }\n";
        let source = Source::new("x/src/a.rs", text);
        assert_eq!(source.uses(".unwrap()").collect::<Vec<_>>(), [1, 6]);
        assert_eq!(Source::new("x/tests/a.rs", text).uses(".unwrap()").count(), 0);
    }
}
