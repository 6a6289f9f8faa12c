//! The graph as rules walk it: only edges whose ends exist, and resource waits as hops of their own.
//! Deliberately no judgement here.

use std::collections::VecDeque;

use crate::blueprint::{Blueprint, Mode};
use crate::stage::Resource;

/// One step from a stage to a stage that it may have to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) via: Via,
}

/// What a step goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Via {
    /// An inline or queue edge, by index.
    Forward(usize),
    /// A return edge, by index.
    Return(usize),
    /// `from` waits for a resource that `to` gives.
    Resource(Resource),
}

/// All steps of a graph.
pub(super) struct Hops<'a> {
    pub(super) blueprint: &'a Blueprint,
    /// Indexes of the edges whose ends exist, those of `submit` included.
    pub(super) edges: Vec<usize>,
    /// Edges between stages, then resource waits; each in file order.
    pub(super) hops: Vec<Hop>,
}

impl<'a> Hops<'a> {
    pub(super) fn new(blueprint: &'a Blueprint) -> Self {
        let stages = &blueprint.stages;
        let exists = |i: &usize| {
            let edge = &blueprint.edges[*i];
            let from =
                edge.from.is_none_or(|f| stages.get(f).is_some_and(|s| edge.port < s.shape.ports.len()));
            from && edge.to < stages.len()
        };
        let edges: Vec<usize> = (0..blueprint.edges.len()).filter(exists).collect();
        let mut hops = Vec::new();
        for &i in &edges {
            let edge = &blueprint.edges[i];
            let Some(from) = edge.from else { continue };
            let via = if matches!(edge.mode, Mode::Return { .. }) { Via::Return(i) } else { Via::Forward(i) };
            hops.push(Hop { from, to: edge.to, via });
        }
        for (from, waiter) in stages.iter().enumerate() {
            for &resource in &waiter.shape.contract.waits_for {
                let gives = |s: &&crate::StageDecl| s.shape.contract.gives.contains(&resource);
                for (to, _) in stages.iter().enumerate().filter(|(_, s)| gives(s)) {
                    hops.push(Hop { from, to, via: Via::Resource(resource) });
                }
            }
        }
        Self { blueprint, edges, hops }
    }

    /// Name of a stage.
    pub(super) fn name(&self, stage: usize) -> &str {
        &self.blueprint.stages[stage].name
    }

    /// Name of an edge.
    pub(super) fn edge_name(&self, edge: usize) -> String {
        self.blueprint.edge_name(&self.blueprint.edges[edge])
    }

    /// Which stages can be reached from `starts`, the starts included.
    pub(super) fn reach(&self, starts: impl IntoIterator<Item = usize>) -> Vec<bool> {
        self.spread(starts, |hop| (hop.from, hop.to))
    }

    /// Which stages can reach `ends`, the ends included.
    pub(super) fn reach_back(&self, ends: impl IntoIterator<Item = usize>) -> Vec<bool> {
        self.spread(ends, |hop| (hop.to, hop.from))
    }

    fn spread(
        &self,
        seeds: impl IntoIterator<Item = usize>,
        step: impl Fn(&Hop) -> (usize, usize),
    ) -> Vec<bool> {
        let mut seen = vec![false; self.blueprint.stages.len()];
        let mut ahead: VecDeque<usize> = seeds.into_iter().collect();
        while let Some(at) = ahead.pop_front() {
            if !std::mem::replace(&mut seen[at], true) {
                ahead.extend(self.hops.iter().map(&step).filter(|(a, _)| *a == at).map(|(_, b)| b));
            }
        }
        seen
    }
}
