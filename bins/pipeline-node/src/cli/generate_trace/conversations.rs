//! Conversations of several turns over shared beginnings, as a trace: what `docs/traces.md` says of them, and no model of
//! any real service. The same parameters and seed give the same trace on every machine.

use std::collections::HashMap;

use crate::cli::draw::Draw;

/// Tokens of a block, as in the published form.
pub const BLOCK_TOKENS: u64 = 512;

/// What the conversations are like. Drawn numbers lie evenly around their mean.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// How many.
    pub conversations: u64,
    /// Requests of each, mean.
    pub turns: u64,
    /// Beginnings (system prompts) that conversations share, in turn.
    pub prefixes: u64,
    /// Tokens of such a beginning, mean.
    pub prefix_tokens: u64,
    /// Tokens a user adds in a turn, mean.
    pub user_tokens: u64,
    /// Tokens of an answer, mean: the next turn holds them.
    pub output_tokens: u64,
    /// Milliseconds from the start of a conversation to that of the next, mean.
    pub start_ms: u64,
    /// Milliseconds from a turn to the next one of its conversation, mean.
    pub think_ms: u64,
    /// How far turns and tokens lie from their means, at most, percent.
    pub vary_pct: u64,
    /// Another seed, another trace.
    pub seed: u64,
}

impl Parameters {
    /// What is made when nobody says otherwise.
    pub const USUAL: Self = Self {
        conversations: 100,
        turns: 5,
        prefixes: 4,
        prefix_tokens: 2048,
        user_tokens: 600,
        output_tokens: 400,
        start_ms: 500,
        think_ms: 20_000,
        vary_pct: 50,
        seed: 1,
    };

    /// About how many blocks all requests have.
    pub fn blocks(&self) -> u64 {
        let last = self.turns * (self.user_tokens + self.output_tokens);
        let each = (self.prefix_tokens + last / 2) / BLOCK_TOKENS + 1;
        self.conversations.saturating_mul(self.turns).saturating_mul(each)
    }
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// When.
    pub at_ms: u64,
    /// Tokens.
    pub input: u64,
    /// Tokens.
    pub output: u64,
    /// Its blocks; the last one may be partial.
    pub ids: Vec<u64>,
}

/// Whose a block is: its content depends on all tokens before it, so it is known by who has these.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Owner {
    /// All conversations that begin so.
    Prefix(u64),
    /// One conversation, as long as it goes on.
    Conversation(u64),
    /// One turn: the block was cut off by its end, and holds more in the next turn.
    Turn(u64, u64),
}

