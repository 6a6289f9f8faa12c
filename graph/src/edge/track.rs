//! All rings of one edge, as the engine sees them from outside: made, asked whether empty, swept.
//! Deliberately not on the path of items: workers hold the rings themselves.

use super::back::Back;
use super::dispatch::destinations;
use super::queue::{Parcel, Ring};
use crate::bell::Bell;
use crate::blueprint::{Blueprint, Dispatch, Mode};
use crate::inlet::{Entry, Gate};
use crate::item::{Batch, Item};
use crate::placement::Placement;
use crate::stats::EdgeStats;
use crate::sync::{Arc, Ordering};

/// The rings of one edge.
pub(crate) struct Track<T: Item> {
    /// Index of the edge.
    pub edge: usize,
    /// Index of the stage it leads to.
    pub to: usize,
    /// The rings, one a destination.
    pub way: Way<T>,
    /// On the edge from `submit`.
    pub gates: Box<[Arc<Gate>]>,
}

/// What an edge is made of.
pub(crate) enum Way<T: Item> {
    Queue(Box<[Arc<Ring<Parcel<T>>>]>),
    Back(Box<[Arc<Back<T>>]>),
}

impl<T: Item> Track<T> {
    /// The rings of an edge, with the bells of both ends. `None` for inline.
    pub(crate) fn new(
        blueprint: &Blueprint,
        placement: &Placement,
        bells: &[Arc<Bell>],
        edge: usize,
    ) -> Option<Self> {
        let decl = &blueprint.edges[edge];
        let bells_of =
            |stage: usize| -> Vec<_> { placement.hosts(stage).map(|at| bells[at].clone()).collect() };
        let own = blueprint.stages[decl.to].pool;
        let consumers: Vec<_> = placement
            .hosts(decl.to)
            .filter(|at| Some(placement.places[*at].pool) == own)
            .map(|at| bells[at].clone())
            .collect();
        let rings = |dispatch: Dispatch| -> Vec<Vec<Arc<Bell>>> {
            match destinations(dispatch, consumers.len()) {
                1 => vec![consumers.clone()],
                _ => consumers.iter().map(|bell| vec![bell.clone()]).collect(),
            }
        };
        let mut gates = Vec::new();
        let way = match decl.mode {
            Mode::Inline => return None,
            Mode::Queue { capacity, dispatch, .. } => {
                let producers = decl.from.map_or_else(Vec::new, bells_of);
                let rings = rings(dispatch);
                if decl.from.is_none() {
                    gates = rings.iter().map(|_| Arc::new(Gate::new(capacity))).collect();
                }
                let make = |bells| Arc::new(Ring::new(capacity, bells, producers.clone()));
                Way::Queue(rings.into_iter().map(make).collect())
            }
            Mode::Return { dispatch } => {
                let make = |bells| Arc::new(Back::new(blueprint.tokens, bells));
                Way::Back(rings(dispatch).into_iter().map(make).collect())
            }
        };
        Some(Self { edge, to: decl.to, way, gates: gates.into() })
    }

    /// Whether nothing is in it, nor on its way into it from an inlet.
    pub(crate) fn is_empty(&self) -> bool {
        self.gates.iter().all(|gate| gate.taken() == 0)
            && match &self.way {
                Way::Queue(rings) => rings.iter().all(|r| r.is_empty()),
                Way::Back(rings) => rings.iter().all(|r| r.is_empty()),
            }
    }

    /// What only the rings themselves and the inlets know of an edge.
    pub(crate) fn add_to(&self, line: &mut EdgeStats, entry: Option<&Entry<T>>) {
        match &self.way {
            Way::Back(rings) => {
                line.overflows = rings.iter().map(|r| r.overflows()).sum();
                line.depth_now = rings.iter().map(|r| r.len() as u64).sum();
            }
            Way::Queue(rings) => line.depth_now = rings.iter().map(|r| r.len() as u64).sum(),
        }
        if let Some(entry) = entry.filter(|_| !self.gates.is_empty()) {
            let (pushed, batches) =
                (entry.pushed.load(Ordering::Acquire), entry.batches.load(Ordering::Relaxed));
            line.add_entered(pushed, batches, entry.refused.load(Ordering::Relaxed));
        }
    }

    /// Takes everything out. Workers have ended; an inlet may still be pushing what it had reserved.
    pub(crate) fn sweep(&self, each: &mut dyn FnMut(T)) {
        match &self.way {
            Way::Queue(rings) => {
                for (i, ring) in rings.iter().enumerate() {
                    while let Some(mut parcel) = self.next(ring, i) {
                        std::iter::from_fn(|| parcel.batch.pop()).for_each(&mut *each);
                    }
                }
            }
            Way::Back(rings) => {
                let mut batch = Batch::new();
                for ring in rings {
                    while ring.pop(&mut batch).0 > 0 {
                        std::iter::from_fn(|| batch.pop()).for_each(&mut *each);
                    }
                }
            }
        }
    }

    fn next(&self, ring: &Ring<Parcel<T>>, i: usize) -> Option<Parcel<T>> {
        let Some(gate) = self.gates.get(i) else { return ring.pop() };
        while gate.taken() > 0 {
            if let Some(parcel) = ring.pop() {
                gate.refund();
                return Some(parcel);
            }
            std::thread::yield_now();
        }
        None
    }
}
