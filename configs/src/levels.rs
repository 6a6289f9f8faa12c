//! Levels of a log, and filters of them: `info`, `info,pipeline_stages=debug`. Deliberately only what a word means; who filters by it
//! knows the rest of the grammar.

use crate::suggest;

const LEVELS: &[&str] = &["error", "warn", "info", "debug", "trace", "off"];

/// The words of a filter that stand where a level does.
pub fn words(filter: &str) -> impl Iterator<Item = &str> {
    let parts = filter.split(',').map(str::trim);
    parts.map(|part| part.rsplit_once('=').map_or(part, |(_, level)| level.trim()))
}

/// Whether a word is a level.
pub fn is_one(word: &str) -> bool {
    LEVELS.iter().any(|level| word.eq_ignore_ascii_case(level))
}

/// That it is none.
pub fn refused(word: &str) -> String {
    format!("`{}` is no level of a log", word.escape_debug())
}

/// What to write in place of a word that is none.
pub fn help(word: &str) -> String {
    let near = suggest::nearest(word, LEVELS.iter().copied());
    let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`?  "));
    format!(
        "{near}levels: {}; a part of the program has its own as in info,pipeline_stages=debug",
        LEVELS.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of each part of a filter the level is found, and what is none is told with what was meant.
    #[test]
    fn filters() {
        let wrong = |filter: &'static str| words(filter).filter(|word| !is_one(word)).collect::<Vec<_>>();
        assert_eq!(wrong("INFO, pipeline_stages=debug,off"), [""; 0]);
        assert_eq!(wrong("verbose,pipeline_stages=debgu"), ["verbose", "debgu"]);
        assert_eq!(wrong(""), [""]);
        assert!(help("debgu").starts_with("did you mean `debug`?  levels: error, "));
        assert!(help("verbose").starts_with("levels: "));
    }
}
