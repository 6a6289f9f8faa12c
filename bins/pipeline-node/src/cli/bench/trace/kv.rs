//! `--kv MODEL:tpN`: what the KV cache of real models takes, a block of tokens on one rank of N.
//! Deliberately a small table of published shapes; whatever else, `--block-bytes` says.

use std::fmt;

use pipeline_configs::suggest;

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

/// What a cache may be kept in, with the bytes of a number; the first is what is taken when nobody says.
const NUMBERS: &[(&str, u64)] = &[("bf16", 2), ("fp16", 2), ("fp8", 1)];

/// A model on so many ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kv {
    model: &'static Model,
    ranks: u64,
    /// Bytes of a number.
    number: u64,
}

impl Kv {
    /// `llama-3.1-70b:tp8`, or with `:fp8` for numbers of one byte instead of two. Each part is judged by itself, so that what is
    /// wrong is what is named.
    ///
    /// # Errors
    /// Which part is wrong, and what may be written.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let (name, ranks) = (parts.next().unwrap_or_default(), parts.next());
        let model = model(name)?;
        let ranks = ranks.ok_or_else(|| format!("say on how many ranks: {name}:tp8"))?;
        let count = ranks.get(..2).filter(|tp| tp.eq_ignore_ascii_case("tp")).map(|_| &ranks[2..]);
        let count: Option<u64> = count.and_then(|n| n.parse().ok()).filter(|n| (1..=1024).contains(n));
        let ranks = count.ok_or_else(|| format!("`{ranks}` is no number of ranks: tp1 to tp1024"))?;
        let number = parts.next().map_or(Ok(NUMBERS[0].1), bytes_of)?;
        if let Some(more) = parts.next() {
            return Err(format!("`{more}` is too much: MODEL:tpN, or MODEL:tpN:fp8"));
        }
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

fn model(name: &str) -> Result<&'static Model, String> {
    let known = || MODELS.iter().map(|m| m.name);
    MODELS.iter().find(|m| m.name.eq_ignore_ascii_case(name)).ok_or_else(|| match name {
        "" => "write MODEL:tpN, as in llama-3.1-70b:tp8".to_owned(),
        _ => {
            format!(
                "`{name}` is not in the table; {}; --block-bytes takes any size",
                suggest::help(name, "models", known())
            )
        }
    })
}

/// Bytes of a number, by its name.
fn bytes_of(kind: &str) -> Result<u64, String> {
    let found = NUMBERS.iter().find(|(name, _)| name.eq_ignore_ascii_case(kind));
    found.map(|(_, bytes)| *bytes).ok_or_else(|| {
        let known = NUMBERS.iter().map(|(name, _)| *name);
        format!("`{kind}` is no type of numbers of a cache; {}", suggest::help(kind, "types", known))
    })
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

    /// What is not in the table, no number of ranks, one that heads cannot be shared by, or no type of numbers is refused with the
    /// part that is wrong, and with what was meant if that is near.
    #[test]
    fn nonsense() {
        for (text, what) in [
            ("llama-3.1-70b", "llama-3.1-70b:tp8"),
            ("gpt-2:tp1", "`gpt-2` is not in the table; models: llama-3.1-8b"),
            ("llama-3.1-7b:tp1:fp9", "did you mean `llama-3.1-8b`?"),
            ("qwen3-8b:tp0", "`tp0` is no number of ranks"),
            ("qwen3-8b:tpx", "`tpx` is no number of ranks"),
            ("qwen3-8b:8", "`8` is no number of ranks"),
            ("qwen3-8b:\u{e9}8", "no number of ranks"),
            ("qwen3-8b:fp8", "`fp8` is no number of ranks"),
            ("qwen3-8b:tp3", "8 KV heads"),
            ("qwen3-8b:tp8:fp9", "`fp9` is no type of numbers of a cache; did you mean `fp8`?"),
            ("qwen3-8b:tp8:", "types: bf16, fp16, fp8"),
            ("qwen3-8b:tp8:fp8:fp8", "`fp8` is too much"),
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
