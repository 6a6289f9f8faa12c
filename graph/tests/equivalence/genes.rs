//! Random graphs, made of numbers so that proptest can shrink them to the smallest that still fails.

use proptest::collection::vec;
use proptest::prelude::*;

/// A random graph. Numbers are taken modulo whatever is there to choose from.
#[derive(Clone, Debug)]
pub struct Genes {
    pub stages: Vec<StageGene>,
    /// How many of the stages, from the end, are sinks.
    pub sinks: usize,
    pub pools: Vec<PoolGene>,
    /// A way back: from, to, and what it is made of.
    pub back: Option<(usize, usize, ModeGene)>,
    /// What `submit -> first` is made of.
    pub entry: ModeGene,
    /// Whether the first stage is a source instead of being submitted to.
    pub source: bool,
    pub items: u64,
}

#[derive(Clone, Debug)]
pub struct StageGene {
    pub kind: Kind,
    pub pool: usize,
    /// No pool of its own: runs where it is reached.
    pub anywhere: bool,
    /// Its ports: how far ahead each leads, and over what.
    pub wires: Vec<(usize, ModeGene)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Pass,
    Hold,
    Expand,
}

/// What a wire is made of. `Inline` becomes a queue where the graph does not allow it.
#[derive(Clone, Copy, Debug)]
pub enum ModeGene {
    Inline,
    Queue {
        capacity: usize,
        dispatch: u8,
    },
    Return {
        dispatch: u8,
    },
    /// Inline even where it is forbidden: for the check to find.
    Forced,
}

#[derive(Clone, Debug)]
pub struct PoolGene {
    pub threads: usize,
    pub wait: u8,
    /// Of kind `stealing`, for those of its stages that can be jobs; the first pool never is.
    pub steals: bool,
}

/// All of them.
pub fn genes() -> impl Strategy<Value = Genes> {
    let pool = (1usize..=2, 0u8..4, prop::bool::weighted(0.4));
    let pools = vec(pool.prop_map(|(threads, wait, steals)| PoolGene { threads, wait, steals }), 1..=3);
    let back = prop::option::of((0usize..8, 0usize..8, way_back()));
    let ends = (1usize..=2, queue(), any::<bool>(), 1u64..400);
    (vec(stage(), 2..=8), pools, back, ends).prop_map(
        |(stages, pools, back, (sinks, entry, source, items))| Genes {
            stages,
            sinks,
            pools,
            back,
            entry,
            source,
            items,
        },
    )
}

fn stage() -> impl Strategy<Value = StageGene> {
    let kind = prop_oneof![4 => Just(Kind::Pass), 2 => Just(Kind::Hold), 1 => Just(Kind::Expand)];
    let anywhere = prop::bool::weighted(0.15);
    (kind, 0usize..3, anywhere, vec((0usize..8, mode()), 1..=3))
        .prop_map(|(kind, pool, anywhere, wires)| StageGene { kind, pool, anywhere, wires })
}

fn mode() -> impl Strategy<Value = ModeGene> {
    prop_oneof![20 => Just(ModeGene::Inline), 20 => queue(), 1 => Just(ModeGene::Forced)]
}

fn queue() -> impl Strategy<Value = ModeGene> {
    (1usize..=4, 0u8..3).prop_map(|(capacity, dispatch)| ModeGene::Queue { capacity, dispatch })
}

fn way_back() -> impl Strategy<Value = ModeGene> {
    prop_oneof![4 => (0u8..3).prop_map(|dispatch| ModeGene::Return { dispatch }), 1 => mode()]
}