/// The turns of all conversations, in the order of time.
pub fn turns(p: &Parameters) -> Vec<Turn> {
    let mut draw = Draw::new(p.seed);
    let prefixes: Vec<u64> = (0..p.prefixes).map(|_| draw.around(p.prefix_tokens, p.vary_pct)).collect();
    let mut all = Vec::new();
    let mut start = 0;
    for conversation in 0..p.conversations {
        let prefix = conversation % p.prefixes;
        let (mut at, mut input) = (start, prefixes[prefix as usize]);
        let shared = input / BLOCK_TOKENS;
        for turn in 0..draw.around(p.turns, p.vary_pct).max(1) {
            input += draw.around(p.user_tokens, p.vary_pct).max(1);
            let output = draw.around(p.output_tokens, p.vary_pct).max(1);
            let blocks = (0..input.div_ceil(BLOCK_TOKENS)).map(|i| {
                let owner = match i {
                    i if i < shared => Owner::Prefix(prefix),
                    i if i < input / BLOCK_TOKENS => Owner::Conversation(conversation),
                    _ => Owner::Turn(conversation, turn),
                };
                (owner, i)
            });
            all.push((at, conversation, turn, input, output, blocks.collect::<Vec<_>>()));
            input += output;
            at += draw.around(p.think_ms, 100);
        }
        start += draw.around(p.start_ms, 100);
    }
    all.sort_by_key(|(at, conversation, turn, ..)| (*at, *conversation, *turn));
    let mut ids = HashMap::new();
    let number = |(at_ms, _, _, input, output, blocks): (u64, u64, u64, u64, u64, Vec<(Owner, u64)>)| {
        let mut id = |block| {
            let next = ids.len() as u64;
            *ids.entry(block).or_insert(next)
        };
        Turn { at_ms, input, output, ids: blocks.into_iter().map(&mut id).collect() }
    };
    all.into_iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bench::trace::form::Trace;
    use crate::cli::generate_trace::lines;

    const PLAIN: Parameters = Parameters {
        conversations: 50,
        turns: 6,
        prefixes: 3,
        prefix_tokens: 1100,
        user_tokens: 300,
        output_tokens: 400,
        start_ms: 500,
        think_ms: 9000,
        vary_pct: 0,
        seed: 7,
    };

    /// Percent of blocks that had occurred before, by the parameters alone: a first turn finds the shared beginning,
    /// but for the first conversation that has it; a later one finds what filled blocks in the turn before.
    fn expected_pct(p: &Parameters) -> f64 {
        let input = |turn: u64| p.prefix_tokens + turn * p.output_tokens + (turn + 1) * p.user_tokens;
        let first = (p.conversations - p.prefixes.min(p.conversations)) * (p.prefix_tokens / BLOCK_TOKENS);
        let later: u64 = (1..p.turns).map(|turn| input(turn - 1) / BLOCK_TOKENS).sum();
        let all: u64 = (0..p.turns).map(|turn| input(turn).div_ceil(BLOCK_TOKENS)).sum();
        100.0 * (first + p.conversations * later) as f64 / (p.conversations * all) as f64
    }

    fn parsed(p: &Parameters) -> Trace {
        let text = lines(&turns(p));
        Trace::parse(text.as_bytes(), "generated", None, BLOCK_TOKENS).unwrap()
    }

    /// With fixed lengths the hit rate of an endless cache is exactly what the parameters say, for any of them.
    #[test]
    fn the_hit_rate_is_that_of_the_parameters() {
        for seed in 0..40 {
            let mut draw = Draw::new(seed);
            let p = Parameters {
                conversations: 1 + draw.below(80),
                turns: 1 + draw.below(9),
                prefixes: 1 + draw.below(9),
                prefix_tokens: draw.below(4000),
                user_tokens: 1 + draw.below(2000),
                output_tokens: 1 + draw.below(2000),
                seed,
                ..PLAIN
            };
            let (trace, wanted) = (parsed(&p), expected_pct(&p));
            assert!((trace.seen_before_pct() - wanted).abs() < 1e-9, "{p:?}: {wanted}");
        }
    }

    /// With drawn lengths it lies near: they vary evenly around their means.
    #[test]
    fn drawn_lengths_lie_around_their_means() {
        let p = Parameters { conversations: 3000, vary_pct: 50, ..PLAIN };
        let (trace, wanted) = (parsed(&p), expected_pct(&p));
        let requests = trace.entries.len() as f64 / (3000.0 * 6.0);
        assert!((trace.seen_before_pct() - wanted).abs() < 3.0, "{} for {wanted}", trace.seen_before_pct());
        assert!((0.97..1.03).contains(&requests), "{requests} of the requests");
    }

    /// The same seed gives the same bytes, here and everywhere; another one others.
    #[test]
    fn the_seed_says_all() {
        let vary = Parameters { conversations: 5, vary_pct: 50, ..PLAIN };
        let text = lines(&turns(&vary));
        assert_eq!(text, lines(&turns(&vary)));
        assert_ne!(text, lines(&turns(&Parameters { seed: 8, ..vary })));
        let (sum, count) = (crc32c::crc32c(text.as_bytes()), text.lines().count());
        assert_eq!((sum, count), (3_600_242_248, 33), "made on another machine");
    }
}
