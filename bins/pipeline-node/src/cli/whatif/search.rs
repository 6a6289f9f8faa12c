//! Which sizes the model would choose: one after the other, for as long as any of them makes it better. What is no better is not
//! worth a thread, a lane or memory: of two that are as fast the smaller one is taken.

use pipeline_configs::schema::Value;
use pipeline_configs::{Config, units};
use pipeline_stages::catalog::catalog;

use super::limit::{Limit, limit};
use super::lower::{Given, lower};
use super::model::setup::{Application, Arrival};
use super::model::{Outcome, Setup, simulate};
use crate::cli::work::Shape;
use crate::cli::work::preferred::preferred;

/// What is less of a gain is none.
const WORTH: f64 = 1.03;
/// A run that has moved less than this share of what is in flight is repeated, so much longer, so often.
const SETTLED: f64 = 0.5;
const STRETCH: f64 = 4.0;
/// Of more in flight than this a share is enough: the model would run for minutes.
const MOVED_BYTES: f64 = 64e6;
const LONGER: usize = 2;
/// Times that all sizes are gone through.
const PASSES: usize = 2;

/// A size that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Threads of the pool that posts (of each NIC).
    Threads,
    /// Lanes to a peer over a NIC.
    Lanes,
    /// Bytes of a slice.
    Slice,
    /// Bytes in flight.
    Window,
}

impl Size {
    const ALL: [Self; 4] = [Self::Threads, Self::Window, Self::Slice, Self::Lanes];

    fn candidates(self) -> Vec<u64> {
        match self {
            Self::Threads => vec![1, 2, 4, 6, 8, 12, 16],
            Self::Lanes => vec![1, 2, 4],
            Self::Slice => vec![64 << 10, 256 << 10, 1 << 20, 4 << 20],
            Self::Window => (26..=34).step_by(2).map(|bits| 1 << bits).collect(),
        }
    }
}

/// A file with sizes of its own, and what comes of it.
#[derive(Clone)]
pub struct Choice {
    /// The file.
    pub config: Config,
    /// What of it was changed: key and value.
    pub changes: Vec<(String, String)>,
    /// What comes of it, by shape, and what limits then.
    pub outcomes: Vec<(Outcome, Limit)>,
}

impl Choice {
    /// Bytes a second, 10⁹: the geometric mean over the shapes.
    pub fn gb_per_s(&self) -> f64 {
        let logs = self.outcomes.iter().map(|(outcome, _)| outcome.gb_per_s.max(1e-9).ln());
        (logs.sum::<f64>() / self.outcomes.len().max(1) as f64).exp()
    }
}

/// What all choices have in common.
pub struct Search<'a> {
    /// The machine and its costs.
    pub given: Given<'a>,
    /// What is asked.
    pub shapes: &'a [Shape],
    /// What the model runs before it counts, and then; nanoseconds.
    pub times: (f64, f64),
}

impl Search<'_> {
    /// Runs a file.
    ///
    /// # Errors
    /// What of it cannot be modelled.
    pub fn run(&self, config: &Config) -> Result<Choice, String> {
        let outcome = |shape| {
            let setup = lower(config, &self.given, shape)?;
            let outcome = self.settled(&setup);
            let limit = limit(&setup, &outcome);
            Ok((outcome, limit))
        };
        let outcomes = self.shapes.iter().map(outcome).collect::<Result<_, String>>()?;
        Ok(Choice { config: config.clone(), changes: Vec::new(), outcomes })
    }

    /// Runs a setup until what was in flight at the beginning has mostly gone: longer where it goes slowly.
    fn settled(&self, setup: &Setup) -> Outcome {
        let Application { threads, batch, bytes, arrival, .. } = setup.application;
        let depth = if let Arrival::Closed(depth) = arrival { depth } else { 1 };
        let asked = (threads * batch * depth) as f64 * bytes as f64;
        let in_flight = asked.min(setup.window.bytes as f64).min(MOVED_BYTES);
        let (mut warm_ns, mut run_ns) = self.times;
        for _ in 0..LONGER {
            let outcome = simulate(setup, warm_ns, run_ns);
            if outcome.bytes >= SETTLED * in_flight {
                return outcome;
            }
            (warm_ns, run_ns) = (STRETCH * warm_ns, STRETCH * run_ns);
        }
        simulate(setup, warm_ns, run_ns)
    }

    /// The best sizes, from those of the file.
    ///
    /// # Errors
    /// As of [`Self::run`].
    pub fn best(&self, from: &Choice) -> Result<Choice, String> {
        let mut best = from.clone();
        for _ in 0..PASSES {
            let before = best.gb_per_s();
            for size in Size::ALL {
                best = self.along(&best, size)?;
            }
            if best.gb_per_s() < WORTH * before {
                break;
            }
        }
        Ok(best)
    }

    /// The best of one size, all others as they are.
    fn along(&self, from: &Choice, size: Size) -> Result<Choice, String> {
        let mut tried: Vec<Choice> = Vec::new();
        let (site, mut most) = (self.given.site, 0.0_f64);
        for value in size.candidates() {
            let mut config = from.config.clone();
            let Some((key, text)) = set(&mut config, size, value) else { return Ok(from.clone()) };
            if size == Size::Threads && value as usize * site.nics.len().max(1) > site.cores as usize {
                break;
            }
            let mut choice = self.run(&config)?;
            choice.changes = from.changes.iter().filter(|(other, _)| *other != key).cloned().collect();
            choice.changes.push((key, text));
            let gained = choice.gb_per_s();
            tried.push(choice);
            // More of it has long stopped to help.
            if gained < 0.9 * most {
                break;
            }
            most = most.max(gained);
        }
        if most < WORTH * from.gb_per_s() {
            return Ok(from.clone());
        }
        // The smallest that is as good as the best.
        let good = tried.into_iter().find(|choice| WORTH * choice.gb_per_s() >= most);
        Ok(good.unwrap_or_else(|| from.clone()))
    }
}

/// Sets a size; its key and value as a file has them. `None`: the file has no such place.
fn set(config: &mut Config, size: Size, value: u64) -> Option<(String, String)> {
    match size {
        Size::Threads => {
            let post = config.blueprint.stages.iter().find(|stage| stage.kind == "wr_post")?;
            let pool = &mut config.blueprint.pools[post.pool?];
            if pool.kind != pipeline_graph::PoolKind::Resident {
                return None;
            }
            pool.threads = value as usize;
            Some((format!("pools.{}.threads", pool.name), value.to_string()))
        }
        Size::Lanes => {
            let at = preferred(config)?;
            let transport = &mut config.transports[at];
            // One that has no lanes has no such key.
            let catalog = catalog();
            let kind = catalog.transports.iter().find(|kind| kind.name == transport.kind)?;
            kind.keys.iter().find(|key| key.name == "lanes")?;
            transport.values.0.insert("lanes", Value::Number(value));
            Some((format!("transports.{}.lanes", transport.name), value.to_string()))
        }
        Size::Slice => {
            let split = config.stages.iter_mut().find(|stage| stage.kind == "request_split")?;
            split.values.0.insert("slice", Value::Number(value));
            Some((format!("stages.{}.slice", split.name), format!("{:?}", units::show_bytes(value))))
        }
        Size::Window => {
            config.limits.bytes_in_flight = value;
            Some(("limits.bytes_in_flight".into(), format!("{:?}", units::show_bytes(value))))
        }
    }
}
