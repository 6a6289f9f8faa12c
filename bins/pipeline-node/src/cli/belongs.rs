//! Options that mean something beside another one only, of all commands. Deliberately not by clap's `requires`: clap takes what is
//! missing for given as soon as anything is there that it conflicts with, and then passes over the option without a word.

use clap::ArgMatches;
use clap::parser::ValueSource;

use super::exit::{Failure, Outcome};

/// Options of a command, and the one that they belong to.
struct Rule {
    /// The command, with those above it.
    command: &'static [&'static str],
    options: &'static [&'static str],
    /// What must be given as well.
    to: &'static str,
    /// Only where this is given: without it they mean something by themselves.
    beside: Option<&'static str>,
}

const fn rule(
    command: &'static [&'static str],
    options: &'static [&'static str],
    to: &'static str,
    beside: Option<&'static str>,
) -> Rule {
    Rule { command, options, to, beside }
}

const RULES: &[Rule] = &[
    rule(&["bench"], &["block_bytes", "kv", "block_tokens", "store", "speedup", "limit"], "trace", None),
    rule(&["bench"], &["layout"], "kv", None),
    rule(&["bench"], &["speed", "asap"], "replay", None),
    // What is played at its own times has as many batches in flight as come of that.
    rule(&["bench"], &["depth"], "asap", Some("replay")),
    rule(&["tune"], &["against", "shape", "calibration", "save"], "what_if", None),
    rule(&["tune"], &["rounds"], "against", None),
    rule(&["explain"], &["transport", "sys"], "matrix", None),
    rule(&["show", "config"], &["node"], "diff", None),
];

/// Refuses what would be passed over.
///
/// # Errors
/// 2, with the first such option, and what it is for.
pub fn check(whole: &ArgMatches) -> Outcome {
    let is_given = |of: &ArgMatches, name: &str| of.value_source(name) == Some(ValueSource::CommandLine);
    for Rule { command, options, to, beside } in RULES {
        let Some(of) = command.iter().try_fold(whole, |of, name| of.subcommand_matches(name)) else {
            continue;
        };
        if is_given(of, to) || beside.is_some_and(|beside| !is_given(of, beside)) {
            continue;
        }
        if let Some(option) = options.iter().find(|option| is_given(of, option)) {
            let beside = beside.map(|beside| format!("with {}, ", written(beside))).unwrap_or_default();
            let (option, to) = (written(option), written(to));
            return Err(Failure::usage(format!(
                "{beside}{option} is for {to}: give that as well, or leave {option} out"
            )));
        }
    }
    Ok(())
}

/// An option as it is written.
fn written(name: &str) -> String {
    format!("--{}", name.replace('_', "-"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    fn judged(words: &[&str]) -> Result<(), String> {
        let matches = Cli::command().try_get_matches_from([&["pipeline-node"], words].concat());
        check(&matches.unwrap_or_else(|e| panic!("{words:?}: {e}"))).map_err(|failure| failure.to_string())
    }

    /// Every rule is about a command and options that there are, by the names that are written.
    #[test]
    fn rules_are_sound() {
        for rule in RULES {
            let mut cli = Cli::command();
            cli.build();
            let command = rule.command.iter().fold(&cli, |above, name| above.find_subcommand(name).unwrap());
            for name in rule.options.iter().chain([&rule.to]).chain(rule.beside.iter()) {
                let found = command.get_arguments().find(|arg| arg.get_id() == name);
                let long = found.and_then(|arg| arg.get_long()).map(|long| format!("--{long}"));
                assert_eq!(long, Some(written(name)), "{:?}", rule.command);
            }
        }
    }

    /// An option without the one it belongs to is refused by name, also where something is given that the latter conflicts with;
    /// with it, or where it means something by itself, it is taken.
    #[test]
    fn nothing_is_passed_over() {
        for (words, says) in [
            ("bench --limit 3", "--limit is for --trace: give that as well, or leave --limit out"),
            ("bench --size 4KiB --limit 3", "--limit is for --trace"),
            ("bench --replay r --block-bytes 4KiB", "--block-bytes is for --trace"),
            ("bench --store warm", "--store is for --trace"),
            ("bench --trace t --layout block", "--layout is for --kv"),
            ("bench --trace t --asap", "--asap is for --replay"),
            ("bench --size 4KiB --speed 2", "--speed is for --replay"),
            ("bench --replay r --depth 8", "with --replay, --depth is for --asap"),
            ("bench --replay r --speed 2 --depth 8", "with --replay, --depth is for --asap"),
            ("tune f --write --save s", "--save is for --what-if"),
            ("tune f --what-if here --rounds 3", "--rounds is for --against"),
            ("explain a b --sys s", "--sys is for --matrix"),
            ("show config f --node n", "--node is for --diff"),
        ] {
            let words: Vec<&str> = words.split(' ').collect();
            let why = judged(&words).unwrap_err();
            assert!(why.starts_with(says), "{words:?}: {why}");
        }
        for words in [
            "bench --depth 8",
            "bench --trace t --depth 8 --limit 3 --kv qwen3-8b:tp1 --layout block",
            "bench --replay r --asap --depth 8",
            "tune f --what-if here --against g --rounds 3",
            "show config f --diff --node n",
            "show runtime --node n",
        ] {
            let words: Vec<&str> = words.split(' ').collect();
            assert_eq!(judged(&words), Ok(()), "{words:?}");
        }
    }
}
