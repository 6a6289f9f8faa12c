//! `--kv MODEL:tpN`: what the KV cache of real models takes, a block of tokens on one rank of N.
//! Deliberately a small table of published shapes; whatever else, `--block-bytes` says.

use std::fmt;

/// How a model keeps what it has attended to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attention {
    /// Keys and values of `heads` groups, `head` numbers each: ranks share the groups, and copy them if they are fewer.
    Grouped { heads: u64, head: u64 },
    /// One compressed vector of `width` numbers (MLA): every rank has it whole.
    Latent { width: u64 },
}

/// A model's shape.
#[derive(Debug, PartialEq, Eq)]
pub struct Model {
    /// As it is asked for.
    pub name: &'static str,
    layers: u64,
    attention: Attention,
}

const fn grouped(name: &'static str, layers: u64, heads: u64, head: u64) -> Model {
    Model { name, layers, attention: Attention::Grouped { heads, head } }
}

const fn latent(name: &'static str, layers: u64, rank: u64, rope: u64) -> Model {
    Model { name, layers, attention: Attention::Latent { width: rank + rope } }
}

/// From the `config.json` that each model is published with.
const MODELS: &[Model] = &[
    grouped("llama-3.1-8b", 32, 8, 128),
    grouped("llama-3.1-70b", 80, 8, 128),
    grouped("llama-3.1-405b", 126, 8, 128),
    grouped("qwen3-8b", 36, 8, 128),
    grouped("qwen3-32b", 64, 8, 128),
    grouped("qwen3-235b-a22b", 94, 4, 128),
    latent("deepseek-v3", 61, 512, 64),
    latent("deepseek-r1", 61, 512, 64),
    latent("kimi-k2", 61, 512, 64),
];

/// A model on so many ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kv {
    model: &'static Model,
    ranks: u64,
    /// Bytes of a number.
    number: u64,
}

impl Kv {
    /// `llama-3.1-70b:tp8`, or with `:fp8` for numbers of one byte instead of two.
    ///
    /// # Errors
    /// What may be written.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (text, number) = text.strip_suffix(":fp8").map_or((text, 2), |rest| (rest, 1));
        let (name, ranks) = text.rsplit_once(":tp").ok_or("write MODEL:tpN, as in llama-3.1-70b:tp8")?;
        let model = MODELS.iter().find(|m| m.name.eq_ignore_ascii_case(name)).ok_or_else(|| {
            let known: Vec<_> = MODELS.iter().map(|m| m.name).collect();
            format!("`{name}` is not in the table: {}; --block-bytes takes any size", known.join(", "))
        })?;
        let ranks: u64 = ranks.parse().ok().filter(|n| (1..=1024).contains(n)).ok_or("tp1 to tp1024")?;
        if let Attention::Grouped { heads, .. } = model.attention
            && !heads.is_multiple_of(ranks)
            && !ranks.is_multiple_of(heads)
        {
            return Err(format!("{heads} KV heads cannot be shared out to {ranks} ranks"));
        }
        Ok(Self { model, ranks, number })
    }

    /// Bytes of `tokens` tokens on one rank.
    pub fn bytes(&self, tokens: u64) -> u64 {
        self.runs() * self.run_bytes(tokens)
    }

    /// Runs of bytes in which an engine keeps a block: one a layer, for keys and for values.
    pub fn runs(&self) -> u64 {
        match self.model.attention {
            Attention::Grouped { .. } => 2 * self.model.layers,
            Attention::Latent { .. } => self.model.layers,
        }
    }

    fn run_bytes(&self, tokens: u64) -> u64 {
        let numbers = match self.model.attention {
            Attention::Grouped { heads, head } => (heads / self.ranks).max(1) * head,
            Attention::Latent { width } => width,
        };
        tokens * numbers * self.number
    }
}

impl fmt::Display for Kv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = if self.number == 1 { ":fp8" } else { "" };
        write!(f, "{}:tp{}{number}", self.model.name, self.ranks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes are those one computes by hand; heads are shared by ranks until each has one; a latent is on every rank.
    #[test]
    fn sizes() {
        let bytes = |text: &str| Kv::parse(text).unwrap().bytes(512);
        // 80 layers × keys and values × 8 heads × 128 × 2 bytes × 512 tokens.
        assert_eq!(bytes("llama-3.1-70b:tp1"), 160 << 20);
        assert_eq!(bytes("llama-3.1-70b:tp8"), 20 << 20);
        assert_eq!(bytes("llama-3.1-70b:tp16"), 20 << 20);
        assert_eq!(bytes("Llama-3.1-70B:tp8:fp8"), 10 << 20);
        assert_eq!(bytes("deepseek-v3:tp8"), 61 * 576 * 2 * 512);
        assert_eq!(bytes("deepseek-v3:tp8"), bytes("deepseek-v3:tp1"));
        let runs = |text: &str| Kv::parse(text).unwrap().runs();
        assert_eq!((runs("llama-3.1-405b:tp8"), runs("kimi-k2:tp1")), (252, 61));
    }

    /// What is not in the table, no number of ranks, or one that heads cannot be shared by is refused with the reason.
    #[test]
    fn nonsense() {
        for (text, what) in [
            ("llama-3.1-70b", "MODEL:tpN"),
            ("gpt-2:tp1", "llama-3.1-70b"),
            ("qwen3-8b:tp0", "tp1"),
            ("qwen3-8b:tpx", "tp1"),
            ("qwen3-8b:tp3", "8 KV heads"),
            ("", "MODEL:tpN"),
        ] {
            let error = Kv::parse(text).unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
        }
    }

    /// The table of the documentation says what this one says.
    #[test]
    fn the_table_is_documented() {
        let docs = include_str!("../../../../../../docs/traces.md");
        for model in MODELS {
            let kv = Kv { model, ranks: 1, number: 2 };
            let shape = match model.attention {
                Attention::Grouped { heads, head } => format!("{heads} × {head}"),
                Attention::Latent { width } => format!("MLA, {width}"),
            };
            let ranks = Kv { model, ranks: 8, number: 2 };
            let row = format!(
                "| `{}` | {} | {shape} | {} | {} | {} |",
                model.name,
                model.layers,
                kv.runs(),
                kv.bytes(512),
                ranks.bytes(512)
            );
            assert!(docs.contains(&row), "docs/traces.md wants the row\n{row}");
        }
    }
}
