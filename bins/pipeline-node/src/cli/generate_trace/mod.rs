//! `generate-trace`: a trace in the form that `bench --trace` replays. Results go to stdout: redirect them.

mod conversations;

use std::fmt::Write as _;

use clap::Args as ClapArgs;

pub use self::conversations::Parameters;
use self::conversations::{Turn, turns};
use super::exit::{Failure, Outcome};
use super::file;

/// Write a trace of a KV cache: conversations of several turns over shared beginnings, for `bench --trace`.
///
/// The same options give the same trace on every machine. Turns and tokens are drawn evenly from their mean minus to
/// plus --vary percent, times from nothing to twice their mean. How many blocks had occurred before, which is the hit
/// rate of an endless cache, goes to stderr.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  pipeline-node generate-trace > trace.jsonl
  pipeline-node generate-trace --conversations 500 --turns 12 --prefixes 1 --seed 2 > trace.jsonl
  pipeline-node bench --trace trace.jsonl --memory 64MiB --check")]
pub struct Args {
    /// Conversations.
    #[arg(long, default_value_t = Parameters::USUAL.conversations, value_name = "N", value_parser = within(1, 1_000_000))]
    conversations: u64,
    /// Requests of a conversation, mean.
    #[arg(long, default_value_t = Parameters::USUAL.turns, value_name = "N", value_parser = within(1, 1000))]
    turns: u64,
    /// Beginnings (system prompts) that conversations share, each with every N-th.
    #[arg(long, default_value_t = Parameters::USUAL.prefixes, value_name = "N", value_parser = within(1, 1_000_000))]
    prefixes: u64,
    /// Tokens of such a beginning, mean.
    #[arg(long, default_value_t = Parameters::USUAL.prefix_tokens, value_name = "N", value_parser = within(0, 1 << 20))]
    prefix_tokens: u64,
    /// Tokens that a user adds in a turn, mean.
    #[arg(long, default_value_t = Parameters::USUAL.user_tokens, value_name = "N", value_parser = within(1, 1 << 20))]
    user_tokens: u64,
    /// Tokens of an answer, mean; the next turn begins with them.
    #[arg(long, default_value_t = Parameters::USUAL.output_tokens, value_name = "N", value_parser = within(1, 1 << 20))]
    output_tokens: u64,
    /// Milliseconds from the start of a conversation to that of the next one, mean.
    #[arg(long, default_value_t = Parameters::USUAL.start_ms, value_name = "MS", value_parser = within(0, 1 << 30))]
    start_ms: u64,
    /// Milliseconds from a turn to the next one of its conversation, mean.
    #[arg(long, default_value_t = Parameters::USUAL.think_ms, value_name = "MS", value_parser = within(0, 1 << 30))]
    think_ms: u64,
    /// How far turns and tokens lie from their means, at most.
    #[arg(long, default_value_t = Parameters::USUAL.vary_pct, value_name = "PERCENT", value_parser = within(0, 100))]
    vary: u64,
    /// Another seed, another trace.
    #[arg(long, default_value_t = Parameters::USUAL.seed, value_name = "N")]
    seed: u64,
}

/// More are not made: they are kept in memory until they are sorted.
const BLOCKS_MAX: u64 = 1 << 27;

fn within(from: u64, to: u64) -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(from..=to)
}

/// Writes it.
///
/// # Errors
/// 2 for more than memory should hold, 71 when stdout takes nothing.
pub fn run(args: &Args) -> Outcome {
    let parameters = Parameters {
        conversations: args.conversations,
        turns: args.turns,
        prefixes: args.prefixes,
        prefix_tokens: args.prefix_tokens,
        user_tokens: args.user_tokens,
        output_tokens: args.output_tokens,
        start_ms: args.start_ms,
        think_ms: args.think_ms,
        vary_pct: args.vary,
        seed: args.seed,
    };
    let about = parameters.blocks();
    if about > BLOCKS_MAX {
        return Err(Failure::usage(format!(
            "that would be about {about} blocks, at most {BLOCKS_MAX} are made; ask for less"
        )));
    }
    let turns = turns(&parameters);
    let blocks: usize = turns.iter().map(|turn| turn.ids.len()).sum();
    let different = turns.iter().flat_map(|turn| &turn.ids).max().map_or(0, |most| *most as usize + 1);
    let before = 100.0 * (blocks - different) as f64 / blocks.max(1) as f64;
    eprintln!(
        "# {} requests, {blocks} blocks, {different} different; {before:.2} % had occurred before",
        turns.len()
    );
    turns.chunks(1000).try_for_each(|some| file::print(&lines(some)))
}

/// A whole trace in the published form.
pub fn text(parameters: &Parameters) -> String {
    lines(&turns(parameters))
}

/// Turns in the published form.
fn lines(turns: &[Turn]) -> String {
    let mut text = String::new();
    for turn in turns {
        let Turn { at_ms, input, output, ids } = turn;
        let _ = writeln!(
            text,
            "{{\"timestamp\": {at_ms}, \"input_length\": {input}, \"output_length\": {output}, \"hash_ids\": {ids:?}}}"
        );
    }
    text
}
